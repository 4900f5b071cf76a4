// SPDX-License-Identifier: Apache-2.0
// The numbers of the figures of histograms, as tables.
'use strict';
(() => {
  const kWidths = Array.from({length: moesaic.kMostTile}, (_, i) => i + 1);
  moesaic.kWidths = kWidths;
  const recordTable = (state) => {
    const known = moesaic.data.routing.tiles;
    const records = [...state.group.records].sort(
        (a, b) => b.plan.tiles[known.length - 1].padding_fraction -
            a.plan.tiles[known.length - 1].padding_fraction);
    return {
      head: [
        'source', 'layer', 'step', 'rank', 'experts', 'useful_rows', 'active_experts',
        'effective_experts', 'i_h', 'i_max', 'max_rows',
        ...known.flatMap((q) => [`padded_rows_q${q}`, `padding_fraction_q${q}`]), 'capacity',
        'rho_pad', 'overflow_rows', 'aggregation', 'label'
      ],
      rows: records.map(
          (record) =>
              [record.source, record.layer, record.step, record.rank, record.counts.length,
               record.plan.useful_rows, record.plan.active_experts, record.plan.effective_experts,
               record.plan.i_h, record.plan.i_max, record.plan.max_rows,
               ...record.plan.tiles.flatMap((one) => [one.padded_rows, one.padding_fraction]),
               record.plan.capacity, record.plan.rho_pad, record.plan.overflow_rows,
               record.aggregation, record.label])
    };
  };
  const countTable = (state) => ({
    head: ['source', 'layer', 'step', 'rank', 'expert', 'rows'],
    rows: state.group.records.flatMap(
        (record) => record.counts.map(
            (count,
             expert) => [record.source, record.layer, record.step, record.rank, expert, count]))
  });
  const widthTable = (state) => ({
    head: ['tile', 'row_tiles', 'padded_rows', 'padding_rows', 'padding_fraction'],
    rows: kWidths.map((q) => moesaic.tiles(state.record.counts, q))
              .map(
                  (one) =>
                      [one.tile, one.row_tiles, one.padded_rows, one.padding_rows,
                       one.padding_fraction])
  });
  const rankTable = (state) => ({
    head: ['rank', 'rows', 'tile', 'padded_rows', 'padding_rows'],
    rows: (moesaic.ranks(state.record.counts, state.ep, state.tile) || {
            ranks: []
          }).ranks.map((one) => [one.rank, one.rows, one.tile, one.padded_rows, one.padding_rows])
  });
  moesaic.routingTables =
      {records: recordTable, counts: countTable, widths: widthTable, ranks: rankTable};
})();
