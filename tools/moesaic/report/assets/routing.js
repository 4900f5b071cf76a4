// SPDX-License-Identifier: Apache-2.0
// The user's histograms: which of them are shown, and the numbers that follow the slider.
'use strict';
(() => {
  const {el} = moesaic;
  /// Records that make one picture: of one source, rank and number of experts, and of one step
  /// where there are several layers.
  moesaic.routingGroups = function(records) {
    const bySource = moesaic.groups(
        records, (record) => JSON.stringify([record.source, record.rank, record.counts.length]));
    const groups = [];
    for (const same of bySource.values()) {
      const layers = moesaic.ascending(same.map((record) => record.layer));
      const byStep = layers.length > 1 ? moesaic.groups(same, (record) => record.step) :
                                         new Map([[null, same]]);
      for (const [step, some] of byStep) {
        const first = some[0], parts = [moesaic.fileName(first.source)];
        if (byStep.size > 1) parts.push(`step ${step}`);
        if (first.rank !== null) parts.push(`rank ${first.rank}`);
        const across = layers.length > 1 || some.length === 1 ? 'layer' : 'step';
        groups.push({name: parts.join(', '), across, records: some, experts: first.counts.length});
      }
    }
    return groups;
  };
  moesaic.recordName = (record, group) => `${group.across} ${record[group.across]}`;

  /// Most padding at the middle tile first, as `plan` lists them.
  const worst = (group) => {
    const routed = group.records.filter((record) => record.plan.useful_rows > 0);
    return routed.reduce(
        (a, b) =>
            (b.plan.tiles[b.plan.tiles.length - 1].padding_fraction >
                     a.plan.tiles[a.plan.tiles.length - 1].padding_fraction ?
                 b :
                 a),
        routed[0] || group.records[0]);
  };
  moesaic.routingState = function() {
    const groups = moesaic.routingGroups(moesaic.data.routing.records);
    return {
      groups,
      group: groups[0],
      record: groups.length ? worst(groups[0]) : null,
      tile: 64,
      ep: moesaic.data.routing.ep || 0,
      figures: []
    };
  };

  const kMostTile = 256;
  function readout(state, box) {
    const {record, tile} = state, load = moesaic.load(record.counts),
                   ledger = moesaic.tiles(record.counts, tile);
    let all = 0, allRows = 0;
    for (const one of state.group.records) {
      const other = moesaic.tiles(one.counts, tile);
      all += other.padded_rows;
      allRows += other.padded_rows - other.padding_rows;
    }
    const item = (id, value, words) =>
        el('div', {class: 'tile'}, el('b', {id}, value), el('span', {}, words));
    box.replaceChildren(
        item(
            'slide-padded', moesaic.whole(ledger.padded_rows),
            `P, rows that tiles of ${tile} execute`),
        item(
            'slide-padding', moesaic.whole(ledger.padding_rows),
            `padding rows beside ${moesaic.whole(load.useful_rows)} routed ones`),
        item(
            'slide-fraction', moesaic.percent(ledger.padding_fraction),
            'tail padding of this record'),
        item(
            'slide-all', moesaic.percent(all ? (all - allRows) / all : 0),
            `tail padding of all ${state.group.records.length} records shown`),
        item(
            'slide-effective', moesaic.digits(load.effective_experts, 3),
            `effective of ${load.active_experts} active and ${load.experts} experts`));
  }

  const divisors = (n) =>
      Array.from({length: Math.min(n, 512)}, (_, i) => i + 1).filter((i) => n % i === 0 && i > 1);

  moesaic.routingControls = function(state) {
    const box = el('div', {class: 'tiles'}), recordBox = el('span'), rankBox = el('span');
    const redraw = () => {
      readout(state, box);
      for (const figure of state.figures) figure.draw();
    };
    const fill = () => {
      const names =
          state.group.records.map((record, i) => ({
                                    value: i,
                                    label: moesaic.recordName(record, state.group) + ' (' +
                                        moesaic.whole(record.plan.useful_rows) + ' rows)'
                                  }));
      recordBox.replaceChildren(
          moesaic.selectOf('Record', names, state.group.records.indexOf(state.record), (value) => {
            state.record = state.group.records[Number(value)];
            redraw();
          }, 'routing-record'));
      const ranks = divisors(state.group.experts);
      if (!ranks.includes(state.ep))
        state.ep = ranks.includes(8) ? 8 : ranks[ranks.length - 1] || 1;
      rankBox.replaceChildren(moesaic.selectOf(
          'Ranks', ranks.map((value) => ({value, label: String(value)})), state.ep, (value) => {
            state.ep = Number(value);
            redraw();
          }, 'routing-ep'));
    };
    const number = el('output', {id: 'tile-value', class: 'number'}, String(state.tile));
    const slider = el('input', {
      type: 'range',
      id: 'tile-slider',
      min: 1,
      max: kMostTile,
      value: state.tile,
      'aria-label': 'Rows of a tile',
      oninput: (event) => {
        state.tile = Number(event.target.value);
        number.textContent = event.target.value;
        redraw();
      }
    });
    const marks = moesaic.data.routing.tiles.map(
        (tile) =>
            el('button', {
              type: 'button',
              'data-tile': tile,
              onclick: () => {
                slider.value = tile;
                slider.dispatchEvent(new Event('input'));
              }
            },
               String(tile)));
    const source = state.groups.length > 1 ?
        moesaic.selectOf(
            'Histograms', state.groups.map((group, i) => ({value: i, label: group.name})), 0,
            (value) => {
              state.group = state.groups[Number(value)];
              state.record = worst(state.group);
              fill();
              redraw();
            },
            'routing-group') :
        null;
    fill();
    readout(state, box);
    return el(
        'div', {class: 'card sticky-card'},
        el('div', {class: 'controls'}, source, recordBox, rankBox),
        el('div', {class: 'controls'}, el('label', {}, 'Tile q, rows', slider, number), marks),
        box);
  };
  moesaic.kMostTile = kMostTile;
})();
