// SPDX-License-Identifier: Apache-2.0
// Arms of the SwiGLU expert MLP on the CPU, forward and backward, over shared operands.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/comparison.hpp"
#include "harness/host_tensor.hpp"
#include "moesaic/expert_mlp.hpp"

namespace moesaic::bench {

struct MlpArm {
  std::string name;
  Strategy strategy = Strategy::grouped;
  bool packed = false;  ///< Forward only: both weights are explicitly packed copies.
  std::string ratio_to;
};

/// Operands of a BF16 MLP for a routing, seeded. Activations are saved: backward multiplies what
/// its gradients need and nothing again. Held by the arms that it makes.
class MlpOperands : public std::enable_shared_from_this<MlpOperands> {
 public:
  static std::shared_ptr<MlpOperands> make(std::int64_t d, std::int64_t h, const Routing& routing);

  Arm forward(const MlpArm& what);
  Arm backward(const MlpArm& what);

 private:
  MlpOperands(std::int64_t d, std::int64_t h, const Routing& routing);

  [[nodiscard]] ExpertMlp plan(Strategy strategy) const;
  [[nodiscard]] ExpertMlpForwardArgs forward_args() const;
  [[nodiscard]] ExpertMlpBackwardArgs backward_args() const;
  /// Memory that only backward needs, with U from a forward.
  void prepare_backward();
  [[nodiscard]] Arm describe(const MlpArm& what, const ExpertMlp& mlp, bool forward) const;

  std::int64_t d_, h_, experts_, rows_;
  std::vector<std::int32_t> offs_;
  HostTensor x_, w_up_gate_, w_down_, y_, u_;
  HostTensor dy_, dx_, dw_up_gate_, dw_down_;
};

}  // namespace moesaic::bench
