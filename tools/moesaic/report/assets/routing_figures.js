// SPDX-License-Identifier: Apache-2.0
// Figures of the user's histograms: heat map, sorted loads, padding against tile width, ranks.
'use strict';
(() => {
  const {percent, whole} = moesaic;
  const kGrey = '#a4adb8';
  const sorted = (counts) => [...counts].sort((a, b) => b - a);
  const corner = (state) =>
      [`${state.group.name} · ${state.group.experts} experts`,
       `moesaic ${moesaic.data.meta.git.sha}`];
  const summed = (state) =>
      (state.record.aggregation === 'summed' ?
           ['These counts are summed over steps: an average, whose padding no single step has. ' +
            '--rows N rescales them to the rows of a step.'] :
           []);

  /// Ranks at which a long curve is drawn: all of the first 64, then ever fewer.
  const places = (length, most) => {
    const all = Array.from({length}, (_, i) => i);
    if (length <= most) return all;
    return moesaic.ascending(all.slice(0, 64).concat(
        Array.from({length: most}, (_, i) => Math.round((i / (most - 1)) * (length - 1)))));
  };

  function heat(state, view) {
    const {group} = state, records = group.records;
    const z = records.map((record) => record.counts.map((count) => {
      if (record.plan.useful_rows === 0) return null;
      const share = count / record.plan.mean_rows;
      return view.scale === 'log' ? Math.log2(Math.max(share, 1 / 16)) : share;
    }));
    const text = records.map(
        (record) => record.counts.map(
            (count, e) =>
                (record.plan.useful_rows === 0 ?
                     `${moesaic.recordName(record, group)}: no routed row (dense)` :
                     moesaic.recordName(record, group) + ', expert ' + e + '<br>' + whole(count) +
                         ' rows, ' + moesaic.digits(count / record.plan.mean_rows, 3) +
                         ' × the even share')));
    const log = view.scale === 'log', ticks = [-4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    const words =
        ['≤ 1/16', '1/8', '1/4', '1/2', '1', '2', '4', '8', '16', '32', '64', '128', '256'];
    const dense = records.filter((record) => record.plan.useful_rows === 0).length;
    const selected = records.indexOf(state.record),
          height = Math.max(280, Math.min(820, 150 + 17 * records.length));
    const shown = ticks.filter((_, i) => i % (height < 400 ? 3 : 1) === 1);
    return {
      traces: [{
        type: 'heatmap',
        z,
        text,
        hoverinfo: 'text',
        colorscale: moesaic.scale,
        xgap: group.experts <= 64 ? 1 : 0,
        ygap: records.length <= 40 ? 1 : 0,
        colorbar: {
          title: {text: 'times the<br>even share', font: {size: 11.5}},
          thickness: 13,
          outlinewidth: 0,
          len: 0.9,
          ...(log ? {tickvals: shown, ticktext: shown.map((tick) => words[ticks.indexOf(tick)])} :
                    {})
        }
      }],
      layout: {
        height,
        margin: {l: 74, r: 10, t: 18, b: 56},
        plot_bgcolor: '#c9ced5',
        xaxis: moesaic.axis('Expert', {showgrid: false}),
        yaxis: moesaic.axis(group.across === 'layer' ? 'Layer' : 'Step', {
          autorange: 'reversed',
          showgrid: false,
          type: 'linear',
          tickvals: ticksOf(records.length),
          ticktext: ticksOf(records.length).map((i) => String(records[i][group.across]))
        }),
        shapes: records.length > 1 ? [{
          type: 'rect',
          xref: 'paper',
          x0: 0,
          x1: 1,
          y0: selected - 0.5,
          y1: selected + 0.5,
          line: {color: '#d55e00', width: 1.6, dash: 'dot'}
        }] :
                                     []
      },
      notes: [
        ...(dense ?
                [dense + ' of ' + (records.length) +
                 ' records have no routed row (dense layers, or nothing recorded): flat grey.'] :
                []),
        ...(records.length > 1 ?
                ['The dotted frame is ' + moesaic.recordName(state.record, group) +
                 ', the record that the figures below show.'] :
                []),
        ...summed(state)
      ],
    };
  }
  const ticksOf = (count) =>
      Array.from({length: count}, (_, i) => i).filter((i) => i % Math.ceil(count / 24) === 0);

  function curves(state, view) {
    const {group, record} = state, logarithmic = view.x === 'log';
    const line = (one, style) => {
      const loads = sorted(one.counts).map((count) => count / one.plan.mean_rows),
            at = places(loads.length, 96);
      return {
        type: 'scatter',
        mode: 'lines',
        x: at.map((i) => i + 1),
        y: at.map((i) => (view.y === 'log' && loads[i] === 0 ? null : loads[i])),
        name: moesaic.recordName(one, group),
        hoverinfo: 'skip',
        showlegend: false,
        ...style
      };
    };
    const others = group.records.filter((one) => one !== record && one.plan.useful_rows > 0);
    const thin = others.filter((_, i) => i % Math.ceil(others.length / 80) === 0);
    const mine = sorted(record.counts), at = places(mine.length, 400);
    return {
      traces: [
        ...thin.map((one, i) => line(one, {
                      line: {color: kGrey, width: 0.8},
                      opacity: 0.7,
                      showlegend: i === 0,
                      name: 'other records',
                      legendgroup: 'others'
                    })),
        {
          type: 'scatter',
          mode: 'lines',
          x: [1, group.experts],
          y: [1, 1],
          name: 'uniform',
          line: {color: '#111111', dash: '7px,5px', width: 1.4},
          hoverinfo: 'skip'
        },
        {
          type: 'scatter',
          mode: group.experts <= 64 ? 'lines+markers' : 'lines',
          x: at.map((i) => i + 1),
          y: at.map(
              (i) => (view.y === 'log' && mine[i] === 0 ? null : mine[i] / record.plan.mean_rows)),
          name: moesaic.recordName(record, group),
          line: {color: '#0060a8', width: 2.6, shape: 'linear'},
          marker: {size: 5},
          customdata: at.map((i) => whole(mine[i])),
          hovertemplate: 'the %{x}. hottest expert<br>%{customdata} rows, %{y:.3~g} × the even ' +
              'share<extra></extra>'
        }
      ],
      layout: {
        xaxis: moesaic.axis(
            'Experts, most loaded first',
            {type: view.x, ...(logarithmic ? {dtick: Math.log10(2)} : {})}),
        yaxis: moesaic.axis('Rows, times the even share', {type: view.y, rangemode: 'tozero'})
      },
      notes: [
        moesaic.recordName(record, group) + ': ' +
            moesaic.digits(record.plan.effective_experts, 3) + ' effective experts of ' +
            group.experts + ', I_H ' + moesaic.digits(record.plan.i_h, 3) + ', the hottest has ' +
            moesaic.digits(record.plan.i_max, 3) + ' times the mean.',
        ...(thin.length < others.length ?
                ['Of ' + others.length + ' other records every ' + Math.ceil(others.length / 80) +
                 'th is drawn; the table has all.'] :
                [])
      ],
    };
  }

  const kWidths = moesaic.kWidths;
  const fractionsOf = (counts, widths) =>
      widths.map((q) => moesaic.tiles(counts, q).padding_fraction);
  function widths(state, view) {
    const {group, record, tile} = state;
    const others = group.records.filter((one) => one !== record && one.plan.useful_rows > 0);
    const thin = others.filter((_, i) => i % Math.ceil(others.length / 40) === 0);
    const coarse = kWidths.filter((q) => q === 1 || q % 8 === 0);
    const mine = fractionsOf(record.counts, kWidths), here = mine[tile - 1];
    const known = record.plan.tiles;
    return {
      traces: [
        ...thin.map((one, i) => ({
                      type: 'scatter',
                      mode: 'lines',
                      x: coarse,
                      y: fractionsOf(one.counts, coarse),
                      hoverinfo: 'skip',
                      line: {color: kGrey, width: 0.8},
                      opacity: 0.7,
                      showlegend: i === 0,
                      name: 'other records',
                      legendgroup: 'others'
                    })),
        {
          type: 'scatter',
          mode: 'lines',
          x: kWidths,
          y: mine,
          name: moesaic.recordName(record, group),
          line: {color: '#0060a8', width: 2.4},
          hovertemplate: 'tile of %{x} rows: %{y:.3~p} padding<extra></extra>'
        },
        {
          type: 'scatter',
          mode: 'markers',
          x: known.map((one) => one.tile),
          y: known.map((one) => one.padding_fraction),
          name: 'worked out by the planner',
          marker: {symbol: 'diamond-open', size: 11, color: '#111111', line: {width: 1.6}},
          customdata: known.map(
              (one) => whole(one.padded_rows) + ' rows executed, ' + whole(one.padding_rows) +
                  ' of them padding'),
          hovertemplate: 'tile of %{x} rows: %{y:.3~p}<br>%{customdata}<extra></extra>'
        },
        {
          type: 'scatter',
          mode: 'markers',
          x: [tile],
          y: [here],
          name: `slider: q = ${tile}, ${percent(here)}`,
          marker: {symbol: 'circle', size: 13, color: '#d55e00'},
          hoverinfo: 'skip'
        }
      ],
      layout: {
        xaxis: moesaic.axis(
            'Rows of a tile, q',
            {type: view.x, ...(view.x === 'log' ? {dtick: Math.log10(2)} : {dtick: 32})}),
        yaxis: moesaic.axis(
            'Padding, share of the rows executed', {tickformat: '.3~p', rangemode: 'tozero'}),
        shapes: [{
          type: 'line',
          x0: tile,
          x1: tile,
          yref: 'paper',
          y0: 0,
          y1: 1,
          line: {color: '#d55e00', width: 1, dash: 'dot'}
        }]
      },
      notes: [
        'Less padding is not the faster kernel: a large tile reads an expert’s weights less ' +
            'often.',
        ...summed(state)
      ],
    };
  }

  function ranks(state, view) {
    const {group, record, tile, ep} = state, report = moesaic.ranks(record.counts, ep, tile);
    if (!report) return {traces: [], layout: {}};
    const x = report.ranks.map((one) => one.rank);
    const level = (y, words, dash, place) => ({
      type: 'scatter',
      mode: 'lines',
      x: [-0.5, ep - 0.5],
      y: [y, y],
      name: `${words} ${whole(y)}`,
      hoverinfo: 'skip',
      line: {color: '#111111', width: 1.4, dash},
      legendrank: place
    });
    return {
      traces: [
        {
          type: 'bar',
          x,
          y: report.ranks.map((one) => one.rows),
          name: 'routed rows',
          marker: {color: '#0060a8'},
          hovertemplate: 'rank %{x}: %{y:,} routed rows<extra></extra>'
        },
        {
          type: 'bar',
          x,
          y: report.ranks.map((one) => one.padding_rows),
          name: `padding in tiles of ${tile}`,
          marker: {
            color: '#ffffff',
            line: {color: '#d55e00', width: 1},
            pattern: {shape: '/', fgcolor: '#d55e00', size: 6}
          },
          customdata: report.ranks.map((one) => whole(one.padded_rows)),
          hovertemplate: 'rank %{x}: %{y:,} padding rows, P = %{customdata}<extra></extra>'
        },
        level(report.max_rows, 'max', 'solid', 900), level(report.mean_rows, 'mean', '6px,4px', 901)
      ],
      layout: {
        barmode: 'stack',
        bargap: 0.25,
        xaxis: moesaic.axis(
            'Rank (a contiguous share of the experts)',
            {dtick: ep <= 32 ? 1 : undefined, range: [-0.6, ep - 0.4]}),
        yaxis: moesaic.axis('Rows', {type: view.y, rangemode: 'tozero', tickformat: ','})
      },
      notes: [
        moesaic.recordName(record, group) + ' on ' + ep + ' ranks: the busiest has ' +
            moesaic.digits(report.max_over_mean, 3) +
            ' times the mean, and the layer waits for it. Tiles of ' + tile + ': max ' +
            whole(report.max_padded_rows) + ', sum ' + whole(report.sum_padded_rows) +
            ' rows executed.',
        ...summed(state)
      ],
    };
  }

  moesaic.routingFigures = function(state) {
    const words = moesaic.data.definitions, tables = moesaic.routingTables,
          make = (spec) => moesaic.figure({corner: () => corner(state), ...spec});
    state.figures = [
      make({
        id: 'heat-map',
        title: 'Where the rows go',
        lead:
            'Rows of every expert as a multiple of the even share, U / E: dark experts are hot, ' +
            'light ones idle.',
        controls: [moesaic.scaleControl('scale', 'Colour', 'log')],
        draw: (view) => heat(state, view),
        table: () => tables.counts(state)
      }),
      make({
        id: 'load-curves',
        title: 'Sorted loads',
        lead: 'Experts by their rows, the most loaded first; uniform routing is the dashed line. ' +
            'Effective experts: ' + words.effective_experts + '.',
        controls: [
          moesaic.scaleControl('x', 'Experts', state.group.experts > 64 ? 'log' : 'linear'),
          moesaic.scaleControl('y', 'Rows', state.record.plan.i_max > 20 ? 'log' : 'linear')
        ],
        draw: (view) => curves(state, view),
        table: () => tables.records(state)
      }),
      make({
        id: 'tile-padding',
        title: 'Padding against tile width',
        lead: 'Every active expert’s rows are rounded up to whole tiles of q rows. ' +
            words.padding_fraction + '.',
        controls: [moesaic.scaleControl('x', 'Tile', 'linear')],
        draw: (view) => widths(state, view),
        table: () => tables.widths(state)
      })
    ];
    if (state.group.experts > 1) {
      state.figures.push(make({
        id: 'rank-bars',
        title: 'Ranks that share the experts',
        lead:
            'Rows of each rank when the experts are shared out contiguously, and what its tiles add.',
        controls: [moesaic.scaleControl('y', 'Rows', 'linear')],
        draw: (view) => ranks(state, view),
        table: () => tables.ranks(state)
      }));
    }
    return state.figures;
  };
})();
