// SPDX-License-Identifier: Apache-2.0
// Rows between ranks: rate and time of every operation, the sweep over thread blocks, and moesaic
// beside all-to-all of PyTorch.
'use strict';
(() => {
  const {at, groups, plain, whole} = moesaic, words = moesaic.data.definitions;
  const {rateOf, movesRows, problemOf, routingOf, rowsOf, distinct, letterOf, ranksOf} =
      moesaic.exchange;
  const {hover, droppedNotes, problemControl, blocksName, lines, timeAxis} = moesaic.exchange;
  const kRateTitle = 'Payload rate, GB/s';
  /// Styles of routings, by their order.
  const kStyles = ['grouped', 'padded_bmm', 'host_loop', 'dense', 'torch'];
  const problemNote = (view) => `Problem of every rank: ${view.problem}.`;
  const kFanOutNote =
      'By fan_out fewer bytes travel, so that a lower rate may be the shorter time.';
  const marked = (name, letter) => name + (letter ? ` · ${letter}` : '');

  function operations(chosen, view) {
    const traces = [], seen = [];
    const all = rowsOf(chosen).filter((row) => problemOf(row) === view.problem);
    const routings = distinct(all.map(routingOf));
    const fits = (row) => problemOf(row) === view.problem && row.nblocks === Number(view.nblocks);
    for (const set of chosen) {
      const rows = set.rows.filter(fits);
      const letter = letterOf(set, chosen);
      seen.push(...rows);
      for (const [routing, some] of groups(rows, routingOf)) {
        const style = {
          ...moesaic.trace(kStyles[routings.indexOf(routing) % kStyles.length], set.place),
          mode: 'markers',
          name: marked(plain(routing), letter),
          legendgroup: routing + set.place,
          hovertemplate: '%{text}<extra></extra>'
        };
        const dots = (rows, value, extra) => traces.push({
          ...style,
          x: rows.map(value),
          y: rows.map((row) => row.operation),
          text: rows.map((row) => hover(row, letter)),
          ...extra
        });
        dots(some.filter(movesRows), rateOf, {});
        dots(some, moesaic.secondsOf, {xaxis: 'x2', showlegend: false});
      }
    }
    return {
      traces,
      layout: lines(
          distinct(seen.map((row) => row.operation)),
          (name) => plain(name).replace(/\+/g, ' + ').replace(/(.{18,}?) \+ /, '$1<br>+ '),
          moesaic.axis(kRateTitle, {rangemode: 'tozero'}),
          timeAxis(view.time, seen.map(moesaic.secondsOf))),
      notes: [
        problemNote(view), kFanOutNote,
        'route_maps sends counts alone and has no rate. maps + …: out and back over the time of all three.',
        ...droppedNotes(seen)
      ]
    };
  }
  moesaic.kinds.ep = {
    title: (sets) => `Rate and time of every operation, ${ranksOf(sets)}`,
    lead:
        'Payload rate: what the busiest direction of any rank carries to or from others, rows of its own experts left out, over the time of ' +
        'the slowest rank.',
    controls: (sets) => {
      const blocks = moesaic.ascending(rowsOf(sets).map((row) => row.nblocks));
      return [
        problemControl(sets), {
          key: 'nblocks',
          label: 'Thread blocks',
          value: String(blocks[0]),
          choices: blocks.map((value) => ({value: String(value), label: blocksName(value)})),
          long: true
        },
        moesaic.scaleControl('time', 'Time', 'log')
      ];
    },
    draw: operations
  };

  /// Long names make a legend of many lines.
  const shortName = (operation) => plain(
      /^maps\+/.test(operation) ?
          operation.replace('dispatch_', '').replace('_get_fused', '').replaceAll('+', ' + ') :
          operation);
  /// One legend for both: what A and B look like stands behind it.
  const letterKeys = (chosen) => (chosen.length < 2 ? [] : chosen.map((set) => {
    const {marker, line} = moesaic.trace('dense', set.place);
    const letter = letterOf(set, chosen);
    return {
      type: 'scatter',
      mode: 'lines+markers',
      name: letter === 'A' ? 'A: filled, thick' : 'B: hollow, thin',
      x: [null],
      y: [null],
      marker: {...marker, symbol: letter === 'A' ? 'circle' : 'circle-open'},
      line: {...line, dash: 'solid'}
    };
  }));

  function sweep(chosen, view) {
    const traces = [], legend = new Set();
    const all = rowsOf(chosen).filter((row) => problemOf(row) === view.problem);
    const fits = (row) => problemOf(row) === view.problem && routingOf(row) === view.routing;
    const known = moesaic.ascending(all.map((row) => row.nblocks).filter((value) => value > 0));
    const most = known[known.length - 1] || 1;
    // The transport's own number is no place of the sweep: it stands apart, at the end.
    const auto = view.x === 'log' ? 1.9 * most : 1.13 * most,
          border = view.x === 'log' ? 1.38 * most : 1.065 * most;
    const value = view.value === 'time' ? moesaic.secondsOf : rateOf;
    for (const set of chosen) {
      const letter = letterOf(set, chosen);
      for (const [operation, rows] of groups(set.rows.filter(fits), (row) => row.operation)) {
        const sorted = [...rows].sort((a, b) => a.nblocks - b.nblocks);
        const own = sorted.filter((row) => row.nblocks === 0);
        const points =
            [...sorted.filter((row) => row.nblocks > 0), ...(own.length ? [null, ...own] : [])];
        traces.push(moesaic.trace(operation, set.place, {
          name: shortName(operation),
          legendgroup: operation,
          showlegend: !legend.has(operation),
          x: points.map((row) => row && (row.nblocks || auto)),
          y: points.map((row) => row && value(row)),
          text: points.map((row) => (row ? hover(row, letter) : '')),
          hovertemplate: '%{text}<extra></extra>'
        }));
        legend.add(operation);
      }
    }
    return {
      traces: [...traces, ...letterKeys(chosen)],
      layout: {
        height: 520,
        xaxis: moesaic.axis('Thread blocks of a transfer, on each rank', {
          type: view.x,
          tickvals: [...known, auto],
          ticktext: [...known.map(String), 'auto'],
          rangemode: view.x === 'log' ? 'normal' : 'tozero'
        }),
        yaxis: view.value === 'time' ?
            timeAxis(view.y, all.filter(fits).map(moesaic.secondsOf)) :
            moesaic.axis(kRateTitle, {type: view.y, rangemode: 'tozero'}),
        shapes: [{
          type: 'line',
          yref: 'paper',
          y0: 0,
          y1: 1,
          x0: border,
          x1: border,
          line: {color: '#8592a0', width: 1, dash: 'dot'}
        }]
      },
      notes: [
        problemNote(view), kFanOutNote,
        'auto is the transport’s own number of thread blocks. Fewer leave multiprocessors to ' +
            'other kernels. maps + put + combine: out and back over the time of all three.',
        ...droppedNotes(all.filter(fits))
      ]
    };
  }
  moesaic.kinds.ep_blocks = {
    title: (sets) => `Rate over thread blocks, ${ranksOf(sets)}`,
    lead: 'How many thread blocks does a transfer need until the link is full? Payload rate: ' +
        words.remote_bytes_per_second + '.',
    controls: (sets) => {
      const rows = rowsOf(sets), routings = distinct(rows.map(routingOf));
      return [
        problemControl(sets), {
          key: 'routing',
          label: 'Routing',
          value: routings[0],
          choices: routings.map((value) => ({value, label: value}))
        },
        {
          key: 'value',
          label: 'Show',
          value: 'rate',
          choices: [{value: 'rate', label: 'rate'}, {value: 'time', label: 'time'}]
        },
        moesaic.scaleControl('x', 'Blocks', 'log'), moesaic.scaleControl('y', 'Values', 'linear')
      ];
    },
    draw: sweep
  };

  /// A line for each run of a comparison: arms on it took turns.
  function beside(chosen, view) {
    const fits = (row) => problemOf(row) === view.problem;
    const traces = [], all = rowsOf(chosen).filter(fits);
    const parts = [
      (row) => row.comparison + (at(row, 'problem.h') ? `, h = ${whole(row.problem.h)}` : ''),
      routingOf, moesaic.dispatchOf
    ];
    const orders = parts.map((part) => distinct(all.map(part)));
    const lineOf = (row) => parts.map((part) => part(row)).join(', ');
    const rank = (row) =>
        parts.reduce((sum, part, i) => sum * 1000 + orders[i].indexOf(part(row)), 0);
    const names = distinct([...all].sort((a, b) => rank(a) - rank(b)).map(lineOf));
    for (const set of chosen) {
      const letter = letterOf(set, chosen);
      const own = set.rows.filter(fits);
      for (const [arm, rows] of groups(own, (row) => row.arm)) {
        const dots = (rows, value, extra) => traces.push(moesaic.trace(arm, set.place, {
          mode: 'markers',
          name: marked(plain(arm), letter),
          legendgroup: arm + set.place,
          x: rows.map(value),
          y: rows.map(lineOf),
          text: rows.map((row) => hover(row, letter)),
          hovertemplate: '%{text}<extra></extra>',
          ...extra
        }));
        dots(rows, moesaic.secondsOf, {});
        if (arm === 'moesaic') continue;
        dots(rows, (row) => at(row, 'derived.ratio_to_moesaic'), {xaxis: 'x2', showlegend: false});
      }
    }
    return {
      traces,
      layout: lines(
          names, plain, timeAxis(view.time, all.map(moesaic.secondsOf)),
          moesaic.axis('Time ÷ time of moesaic', {rangemode: 'tozero'}), {
            shapes: [{
              type: 'line',
              xref: 'x2',
              yref: 'paper',
              x0: 1,
              x1: 1,
              y0: 0,
              y1: 1,
              line: {color: '#111111', width: 1}
            }]
          }),
      notes: [
        problemNote(view),
        'Right: above 1 moesaic is faster. Arms of one line took turns in one run; direct and ' +
            'fan_out are runs of their own, so that PyTorch’s arms, which have no such choice, ' +
            'stand on both.',
        'exchange: maps, dispatch and fused combine; PyTorch’s sorts, all_to_all_single and ' +
            'sorting back, written plainly (torch) and with inverse permutations and one batched ' +
            'product (torch_lean). layer: router, exchange and experts, forward and backward.'
      ]
    };
  }
  moesaic.kinds.ep_arm = {
    title: (sets) => `Beside all-to-all of PyTorch, ${ranksOf(sets)}`,
    lead:
        'The exchange alone and a whole layer, forward and backward, by moesaic and by PyTorch: ' +
        'medians of the slowest rank, of arms that took turns and whose results were compared first.',
    controls: (sets) => [problemControl(sets), moesaic.scaleControl('time', 'Time', 'log')],
    draw: beside
  };
})();
