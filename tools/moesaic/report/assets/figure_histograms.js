// SPDX-License-Identifier: Apache-2.0
// fig40 and fig72: what the shape of a histogram costs at the same rows.
'use strict';
(() => {
  const {at, mean, digits, groups, ascending, el} = moesaic;
  const kTwins = {
    false: {name: 'histograms', symbol: 'circle', colour: '#0060a8', dash: 'solid'},
    true: {name: 'whole-tile twins', symbol: 'diamond', colour: '#d55e00', dash: '8px,4px'}
  };

  function study(chosen, view, spec) {
    const traces = [], notes = [];
    spec.points = [];
    for (const set of chosen) {
      const letter = chosen.length > 1 ? ` · ${'AB'[set.place]}` : '',
            open = set.place ? '-open' : '';
      for (const series of set.fig40.filter(
               (one) => one.arm === view.arm &&
                   (view.twins === 'both' || String(one.aligned) === view.twins))) {
        const style = kTwins[series.aligned], first = spec.points.length;
        spec.points.push(...series.points.map(
            (point) =>
                ({...point, name: `${style.name.replace(/s$/, '')} ${point.histogram}${letter}`})));
        traces.push(
            {
              type: 'scatter',
              mode: 'markers',
              name: style.name + letter,
              x: series.points.map((p) => p.i_h),
              y: series.points.map((p) => p.relative),
              customdata: series.points.map((_, i) => first + i),
              marker: {
                symbol: style.symbol + open,
                size: 7,
                color: style.colour,
                opacity: 0.62,
                line: {width: open ? 1.4 : 0}
              },
              text: series.points.map(
                  (p) => 'histogram ' + p.histogram + ', I_H ' + digits(p.i_h, 3) + '<br>' +
                      moesaic.percent(p.relative) + ' of balanced, from ' + moesaic.percent(p.low) +
                      ' to ' + moesaic.percent(p.high) + ' over ' + p.rows + ' rows'),
              hovertemplate: '%{text}<extra></extra>'
            },
            {
              type: 'scatter',
              mode: 'lines',
              name: `median of each range${letter}`,
              x: series.medians.map((p) => p.i_h),
              y: series.medians.map((p) => p.relative),
              line: {color: style.colour, width: 2.6, dash: style.dash},
              hoverinfo: 'skip'
            });
        const interval = series.interval ? ', 95 % interval ' + (series.interval[0].toFixed(2)) +
                ' to ' + (series.interval[1].toFixed(2)) + ' (10,000 resamples of histograms)' :
                                           '';
        notes.push(
            style.name + letter + ': Spearman’s correlation of I_H and throughput ' +
            (series.spearman === null ? '-' : series.spearman.toFixed(2)) + interval + ' over ' +
            series.points.length + ' histograms.' +
            (series.without_control ? ' ' + (series.without_control) +
                     ' rows have no balanced control in their process and are left out.' :
                                      ''));
      }
    }
    return {
      traces,
      layout: {
        xaxis: moesaic.axis(
            'Load imbalance, I_H (0 balanced, 1 on one expert)', {range: [-0.02, 1.02]}),
        yaxis: moesaic.axis('Throughput, share of balanced', {type: view.y, tickformat: '.0%'}),
        shapes: [{
          type: 'line',
          xref: 'paper',
          x0: 0,
          x1: 1,
          y0: 1,
          y1: 1,
          line: {color: '#111111', width: 1, dash: 'dash'}
        }]
      },
      notes
    };
  }
  /// Bars of the loads of two histograms: the one pointed at and the one chosen before.
  function inspect(spec, pinned) {
    const bars = pinned.map((index) => spec.points[index]).filter(Boolean).map((point, i) => {
      const loads = [...point.counts].sort((a, b) => b - a);
      return {
        type: 'bar',
        x: loads.map((_, e) => e + 1),
        y: loads,
        name: `${point.name}: I_H ${digits(point.i_h, 3)}, ${moesaic.percent(point.relative)}`,
        marker: i ? {
          color: '#ffffff',
          line: {color: '#d55e00', width: 1},
          pattern: {shape: '/', fgcolor: '#d55e00', size: 6}
        } :
                    {color: '#0060a8'},
        hovertemplate: '%{y:,} rows<extra></extra>'
      };
    });
    Plotly.react(
        spec.inspector, bars, moesaic.layout({
          height: 240,
          barmode: 'group',
          margin: {l: 64, r: 20, t: 30, b: 44},
          xaxis: moesaic.axis('Experts, most loaded first', {dtick: 1}),
          yaxis: moesaic.axis('Rows', {tickformat: ','})
        }),
        {displaylogo: false, responsive: true, displayModeBar: false});
  }
  moesaic.kinds.fig40 = {
    title: 'What a concentrated histogram costs at the same rows',
    lead: 'Every point is one histogram of the same total, the mean over permutations and ' +
        'fresh processes, against the balanced controls around it. I_H: ' +
        moesaic.data.definitions.i_h + '.',
    controls: (sets) => {
      const arms = [...new Set(sets.flatMap((set) => set.fig40.map((series) => series.arm)))];
      return [
        {
          key: 'arm',
          label: 'Arm',
          value: arms[0],
          choices: arms.map((arm) => ({value: arm, label: arm}))
        },
        {
          key: 'twins',
          label: 'Show',
          value: 'false',
          choices: [
            {value: 'false', label: 'histograms'}, {value: 'true', label: 'whole tiles'},
            {value: 'both', label: 'both'}
          ]
        },
        moesaic.scaleControl('y', 'Throughput', 'linear')
      ];
    },
    draw: study,
    prepare: (spec) => {
      spec.inspector = el('div', {class: 'plot', id: 'fig40-inspector'});
      spec.extra =
          el('div', {},
             el('p', {class: 'note only-screen'},
                'Choose points to compare their loads: the last two are shown.'),
             spec.inspector);
      let pinned = [];
      spec.drawn = (figure) => {
        const order = spec.points.map((point, i) => [point.i_h, i]).sort((a, b) => a[0] - b[0]);
        pinned = order.length ? [order[0][1], order[order.length - 1][1]] : [];
        inspect(spec, pinned);
        figure.plot.removeAllListeners('plotly_click');
        figure.plot.on('plotly_click', (event) => {
          const index = event.points[0].customdata;
          if (index === undefined) return;
          pinned = [pinned[1], index];
          inspect(spec, pinned);
        });
      };
    },
  };

  const kLoads = {
    balanced: {colour: '#111111', dash: '8px,4px', symbol: 'triangle-up'},
    single_spike: {colour: '#0060a8', dash: 'solid', symbol: 'circle'},
    three_hot: {colour: '#d55e00', dash: '3px,3px', symbol: 'square'}
  };
  const kPairs = {i_max: 'I_max', i_h: 'I_H', effective_experts: 'effective experts'};
  function pairs(chosen, view) {
    const traces = [], all = [];
    for (const set of chosen) {
      const rows = set.rows.filter(
                (row) =>
                    moesaic.factor(row, 'pair') === view.pair && moesaic.armOf(row) === view.arm),
            letter = chosen.length > 1 ? ` · ${'AB'[set.place]}` : '';
      const key = (row) => JSON.stringify([
        moesaic.factor(row, 'rows'), moesaic.factor(row, 'base_expert'),
        at(row, 'experiment.process')
      ]);
      const balanced = new Map(rows.filter((row) => moesaic.factor(row, 'load') === 'balanced')
                                   .map((row) => [key(row), row]));
      const largest = Math.max(...rows.map((row) => moesaic.factor(row, 'rows')));
      for (const [load, some] of groups(rows, (row) => moesaic.factor(row, 'load'))) {
        const style = kLoads[load] || {colour: '#6b7480', dash: 'dot', symbol: 'cross'},
              open = set.place ? '-open' : '',
              marker = {symbol: style.symbol + open, color: style.colour};
        const sample =
            some.find((row) => moesaic.factor(row, 'rows') === largest && at(row, 'load.counts'));
        if (sample && set.place === 0) {
          const loads = [...sample.load.counts].sort((a, b) => b - a),
                total = loads.reduce((a, b) => a + b, 0);
          traces.push({
            type: 'scatter',
            mode: 'lines+markers',
            x: loads.map((_, i) => i + 1),
            y: loads.map((count) => count / total),
            name: load,
            legendgroup: load,
            showlegend: false,
            line: {color: style.colour, dash: style.dash, width: 2},
            marker: {...marker, size: 6},
            text: loads.map((count) => moesaic.whole(count)),
            hovertemplate: `${load}: %{text} rows, %{y:.1%}<extra></extra>`
          });
        }
        const points =
            some.filter((row) => balanced.has(key(row)))
                .map((row) => ({
                       x: moesaic.factor(row, 'rows'),
                       y: moesaic.secondsOf(balanced.get(key(row))) / moesaic.secondsOf(row)
                     }));
        const xs = ascending(points.map((p) => p.x)),
              means = xs.map((x) => mean(points.filter((p) => p.x === x).map((p) => p.y)));
        all.push(...xs);
        traces.push(
            {
              type: 'scatter',
              mode: 'markers',
              x: points.map((p) => p.x),
              y: points.map((p) => p.y),
              ...moesaic.second,
              marker: {...marker, size: 5, opacity: 0.4},
              hoverinfo: 'skip',
              showlegend: false,
              legendgroup: load
            },
            {
              type: 'scatter',
              mode: 'lines+markers',
              x: xs,
              y: means,
              ...moesaic.second,
              name: load + letter,
              legendgroup: load,
              line: {color: style.colour, dash: style.dash, width: set.place ? 1.3 : 2.2},
              marker: {...marker, size: 11},
              hovertemplate: `${load}${letter}, %{x:,} rows: %{y:.1%} of balanced<extra></extra>`
            });
      }
    }
    return {
      traces,
      layout: moesaic.pair(
          {
            x: moesaic.axis('Experts, most loaded first', {}),
            y: moesaic.axis('Share of the rows', {tickformat: '.0%', rangemode: 'tozero'})
          },
          {
            x: moesaic.rowsAxis('Routed rows, M', all, view.x),
            y: moesaic.axis('Throughput, share of balanced', {tickformat: '.0%'})
          },
          {}),
      notes:
          ['The two uneven histograms have the same ' + (kPairs[view.pair] || view.pair) +
           '. Large markers are means over runs, small ones the runs; each is divided by the ' +
           'balanced case of its own process.']
    };
  }
  moesaic.kinds.fig72 = {
    title: 'Two histograms that agree in one figure of concentration',
    lead: 'One number does not say what a histogram costs: a single hot expert and three hot ' +
        'ones, equal in the chosen figure.',
    controls: (sets) => {
      const known = [...new Set(
                sets.flatMap((set) => set.rows.map((row) => moesaic.factor(row, 'pair'))))],
            arms = [...new Set(sets.flatMap((set) => set.rows.map(moesaic.armOf)))];
      return [
        {
          key: 'pair',
          label: 'Equal',
          value: known[0],
          choices: known.map((value) => ({value, label: kPairs[value] || value}))
        },
        {
          key: 'arm',
          label: 'Arm',
          value: arms[0],
          choices: arms.map((arm) => ({value: arm, label: arm}))
        },
        moesaic.scaleControl('x', 'Rows', 'log')
      ];
    },
    draw: pairs
  };
})();
