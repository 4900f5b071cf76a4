// SPDX-License-Identifier: Apache-2.0
// The padding explorer: row counts that can be edited, three ways to execute them, what each
// multiplies for nothing. How they are drawn is explorer_draw.js's.
'use strict';
(() => {
  const {el, whole, percent, digits} = moesaic;
  const kMostSteppers = 32, kMostExperts = 4096, kMostRows = 1e9;

  /// The counts that a text holds, or what is wrong with it.
  moesaic.parseCounts = function(text) {
    const words = text.split(/[\s,;]+/).filter((word) => word !== '');
    if (words.length === 0) return {problem: 'expected row counts such as 1, 4, 3, 2, got none'};
    if (words.length > kMostExperts)
      return {problem: `expected at most ${kMostExperts} experts, got ${words.length}`};
    for (const word of words) {
      if (!/^\d+$/.test(word) || Number(word) > kMostRows) {
        return {
          problem: `expected whole numbers from 0 to ${kMostRows.toExponential(0)}, got "${word}"`
        };
      }
    }
    return {counts: words.map(Number)};
  };

  /// What each strategy executes. Ledgers stay apart: rows reserved or aligned before the product,
  /// and rows that fill up tiles inside it.
  moesaic.strategies = function({counts, rule, tile, align}) {
    const load = moesaic.load(counts), active = load.active_experts;
    const c = moesaic.capacityRows(rule, load.useful_rows, counts.length),
          capacity = moesaic.capacity(counts, c);
    const fit = counts.map((count) => Math.max(0, count - c)).filter((count) => count > 0);
    const batch = c > 0 ? counts.length * Math.ceil(c / tile) : 0, rest = moesaic.tiles(fit, tile);
    const aligned = counts.map((count) => Math.ceil(count / align) * align),
          exact = moesaic.tiles(counts, tile);
    const alignedRows = aligned.reduce((sum, count) => sum + count, 0);
    const row = (name, rows, before, tiles, launches, host, words) => ({
      name,
      rows,
      before,
      tiles,
      executed: tiles * tile,
      tail: tiles * tile - rows,
      waste: tiles ? 1 - load.useful_rows / (tiles * tile) : 0,
      launches,
      host,
      words
    });
    return [
      row('padded_bmm', capacity.executed_rows + capacity.overflow_rows, capacity.idle_rows,
          batch + rest.row_tiles, (c > 0 ? 1 : 0) + fit.length, fit.length ? 'for overflow' : 'no',
          `every expert reserves C = ${whole(c)} rows`),
      row('block-aligned', alignedRows, alignedRows - load.useful_rows,
          moesaic.tiles(aligned, tile).row_tiles, active ? 1 : 0, 'no',
          `rows of every expert rounded up to ${align}`),
      row('host_loop', load.useful_rows, 0, exact.row_tiles, active, 'yes',
          'one product per active expert'),
      row('grouped', load.useful_rows, 0, exact.row_tiles, active ? 1 : 0, 'no',
          'tiles of all experts in one launch'),
    ];
  };

  const shown = {
    counts: [1, 4, 3, 2],
    rule: {rule: 'ceil_mean', factor_millionths: 1250000, source_ranks: 1},
    tile: 2,
    align: 8
  };

  function numbers(state) {
    const load = moesaic.load(state.counts),
          c = moesaic.capacityRows(state.rule, load.useful_rows, state.counts.length);
    const capacity = moesaic.capacity(state.counts, c), offsets = moesaic.offsets(state.counts);
    const item = (id, value, words) =>
        el('div', {class: 'tile'}, el('b', {id}, value), el('span', {}, words));
    const factor = state.rule.factor_millionths / 1e6;
    return [
      el('div', {class: 'tiles'},
         item(
             'explore-rows', whole(load.useful_rows),
             `routed rows, M, on ${load.active_experts} of ${load.experts} experts`),
         item(
             'explore-capacity', whole(c),
             `C = ⌈c·M̄⌉ = ⌈${digits(factor)} × ${digits(load.mean_rows)}⌉ rows`),
         item(
             'explore-multiplied', whole(capacity.executed_rows),
             `rows multiplied when padded, N·C`),
         item('explore-rho', percent(capacity.rho_pad), 'ρ_pad = 1 − M / (N·C), Eq. 14'),
         item('explore-overflow', whole(capacity.overflow_rows), 'rows beyond C, which do not fit'),
         item('explore-effective', digits(load.effective_experts, 3), 'effective experts'),
         item('explore-ih', digits(load.i_h, 3), 'I_H, 0 even to 1 on one expert'),
         item('explore-imax', digits(load.i_max, 3), 'I_max, max / mean')),
      el('p', {}, 'Offsets (end rows): ',
         el('code', {id: 'explore-offsets'},
            offsets.slice(0, 64).join(', ') + (offsets.length > 64 ? ', …' : '')))
    ];
  }

  function strategyTable(state) {
    const head = [
      'strategy', 'rows in', 'padding before', `tiles of ${state.tile}`, 'rows executed',
      'tail padding', 'waste', 'launches', 'host reads counts'
    ];
    const rows = moesaic.strategies(state).map(
        (one) =>
            el('tr', {'data-strategy': one.name},
               el('td', {}, el('b', {}, one.name), el('br', {}),
                  el('span', {class: 'note'}, one.words)),
               [one.rows, one.before, one.tiles, one.executed, one.tail].map(
                   (value) => el('td', {}, whole(value))),
               el('td', {}, percent(one.waste)), el('td', {}, whole(one.launches)),
               el('td', {}, one.host)));
    return el(
        'div', {class: 'scroll'},
        el('table', {id: 'explore-strategies'},
           el('thead', {}, el('tr', {}, head.map((name) => el('th', {}, name)))),
           el('tbody', {}, rows)));
  }
  function tileTable(state) {
    const sizes = moesaic.ascending([8, 16, 32, 64, 128, state.tile]);
    const rows = sizes.map((q) => moesaic.tiles(state.counts, q))
                     .map(
                         (one) =>
                             el('tr', {'data-tile': one.tile}, el('td', {}, String(one.tile)),
                                [one.row_tiles, one.padded_rows, one.padding_rows].map(
                                    (value) => el('td', {}, whole(value))),
                                el('td', {}, percent(one.padding_fraction, 2))));
    return el(
        'div', {class: 'scroll'},
        el('table', {id: 'explore-tiles'},
           el('thead', {},
              el('tr', {},
                 ['tile q', 'tiles', 'P, rows executed', 'padding rows', 'padding'].map(
                     (name) => el('th', {}, name)))),
           el('tbody', {}, rows)));
  }
  const csvOf = (state) => ({
    head: [
      'strategy', 'rows_in', 'padding_before_rows', 'tile', 'tiles', 'executed_rows',
      'tail_padding_rows', 'waste_fraction', 'launches'
    ],
    rows: moesaic.strategies(state).map(
        (one) =>
            [one.name, one.rows, one.before, state.tile, one.tiles, one.executed, one.tail,
             one.waste, one.launches])
  });

  function steppers(state, changed) {
    if (state.counts.length > kMostSteppers)
      return [el(
          'p', {class: 'note'}, `${state.counts.length} experts: edit them in the list above.`)];
    const set = (expert, value) => {
      state.counts[expert] = Math.max(0, Math.min(kMostRows, Math.round(Number(value)) || 0));
      changed();
    };
    return state.counts.map(
        (count, expert) =>
            el('div', {class: 'stepper'}, el('span', {}, `E${expert}`), el('input', {
                 type: 'number',
                 min: 0,
                 value: count,
                 'aria-label': `rows of expert ${expert}`,
                 'data-expert': expert,
                 onchange: (event) => set(expert, event.target.value)
               }),
               el('button', {
                 type: 'button',
                 'aria-label': `one row less for expert ${expert}`,
                 onclick: () => set(expert, state.counts[expert] - 1)
               },
                  '−'),
               el('button', {
                 type: 'button',
                 'aria-label': `one row more for expert ${expert}`,
                 onclick: () => set(expert, state.counts[expert] + 1)
               },
                  '+')));
  }

  /// Tiles and blocks in proportion to what is drawn: toys for a toy, a kernel's for real rows.
  const sizesFor = (counts) =>
      (Math.max(...counts) <= 8       ? {tile: 2, align: 8} :
           Math.max(...counts) <= 128 ? {tile: 8, align: 16} :
                                        {tile: 64, align: 128});

  moesaic.explorer = function(routing) {
    const state = shown, text = el('textarea', {
                           id: 'explore-counts',
                           rows: 2,
                           spellcheck: 'false',
                           'aria-label': 'Routed rows of every expert'
                         });
    const problem = el('p', {class: 'problem', id: 'explore-problem', hidden: true}),
          stepperBox = el('div', {class: 'steppers'});
    const numberBox = el('div'), drawings = el('div'), tables = el('div', {});
    const draw = () => {
      numberBox.replaceChildren(...numbers(state));
      drawings.replaceChildren(...moesaic.drawings(state));
      tables.replaceChildren(
          el('h3', {}, 'What the four strategies multiply'), strategyTable(state),
          el('p', {class: 'note'},
             'Padding before the product (reserved or aligned rows) and tail padding inside tiles ' +
                 'are different ledgers. Waste is the share of all rows executed that carry no route. ' +
                 'Overflow rows of padded_bmm run apart.'),
          el('h3', {}, 'What tiles of other heights would execute'), tileTable(state));
      stepperBox.replaceChildren(...steppers(state, changed));
    };
    const changed = () => {
      text.value = state.counts.join(', ');
      problem.hidden = true;
      draw();
    };
    text.addEventListener('input', () => {
      const read = moesaic.parseCounts(text.value);
      problem.hidden = !read.problem;
      problem.textContent = read.problem || '';
      if (read.problem) return;
      state.counts = read.counts;
      draw();
    });
    const take = (counts) => {
      state.counts = [...counts];
      for (const [key, value] of Object.entries(sizesFor(counts))) {
        state[key] = value;
        document.getElementById('explore-' + key).value = value;
      }
      changed();
    };
    const examples = moesaic.data.explorer.examples.map(
        (example) =>
            el('button',
               {type: 'button', 'data-example': example.name, onclick: () => take(example.counts)},
               example.name));
    if (routing.record)
      examples.push(
          el('button',
             {type: 'button', 'data-example': 'own', onclick: () => take(routing.record.counts)},
             'The record chosen above'));
    const factor = el('output', {class: 'number', id: 'explore-factor-value'}, '1.25');
    const slider = el('input', {
      type: 'range',
      id: 'explore-factor',
      min: 100,
      max: 400,
      step: 5,
      value: 125,
      'aria-label': 'Capacity factor',
      oninput: (event) => {
        state.rule.factor_millionths = Number(event.target.value) * 10000;
        factor.textContent = digits(state.rule.factor_millionths / 1e6);
        draw();
      }
    });
    const choice = (label, id, values, key) => moesaic.selectOf(
        label, values.map((value) => ({value, label: String(value)})), state[key], (value) => {
          state[key] = Number(value);
          draw();
        }, id);
    changed();
    return el(
        'div', {class: 'card'},
        el('div', {class: 'controls'}, 'Examples', examples,
           el('span', {class: 'push'},
              el('button', {
                type: 'button',
                class: 'csv',
                id: 'explore-csv',
                onclick: () => moesaic.download(
                    'padding-explorer.csv', 'text/csv;charset=utf-8', moesaic.csv(csvOf(state)))
              },
                 'CSV'))),
        el('label', {class: 'only-screen'}, 'Routed rows of every expert', text), problem,
        el('div', {class: 'only-screen'}, stepperBox),
        el('div', {class: 'controls'}, el('label', {}, 'Capacity factor c', slider, factor),
           choice('Tile q', 'explore-tile', [1, 2, 4, 8, 16, 32, 64, 128, 256], 'tile'),
           choice('Block alignment', 'explore-align', [8, 16, 32, 64, 128], 'align')),
        numberBox, drawings, tables);
  };
})();
