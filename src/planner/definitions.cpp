// SPDX-License-Identifier: Apache-2.0
// One line per printed name, so that a number is never shown without its meaning. Users come with
// other tools' words; those are here too.
#include <array>

#include "moesaic/planner.hpp"

namespace moesaic::planner {
namespace {

struct Definition {
  std::string_view name, text;
};

constexpr std::array kDefinitions = {
    Definition{"experts", "E, experts on this rank, empty ones included"},
    Definition{"useful_rows", "U = sum of M_e, routed rows"},
    Definition{"active_experts", "experts with at least one row"},
    Definition{"max_rows", "rows of the most loaded expert"},
    Definition{"mean_rows", "U / E, empty experts included"},
    Definition{"effective_experts",
               "U^2 / sum of M_e^2 (DA-MoE; inverse Simpson index): E when even, 1 when one expert "
               "has all rows"},
    Definition{"i_h",
               "1 + sum(p ln p) / ln E with p = M_e / U (normalized entropy deficit): 0 even, 1 "
               "on one expert; 0 for E = 1 or U = 0"},
    Definition{"i_max", "max / mean rows per expert"},
    Definition{"balancedness",
               "mean / max (vLLM's name; SGLang: utilization rate): over ranks within a layer, "
               "then averaged over layers, never the other way round"},
    Definition{"imbalance", "(max - mean) / mean (TensorRT-LLM: imbalance ratio)"},
    Definition{"cv", "standard deviation / mean of the rows per expert, population form"},
    Definition{"entropy_bits", "-sum(p log2 p)"},
    Definition{"tile", "q, rows of one tile of a kernel"},
    Definition{"row_tiles", "sum of ceil(M_e / q)"},
    Definition{"padded_rows", "P = q * row_tiles, rows that tiles of q rows execute"},
    Definition{"padding_rows", "P - U, tail padding inside tiles"},
    Definition{"padding_fraction", "(P - U) / P, tail padding's share of the executed rows"},
    Definition{"capacity",
               "C, rows reserved per expert of a padded batch; of the whole layer's mean, also on "
               "a rank"},
    Definition{"rho_pad",
               "1 - U / (E * C), capacity padding (Eq. 14); rows beyond C are counted apart"},
    Definition{"idle_fraction",
               "idle_rows / (E * C + overflow_rows): the share that a padded batch which runs its "
               "overflow multiplies for nothing; `run` prints it as padding"},
    Definition{"overflow_rows", "sum of max(0, M_e - C), rows that do not fit the capacity"},
    Definition{"idle_rows", "E * C less the rows that fit, executed for nothing"},
    Definition{"alignment",
               "rows each expert is rounded to by a format or transfer: 16 fp8, 32 mxfp8, 128 "
               "DeepGEMM"},
    Definition{"aligned_rows", "sum of M_e rounded up to the alignment"},
    Definition{"effective_flops_per_second", "2 U n k / seconds: rows that carry a route"},
    Definition{"physical_flops_per_second", "2 P n k / seconds: rows that were multiplied"},
    Definition{"mma_s", "2 P n k / BF16 rate: matrix work, absent rows of a tile included"},
    Definition{"weight_s",
               "max(weight_once_s, sum of ceil(M_e / q) * 2 n k bytes / L2 rate): first read from "
               "DRAM, rereads by further row tiles from L2"},
    Definition{"weight_once_s", "active experts * 2 n k bytes / DRAM rate: the floor"},
    Definition{"weight_reread_s",
               "sum of ceil(M_e / q) * 2 n k bytes / DRAM rate: the ceiling, without L2 reuse"},
    Definition{"launch_s",
               "4 us per launch + 0.118 us per round of output tiles (q x 256) over the SMs: "
               "modelled constants"},
    Definition{"communication_s",
               "U * d * 2 bytes * (1 - 1 / R) * 2 directions / link rate, R ranks evenly fed"},
    Definition{
        "operands_s",
        "(active experts * n k + U (n + k)) * 2 bytes / DRAM rate: weights, rows and results "
        "once, the traffic of Eq. 89"},
    Definition{"kernel_s",
               "max(mma_s, weight_s, operands_s) + launch_s: never below the roofline's bound_s"},
    Definition{"padded_batch_s",
               "max(2 (E C + overflow_rows) n k / BF16 rate, all operands once / DRAM rate) + one "
               "launch: the padded batch and after it the rows that do not fit"},
    Definition{"intensity", "FLOPs / DRAM bytes with every operand moved once (Eq. 90)"},
    Definition{"balance_point", "BF16 rate / DRAM rate in FLOP per byte (Eq. 91)"},
    Definition{"balance_rows", "rows per expert at which Eq. 90 reaches the balance point"},
    Definition{"bound_s", "max(F / C, Q / B) of the layer (Eq. 89): no kernel is faster"},
    Definition{"per_expert_bound_s",
               "sum over active experts of max(F_e / C, Q_e / B): experts one after the other"},
    Definition{"peak_fraction", "F / bound_s / BF16 rate, the roofline's share of peak"},
    Definition{"max_over_mean", "rows of the most loaded rank / mean rows of the ranks"},
    Definition{"max_padded_rows", "largest P of a rank: the layer waits for it"},
    Definition{"sum_padded_rows", "P summed over ranks"},
    Definition{"invalid_slots", "top-k slots with an id below 0: padding, in no count"},
    Definition{"aggregation",
               "per_step: rows of one step; summed: rows added over steps, an average"},
    Definition{"dense", "no expert of the whole layer has a row; an idle rank is not dense"},
    Definition{"label", "the source's note, \"rescaled ...\", what a SPEC made, a rank's experts"}};

constexpr auto kNames = [] {
  std::array<std::string_view, kDefinitions.size()> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kDefinitions[i].name;
  return names;
}();

}  // namespace

std::string_view definition(std::string_view name) noexcept {
  for (const Definition& entry : kDefinitions) {
    if (entry.name == name) return entry.text;
  }
  return {};
}

std::span<const std::string_view> defined_names() noexcept { return kNames; }

}  // namespace moesaic::planner
