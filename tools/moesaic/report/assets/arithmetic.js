// SPDX-License-Identifier: Apache-2.0
// The planner's arithmetic on row counts, for sliders and the editor. The planner's own figures
// come with the data; agreement() works every one of them out again and lists what differs.
'use strict';
moesaic.load = function(counts) {
  const experts = counts.length;
  let rows = 0, squares = 0, most = 0, active = 0;
  for (const count of counts) {
    rows += count;
    squares += count * count;
    most = Math.max(most, count);
    if (count > 0) active += 1;
  }
  let entropy = 0;
  for (const count of counts) {
    if (count > 0) entropy -= (count / rows) * Math.log(count / rows);
  }
  const mean = rows / experts;
  return {
    experts,
    useful_rows: rows,
    active_experts: active,
    max_rows: most,
    mean_rows: mean,
    effective_experts: rows ? (rows / squares) * rows : 0,
    i_h: rows && experts > 1 ? 1 - entropy / Math.log(experts) : 0,
    i_max: rows ? most / mean : 0,
  };
};

/// Rows that tiles of q rows execute: only active experts have tiles.
moesaic.tiles = function(counts, q) {
  let tiles = 0, rows = 0;
  for (const count of counts) {
    tiles += Math.ceil(count / q);
    rows += count;
  }
  const padded = tiles * q;
  return {
    tile: q,
    row_tiles: tiles,
    padded_rows: padded,
    padding_rows: padded - rows,
    padding_fraction: rows ? (padded - rows) / padded : 0
  };
};

/// C of a rule {rule, factor_millionths, source_ranks}; exact, since 1.6 times 2.5 must be 4.
moesaic.capacityRows = function(rule, rows, experts) {
  const scaled = BigInt(rule.factor_millionths) * BigInt(rows);
  const whole = BigInt(experts) * 1000000n;
  const ceil = (a, b) => (a + b - 1n) / b;
  if (rule.rule === 'ceil_mean') return Number(ceil(scaled, whole));
  const ranks = BigInt(rule.source_ranks);
  return Number(ranks * 8n * ceil(scaled / (whole * ranks), 8n));
};

moesaic.capacity = function(counts, capacity) {
  const rows = counts.reduce((sum, count) => sum + count, 0);
  const overflow = counts.reduce((sum, count) => sum + Math.max(0, count - capacity), 0);
  const executed = counts.length * capacity;
  return {
    capacity,
    executed_rows: executed,
    overflow_rows: overflow,
    idle_rows: executed - (rows - overflow),
    rho_pad: executed ? 1 - rows / executed : 0
  };
};

/// Rows and tiles of contiguous shares of the experts; null when `ep` does not divide them.
moesaic.ranks = function(counts, ep, q) {
  if (counts.length % ep) return null;
  const share = counts.length / ep, ranks = [];
  for (let rank = 0; rank < ep; rank += 1) {
    const own = counts.slice(rank * share, (rank + 1) * share);
    ranks.push({rank, rows: own.reduce((sum, count) => sum + count, 0), ...moesaic.tiles(own, q)});
  }
  const rows = ranks.map((one) => one.rows), padded = ranks.map((one) => one.padded_rows);
  const sum = rows.reduce((a, b) => a + b, 0), most = Math.max(...rows);
  return {
    ranks,
    max_rows: most,
    mean_rows: sum / ep,
    max_over_mean: sum ? most / (sum / ep) : 0,
    max_padded_rows: Math.max(...padded),
    sum_padded_rows: padded.reduce((a, b) => a + b, 0)
  };
};

moesaic.offsets = function(counts) {
  let end = 0;
  return counts.map((count) => (end += count));
};

/// {compared, differences}: every figure of the planner against the one worked out here.
moesaic.agreement = function() {
  const result = {compared: 0, differences: []};
  const compare = (where, want, got) => {
    result.compared += 1;
    if (Math.abs(want - got) > 1e-9 * Math.max(1, Math.abs(want))) {
      result.differences.push(`${where}: the planner has ${want}, this page ${got}`);
    }
  };
  const one = (where, counts, plan, rule) => {
    const load = moesaic.load(counts);
    for (const key
             of ['useful_rows', 'active_experts', 'max_rows', 'mean_rows', 'effective_experts',
                 'i_h', 'i_max']) {
      compare(`${where}, ${key}`, plan[key], load[key]);
    }
    for (const tile of plan.tiles) {
      const mine = moesaic.tiles(counts, tile.tile);
      for (const key of ['row_tiles', 'padded_rows', 'padding_rows', 'padding_fraction']) {
        compare(`${where}, tile ${tile.tile}, ${key}`, tile[key], mine[key]);
      }
    }
    const capacity =
        moesaic.capacity(counts, moesaic.capacityRows(rule, load.useful_rows, counts.length));
    for (const key of ['capacity', 'rho_pad', 'overflow_rows'])
      compare(`${where}, ${key}`, plan[key], capacity[key]);
  };
  const {routing, explorer} = moesaic.data;
  for (const example of explorer.examples)
    one(example.name, example.counts, example.plan, explorer.capacity);
  for (const record of routing.records) {
    const where = `${record.source} layer ${record.layer} step ${record.step}`;
    one(where, record.counts, record.plan, routing.capacity);
    for (const tail of record.ranks ? record.ranks.tails : []) {
      const mine = moesaic.ranks(record.counts, routing.ep, tail.tile);
      compare(`${where}, max_padded_rows`, tail.max_padded_rows, mine.max_padded_rows);
      compare(`${where}, sum_padded_rows`, tail.sum_padded_rows, mine.sum_padded_rows);
    }
  }
  return result;
};
