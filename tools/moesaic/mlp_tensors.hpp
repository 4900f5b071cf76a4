// SPDX-License-Identifier: Apache-2.0
// The tensors of one SwiGLU layer, on the host and where it runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "host_tensor.hpp"
#include "moesaic/expert_mlp.hpp"
#include "staging.hpp"

namespace moesaic::cli {

/// A workspace that forward and backward share.
std::size_t workspace_bytes(const ExpertMlp& mlp);

struct MlpTensors {
  HostTensor x, dy, w_up_gate, w_down;
  HostTensor row_weights;  ///< f32 [M, 1], or empty: rows have none.
  HostTensor y, u, dx, dw_up_gate, dw_down;
  HostTensor drow_weights;  ///< f32 [M, 1] beside row_weights.
  std::vector<std::int32_t> offs;
  std::vector<std::int32_t> x_rows;  ///< [M], or empty: x is in order.

  /// The host's own memory.
  [[nodiscard]] ExpertMlpForwardArgs forward_args() const { return forward_of(host_views()); }
  [[nodiscard]] ExpertMlpBackwardArgs backward_args() const { return backward_of(host_views()); }

  /// All of it copied to the site, outputs with what they hold.
  void stage(const Site& site);
  [[nodiscard]] ExpertMlpForwardArgs staged_forward() const { return forward_of(staged_); }
  [[nodiscard]] ExpertMlpBackwardArgs staged_backward() const { return backward_of(staged_); }
  /// x as a place to write to: dx may be its memory.
  [[nodiscard]] TensorView staged_x() const { return staged_.tensors[0]; }
  /// Every output back, once all work there is done; x alone for a dx that was written over it.
  void fetch(const Site& site);
  void fetch_x(const Site& site);

 private:
  static constexpr std::size_t kTensors = 11;
  static constexpr std::size_t kFirstOutput = 5;
  struct Views {
    std::array<TensorView, kTensors> tensors;
    ConstTensorView offs, x_rows;
  };

  /// In the order of the declaration above.
  [[nodiscard]] std::array<const HostTensor*, kTensors> all() const {
    return {&x, &dy, &w_up_gate,  &w_down,  &row_weights, &y,
            &u, &dx, &dw_up_gate, &dw_down, &drow_weights};
  }
  [[nodiscard]] Views host_views() const;
  static ExpertMlpForwardArgs forward_of(const Views& views);
  static ExpertMlpBackwardArgs backward_of(const Views& views);

  std::array<Mirror, kTensors> there_;
  OffsetsMirror offs_there_, x_rows_there_;
  Views staged_;
};

}  // namespace moesaic::cli
