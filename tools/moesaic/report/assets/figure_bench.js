// SPDX-License-Identifier: Apache-2.0
// Rows of `moesaic bench`, of the programs of bench/, and recordings beside other libraries.
'use strict';
(() => {
  const {at, digits, groups, plain} = moesaic;
  const values = {
    useful: {title: 'Useful throughput, TFLOP/s', of: moesaic.usefulOf},
    physical: {title: 'Physical throughput, TFLOP/s', of: moesaic.physicalOf},
    time: {title: 'Time of a call, s', of: moesaic.secondsOf, format: '~s'}
  };
  const across = {
    rows: {title: 'Routed rows', of: moesaic.offsetsRows},
    layer: {title: 'Layer', of: (row) => at(row, 'routing.layer')},
    i_h: {title: 'Load imbalance, I_H', of: (row) => at(row, 'load.i_h')}
  };
  /// Rows that may share lines: one product, or one way to run the layer, on one number of experts.
  const productOf = (row) => {
    const {pass, n, k, d, h, order, activations, x_rows, dtype, format} = row.problem || {};
    const rows = x_rows === undefined ? '' : `, rows ${x_rows}`;
    const what = n === undefined ?
        `d = ${d}, h = ${h}, ${order}, activations ${activations}${rows}` :
        `N × K = ${n} × ${k}`;
    return `${pass}, ${at(row, 'routing.experts')} experts, ${what}, ${dtype || format}`;
  };

  function timed(chosen, view) {
    const traces = [], rings = [], all = [], x = across[view.x];
    for (const set of chosen) {
      const rows = set.rows.filter((row) => productOf(row) === view.product);
      const place = (row) => JSON.stringify([
        at(row, 'routing.name'), at(row, 'routing.layer'), at(row, 'routing.step'),
        at(row, 'routing.rank'), at(row, 'routing.offs')
      ]);
      const grouped = new Map(
          rows.filter((row) => moesaic.armOf(row) === 'grouped').map((row) => [place(row), row]));
      const names = [...new Set(rows.map((row) => at(row, 'routing.name')))];
      for (const [key, some] of groups(
               rows, (row) => JSON.stringify([moesaic.armOf(row), at(row, 'routing.name')]))) {
        const [arm, routing] = JSON.parse(key),
                    name = names.length > 1 ?
            `${arm}, ${plain(moesaic.fileName(String(routing)))}` :
            arm;
        const points = some.map((row) => ({x: x.of(row), y: values[view.value].of(row), row}))
                           .filter((p) => Number.isFinite(p.x))
                           .sort((a, b) => a.x - b.x);
        const letter = chosen.length > 1 ? ` · ${'AB'[set.place]}` : '',
              dash = names.length > 1 ?
            ['solid', '8px,4px', '2px,3px', '10px,3px,2px,3px'][names.indexOf(routing) % 4] :
            moesaic.arm(arm).dash;
        const style = moesaic.trace(arm, set.place, {});
        all.push(...points.map((p) => p.x));
        rings.push(...points);
        traces.push({
          ...style,
          name: name + letter,
          line: {...style.line, dash},
          mode: view.x === 'rows' ? 'lines+markers' : 'markers',
          x: points.map((p) => p.x),
          y: points.map((p) => p.y),
          legendgroup: key + set.place,
          text: points.map(
              ({row}) => plain(String(routing)) + ', ' + moesaic.whole(moesaic.offsetsRows(row)) +
                  ' rows<br>' + moesaic.seconds(moesaic.secondsOf(row)) + ', ' +
                  digits(moesaic.usefulOf(row)) + ' useful TFLOP/s<br>' +
                  plain(row.implementation)),
          hovertemplate: '%{text}'
        });
        const ratios = points.filter((p) => arm !== 'grouped' && grouped.has(place(p.row)));
        if (ratios.length) {
          traces.push({
            ...style,
            ...moesaic.second,
            line: {...style.line, dash},
            mode: view.x === 'rows' ? 'lines+markers' : 'markers',
            showlegend: false,
            legendgroup: key + set.place,
            x: ratios.map((p) => p.x),
            y: ratios.map(
                (p) => moesaic.secondsOf(p.row) / moesaic.secondsOf(grouped.get(place(p.row)))),
            hovertemplate: `${arm} takes %{y:.3f} × the time of grouped<extra></extra>`
          });
        }
      }
    }
    const axis = () =>
        (view.x === 'rows' ? moesaic.rowsAxis(x.title, all, view.scale) : moesaic.axis(x.title));
    const left = {
      x: axis(),
      y: moesaic.axis(
          values[view.value].title,
          {rangemode: 'tozero', type: view.y, tickformat: values[view.value].format})
    };
    // An axis without points cannot be logarithmic.
    const beside = traces.some((trace) => trace.xaxis === moesaic.second.xaxis);
    return {
      traces: [...traces, ...moesaic.rings(rings)],
      layout: beside ? moesaic.pair(
                           left, {x: axis(), y: moesaic.axis('Time ÷ time of grouped')},
                           {shapes: [moesaic.unityLine()]}) :
                       {xaxis: left.x, yaxis: left.y},
      notes:
          ['Medians. ' + (beside ? 'Right: above 1 the grouped product is faster. ' : '') +
           'Useful throughput counts rows that carry a route, physical every row multiplied.']
    };
  }
  moesaic.kinds.bench = {
    title: 'Strategies beside one another',
    lead: 'Rows of moesaic bench: every strategy on the same operands, in turns.',
    controls: (sets) => {
      const rows = sets.flatMap((set) => set.rows), products = [...new Set(rows.map(productOf))];
      const distinct = (key) =>
          new Set(rows.map(across[key].of).filter((value) => value !== undefined)).size;
      const axes = Object.keys(across).filter((key) => key === 'rows' || distinct(key) > 1);
      const most = axes.reduce((a, b) => (distinct(b) > distinct(a) ? b : a), 'rows');
      return [
        {
          key: 'product',
          label: 'Product',
          value: products[0],
          choices: products.map((value) => ({value, label: value})),
          long: true
        },
        {
          key: 'x',
          label: 'Across',
          value: most,
          choices:
              axes.map((value) => ({value, label: across[value].title.split(',')[0].toLowerCase()}))
        },
        {
          key: 'value',
          label: 'Left',
          value: 'useful',
          choices: [
            {value: 'useful', label: 'useful'}, {value: 'physical', label: 'physical'},
            {value: 'time', label: 'time'}
          ]
        },
        moesaic.scaleControl('scale', 'Rows', 'log'),
        moesaic.scaleControl('y', 'Left axis', 'linear')
      ];
    },
    draw: timed
  };

  /// A dot for every arm of every comparison: one line each, so that any number of them can be
  /// read.
  function dots(chosen, series, layout) {
    return {traces: series, layout: {margin: {l: 10, r: 20, t: 34, b: 56}, ...layout}};
  }
  function programs(chosen, view) {
    const traces = [],
          names = [...new Set(chosen.flatMap((set) => set.rows.map((row) => row.comparison)))];
    for (const set of chosen) {
      for (const [arm, rows] of groups(set.rows, moesaic.armOf)) {
        const timed = rows.filter((row) => view.value === 'time' || moesaic.usefulOf(row) > 0),
              value = view.value === 'time' ? moesaic.secondsOf : moesaic.usefulOf;
        if (!timed.length) continue;
        const spread = view.value === 'time' ? {
          error_x: {
            type: 'data',
            symmetric: false,
            array: timed.map((row) => at(row, 'timing.p95_s') - moesaic.secondsOf(row)),
            arrayminus: timed.map((row) => moesaic.secondsOf(row) - at(row, 'timing.p05_s')),
            thickness: 1.2,
            color: moesaic.arm(arm).colour
          }
        } :
                                               {};
        traces.push(moesaic.trace(arm, set.place, {
          mode: 'markers',
          ...spread,
          x: timed.map(value),
          y: timed.map((row) => row.comparison),
          text: timed.map(
              (row) => row.comparison + ', ' + arm + '<br>' +
                  moesaic.seconds(moesaic.secondsOf(row)) +
                  (moesaic.usefulOf(row) > 0 ? `, ${digits(moesaic.usefulOf(row))} useful TFLOP/s` :
                                               '') +
                  '<br>' + plain(row.implementation || '')),
          hovertemplate: '%{text}'
        }));
      }
    }
    return dots(chosen, traces, {
      height: 190 + 30 * names.length,
      xaxis: moesaic.axis(
          view.value === 'time' ? 'Median time, s; bars from the 5th to the 95th percentile' :
                                  'Useful throughput, TFLOP/s',
          {
            type: view.x,
            rangemode: 'tozero',
            tickformat: view.value === 'time' ? '~s' : undefined
          }),
      yaxis: moesaic.axis('', {type: 'category', categoryarray: [...names].reverse()})
    });
  }
  moesaic.kinds.comparison = {
    title: 'Comparisons on the CPU',
    lead:
        'Rows of the programs of bench/: arms of one comparison ran in turn on the same operands.',
    controls: () =>
        [{
          key: 'value',
          label: 'Show',
          value: 'time',
          choices: [{value: 'time', label: 'time'}, {value: 'flops', label: 'throughput'}]
        },
         moesaic.scaleControl('x', 'Axis', 'log')],
    draw: programs
  };

  /// 'fwd 4096 M=64 vs torch' -> {group: 'fwd 4096', x: 64, letter: 'M', other: 'torch'}; x is null
  /// for what is no sweep.
  function caseParts(name) {
    const sweep = /^(.*?) ([A-Z])=(\d+) vs (\S+)$/.exec(name);
    if (sweep) return {group: sweep[1], letter: sweep[2], x: Number(sweep[3]), other: sweep[4]};
    const versus = /^(\S+) (.*) vs (\S+)$/.exec(name);
    if (versus) return {group: versus[1], x: null, label: versus[2], other: versus[3]};
    return {
      group: name.split(' ')[0],
      x: null,
      label: name.split(' ').slice(1).join(' '),
      other: 'the other'
    };
  }
  const isRatio = (row) => !/TB\/s$/.test(row.case);
  function recordings(chosen, view) {
    const traces = [], all = [], labels = [];
    let letter = 'M', swept = false;
    for (const set of chosen) {
      const some =
          set.rows.filter((row) => isRatio(row) && caseParts(row.case).group === view.group)
              .map((row) => ({...caseParts(row.case), row}));
      for (const [other, points] of groups(some, (point) => point.other)) {
        const name = {'bmm1.25': 'padded_bmm', bmm: 'padded_bmm', loop: 'host_loop'}[other] ||
            other;
        swept = points[0].x !== null;
        letter = points[0].letter || letter;
        all.push(...points.map((p) => p.x));
        labels.push(...points.map((p) => p.label));
        const place = swept ?
            {x: points.map((p) => p.x), y: points.map((p) => p.row.ratio)} :
            {x: points.map((p) => p.row.ratio), y: points.map((p) => p.label), mode: 'markers'};
        const style = moesaic.trace(name, set.place, {});
        traces.push({
          ...style,
          ...place,
          name: style.name.replace(moesaic.arm(name).label, other),
          text: points.map(
              (p) => `${plain(p.row.case)}: ${digits(p.row.ratio)}` +
                  (p.row.us ? `<br>${digits(p.row.us)} µs of ours` : '') +
                  (p.row.tflops ? `<br>${digits(p.row.tflops)} TFLOP/s of ours` : '')),
          hovertemplate: '%{text}<extra></extra>'
        });
      }
    }
    const title = 'Time of the other ÷ ours';
    const one = swept ? {xref: 'paper', x0: 0, x1: 1, y0: 1, y1: 1} :
                        {yref: 'paper', y0: 0, y1: 1, x0: 1, x1: 1};
    const shapes = [{type: 'line', ...one, line: {color: '#111111', width: 1}}];
    const categories = [...new Set(labels)].reverse();
    const layout = swept ? {
      xaxis:
          moesaic.rowsAxis(letter === 'T' ? 'Rows per expert, T' : 'Routed rows, M', all, view.x),
      yaxis: moesaic.axis(title),
      shapes
    } :
                           {
                             height: 190 + 26 * categories.length,
                             margin: {l: 10, r: 20, t: 34, b: 56},
                             xaxis: moesaic.axis(title, {rangemode: 'normal'}),
                             yaxis: moesaic.axis('', {type: 'category', categoryarray: categories}),
                             shapes
                           };
    return {
      traces,
      layout,
      notes: [
        at(chosen[0].rows[0], 'method') ? `How: ${chosen[0].rows[0].method}.` : '',
        'Above 1 ours is faster.'
      ].filter(Boolean)
    };
  }
  moesaic.kinds.compare = {
    title: 'Beside PyTorch, padding and dense products',
    lead: 'Recordings in which the arms of other libraries and ours take turns in one queue: ' +
        'ratios of times.',
    controls: (sets) => {
      const known = [...new Set(
          sets.flatMap((set) => set.rows.filter(isRatio).map((row) => caseParts(row.case).group)))];
      return [
        {
          key: 'group',
          label: 'Cases',
          value: known[0],
          choices: known.map((value) => ({value, label: value})),
          long: true
        },
        moesaic.scaleControl('x', 'Rows', 'log')
      ];
    },
    draw: recordings
  };
  moesaic.caseParts = caseParts;
})();
