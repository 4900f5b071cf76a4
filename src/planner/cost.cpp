// SPDX-License-Identifier: Apache-2.0
// The four terms of a product: matrix work, weight traffic, launch, communication, each apart. They
// rank candidates and explain them; a measurement chooses. Ceilings are roofline.cpp's.
#include "planner/cost.hpp"

#include <algorithm>
#include <string>

#include "math/integer.hpp"
#include "planner/counts.hpp"
#include "planner/text.hpp"

namespace moesaic::planner {
namespace {

constexpr double kElementBytes = 2;  // BF16
// Columns of one output tile: the widest BF16 tile of SM90 kernels in use (128 x 256).
constexpr std::int64_t kTileColumns = 256;
// Row tile of a batched library kernel.
constexpr std::int64_t kBatchTileRows = 128;
// Launch to first multiplication 2.5 us plus last store 1.5 us: a model of Hopper kernels, not
// measured on each device.
constexpr double kSecondsPerLaunch = 4e-6;
// 200 cycles of scheduling per tile and SM at 1.7 GHz, the same model.
constexpr double kSecondsPerTile = 200 / 1.7e9;
// Estimates closer than this are the same: clocks vary by more between two runs.
constexpr double kSuggestionSlack = 1.01;

double launch_seconds(std::int64_t launches, std::int64_t tiles, const DeviceModel& device) {
  const auto num_sms = std::max<std::int64_t>(1, static_cast<std::int64_t>(device.num_sms.value));
  return kSecondsPerLaunch * static_cast<double>(launches) +
         kSecondsPerTile * static_cast<double>(math::ceil_div(tiles, num_sms));
}

void require_input(const CostInput& input) {
  require_positive(input.product.n, "product: n");
  require_positive(input.product.k, "product: k");
  require_positive(input.ep, "ep");
  if (input.ep > 1) require_positive(input.d, "d, the width of the rows that travel");
}

std::string terms_text(const CostTerms& cost) {
  return "tile " + std::to_string(cost.tile) + ": " + duration(cost.kernel_s()) + " (matrix work " +
         duration(cost.mma_s) + ", weights " + duration(cost.weight_s) + ", operands once " +
         duration(cost.operands_s) + ", launch " + duration(cost.launch_s) + ")";
}

}  // namespace

CostTerms cost_terms(Counts counts, std::int64_t tile, const CostInput& input,
                     const DeviceModel& device) {
  require_input(input);
  const TileLedger ledger = tile_ledger(counts, tile);
  const auto active =
      std::count_if(counts.begin(), counts.end(), [](std::int64_t rows) { return rows > 0; });
  const auto n = static_cast<double>(input.product.n);
  const auto k = static_cast<double>(input.product.k);
  const double weight_bytes = kElementBytes * n * k;

  CostTerms cost;
  cost.tile = tile;
  cost.launches = 1;
  cost.tiles = checked_mul(ledger.row_tiles, math::ceil_div(input.product.n, kTileColumns),
                           "counts (--rows): tiles of the product");
  cost.padded_flops = 2 * static_cast<double>(ledger.padded_rows) * n * k;
  cost.weight_once_bytes = weight_bytes * static_cast<double>(active);
  cost.weight_reread_bytes = weight_bytes * static_cast<double>(ledger.row_tiles);
  const auto useful_rows = static_cast<double>(ledger.padded_rows - ledger.padding_rows);
  cost.operand_bytes = cost.weight_once_bytes + kElementBytes * useful_rows * (n + k);
  cost.mma_s = cost.padded_flops / device.bf16_flops_per_second.value;
  cost.operands_s = cost.operand_bytes / device.dram_bytes_per_second.value;
  cost.weight_once_s = cost.weight_once_bytes / device.dram_bytes_per_second.value;
  cost.weight_reread_s = cost.weight_reread_bytes / device.dram_bytes_per_second.value;
  cost.weight_s =
      std::max(cost.weight_once_s, cost.weight_reread_bytes / device.l2_bytes_per_second.value);
  cost.launch_s = launch_seconds(cost.launches, cost.tiles, device);
  if (input.ep > 1) {
    constexpr double kDirections = 2;  // dispatch and combine
    const double remote_share = 1 - 1 / static_cast<double>(input.ep);
    cost.remote_bytes =
        useful_rows * static_cast<double>(input.d) * kElementBytes * remote_share * kDirections;
    cost.communication_s = cost.remote_bytes / device.link_bytes_per_second.value;
  }
  return cost;
}

double padded_batch_seconds(const CapacityLedger& ledger, std::int64_t experts,
                            const CostInput& input, const DeviceModel& device) {
  require_input(input);
  const auto n = static_cast<double>(input.product.n);
  const auto k = static_cast<double>(input.product.k);
  const auto rows = static_cast<double>(ledger.executed_rows + ledger.overflow_rows);
  const auto weights = static_cast<double>(experts + ledger.overflowing_experts);
  const double mma_s = 2 * rows * n * k / device.bf16_flops_per_second.value;
  const double operands_s =
      kElementBytes * (weights * n * k + rows * (n + k)) / device.dram_bytes_per_second.value;
  // Of the overflow only the sum is known; at most one tile more per further expert.
  const std::int64_t overflow_tiles = math::ceil_div(ledger.overflow_rows, kBatchTileRows) +
                                      std::max<std::int64_t>(0, ledger.overflowing_experts - 1);
  const std::int64_t row_tiles =
      checked_add(checked_mul(experts, math::ceil_div(ledger.capacity, kBatchTileRows),
                              "counts (--rows): row tiles of the padded batch"),
                  overflow_tiles, "counts (--rows): row tiles of the padded batch");
  const std::int64_t tiles = checked_mul(row_tiles, math::ceil_div(input.product.n, kTileColumns),
                                         "counts (--rows): tiles of the padded batch");
  // The launches of the overflow are not charged: queued back to back they hide, and the modelled
  // constant would decide small layers by itself.
  return std::max(mma_s, operands_s) + launch_seconds(1, tiles, device);
}

TileSuggestion suggest_tile(std::span<const CostTerms> costs) {
  if (costs.empty()) refuse("costs: expected one per tile, got none");
  double least = costs[0].kernel_s();
  for (const CostTerms& cost : costs) least = std::min(least, cost.kernel_s());
  const CostTerms* best = nullptr;
  for (const CostTerms& cost : costs) {
    if (cost.kernel_s() > kSuggestionSlack * least) continue;
    // Equal padding: the larger tile rereads less, so fewer bytes and less energy.
    if (best == nullptr || cost.padded_flops < best->padded_flops ||
        (cost.padded_flops == best->padded_flops && cost.tile > best->tile)) {
      best = &cost;
    }
  }
  const CostTerms* next = nullptr;
  for (const CostTerms& cost : costs) {
    if (cost.tile == best->tile) continue;
    if (next == nullptr || cost.kernel_s() < next->kernel_s()) next = &cost;
  }
  TileSuggestion suggestion;
  suggestion.tile = best->tile;
  suggestion.reason = terms_text(*best);
  if (best->kernel_s() > least) {
    suggestion.reason += ", within 1 % of the fastest and with the least padding of those";
  }
  if (next != nullptr) suggestion.reason += "; next " + terms_text(*next);
  suggestion.reason += "; an estimate to choose candidates by, not a measurement";
  return suggestion;
}

}  // namespace moesaic::planner
