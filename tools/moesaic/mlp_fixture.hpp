// SPDX-License-Identifier: Apache-2.0
// Operands of one SwiGLU layer in hostile surroundings: NaN in tail rows and their weights, in rows
// of x that nobody is, in gaps and guards; in the tail indices that are wild; outputs that hold
// poison. And whether calls left what they must.
#pragma once

#include <cstdint>
#include <vector>

#include "mlp_tensors.hpp"
#include "moesaic/check.hpp"

namespace moesaic::cli {

/// Which row of x each row of a layer is. In all but the first every other row of x is nobody's.
enum class XOrder : std::uint8_t {
  in_order,  ///< There is no x_rows.
  reversed,  ///< Each row once, the last one first.
  repeated,  ///< Few rows, each again and again, in no order.
  outside,   ///< The same, but every third index is outside of x.
};

/// x [T, d] of a layer with `routed` rows: T.
std::int64_t num_x_rows(XOrder order, std::int64_t routed);

/// x_rows of a layer of `rows` rows of which the first `routed` are somebody's. Those behind name,
/// in turn, the last row of x, which is nobody's, and no row at all.
std::vector<std::int32_t> make_x_rows(XOrder order, std::int64_t rows, std::int64_t routed,
                                      std::uint64_t seed);

class MlpFixture {
 public:
  /// `order` is in_order for a problem without x_rows alone. Every fifth row weight is zero, half
  /// of the others are negative.
  MlpFixture(const ExpertMlpProblem& problem, std::vector<std::int32_t> offs, XOrder order,
             std::uint64_t seed);

  [[nodiscard]] MlpTensors& tensors() { return tensors_; }
  /// Outputs as they were before any call.
  void reset();
  /// Forward and backward at the site, results back.
  void run(const ExpertMlp& mlp, Workspace workspace, const Site& site);
  /// Every element of every result within its bound, and all else as before.
  [[nodiscard]] CheckResult check() const;
  /// All of every output as before.
  [[nodiscard]] CheckResult check_untouched() const;
  /// Backward again with dx in the memory of x: the bits that run() left in dx. For a problem
  /// without x_rows, since with them the two may not share memory.
  [[nodiscard]] CheckResult check_alias(const ExpertMlp& mlp, Workspace workspace,
                                        const Site& site);

 private:
  struct Output {
    const char* name;
    const HostTensor& tensor;
  };
  [[nodiscard]] std::vector<Output> outputs() const;
  [[nodiscard]] std::int64_t routed() const { return tensors_.offs.back(); }
  void fill();

  ExpertMlpProblem problem_;
  std::uint64_t seed_;
  MlpTensors tensors_;
};

}  // namespace moesaic::cli
