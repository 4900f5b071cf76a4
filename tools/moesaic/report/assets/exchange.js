// SPDX-License-Identifier: Apache-2.0
// What the figures of rows between ranks share: names and styles, words of a point, dots on lines.
'use strict';
(() => {
  const {at, digits, groups, plain, whole, seconds} = moesaic;
  const kGiga = 1e9, kMega = 1e6;
  const rateOf = (row) => at(row, 'derived.remote_bytes_per_second') / kGiga;
  const movesRows = (row) => at(row, 'derived.remote_bytes') > 0;
  const problemOf = ({problem}) =>
      `${whole(problem.tokens)} tokens × ${whole(problem.d)} ${problem.dtype}, ${problem.topk} of ${
          problem.experts} experts, capacity ${digits(problem.capacity_factor_millionths / 1e6)}`;
  /// The seed where it is not the one that both tools take unless told.
  const routingOf = ({routing}) =>
      routing.name + (routing.seed > 1 || routing.seed === 0 ? `, seed ${routing.seed}` : '');
  const blocksName = (nblocks) => (Number(nblocks) === 0 ? 'auto' : String(nblocks));
  const rowsOf = (chosen) => chosen.flatMap((set) => set.rows);
  const distinct = (items) => [...new Set(items)];
  const letterOf = (set, chosen) => (chosen.length > 1 ? 'AB'[set.place] : '');

  /// A style for each family of operations; fan-out has a spiky marker and is dotted.
  const kFamilies = {
    'dispatch_put': ['#0060a8', 'solid', 'circle', 'star'],
    'dispatch_put_weighted': ['#d55e00', '10px,4px', 'square', 'cross'],
    'gather_get': ['#00856a', '14px,3px', 'diamond'],
    'combine_get': ['#6b7480', '7px,7px', 'triangle-down'],
    'combine_get_fused': ['#111111', '10px,3px,2px,3px', 'triangle-up'],
    'maps+dispatch_put+combine_get_fused': ['#7a4fb5', '4px,2px,1px,2px', 'hexagon', 'x'],
  };
  for (const [label, [colour, dash, symbol, spiky]] of Object.entries(kFamilies)) {
    moesaic.arms[label] = {label, colour, dash, symbol, hatch: ''};
    const other = label.replace(/dispatch_put(_weighted)?/, '$&_fan_out');
    if (spiky)
      moesaic.arms[other] = {label: other, colour, dash: '2px,3px', symbol: spiky, hatch: ''};
  }
  moesaic.arms.moesaic = {...moesaic.arms.grouped, label: 'moesaic'};
  moesaic.arms.torch_lean = {
    label: 'torch_lean',
    colour: '#7a4fb5',
    dash: '4px,2px,1px,2px',
    symbol: 'square',
    hatch: '-'
  };

  /// What a point says of its row; `letter` is A or B where both are shown.
  const hover = (row, letter) => {
    const ranks = at(row, 'timing.median_s');
    const dropped = at(row, 'routing.dropped_routes');
    return [
      `${letter ? letter + ': ' : ''}${plain(row.operation || row.arm)}, ${plain(routingOf(row))}` +
          (row.nblocks === undefined ? '' : `, thread blocks: ${blocksName(row.nblocks)}`),
      `${seconds(moesaic.secondsOf(row))} on the slowest rank` +
          (ranks.length > 1 ? ` of ${ranks.map(seconds).join(', ')}` : ''),
      movesRows(row) ?
          `${digits(at(row, 'derived.remote_bytes') / kMega)} MB at ${digits(rateOf(row))} GB/s` :
          '',
      dropped ? `${whole(dropped)} routes dropped` : '', plain(row.implementation || '')
    ].filter(Boolean)
        .join('<br>');
  };
  /// What capacity dropped did not travel.
  const droppedNotes =
      (rows) => [...groups(rows.filter((row) => at(row, 'routing.dropped_routes') > 0), routingOf)]
                    .map(([name, [row]]) => {
                      const {routes, dropped_routes} = row.routing;
                      return `${name}: ${
                                 moesaic.percent(dropped_routes / (routes + dropped_routes))} of ` +
                          'the routes were dropped by the capacity and did not travel.';
                    });
  const problemControl = (sets) => {
    const problems = distinct(rowsOf(sets).map(problemOf));
    return {
      key: 'problem',
      label: 'Problem',
      value: problems[0],
      choices: problems.map((value) => ({value, label: value})),
      long: true
    };
  };
  /// Two plots of dots over the same lines, the first of `names` on top.
  const lines = (names, shown, left, right, extra) => ({
    height: 240 + 34 * names.length,
    xaxis: {...left, domain: [0, 0.48]},
    xaxis2: {...right, domain: [0.52, 1], anchor: 'y'},
    yaxis: moesaic.axis('', {
      type: 'category',
      categoryarray: [...names].reverse(),
      tickvals: names,
      ticktext: names.map(shown),
      range: [-0.6, names.length - 0.4]
    }),
    ...extra
  });
  /// Ticks at 1 and 3 of every decade, where there are several: more would touch on paper.
  const kTimeTicks =
      Array.from({length: 10}, (_, i) => [1, 3].map((one) => one * 10 ** (i - 8))).flat();
  const timeAxis = (type, values) => moesaic.axis('Time, s', {
    type,
    rangemode: 'tozero',
    tickformat: '~s',
    tickvals: type === 'log' && Math.max(...values) > 10 * Math.min(...values) ? kTimeTicks :
                                                                                 undefined
  });

  moesaic.exchange = {
    rateOf,
    movesRows,
    problemOf,
    routingOf,
    blocksName,
    rowsOf,
    distinct,
    letterOf,
    hover,
    droppedNotes,
    problemControl,
    lines,
    timeAxis,
    ranksOf: (sets) => moesaic.ranksWords(at(sets[0].rows[0], 'device.ranks'))
  };
})();
