// SPDX-License-Identifier: Apache-2.0
// What ExpertMlp::plan() decides: the products inside, what is fused, and the memory that a call
// needs.
#pragma once

#include <cstdint>
#include <memory>

#include "dispatch/backend_list.hpp"
#include "moesaic/expert_mlp.hpp"

namespace moesaic::detail {

/// [shared by the products inside, kept between calls | intermediates, which may lie apart]
struct WorkspaceSizes {
  std::int64_t products = 0, scratch = 0, total = 0;
};

/// Bytes of a dense [M, columns] matrix among the intermediates.
std::int64_t matrix_bytes(const ExpertMlpProblem& mlp, std::int64_t columns, DType dtype);
std::int64_t matrix_bytes(const ExpertMlpProblem& mlp, std::int64_t columns);

class ExpertMlpImpl {
 public:
  ExpertMlpImpl(const ExpertMlpProblem& mlp, const DeviceInfo& device, const PlanOptions& options);

  /// Whether rows of x are copied first. Else x is in order, or what is fused finds them.
  [[nodiscard]] bool copies_x() const {
    return problem.x_rows == XRows::copied ||
           (problem.x_rows == XRows::indexed && fused == nullptr);
  }

  /// Whether dU comes without dH in memory.
  [[nodiscard]] bool fuses_gradient() const { return fused != nullptr && !problem.row_weights; }

  ExpertMlpProblem problem;
  DeviceInfo device_info;
  int threads;
  std::unique_ptr<const backends::FusedExpert> fused;  // or null: products and activation apart
  GroupedGemm up, down, dh, dx, dw_up, dw_down;
  WorkspaceSizes forward_sizes, backward_sizes;

 private:
  [[nodiscard]] GroupedGemmProblem product(Pass pass, std::int64_t n, std::int64_t k,
                                           Tail tail) const;
  [[nodiscard]] GroupedGemmProblem down_product() const;
  /// A name in the options is of what is fused, if that is there.
  [[nodiscard]] GroupedGemm plan(const GroupedGemmProblem& gemm, PlanOptions options) const;
};

}  // namespace moesaic::detail
