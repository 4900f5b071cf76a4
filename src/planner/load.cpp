// SPDX-License-Identifier: Apache-2.0
// Skew of a histogram, and the tail and alignment ledgers; the capacity ledger is capacity.cpp's.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "math/integer.hpp"
#include "math/tile_bounds.hpp"
#include "moesaic/planner.hpp"
#include "planner/counts.hpp"
#include "planner/text.hpp"

namespace moesaic::planner {
namespace {

// U^2 < 2^126 bounds the sum of squares, so neither can wrap once U fits int64.
__extension__ typedef unsigned __int128 Wide;

Wide squared(std::int64_t value) { return static_cast<Wide>(value) * static_cast<Wide>(value); }

struct Rounded {
  std::int64_t units = 0, rows = 0;
};

/// Rows with every expert rounded up to whole units; empty experts take none.
Rounded round_up_each(Counts counts, std::int64_t unit, std::string_view what) {
  require_positive(unit, what);
  checked_rows(counts);
  Rounded total;
  for (const std::int64_t rows : counts) {
    total.units += math::ceil_div(rows, unit);  // at most U
  }
  if (total.units > std::numeric_limits<std::int64_t>::max() / unit) {
    refuse("counts (--rows): rows padded to " + std::string(what) + " " + std::to_string(unit) +
           ": expected at most 2^63 - 1, got a larger number");
  }
  total.rows = total.units * unit;
  return total;
}

double fraction_of(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

struct NamedAlignment {
  std::string_view name;
  std::int64_t rows;
};
// Rows that a consumer wants each expert rounded to: 16 and 32 as Megatron-LM's
// get_fp8_align_size, 128 as DeepGEMM's contiguous layout.
constexpr std::array<NamedAlignment, 4> kAlignments = {
    NamedAlignment{"none", 1}, {"fp8", 16}, {"mxfp8", 32}, {"deepgemm", 128}};

std::int64_t alignment_rows(std::string_view name) {
  for (const NamedAlignment& known : kAlignments) {
    if (known.name == name) return known.rows;
  }
  std::int64_t rows = 0;
  const char* end = name.data() + name.size();
  const auto result = std::from_chars(name.data(), end, rows);
  if (result.ec != std::errc{} || result.ptr != end || rows < 1) {
    refuse("alignment: expected none, fp8, mxfp8, deepgemm or a number of rows >= 1, got \"" +
           std::string(name) + "\"");
  }
  return rows;
}

}  // namespace

LoadMetrics measure_load(Counts counts) {
  LoadMetrics load;
  load.useful_rows = checked_rows(counts);
  load.experts = static_cast<std::int64_t>(counts.size());
  if (load.useful_rows == 0) return load;

  const auto experts = static_cast<long double>(load.experts);
  const auto rows = static_cast<long double>(load.useful_rows);
  const long double mean = rows / experts;
  Wide squares = 0;
  long double deviations = 0;  // second pass around the mean: no cancellation for even loads
  long double plogp = 0;
  for (const std::int64_t count : counts) {
    squares += squared(count);
    load.max_rows = std::max(load.max_rows, count);
    const long double off = static_cast<long double>(count) - mean;
    deviations += off * off;
    if (count == 0) continue;
    ++load.active_experts;
    const long double p = static_cast<long double>(count) / rows;
    plogp += p * std::log(p);
  }
  const auto max = static_cast<long double>(load.max_rows);
  load.mean_rows = static_cast<double>(mean);
  load.effective_experts = static_cast<double>(static_cast<long double>(squared(load.useful_rows)) /
                                               static_cast<long double>(squares));
  load.i_max = static_cast<double>(max / mean);
  load.balancedness = static_cast<double>(mean / max);
  load.imbalance = static_cast<double>((max - mean) / mean);
  load.cv = static_cast<double>(std::sqrt(deviations / experts) / mean);
  load.entropy_bits = static_cast<double>(std::max(0.0L, -plogp / std::log(2.0L)));
  if (load.experts > 1) {
    // An even load may round a hair past 0; the definition cannot.
    load.i_h = static_cast<double>(std::clamp(1.0L + plogp / std::log(experts), 0.0L, 1.0L));
  }
  return load;
}

TileLedger tile_ledger(Counts counts, std::int64_t tile) {
  const Rounded rounded = round_up_each(counts, tile, "tile");
  TileLedger ledger;
  ledger.tile = tile;
  ledger.row_tiles = rounded.units;
  ledger.padded_rows = rounded.rows;
  ledger.padding_rows = rounded.rows - checked_rows(counts);
  ledger.padding_fraction = fraction_of(ledger.padding_rows, ledger.padded_rows);
  return ledger;
}

std::int64_t row_tile_bound(std::int64_t rows, std::int64_t experts, std::int64_t tile) {
  if (rows < 0) refuse("rows: expected at least 0, got " + std::to_string(rows));
  require_positive(experts, "experts");
  require_positive(tile, "tile");
  // Refuses what max_row_tiles would saturate at.
  const std::int64_t slack =
      checked_mul(std::min(rows, experts), tile - 1, "row tile bound: rows with padding");
  checked_add(rows, slack, "row tile bound: rows with padding");
  return math::max_row_tiles(rows, experts, tile);
}

AlignmentLedger alignment_ledger(Counts counts, std::string_view name) {
  AlignmentLedger ledger;
  ledger.name = name;
  ledger.alignment = alignment_rows(name);
  ledger.aligned_rows = round_up_each(counts, ledger.alignment, "alignment").rows;
  ledger.padding_rows = ledger.aligned_rows - checked_rows(counts);
  ledger.padding_fraction = fraction_of(ledger.padding_rows, ledger.aligned_rows);
  return ledger;
}

Throughput throughput(std::int64_t useful_rows, std::int64_t executed_rows, std::int64_t n,
                      std::int64_t k, double seconds) {
  if (useful_rows < 0 || executed_rows < useful_rows) {
    refuse("rows: expected 0 <= useful <= executed, got " + std::to_string(useful_rows) +
           " useful and " + std::to_string(executed_rows) + " executed");
  }
  require_positive(n, "n");
  require_positive(k, "k");
  if (!(seconds > 0)) refuse("seconds: expected more than 0, got " + fixed(seconds, 9));
  const double flops_per_row = 2.0 * static_cast<double>(n) * static_cast<double>(k);
  return {
      .effective_flops_per_second = static_cast<double>(useful_rows) * flops_per_row / seconds,
      .physical_flops_per_second = static_cast<double>(executed_rows) * flops_per_row / seconds};
}

}  // namespace moesaic::planner
