// SPDX-License-Identifier: Apache-2.0
// Measured rows under the roofline, and what the planner predicted of them.
'use strict';
(() => {
  const {at, digits, groups, plain, median} = moesaic;
  const nameOf = (row) => at(row, 'experiment.case') ||
      `${at(row, 'routing.name')}, ${moesaic.whole(moesaic.offsetsRows(row))} rows`;
  const experimentOf = (row) => at(row, 'experiment.name') || 'bench';
  const only = (rows, view) =>
      rows.filter((row) => view.from === 'all' || experimentOf(row) === view.from);
  const fromControl = (sets) => {
    const known = [...new Set(sets.flatMap((set) => set.rows.map(experimentOf)))];
    return {
      key: 'from',
      label: 'Rows of',
      value: known.length > 1 ? 'all' : known[0],
      choices: [
        ...(known.length > 1 ? [{value: 'all', label: 'all'}] : []),
        ...known.map((value) => ({value, label: value}))
      ],
      long: true
    };
  };

  function roofline(chosen, view) {
    const traces = [], notes = [], rings = [];
    for (const set of chosen) {
      const rows = only(set.rows, view);
      for (const [, some] of groups(rows, (row) => JSON.stringify(row.device.peak))) {
        const {peak} = some[0].device,
              balance = peak.bf16_flops_per_second / peak.dram_bytes_per_second;
        const intensities = some.map((row) => row.work.useful_flops / row.work.min_bytes),
              low = Math.min(balance / 8, ...intensities) / 1.5,
              high = Math.max(balance * 8, ...intensities) * 1.5;
        traces.push({
          type: 'scatter',
          mode: 'lines',
          x: [low, balance, high],
          y: [
            low * peak.dram_bytes_per_second, peak.bf16_flops_per_second, peak.bf16_flops_per_second
          ].map((value) => value / 1e12),
          name: 'roofline of ' + plain(set.device) +
              (chosen.length > 1 ? ' · ' +
                       'AB'[set.place] :
                                   ''),
          line: {
            color: '#111111',
            width: set.place ? 1.2 : 2.2,
            dash: set.place ? '6px,4px' : 'solid'
          },
          hoverinfo: 'skip'
        });
        notes.push(
            set.device + ': ' + digits(peak.bf16_flops_per_second / 1e12) + ' TFLOP/s (' +
            peak.bf16_source + '), ' + digits(peak.dram_bytes_per_second / 1e12) + ' TB/s (' +
            peak.dram_source + '); they meet at ' + digits(balance) + ' FLOP/byte.');
      }
      for (const [arm, some] of groups(rows, moesaic.armOf)) {
        const points = some.map(
            (row) =>
                ({x: row.work.useful_flops / row.work.min_bytes, y: moesaic.usefulOf(row), row}));
        rings.push(...points);
        traces.push(moesaic.trace(arm, set.place, {
          mode: 'markers',
          x: points.map((p) => p.x),
          y: points.map((p) => p.y),
          text: points.map(
              ({x, y, row}) => plain(nameOf(row)) + ', ' + arm + '<br>' + digits(x) +
                  ' FLOP/byte, ' + digits(y) + ' useful TFLOP/s<br>' +
                  moesaic.percent(
                      y * 1e12 /
                      Math.min(
                          row.device.peak.bf16_flops_per_second,
                          x * row.device.peak.dram_bytes_per_second)) +
                  ' of the bound'),
          hovertemplate: '%{text}<extra></extra>'
        }));
      }
    }
    return {
      traces: [...traces, ...moesaic.rings(rings)],
      layout: {
        height: 480,
        xaxis: moesaic.axis('Useful FLOP per byte that must be moved', {type: view.scale}),
        yaxis: moesaic.axis('Useful throughput, TFLOP/s', {type: view.scale, rangemode: 'tozero'})
      },
      notes
    };
  }
  moesaic.kinds.roofline = {
    title: 'Measured points under the roofline',
    lead: 'No kernel can be above the line under one-read accounting. Intensity: ' +
        moesaic.data.definitions.intensity + '.',
    controls: (sets) => [fromControl(sets), moesaic.scaleControl('scale', 'Axes', 'log')],
    draw: roofline
  };

  function predicted(chosen, view) {
    const traces = [], notes = [];
    let low = Infinity, high = 0;
    for (const set of chosen) {
      const rows = only(set.rows, view), letter = chosen.length > 1 ? ` · ${'AB'[set.place]}` : '';
      for (const [name, some] of groups(rows, experimentOf)) {
        const points =
            some.map((row) => ({x: row.predicted[view.model], y: moesaic.secondsOf(row), row}));
        for (const {x, y} of points) {
          low = Math.min(low, x, y);
          high = Math.max(high, x, y);
        }
        traces.push(moesaic.trace(`grouped, ${name}`, set.place, {
          mode: 'markers',
          name: name + letter,
          x: points.map((p) => p.x),
          y: points.map((p) => p.y),
          text: points.map(
              ({x, y, row}) => plain(nameOf(row)) + '<br>predicted ' + moesaic.seconds(x) +
                  ', measured ' + moesaic.seconds(y) + ': ' + digits(y / x, 3) + ' times' +
                  (view.model === 'kernel_s' ? `<br>tile ${row.predicted.tile}` : '')),
          hovertemplate: '%{text}<extra></extra>'
        }));
      }
      const ratios = rows.map((row) => moesaic.secondsOf(row) / row.predicted[view.model]);
      if (ratios.length)
        notes.push(
            'Measured ÷ predicted' + letter + ': median ' + digits(median(ratios), 3) + ', from ' +
            digits(Math.min(...ratios), 3) + ' to ' + digits(Math.max(...ratios), 3) + ' over ' +
            ratios.length + ' rows; constants of the preset ' +
            ([...new Set(rows.map((row) => row.predicted.preset))].join(', ')) + '.');
    }
    traces.push({
      type: 'scatter',
      mode: 'lines',
      x: [low / 1.3, high * 1.3],
      y: [low / 1.3, high * 1.3],
      name: 'as predicted',
      line: {color: '#111111', width: 1.4, dash: '6px,4px'},
      hoverinfo: 'skip'
    });
    return {
      traces,
      layout: {
        height: 480,
        xaxis: moesaic.axis(
            view.model === 'kernel_s' ? 'Predicted, s' : 'Roofline bound, s',
            {type: view.scale, tickformat: '~s'}),
        yaxis: moesaic.axis('Measured, s', {type: view.scale, tickformat: '~s'})
      },
      notes: [
        ...notes,
        'Forward and dgrad of the grouped product in BF16, on devices whose peaks are those ' +
            'of a preset; the estimate is for choosing candidates.'
      ]
    };
  }
  moesaic.kinds.predicted = {
    title: 'Predicted against measured',
    lead: 'The planner’s estimate for the suggested tile, from row counts alone. kernel_s: ' +
        moesaic.data.definitions.kernel_s + '.',
    controls: (sets) =>
        [fromControl(sets), {
          key: 'model',
          label: 'Predicted',
          value: 'kernel_s',
          choices: [{value: 'kernel_s', label: 'estimate'}, {value: 'bound_s', label: 'bound'}]
        },
         moesaic.scaleControl('scale', 'Axes', 'log')],
    draw: predicted
  };
})();
