// SPDX-License-Identifier: Apache-2.0
// The public order enum in the words of math/activation.hpp.
#pragma once

#include "math/activation.hpp"
#include "moesaic/expert_mlp.hpp"

namespace moesaic::core {

constexpr math::UpGateLayout up_gate_layout(UpGateOrder order) {
  switch (order) {
    case UpGateOrder::gate_up:
      return math::UpGateLayout::gate_up;
    case UpGateOrder::interleaved:
      return math::UpGateLayout::interleaved;
    case UpGateOrder::up_gate:
      break;
  }
  return math::UpGateLayout::up_gate;
}

}  // namespace moesaic::core
