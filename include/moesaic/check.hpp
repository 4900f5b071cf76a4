// SPDX-License-Identifier: Apache-2.0
// Checks results element by element against sums in double precision, on sampled rows of every
// expert.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "moesaic/expert_mlp.hpp"
#include "moesaic/grouped_gemm.hpp"

namespace moesaic {

/// How much to look at. The sampled rows always include an expert's first and last.
struct CheckOptions {
  std::int64_t rows_per_expert = 4;  ///< forward, dgrad, MLP: rows per non-empty expert; -1 = all.
  std::int64_t elements_per_expert = 64;  ///< wgrad: elements of each dw[e]; -1 = all.
  std::uint64_t seed = 1;
};

/// The first element that missed its bound.
struct Mismatch {
  std::string tensor;       ///< "y", "dx", "dw", …
  std::int64_t expert = 0;  ///< -1: a tail row.
  std::int64_t row = 0;     ///< Row of the buffer (of dw[e] for weight gradients).
  std::int64_t column = 0;
  double got = 0, want = 0, bound = 0;
};

/// What a check compared and found.
struct CheckResult {
  std::int64_t elements = 0;  ///< Compared; 0 means that nothing was checked.
  std::int64_t mismatches = 0;
  double worst = 0;  ///< Largest |got - want| / bound; at most 1 when all is well.
  std::optional<Mismatch> first;
  /// Adds the counts of `other`; keeps the larger `worst` and the earlier `first`.
  void merge(const CheckResult& other);
};

/// Checks the host tensors of one execute against the contract: |d - ref| <= 64 * 2^-24 * sum|a||b|
/// + half an ulp of d. NaN where the reference is finite is a mismatch. wgrad with `accumulate`
/// needs `d_before`, the content of d before the execute. Never looks at rows outside valid
/// segments.
/// @throws Error{invalid_argument} for device tensors or shapes that do not fit the problem.
CheckResult check_grouped_gemm(const GroupedGemmProblem& problem, const GroupedGemmArgs& args,
                               const CheckOptions& options = {}, ConstTensorView d_before = {});

/// The rows of d that check_grouped_gemm looks at for these offsets on the host, expert by expert
/// and ascending in each: all of a result that has to be on the host for it. forward and dgrad.
/// @throws Error{invalid_argument} for wgrad and for offsets that are not one per expert.
std::vector<std::int64_t> checked_rows(const GroupedGemmProblem& problem,
                                       std::span<const std::int32_t> offs,
                                       const CheckOptions& options = {});

/// Checks y of the MLP's forward: the bound follows one rounding of U, H and Y through the layer,
/// and the weights of the rows where there are some.
CheckResult check_expert_mlp_forward(const ExpertMlpProblem& problem,
                                     const ExpertMlpForwardArgs& args,
                                     const CheckOptions& options = {});

/// Checks dx, dw_up_gate, dw_down and, where it is given, drow_weights, the same way. Not for
/// `accumulate_wgrad`. `args.x` must still hold x, so dx may not alias it here.
CheckResult check_expert_mlp_backward(const ExpertMlpProblem& problem,
                                      const ExpertMlpBackwardArgs& args,
                                      const CheckOptions& options = {});

}  // namespace moesaic
