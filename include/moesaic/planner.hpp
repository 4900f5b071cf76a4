// SPDX-License-Identifier: Apache-2.0
// What a routing histogram costs, worked out without a device: padding, skew, roofline, four-term
// cost, rank tails, and a verdict in words. Plain numbers in, plain numbers out; reading files is
// routing's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "moesaic/capacity.hpp"

namespace moesaic::planner {

/// Rows of each expert of one layer on one rank, expert 0 first.
using Counts = std::span<const std::int64_t>;

// ---- Load and the three padding ledgers. They answer different questions and are never added up:
// tail padding inside a tile, capacity padding before a product, alignment padding around a
// transfer.

/// How a layer's rows spread over its experts. Sums are exact in 128-bit integers.
struct LoadMetrics {
  std::int64_t experts = 0;
  std::int64_t useful_rows = 0;     ///< U, the sum of the counts.
  std::int64_t active_experts = 0;  ///< Experts with at least one row.
  std::int64_t max_rows = 0;
  double mean_rows = 0;          ///< U / E, over all experts, empty ones included.
  double effective_experts = 0;  ///< U^2 / sum of squares; 0 when U = 0.
  double i_h = 0;                ///< Eq. 18, 1 + sum(p ln p) / ln E; 0 when E = 1 or U = 0.
  double i_max = 0;              ///< max / mean; 0 when U = 0.
  double balancedness = 0;       ///< mean / max; 0 when U = 0.
  double imbalance = 0;          ///< (max - mean) / mean; 0 when U = 0.
  double cv = 0;                 ///< Population standard deviation / mean; 0 when U = 0.
  double entropy_bits = 0;       ///< -sum(p log2 p); 0 when U = 0.
};
/// @throws Error{invalid_argument} when counts is empty, a count is negative, or U exceeds int64.
LoadMetrics measure_load(Counts counts);

/// Tail padding: each active expert's rows rounded up to whole tiles of `tile` rows.
struct TileLedger {
  std::int64_t tile = 0;
  std::int64_t row_tiles = 0;     ///< Sum of ceil(M_e / tile).
  std::int64_t padded_rows = 0;   ///< P = tile * row_tiles.
  std::int64_t padding_rows = 0;  ///< P - U.
  double padding_fraction = 0;    ///< (P - U) / P; 0 when U = 0.
};
/// @throws Error{invalid_argument} for bad counts, tile < 1, or P past int64.
TileLedger tile_ledger(Counts counts, std::int64_t tile);

/// Row tiles that no histogram of U rows over L experts can exceed, min(U, floor((U + (q - 1) L) /
/// q)): an upper bound for a workspace; needs no counts. @throws Error{invalid_argument}.
std::int64_t row_tile_bound(std::int64_t rows, std::int64_t experts, std::int64_t tile);

/// Capacity padding: every expert, empty ones included, reserves C rows of a padded batch.
struct CapacityLedger {
  Capacity rule;                         ///< Rule, factor and source ranks it was worked out with.
  std::int64_t capacity = 0;             ///< C, rows per expert.
  std::int64_t executed_rows = 0;        ///< E * C.
  std::int64_t overflow_rows = 0;        ///< Rows beyond C, summed over experts: they do not fit.
  std::int64_t overflowing_experts = 0;  ///< Experts with more than C rows.
  std::int64_t idle_rows = 0;            ///< E * C minus the rows that fit.
  double rho_pad = 0;                    ///< Eq. 14, 1 - U / (E * C), overflow rows included in U.
  /// idle_rows / (executed_rows + overflow_rows): what an execution that runs the overflow apart
  /// multiplies for nothing.
  double idle_fraction = 0;
};
/// C from the mean of `counts`.
/// @throws Error{invalid_argument} for bad counts or rule, or when E * C exceeds int64.
CapacityLedger capacity_ledger(Counts counts, const Capacity& rule);
/// C given: every rank of a layer reserves what the mean of the whole layer says.
/// @throws Error{invalid_argument} also when capacity < 0.
CapacityLedger capacity_ledger(Counts counts, const Capacity& rule, std::int64_t capacity);

/// Alignment padding: each expert's rows rounded up because a format or a transfer asks for it.
struct AlignmentLedger {
  std::string name;  ///< "fp8", "mxfp8", "deepgemm", or the number that was asked for.
  std::int64_t alignment = 1;
  std::int64_t aligned_rows = 0;
  std::int64_t padding_rows = 0;
  double padding_fraction = 0;  ///< padding / aligned; 0 when U = 0.
};
/// `name`: none (1), fp8 (16), mxfp8 (32), deepgemm (128) or a positive number.
/// @throws Error{invalid_argument} for an unknown name, listing the known ones.
AlignmentLedger alignment_ledger(Counts counts, std::string_view name);

/// Useful against executed FLOP/s of one product: 2 * rows * n * k / seconds, for either row count.
struct Throughput {
  double effective_flops_per_second = 0;  ///< Rows that carry a route.
  double physical_flops_per_second = 0;   ///< Rows that were multiplied.
};
/// @throws Error{invalid_argument} unless 0 <= useful <= executed, n, k >= 1 and seconds > 0.
Throughput throughput(std::int64_t useful_rows, std::int64_t executed_rows, std::int64_t n,
                      std::int64_t k, double seconds);

// ---- Devices and shapes.

/// A number and where it comes from.
struct Constant {
  double value = 0;
  std::string source;
};
struct DeviceModel {
  std::string name, description;
  Constant bf16_flops_per_second;  ///< Dense, no sparsity.
  Constant dram_bytes_per_second;
  Constant l2_bytes_per_second;    ///< L2 to SMs; serves the rereads of a weight.
  Constant link_bytes_per_second;  ///< To other GPUs, one direction.
  Constant num_sms;
  Constant l2_bytes;
};
/// All presets: h200, h200-measured, h200-sustained, h100, h100-pcie, b200, gb200, b300, gb300,
/// a100.
std::span<const DeviceModel> device_presets();
/// @throws Error{invalid_argument} for an unknown name, listing the known ones.
const DeviceModel& device_preset(std::string_view name);

/// A row of the report's Table 42. Sizes that Eq. 88 derives are functions.
struct TrainingShape {
  std::string_view name;
  std::int64_t microbatch = 0;       ///< B_mu, sequences.
  std::int64_t sequence_length = 0;  ///< L, tokens.
  std::int64_t top_k = 0;            ///< K.
  std::int64_t expert_ranks = 0;     ///< M_E, ranks that share the experts.
  std::int64_t experts = 0;          ///< N, in the whole layer.
  std::int64_t d = 0, h = 0;         ///< Model width; hidden width of an expert.
  [[nodiscard]] constexpr std::int64_t local_experts() const { return experts / expert_ranks; }
  /// M_rank = B_mu * L * K: M_E does not divide it.
  [[nodiscard]] constexpr std::int64_t rank_rows() const {
    return microbatch * sequence_length * top_k;
  }
  [[nodiscard]] constexpr std::int64_t mean_rows() const { return rank_rows() / local_experts(); }
};
std::span<const TrainingShape> training_shapes();

/// Widths of an expert layer: model width d, hidden width h of one expert.
struct LayerShape {
  std::int64_t d = 0, h = 0;
  const TrainingShape* training = nullptr;  ///< The Table 42 row it was named by, if any; static.
};
/// Reads "small-2" (a Table 42 name) or "d=2048,h=2560"; widths are positive multiples of 8.
/// @throws Error{invalid_argument} naming --shape, the key or value, and what was expected.
LayerShape parse_shape(std::string_view text);

enum class Projection : std::uint8_t {
  up_gate,  ///< [M, d] x [d, 2h]
  down,     ///< [M, h] x [h, d]
  square,   ///< [M, d] x [d, d]
};
/// "up_gate", "down" or "square": what parse_projection reads back.
std::string_view name(Projection projection) noexcept;
/// Reads "up_gate", "down" or "square". @throws Error{invalid_argument} naming --proj.
Projection parse_projection(std::string_view text);

/// One expert's product Y[M, n] = X[M, k] W; 2-byte elements (BF16).
struct ProductShape {
  std::int64_t n = 0, k = 0;
};
ProductShape product_shape(const LayerShape& shape, Projection projection);

// ---- Four-term cost.

/// What stands around the rows. `ep` ranks share the experts; rows travel there and back `d` wide.
struct CostInput {
  ProductShape product;
  std::int64_t d = 0;
  std::int64_t ep = 1;
};
/// The four terms of one product at row tile q, each apart; formulas in definition("mma_s") and so
/// on.
struct CostTerms {
  std::int64_t tile = 0;
  double mma_s = 0;            ///< 2 P n k / FLOP rate, absent rows of a tile included.
  double weight_s = 0;         ///< max(weight_once_s, reread bytes / L2 rate): rereads hit L2.
  double launch_s = 0;         ///< Launches and tiles times stated constants.
  double communication_s = 0;  ///< Dispatch and combine of the remote rows over the link.
  // The bounds between which weight_s lies, and what the terms are made of.
  double operands_s = 0;       ///< Eq. 89's traffic: rows, weights and results once over DRAM.
  double weight_once_s = 0;    ///< Floor: each active expert's weight once from DRAM.
  double weight_reread_s = 0;  ///< Ceiling: each row tile rereads it from DRAM, no L2 reuse.
  double padded_flops = 0, weight_once_bytes = 0, weight_reread_bytes = 0, remote_bytes = 0;
  double operand_bytes = 0;  ///< U k read, U n written, and weight_once_bytes.
  std::int64_t launches = 0, tiles = 0;
  /// max(mma_s, weight_s, operands_s) + launch_s: multiplication and traffic overlap, a launch does
  /// not. Never below the layer's roofline bound.
  [[nodiscard]] double kernel_s() const {
    const double traffic_s = weight_s > operands_s ? weight_s : operands_s;
    return (mma_s > traffic_s ? mma_s : traffic_s) + launch_s;
  }
};
/// @throws Error{invalid_argument} for bad counts, tile, shape or ep.
CostTerms cost_terms(Counts counts, std::int64_t tile, const CostInput& input,
                     const DeviceModel& device);

/// The tile whose kernel_s is least (within 1 %: the one with least padding), and why in words.
struct TileSuggestion {
  std::int64_t tile = 0;
  std::string reason;
};
/// @throws Error{invalid_argument} when `costs` is empty.
TileSuggestion suggest_tile(std::span<const CostTerms> costs);

// ---- Roofline: Eqs. 89 to 94 and Table 43.

/// Eq. 90, FLOP/byte of [rows, k] x [k, n]: operands read once, result written once, BF16.
double projection_intensity(double rows, const ProductShape& product);
/// Eq. 91, FLOP/byte at which compute and DRAM take equally long.
double balance_point(const DeviceModel& device);
/// Rows at which Eq. 90 reaches Eq. 91; 0 when the widths are too small for it ever to.
double balance_rows(const ProductShape& product, const DeviceModel& device);

/// Eq. 89 for a layer's real counts: no kernel can be faster under one-read DRAM accounting.
struct LayerRoofline {
  double flops = 0, bytes = 0, intensity = 0;
  double bound_s = 0;             ///< max(F / C, Q / B) of the whole layer: experts overlap freely.
  double per_expert_bound_s = 0;  ///< Sum over active experts of max(F_e / C, Q_e / B): one by one.
  double peak_fraction = 0;       ///< F / bound_s / C.
  double balance_rows = 0;
  std::int64_t experts_below_balance = 0;  ///< Active experts bound by DRAM.
  bool dram_bound = false;                 ///< Q / B > F / C.
};
LayerRoofline layer_roofline(Counts counts, const ProductShape& product, const DeviceModel& device);

/// The feed-forward pair of Fig. 2: dense of width K h against N experts of width h, K per token.
struct FfnPair {
  double experts = 64, top_k = 4, d = 4096, h = 4096;
};
/// Table 43, bytes of the two forward products of one layout.
struct FfnTraffic {
  double weight_bytes = 0, input_bytes = 0, output_bytes = 0, hidden_bytes = 0;
};
FfnTraffic dense_traffic(double tokens, const FfnPair& pair);
FfnTraffic moe_traffic(double tokens, const FfnPair& pair);

/// One point of Fig. 2: both layouts at the same number of tokens.
struct RooflinePoint {
  double tokens = 0;
  double flops = 0;                             ///< Eq. 92, F_pair, the same for both.
  double dense_seconds = 0, moe_seconds = 0;    ///< Eq. 94, t-hat.
  double dense_fraction = 0, moe_fraction = 0;  ///< R-hat / C: the curve of Fig. 2.
};
/// @throws Error{invalid_argument} when tokens, a width or the expert counts are not positive.
std::vector<RooflinePoint> fig2_curve(const DeviceModel& device, std::span<const double> tokens,
                                      const FfnPair& pair = {});

// ---- Expert parallelism: a contiguous share of the experts per rank.

/// Experts [begin, end) of one rank.
struct ExpertRange {
  std::int64_t begin = 0, end = 0;
};
/// @throws Error{invalid_argument} naming --ep or --rank; for E not divisible by ep it lists the
/// degrees that work.
ExpertRange rank_experts(std::int64_t experts, std::int64_t ep, std::int64_t rank);

/// The load of one rank's share, by itself.
struct RankLoad {
  std::int64_t rank = 0;
  LoadMetrics load;  ///< Within the rank: effective experts among its own.
  std::vector<TileLedger> tiles;
};
/// Padded rows over the ranks at one tile: the maximum beside the sum.
struct RankTileTail {
  std::int64_t tile = 0;
  std::int64_t max_padded_rows = 0, max_rank = 0;  ///< The slowest rank sets the layer's time.
  std::int64_t sum_padded_rows = 0;
};
/// How a layer's rows spread over ranks.
struct RankReport {
  std::vector<RankLoad> ranks;
  std::vector<RankTileTail> tails;  ///< One per tile, max beside sum.
  std::int64_t max_rows = 0, max_rank = 0, sum_rows = 0;
  double mean_rows = 0;
  double max_over_mean = 0;           ///< Of rank rows; 0 without rows.
  double balancedness = 0;            ///< mean / max of rank rows; 0 without rows.
  std::vector<std::string> warnings;  ///< Ranks with no rows at all, in words.
};
/// @throws Error{invalid_argument} for bad counts or tiles, or when ep does not divide E.
RankReport rank_report(Counts counts, std::int64_t ep, std::span<const std::int64_t> tiles);

/// Mean over layers of mean/max over ranks, for rows laid out [layers, ranks]; layers without rows
/// are left out; 0 when all are. @throws Error{invalid_argument} when the size is not a multiple.
double mean_balancedness(std::span<const std::int64_t> layer_rank_rows, std::int64_t ranks);

// ---- The plan of a layer, and verdicts.

/// What plan_layer is to work out, and with which constants.
struct PlanOptions {
  std::vector<std::int64_t> tiles = {8, 16, 32, 64, 128};
  Capacity capacity{};
  std::vector<std::string> alignments = {"fp8", "mxfp8", "deepgemm"};
  std::optional<CostInput> cost;  ///< Without it: no cost, no roofline, no suggestion.
  std::string device = "h200";    ///< A preset's name.
  /// The layer of which the counts are one rank's share: C follows from its mean, and the share is
  /// dense only when it is. Without it the counts are the layer.
  struct WholeLayer {
    std::int64_t rows = 0, experts = 0;
  };
  std::optional<WholeLayer> whole;
};
/// All numbers of one layer; `costs`, `suggested` and `roofline` are empty without a CostInput.
struct LayerPlan {
  LoadMetrics load;
  std::vector<TileLedger> tiles;
  CapacityLedger capacity;
  std::vector<AlignmentLedger> alignments;
  std::vector<std::int64_t> offsets;     ///< End rows, offs[e] = M_0 + ... + M_e.
  std::vector<CostTerms> costs;          ///< One per tile.
  std::optional<std::size_t> suggested;  ///< Index into tiles and costs.
  std::string suggestion_reason;
  std::string device;  ///< Name of the device of the costs; empty without cost.
  std::optional<LayerRoofline> roofline;
  /// A padded batch of `capacity` under the same terms, its overflow rows run apart; 0 without
  /// cost.
  double padded_batch_s = 0;
  std::int64_t layer_rows = 0;  ///< Rows of the whole layer; U unless the counts are a share.
  /// No expert of the whole layer has a row: a dense layer of the model, or nothing recorded.
  [[nodiscard]] bool dense() const { return layer_rows == 0; }
  /// No expert here has a row: dense(), or a rank that the layer leaves idle.
  [[nodiscard]] bool idle() const { return load.useful_rows == 0; }
  /// The ledger to judge by: the suggested tile's, else the largest tile's.
  [[nodiscard]] const TileLedger& reference_tile() const;
};
/// @throws Error{invalid_argument} for bad counts, tiles (none, < 1, repeated), rule or device
/// name.
LayerPlan plan_layer(Counts counts, const PlanOptions& options = {});
/// The same on a device of the caller's own; options.device is not looked at.
LayerPlan plan_layer(Counts counts, const PlanOptions& options, const DeviceModel& device);

enum class Recommendation : std::uint8_t {
  recommend_trial,        ///< Exact-row execution should save enough to be worth measuring.
  not_recommended_now,    ///< The estimate says that there is little to gain.
  insufficient_evidence,  ///< The input cannot carry an answer; the findings say why.
};
/// The enumerator's own word.
std::string_view name(Recommendation recommendation) noexcept;

/// One reason: a code for programs, a sentence for people.
struct Finding {
  std::string code;      ///< padding_small, padding_large, weight_bound, rank_tail, ...
  std::string sentence;  ///< One sentence with its numbers; the same bytes for the same input.
};
/// What is recommended over what: exact rows (grouped) over a batch padded to C (padded_bmm).
/// The reason of the recommendation and what it rests on follow as findings.
struct Verdict {
  Recommendation recommendation = Recommendation::insufficient_evidence;
  std::vector<Finding> findings;  ///< The reason of the recommendation first.
};
/// What the counts alone do not say.
struct Evidence {
  std::string label = "this layer";   ///< How sentences name it: "layer 12, rank 3".
  bool summed = false;                ///< Counts are summed over steps: an average, not a step.
  const RankReport* ranks = nullptr;  ///< Adds the rank tail when given.
  /// Neighbours of one group are ranks of one layer: they run at the same time, so the slowest
  /// counts and nothing is added. -1: a layer by itself.
  std::int64_t group = -1;
};
/// Judges one layer in words. A layer without rows, summed over steps, or planned without a cost
/// gets insufficient_evidence; without a cost the padding at each tile is stated instead.
Verdict judge_layer(const LayerPlan& plan, const Evidence& evidence = {});

/// Layers in the order to show them, worst first: padding at the reference tile, then i_max, then
/// input order; those without rows last.
std::vector<std::size_t> worst_first(std::span<const LayerPlan> plans);

/// One verdict on a set of layers; `evidence` is empty or as long as `plans`.
Verdict judge_layers(std::span<const LayerPlan> plans, std::span<const Evidence> evidence = {});

/// One line that defines a number by the name it is printed under, other tools' names included;
/// empty for an unknown name.
std::string_view definition(std::string_view name) noexcept;
/// Every name that `definition` knows, in the order of the tables.
std::span<const std::string_view> defined_names() noexcept;

}  // namespace moesaic::planner
