// SPDX-License-Identifier: Apache-2.0
// Arms of one grouped product on the CPU, and of the dense product beside it, over shared operands.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "baselines/onednn_dense.hpp"
#include "harness/comparison.hpp"
#include "harness/host_tensor.hpp"
#include "moesaic/grouped_gemm.hpp"

namespace moesaic::bench {

/// Sizes of a grouped product; rows come with the routing, the buffer holds exactly them.
struct ProductCase {
  Pass pass = Pass::forward;
  Format format = Format::bf16;
  std::int64_t n = 0, k = 0;
};

/// How one arm runs it.
struct GroupedArm {
  std::string name;
  Strategy strategy = Strategy::grouped;
  bool packed = false;  ///< The weights are an explicitly packed copy, made before any timing.
  int threads = 0;      ///< 0 = all.
  std::string ratio_to;
};
struct DenseArm {
  std::string name;
  DenseWeights weights = DenseWeights::strided;
  std::string ratio_to;
};

/// Operands of a product for a routing, seeded; every arm reads the same a and b and writes the
/// same d. Held by the arms that it makes.
class GroupedOperands : public std::enable_shared_from_this<GroupedOperands> {
 public:
  static std::shared_ptr<GroupedOperands> make(const ProductCase& product, const Routing& routing);

  /// The library's product. Runs on oneDNN or not at all: the implementation is asked for by name.
  Arm grouped(const GroupedArm& what);
  /// One dense product of as many rows with the first expert's weights: the same FLOPs in one call.
  /// For forward and dgrad.
  Arm dense(const DenseArm& what);

 private:
  GroupedOperands(const ProductCase& product, const Routing& routing);

  [[nodiscard]] GroupedGemmProblem problem() const;
  [[nodiscard]] double flops() const;

  ProductCase product_;
  std::int64_t experts_, rows_;
  std::vector<std::int32_t> offs_;
  HostTensor a_, b_, d_;
};

/// All threads of the CPU that products may use.
int cpu_threads();

/// "bf16", "forward", ... of a problem, with what changes how it runs.
Json problem_json(const GroupedGemmProblem& problem, bool packed, int threads);

}  // namespace moesaic::bench
