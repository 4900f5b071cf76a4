// SPDX-License-Identifier: Apache-2.0
// skew: the user's histograms, replayed.
'use strict';
(() => {
  const {at, digits, groups} = moesaic;

  function replayed(chosen, view) {
    const traces = [], rings = [];
    for (const set of chosen) {
      const rows = set.rows.filter(
          (row) => moesaic.factor(row, 'pair') === undefined &&
              (view.bucket === 'all' || moesaic.factor(row, 'bucket') === view.bucket));
      const place = (row) => at(row, 'experiment.case'),
            grouped = new Map(rows.filter((row) => moesaic.armOf(row) === 'grouped')
                                  .map((row) => [place(row), row]));
      for (const [arm, some] of groups(rows, moesaic.armOf)) {
        const points =
            some.map((row) => ({
                       x: view.x === 'i_h' ? row.load.i_h :
                                             row.load.effective_experts / row.load.counts.length,
                       y: moesaic.usefulOf(row),
                       row
                     }));
        rings.push(...points);
        traces.push(moesaic.trace(arm, set.place, {
          mode: 'markers',
          x: points.map((p) => p.x),
          y: points.map((p) => p.y),
          legendgroup: arm + set.place,
          text: points.map(
              ({row}) => moesaic.plain(place(row)) + '<br>' + moesaic.factor(row, 'bucket') + ', ' +
                  digits(moesaic.usefulOf(row)) + ' useful TFLOP/s, ' +
                  moesaic.seconds(moesaic.secondsOf(row))),
          hovertemplate: '%{text}'
        }));
        if (arm === 'grouped') continue;
        const ratios = points.filter((p) => grouped.has(place(p.row)));
        traces.push(moesaic.trace(arm, set.place, {
          mode: 'markers',
          ...moesaic.second,
          showlegend: false,
          legendgroup: arm + set.place,
          x: ratios.map((p) => p.x),
          y: ratios.map(
              (p) => moesaic.secondsOf(p.row) / moesaic.secondsOf(grouped.get(place(p.row)))),
          text: ratios.map((p) => moesaic.plain(place(p.row))),
          hovertemplate: `%{text}<br>${arm} takes %{y:.3f} × the time of grouped<extra></extra>`
        }));
      }
    }
    const x = view.x === 'i_h' ? 'Load imbalance, I_H' : 'Effective experts, share of all',
          notes = [];
    for (const set of chosen) {
      for (const [key, rows] of groups(
               set.rows.filter((row) => moesaic.factor(row, 'pair') !== undefined),
               (row) => moesaic.factor(row, 'pair'))) {
        const time = (load) => rows.filter(
                                       (row) => moesaic.factor(row, 'load') === load &&
                                           moesaic.armOf(row) === 'grouped')
                                   .map(moesaic.secondsOf)[0];
        if (time('broad') && time('concentrated'))
          notes.push(
              'Same rows, ' + key +
              (chosen.length > 1 ? ' (' +
                       'AB'[set.place] + ')' :
                                   '') +
              ': grouped takes ' + moesaic.seconds(time('broad')) + ' on the broadest and ' +
              moesaic.seconds(time('concentrated')) + ' on the most concentrated histogram, ' +
              digits(time('concentrated') / time('broad'), 3) + ' times as long.');
      }
    }
    return {
      traces: [...traces, ...moesaic.rings(rings)],
      layout: moesaic.pair(
          {x: moesaic.axis(x), y: moesaic.axis('Useful throughput, TFLOP/s', {type: view.y})},
          {x: moesaic.axis(x), y: moesaic.axis('Time ÷ time of grouped')},
          {shapes: [moesaic.unityLine()]}),
      notes
    };
  }
  moesaic.kinds.skew = {
    title: 'Your histograms, replayed',
    lead: 'Every record as it was routed, by every arm: decode steps with few rows and prefill ' +
        'with many.',
    controls: (sets) => {
      const buckets =
          [...new Set(sets.flatMap((set) => set.rows.map((row) => moesaic.factor(row, 'bucket'))))];
      return [
        {
          key: 'bucket',
          label: 'Bucket',
          value: buckets.length > 1 ? 'all' : buckets[0],
          choices: buckets.length > 1 ?
              [{value: 'all', label: 'all'}, ...buckets.map((value) => ({value, label: value}))] :
              []
        },
        {
          key: 'x',
          label: 'Across',
          value: 'i_h',
          choices: [{value: 'i_h', label: 'I_H'}, {value: 'breadth', label: 'effective'}]
        },
        moesaic.scaleControl('y', 'Throughput', 'log')
      ];
    },
    draw: replayed
  };
})();
