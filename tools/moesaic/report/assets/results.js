// SPDX-License-Identifier: Apache-2.0
// What all figures of measured rows share: which rows they get, A and B, the corner, the table.
// What a figure draws is in moesaic.kinds, one entry for each kind of figure.
'use strict';
moesaic.kinds = {};
(() => {
  const {at} = moesaic;
  /// An implementation that was named is an arm beside the strategies.
  moesaic.armOf = (row) => at(row, 'experiment.arm') || row.arm ||
      at(row, 'problem.implementation') || at(row, 'problem.strategy');
  moesaic.factor = (row, name) => at(row, 'experiment.factors.' + name);
  /// Rows between ranks have a median of each rank, of which the slowest counts.
  moesaic.secondsOf = (row) =>
      at(row, 'timing.slowest_s') || at(row, 'timing.mean_s') || at(row, 'timing.median_s');
  moesaic.usefulOf = (row) => at(row, 'work.useful_flops') / moesaic.secondsOf(row) / 1e12;
  moesaic.physicalOf = (row) => at(row, 'work.executed_flops') / moesaic.secondsOf(row) / 1e12;
  moesaic.offsetsRows = (row) =>
      (at(row, 'load.counts') || []).reduce((sum, count) => sum + count, 0) ||
      at(row, 'routing.rows');
  moesaic.ranksWords = (ranks) => `${ranks} rank${ranks === 1 ? '' : 's'}`;
  /// Of rows between ranks: '2 ranks, nvshmem'; null for others.
  moesaic.ranksOf = ({ranks, transport}) =>
      (ranks ? `${moesaic.ranksWords(ranks)}, ${transport}` : null);
  /// How a layer or an exchange of moesaic dispatched; rows from before there was a choice do not
  /// say it.
  moesaic.dispatchOf = (row) =>
      (row.comparison && at(row, 'device.ranks') ? at(row, 'problem.dispatch') || 'direct' :
                                                   undefined);
  /// Of rows between ranks, whose routing has no offsets; rows from before they said it are of 1.
  moesaic.seedOf = (row) => (at(row, 'device.ranks') ? at(row, 'routing.seed') || 1 : undefined);
  /// What is the same for both rows of a comparison of A and B.
  moesaic.caseOf = (row) => {
    if (row.case) return row.case;
    const {dispatch, ...problem} = row.problem || {};
    return JSON.stringify([
      at(row, 'experiment.case'), moesaic.armOf(row), row.comparison, problem,
      moesaic.dispatchOf(row), row.operation, row.nblocks, at(row, 'routing.name'),
      moesaic.seedOf(row), at(row, 'routing.layer'), at(row, 'routing.step'),
      at(row, 'routing.offs'), row.device_preset
    ]);
  };

  function setsOf(figure) {
    const {files} = moesaic.data.results;
    return figure.sets.map((set) => {
      const file = files[set.file], rows = set.rows.map((index) => file.rows[index]);
      const dates = rows.map((row) => String(row.date || '').slice(0, 10)).filter(Boolean).sort();
      return {
        ...set,
        rows,
        name: moesaic.fileName(file.name),
        file: file.name,
        throttled: rows.filter(moesaic.isThrottled).length,
        unsteady: rows.filter(moesaic.isUnsteady).length,
        commits: [...new Set(rows.map(moesaic.commitOf).filter(Boolean))],
        date: dates[0] === dates[dates.length - 1] ? dates[0] :
                                                     `${dates[0]} to ${dates[dates.length - 1]}`
      };
    });
  }
  const labelOf = (set, sets) =>
      (sets.filter((other) => other.name === set.name).length > 1 ? `${set.name}, ${set.device}` :
                                                                    set.name);

  const kRegimes = {
    short_burst: 'short burst',
    sustained: 'sustained',
    unstated: 'regime unstated'
  };
  function tagsOf(figure, sets) {
    const tags = [], throttled = sets.reduce((sum, set) => sum + set.throttled, 0),
          unsteady = sets.reduce((sum, set) => sum + set.unsteady, 0);
    if (throttled) tags.push({text: `${throttled} rows throttled`, strong: true});
    if (unsteady) tags.push({text: `${unsteady} rows unsteady`, strong: true});
    if (figure.protocol)
      tags.push({text: `${figure.protocol} protocol`, strong: figure.protocol !== 'full'});
    if (figure.ranks)
      tags.push({text: moesaic.ranksOf(figure), strong: figure.transport === 'simulated'});
    if (kRegimes[figure.regime]) tags.push({text: kRegimes[figure.regime]});
    return tags;
  }

  function chosenOf(sets, view) {
    const chosen = [{...sets[Number(view.a)], place: 0}];
    if (Number(view.b) >= 0 && view.b !== view.a) chosen.push({...sets[Number(view.b)], place: 1});
    moesaic.comparing = chosen.length > 1;
    return chosen;
  }
  const corner = (figure, chosen) => chosen.map(
      (set, i) => [chosen.length > 1 ? 'AB'[i] + ':' : '', set.device, moesaic.ranksOf(figure),
                   set.commits.join(', '), set.date, figure.protocol, kRegimes[figure.regime]]
                      .filter(Boolean)
                      .join(' · ')
                      .replace(': ·', ':'));

  /// How B stands to A over the cases that both have.
  function compared(chosen) {
    if (chosen.length < 2) return [];
    const before = new Map(chosen[0].rows.map((row) => [moesaic.caseOf(row), row]));
    const both =
        chosen[1].rows.map((row) => [before.get(moesaic.caseOf(row)), row]).filter(([a]) => a);
    const value = (row) => (row.ratio === undefined ? moesaic.secondsOf(row) : row.ratio);
    const ratios = both.map(([a, b]) => value(b) / value(a)).filter(Number.isFinite);
    if (!ratios.length) return ['A and B have no case in common.'];
    const what = both[0][1].ratio === undefined ? 'time' : 'ratio';
    return [
      'B ÷ A, ' + what + ': median ' + moesaic.digits(moesaic.median(ratios), 4) + ', from ' +
      moesaic.digits(Math.min(...ratios), 4) + ' to ' + moesaic.digits(Math.max(...ratios), 4) +
      ' over ' + ratios.length + ' cases that both have.'
    ];
  }

  const ofRanks = (row, path) => (at(row, 'device.ranks') ? at(row, path) : undefined);
  const kColumns = [
    [
      'case',
      (row) => at(row, 'experiment.case') || row.case || row.comparison || at(row, 'routing.name')
    ],
    ['arm', moesaic.armOf],
    ['routing', (row) => ofRanks(row, 'routing.name')],
    ['operation', 'operation'],
    ['dispatch', moesaic.dispatchOf],
    ['nblocks', 'nblocks'],
    ['ranks', 'device.ranks'],
    ['transport', 'device.transport'],
    ['tokens', (row) => ofRanks(row, 'problem.tokens')],
    ['topk', 'problem.topk'],
    ['d', (row) => ofRanks(row, 'problem.d')],
    ['h', (row) => ofRanks(row, 'problem.h')],
    ['pass', 'problem.pass'],
    ['layer', 'routing.layer'],
    ['step', 'routing.step'],
    ['experts', (row) => at(row, 'routing.experts') || ofRanks(row, 'problem.experts')],
    ['rows', moesaic.offsetsRows],
    ['n', 'problem.n'],
    ['k', 'problem.k'],
    ['process', 'experiment.process'],
    ['mean_s', 'timing.mean_s'],
    ['median_s', (row) => (ofRanks(row, 'timing') ? undefined : at(row, 'timing.median_s'))],
    ['slowest_s', 'timing.slowest_s'],
    ['rank_medians_s', (row) => (ofRanks(row, 'timing.median_s') || []).join(' ') || undefined],
    ['p05_s', 'timing.p05_s'],
    ['p95_s', 'timing.p95_s'],
    ['samples', 'timing.samples'],
    ['useful_tflops', (row) => moesaic.usefulOf(row)],
    ['physical_tflops', (row) => moesaic.physicalOf(row)],
    ['ratio', 'ratio'],
    ['remote_bytes', 'derived.remote_bytes'],
    ['remote_bytes_per_second', 'derived.remote_bytes_per_second'],
    ['dropped_routes', 'routing.dropped_routes'],
    ['ratio_to_moesaic', 'derived.ratio_to_moesaic'],
    ['i_h', 'load.i_h'],
    ['i_max', 'load.i_max'],
    ['effective_experts', 'load.effective_experts'],
    ['predicted_s', 'predicted.kernel_s'],
    ['bound_s', 'predicted.bound_s'],
    ['sm_mhz_median', 'clocks.sm_mhz.median'],
    ['throttled', 'clocks.throttled'],
    ['unsteady', 'timing.unsteady'],
    ['hbm_bytes', 'profile.hbm_bytes'],
    ['l2_hit_rate', 'profile.l2_hit_rate'],
    ['tensor_pipe_utilization', 'profile.tensor_pipe_utilization'],
    ['saved_bytes', 'memory.saved_bytes'],
    ['peak_bytes', 'memory.peak_bytes'],
    ['implementation', 'implementation'],
    ['checked_elements', 'check.elements'],
    ['mismatches', 'check.mismatches'],
    ['device', 'device.name'],
    ['driver', (row) => ofRanks(row, 'device.driver')],
    ['git', moesaic.commitOf],
    ['date', 'date']
  ];
  /// Every chosen row with what is known of it; columns that none has are left out.
  function table(chosen) {
    const base = chosen.length > 1 ?
        new Map(chosen[0].rows.map((row) => [moesaic.caseOf(row), moesaic.secondsOf(row)])) :
        null;
    const factors = [...new Set(chosen.flatMap(
        (set) => set.rows.flatMap((row) => Object.keys(at(row, 'experiment.factors') || {}))))];
    const columns =
        [...kColumns, ...factors.map((name) => ['factor_' + name, 'experiment.factors.' + name])];
    if (base)
      columns.push(
          ['time_over_a', (row) => moesaic.secondsOf(row) / base.get(moesaic.caseOf(row))]);
    const value = (row, from) => {
      const found = typeof from === 'function' ? from(row) : at(row, from);
      return found === undefined || Number.isNaN(found) ? null :
          typeof found === 'boolean'                    ? String(found) :
                                                          found;
    };
    const cells = chosen.flatMap(
        (set) => set.rows.map((row) => [set.name, ...columns.map(([, from]) => value(row, from))]));
    const used = ['file', ...columns.map(([name]) => name)]
                     .map((name, i) => ({name, i}))
                     .filter(({i}) => cells.some((row) => row[i] !== null));
    return {head: used.map(({name}) => name), rows: cells.map((row) => used.map(({i}) => row[i]))};
  }

  /// A line across the right axes of a pair where both take the same time.
  moesaic.unityLine = () => ({
    type: 'line',
    xref: 'x2 domain',
    yref: 'y2',
    x0: 0,
    x1: 1,
    y0: 1,
    y1: 1,
    line: {color: '#111111', width: 1}
  });

  /// Rings around points of throttled rows. points: [{x, y, row}].
  moesaic.rings = function(points, extra) {
    const some = points.filter((point) => moesaic.isThrottled(point.row));
    return some.length === 0 ? [] : [{
      type: 'scatter',
      mode: 'markers',
      x: some.map((point) => point.x),
      y: some.map((point) => point.y),
      name: 'throttled',
      hoverinfo: 'skip',
      marker: {symbol: 'circle-open', size: 15, color: '#8a3b00', opacity: 0.6, line: {width: 1}},
      legendgroup: 'throttled',
      ...extra
    }];
  };
  /// Two plots beside one another.
  moesaic.pair = (left, right, extra) => ({
    xaxis: {...left.x, domain: [0, 0.455]},
    yaxis: left.y,
    xaxis2: {...right.x, domain: [0.565, 1], anchor: 'y2'},
    yaxis2: {...right.y, anchor: 'x2'},
    ...extra
  });
  moesaic.second = {xaxis: 'x2', yaxis: 'y2'};
  moesaic.scaleControl = (key, label, value) => ({
    key,
    label,
    value,
    choices: [{value: 'linear', label: 'linear'}, {value: 'log', label: 'log'}]
  });

  /// Which of the chosen files have nothing of what the controls say; where none has, which others
  /// do.
  function absent(kind, chosen, drawn, sets, view, spec) {
    // A copy of spec: a figure keeps what it has drawn there.
    const has = (set) => kind.draw([{...set, place: 0}], view, {...spec}).traces.length > 0;
    const letter = (set) => (chosen.length > 1 ? 'AB'[set.place] : 'This file');
    // One file alone is what has just been drawn.
    const without = chosen.length > 1 ? chosen.filter((set) => !has(set)) :
        drawn.traces.length           ? [] :
                                        chosen;
    const notes = without.map((set) => `${letter(set)} has no rows of this choice.`);
    if (without.length < chosen.length) return notes;
    const others = sets.filter(has).map((set) => labelOf(set, sets));
    return others.length ? [...notes, `Such rows are in ${others.join(', ')}.`] : notes;
  }

  /// The figure of one kind, protocol and regime.
  moesaic.resultFigure = function(figure) {
    const kind = moesaic.kinds[figure.kind], sets = setsOf(figure);
    const several = sets.map((set, i) => ({value: String(i), label: labelOf(set, sets)}));
    const controls = [
      {key: 'a', label: 'A', value: '0', choices: several, long: true}, {
        key: 'b',
        label: 'B',
        value: sets.length === 2 ? '1' : '-1',
        choices: sets.length > 1 ? [{value: '-1', label: 'none'}, ...several] :
                                   [{value: '-1', label: 'none'}],
        long: true
      },
      ...(kind.controls ? kind.controls(sets) : [])
    ];
    const id =
        [
          figure.kind, figure.protocol === 'full' ? '' : figure.protocol,
          figure.ranks ? `${figure.ranks}-${figure.transport}` : '',
          figure.kind === 'fig73' || figure.kind === 'table44' || figure.regime !== 'sustained' ?
              '' :
              figure.regime
        ].filter(Boolean)
            .join('-');
    const unique =
        moesaic.figures.some((other) => other.id === id) ? `${id}-${figure.regime || 'other'}` : id;
    const spec = {
      id: unique,
      title: typeof kind.title === 'function' ? kind.title(sets) : kind.title,
      lead: kind.lead,
      tags: tagsOf(figure, sets),
      controls,
      corner: (view) => corner(figure, chosenOf(sets, view)),
      table: (view) => table(chosenOf(sets, view)),
      draw: (view) => {
        const chosen = chosenOf(sets, view), drawn = kind.draw(chosen, view, spec);
        const old = chosen.reduce((sum, set) => sum + set.superseded, 0);
        return {
          ...drawn,
          notes: [
            ...(drawn.notes || []), ...compared(chosen),
            ...absent(kind, chosen, drawn, sets, view, spec),
            ...(old ? [`${old} earlier rows of the same cases are not shown.`] : [])
          ]
        };
      }
    };
    if (kind.prepare) kind.prepare(spec, sets);
    return moesaic.figure(spec);
  };
})();
