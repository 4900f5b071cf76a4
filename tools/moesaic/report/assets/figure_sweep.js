// SPDX-License-Identifier: Apache-2.0
// fig38 and fig71: exact rows against padding, over the rows. table44: one projection split up.
'use strict';
(() => {
  const {at, mean, digits, groups, ascending} = moesaic;
  const times = (row) => moesaic.seconds(moesaic.secondsOf(row));
  const kNearOne = [0.6, 1.6];  // of two times; host_loop and dense may lie far beyond
  const values = {
    useful: {title: 'Useful throughput, TFLOP/s', of: moesaic.usefulOf},
    physical: {title: 'Physical throughput, TFLOP/s', of: moesaic.physicalOf},
    time: {title: 'Time of a call, s', of: moesaic.secondsOf, format: '~s'}
  };

  function sweep(chosen, view, band) {
    // The range of training is one of the claim's widths.
    const full = at(chosen[0].rows[0], 'experiment.protocol') === 'full';
    const traces = [], rings = [], value = values[view.value], log = view.x === 'log';
    const all = chosen.flatMap((set) => set.rows.map((row) => moesaic.factor(row, 'rows')));
    for (const set of chosen) {
      const grouped = new Map(set.rows.filter((row) => moesaic.armOf(row) === 'grouped')
                                  .map((row) => [moesaic.factor(row, 'rows'), row]));
      for (const [arm, rows] of groups(set.rows, moesaic.armOf)) {
        const points = rows.map((row) => ({x: moesaic.factor(row, 'rows'), y: value.of(row), row}))
                           .sort((a, b) => a.x - b.x);
        const words = points.map(
            ({x, row}) => moesaic.whole(x) + ' rows, ' + digits(x / at(row, 'routing.experts')) +
                ' per expert<br>' + digits(moesaic.usefulOf(row)) + ' useful, ' +
                digits(moesaic.physicalOf(row)) + ' physical TFLOP/s<br>' + times(row) + '<br>' +
                moesaic.plain(row.implementation));
        traces.push(moesaic.trace(arm, set.place, {
          x: points.map((p) => p.x),
          y: points.map((p) => p.y),
          text: words,
          hovertemplate: '%{text}',
          legendgroup: arm + set.place
        }));
        rings.push(...points);
        if (arm === 'grouped') continue;
        const ratios =
            points.filter((p) => grouped.has(p.x)).map((p) => ({
                                                         x: p.x,
                                                         y: moesaic.secondsOf(p.row) /
                                                             moesaic.secondsOf(grouped.get(p.x))
                                                       }));
        traces.push(moesaic.trace(arm, set.place, {
          x: ratios.map((p) => p.x),
          y: ratios.map((p) => p.y),
          ...moesaic.second,
          showlegend: false,
          legendgroup: arm + set.place,
          hovertemplate: `%{x:,} rows: ${arm} takes %{y:.3f} × the time of grouped<extra></extra>`
        }));
      }
    }
    return {
      traces: [...traces, ...moesaic.rings(rings)],
      layout: moesaic.pair(
          {
            x: moesaic.rowsAxis('Routed rows, M', all, view.x),
            y: moesaic.axis(
                value.title, {type: view.y, rangemode: 'tozero', tickformat: value.format})
          },
          {
            x: moesaic.rowsAxis('Routed rows, M', all, view.x),
            y: moesaic.axis(
                'Time ÷ time of grouped', view.right === 'near' ? {range: kNearOne} : {})
          },
          {
            height: 460,
            shapes: [
              moesaic.unityLine(),
              ...(full ?
                      [
                        moesaic.band(band[0], band[1], 'x', band[2]),
                        moesaic.band(band[0], band[1], 'x2', '')
                      ] :
                      [])
            ]
          }),
      notes:
          ['Right: above 1 the grouped product is faster. Useful throughput counts rows that ' +
           'carry a route, physical every row multiplied.' +
           (log ? '' : ' On the linear axis small shapes lie close together.')]
    };
  }
  /// Reduced protocols have other widths than the claim's.
  const sweepTitle = (sets) => {
    const rows = sets.flatMap((set) => set.rows);
    const widths = ascending(rows.map((row) => at(row, 'problem.d')));
    return 'Exact rows against a padded batch, d = h = ' + widths.join(', ');
  };
  const sweepControls = () =>
      [{
        key: 'value',
        label: 'Left',
        value: 'useful',
        choices: [
          {value: 'useful', label: 'useful'}, {value: 'physical', label: 'physical'},
          {value: 'time', label: 'time'}
        ]
      },
       moesaic.scaleControl('x', 'Rows', 'log'), moesaic.scaleControl('y', 'Left axis', 'linear'), {
         key: 'right',
         label: 'Right axis',
         value: 'all',
         choices: [{value: 'all', label: 'all'}, {value: 'near', label: 'near 1'}]
       }];
  moesaic.kinds.fig38 = {
    title: sweepTitle,
    lead: 'The grouped product multiplies the routed rows and no others; the padded batch ' +
        'reserves 1.25 times the mean for every expert. Where do the lines cross?',
    controls: sweepControls,
    draw: (chosen, view) => sweep(chosen, view, [16384, 98304, '16K–96K rows per rank'])
  };
  moesaic.kinds.fig71 = {
    title: sweepTitle,
    lead: 'The same sweep at the widths of smaller models, whose ranks hold more rows.',
    controls: sweepControls,
    draw: (chosen, view) => sweep(chosen, view, [98304, 196608, '96K–192K rows per rank'])
  };

  /// {x, mean, low, high} of `value` over trials at every number of tokens.
  function spread(rows, value) {
    return ascending(rows.map((row) => moesaic.factor(row, 'tokens')))
        .map((x) => {
          const some = rows.filter((row) => moesaic.factor(row, 'tokens') === x)
                           .map(value)
                           .filter(Number.isFinite);
          return {
            x,
            y: some.length ? mean(some) : null,
            low: Math.min(...some),
            high: Math.max(...some),
            count: some.length
          };
        })
        .filter((point) => point.y !== null);
  }
  moesaic.spreadTraces = function(points, name, place, unit, extra) {
    const arm = moesaic.arm(name), x = points.map((p) => p.x);
    const edge = {
      type: 'scatter',
      mode: 'lines',
      line: {width: 0},
      hoverinfo: 'skip',
      showlegend: false,
      x,
      legendgroup: name + place,
      ...extra
    };
    return [
      ...(points.some((p) => p.count > 1) ?
              [
                {...edge, y: points.map((p) => p.low)}, {
                  ...edge,
                  y: points.map((p) => p.high),
                  fill: 'tonexty',
                  fillcolor: arm.colour + '26'
                }
              ] :
              []),
      moesaic.trace(name, place, {
        x,
        y: points.map((p) => p.y),
        legendgroup: name + place,
        text: points.map(
            (p) => digits(p.y) + ' ' + unit + ', from ' + digits(p.low) + ' to ' + digits(p.high) +
                ' over ' + p.count),
        hovertemplate: `${arm.label}, %{x:,}: %{text}<extra></extra>`,
        ...extra
      })
    ];
  };
  function split(chosen, view) {
    const traces = [],
          all = chosen.flatMap((set) => set.rows.map((row) => moesaic.factor(row, 'tokens'))),
          share = view.value === 'share';
    const name = (row) =>
        (moesaic.armOf(row) === 'dense' ?
             'dense' :
             `${moesaic.armOf(row)}, ${moesaic.factor(row, 'partition')} experts`);
    for (const set of chosen) {
      // The dense control stands beside each partition of its trial: ratios are of such pairs.
      const pairKey = (row) =>
          JSON.stringify(['tokens', 'partition', 'trial'].map((key) => moesaic.factor(row, key)));
      const dense = new Map(set.rows.filter((row) => moesaic.armOf(row) === 'dense')
                                .map((row) => [pairKey(row), row]));
      for (const [series, rows] of groups(set.rows, name)) {
        if (share && series === 'dense') continue;
        const value = share ?
            (row) =>
                (dense.has(pairKey(row)) ?
                     moesaic.secondsOf(dense.get(pairKey(row))) / moesaic.secondsOf(row) :
                     NaN) :
            moesaic.usefulOf;
        traces.push(...moesaic.spreadTraces(
            spread(rows, value), series, set.place, share ? 'of dense' : 'TFLOP/s'));
      }
    }
    return {
      traces,
      layout: {
        xaxis: moesaic.rowsAxis('Rows per expert, T', all, view.x),
        yaxis: moesaic.axis(
            share ? 'Throughput, share of the dense control' : 'Useful throughput, TFLOP/s',
            {type: view.y, rangemode: 'tozero', tickformat: share ? '.0%' : undefined})
      },
      notes:
          ['Lines are means over trials, bands their full range. From 32K rows on shapes are ' +
           'oversized: a diagnostic, not training.']
    };
  }
  moesaic.arms['grouped, 4 experts'] = {...moesaic.arms.grouped, label: 'grouped, 4 experts'};
  moesaic.arms['grouped, 8 experts'] = {
    label: 'grouped, 8 experts',
    colour: '#d55e00',
    dash: '10px,4px',
    symbol: 'square',
    hatch: '/'
  };
  moesaic.arms['torch, 4 experts'] = {...moesaic.arms.torch, label: 'torch, 4 experts'};
  moesaic.arms['torch, 8 experts'] = {
    label: 'torch, 8 experts',
    colour: '#7a4fb5',
    dash: '2px,3px',
    symbol: 'diamond',
    hatch: '.'
  };
  moesaic.kinds.table44 = {
    title: 'One projection split into four or eight experts',
    lead: 'The same FLOPs, weights and outputs as one dense product, cut into experts: what ' +
        'does the cut cost?',
    controls: () =>
        [{
          key: 'value',
          label: 'Plot',
          value: 'flops',
          choices: [{value: 'flops', label: 'throughput'}, {value: 'share', label: '% of dense'}]
        },
         moesaic.scaleControl('x', 'Rows', 'log'),
         moesaic.scaleControl('y', 'Throughput', 'linear')],
    draw: split
  };
})();
