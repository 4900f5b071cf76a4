// SPDX-License-Identifier: Apache-2.0
// fig73: seconds of work with clocks and power. fig2: bounds that need no device.
'use strict';
(() => {
  const {at, mean, median, digits, groups, ascending} = moesaic;
  const kPowerCap = 0x4;  // NVML: the clock is held down by the software power cap
  const clockOf = (row) =>
      (at(row, 'telemetry.sm_mhz') ? mean(row.telemetry.sm_mhz) : at(row, 'clocks.sm_mhz.median'));
  const powerOf = (row) => (at(row, 'telemetry.power_w') ? mean(row.telemetry.power_w) : NaN);
  const panels = [
    {title: 'Useful throughput, TFLOP/s', unit: 'TFLOP/s', of: moesaic.usefulOf},
    {title: 'SM clock, MHz', unit: 'MHz', of: clockOf}, {
      title: 'TFLOP/s per MHz',
      unit: 'TFLOP/s per MHz',
      of: (row) => moesaic.usefulOf(row) / clockOf(row)
    },
    {title: 'Power, W', unit: 'W', of: powerOf}
  ];

  /// {x, y, low, high} of one panel at every number of rows; only where somebody looked.
  const pointsOf = (rows, panel) =>
      ascending(rows.map((row) => moesaic.factor(row, 'rows_per_expert')))
          .map((x) => {
            const some = rows.filter((row) => moesaic.factor(row, 'rows_per_expert') === x)
                             .map(panel.of)
                             .filter(Number.isFinite);
            return {
              x,
              y: some.length ? median(some) : null,
              low: Math.min(...some),
              high: Math.max(...some),
              count: some.length
            };
          })
          .filter((point) => point.y !== null);

  function looksOf(chosen) {
    const all =
        chosen.flatMap((set) => set.rows.flatMap((row) => at(row, 'telemetry.reasons') || []));
    return {looks: all.length, capped: all.filter((reasons) => reasons & kPowerCap).length};
  }

  function sustained(chosen, view) {
    const traces = [], layout = {};
    const rows = chosen.flatMap((set) => set.rows);
    const all = rows.map((row) => moesaic.factor(row, 'rows_per_expert'));
    const known = panels.filter((panel) => pointsOf(rows, panel).length);
    const {looks, capped} = looksOf(chosen);
    known.forEach((panel, i) => {
      const name = i ? String(i + 1) : '', left = i % 2 === 0, top = i < 2;
      const alone = known.length === 1, flat = known.length <= 2;
      layout['xaxis' + name] = moesaic.rowsAxis(
          top && !flat ? '' : 'Rows per expert', all, view.x,
          {domain: alone ? [0, 1] :
               left      ? [0, 0.455] :
                           [0.565, 1],
           anchor: 'y' + name});
      layout['yaxis' + name] = moesaic.axis(panel.title, {
        domain: flat ? [0, 1] :
            top      ? [0.56, 1] :
                       [0, 0.42],
        anchor: 'x' + name,
        type: view.scale,
        rangemode: view.y
      });
      const axes = i ? {xaxis: 'x' + name, yaxis: 'y' + name, showlegend: false} : {};
      for (const set of chosen) {
        for (const [arm, some] of groups(set.rows, moesaic.armOf)) {
          traces.push(
              ...moesaic.spreadTraces(pointsOf(some, panel), arm, set.place, panel.unit, axes));
        }
      }
    });
    layout.height = known.length > 2 ? 640 : 430;
    return {
      traces,
      layout,
      notes: [
        'Lines are medians over trials, bands their full range. Each row is seconds of work ' +
            'without a gap, after conditioning.',
        looks ? 'The power cap held the clock down in ' + moesaic.percent(capped / looks) + ' of ' +
                moesaic.whole(looks) + ' looks.' :
                'These rows have no telemetry: clocks and power are unknown.'
      ]
    };
  }
  moesaic.kinds.fig73 = {
    title: 'Large products for seconds, with clocks and power',
    lead: 'Under sustained load a device reaches its power limit and slows its clock; ' +
        'throughput per MHz tells that apart from a slower kernel.',
    controls: () =>
        [moesaic.scaleControl('x', 'Rows', 'log'), {
          key: 'y',
          label: 'Axes',
          value: 'normal',
          choices: [{value: 'normal', label: 'close up'}, {value: 'tozero', label: 'from zero'}]
        },
         moesaic.scaleControl('scale', 'Values', 'linear')],
    draw: sustained
  };

  function bounds(chosen, view) {
    const traces = [], dashes = ['solid', '8px,4px', '2px,3px', '10px,3px,2px,3px'],
          presets = [...new Set(chosen.flatMap((set) => set.rows.map((row) => row.device_preset)))];
    for (const set of chosen) {
      for (const row of set.rows) {
        const arm = moesaic.arm(moesaic.armOf(row)),
              peak = at(row, 'sources.bf16_flops_per_second.value');
        const y = row.points.map(
            (point) => point.bound_flops_per_second / (view.y === 'share' && peak ? peak : 1e12));
        traces.push({
          type: 'scatter',
          mode: 'lines',
          name: `${arm.label}, ${row.device_preset}`,
          x: row.points.map((point) => point.tokens),
          y,
          line: {
            color: arm.colour,
            width: set.place ? 1.2 : 2.2,
            dash: dashes[presets.indexOf(row.device_preset) % dashes.length]
          },
          customdata:
              row.points.map((point) => [digits(point.rows_per_expert), digits(point.intensity)]),
          hovertemplate: arm.label + ', ' + row.device_preset +
              ': %{x:,} tokens<br>%{customdata[0]} rows per expert, %{customdata[1]} FLOP/byte<br>' +
              (view.y === 'share' ? '%{y:.1%} of peak' : '%{y:.4~g} TFLOP/s') + '<extra></extra>'
        });
      }
    }
    const row = chosen[0].rows[0], shape = row.shape;
    return {
      traces,
      layout: {
        xaxis: moesaic.axis('Tokens, T', {type: view.x}),
        yaxis: moesaic.axis(
            view.y === 'share' ? 'Bound, share of the peak' : 'Bound, TFLOP/s',
            {rangemode: 'tozero', tickformat: view.y === 'share' ? '.0%' : undefined})
      },
      notes: [
        shape.experts + ' experts, top-' + shape.top_k + ', d = ' + shape.d + ', h = ' + (shape.h) +
            ', balanced: bounds by arithmetic, not measurements. Dense has the same FLOPs and ' +
            'reads fewer weights.',
        ...presets.map((preset) => {
          const one = chosen.flatMap((set) => set.rows)
                          .find((other) => other.device_preset === preset),
                rate = at(one, 'sources.bf16_flops_per_second'),
                memory = at(one, 'sources.dram_bytes_per_second');
          return rate && memory ?
              preset + ': ' + digits(rate.value / 1e12) + ' TFLOP/s (' + rate.source + '), ' +
                  digits(memory.value / 1e12) + ' TB/s (' + memory.source + ').' :
              `${preset}.`;
        })
      ]
    };
  }
  moesaic.kinds.fig2 = {
    title: 'How fast dense and routed layers could be',
    lead: 'A roofline against tokens: few tokens per expert reuse a weight too little to reach ' +
        'the peak.',
    controls: () => [moesaic.scaleControl('x', 'Tokens', 'log'), {
      key: 'y',
      label: 'Bound',
      value: 'share',
      choices: [{value: 'share', label: 'of peak'}, {value: 'rate', label: 'TFLOP/s'}]
    }],
    draw: bounds
  };
})();
