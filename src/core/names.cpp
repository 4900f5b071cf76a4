// SPDX-License-Identifier: Apache-2.0
// The words that enums have in messages, results and on the command line.

#include "moesaic/expert_mlp.hpp"
#include "moesaic/grouped_gemm.hpp"

namespace moesaic {

std::string to_string(Device device) {
  return device.kind == DeviceKind::cpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

std::string_view name(Pass pass) noexcept {
  switch (pass) {
    case Pass::forward:
      return "forward";
    case Pass::dgrad:
      return "dgrad";
    case Pass::wgrad:
      return "wgrad";
  }
  return "unknown";
}

std::string_view name(Format format) noexcept {
  switch (format) {
    case Format::bf16:
      return "bf16";
    case Format::f32:
      return "f32";
    case Format::mxfp8:
      return "mxfp8";
  }
  return "unknown";
}

std::string_view name(WeightStorage storage) noexcept {
  return storage == WeightStorage::enk ? "enk" : "ekn";
}

std::string_view name(Tail tail) noexcept { return tail == Tail::leave ? "leave" : "zero"; }

std::string_view name(Strategy strategy) noexcept {
  switch (strategy) {
    case Strategy::grouped:
      return "grouped";
    case Strategy::padded_bmm:
      return "padded_bmm";
    case Strategy::host_loop:
      return "host_loop";
  }
  return "unknown";
}

std::string_view name(CapacityRule rule) noexcept {
  return rule == CapacityRule::ceil_mean ? "ceil_mean" : "eight_row";
}

std::string_view name(UpGateOrder order) noexcept {
  switch (order) {
    case UpGateOrder::up_gate:
      return "up_gate";
    case UpGateOrder::gate_up:
      return "gate_up";
    case UpGateOrder::interleaved:
      return "interleaved";
  }
  return "unknown";
}

std::string_view name(Activations mode) noexcept {
  return mode == Activations::save ? "save" : "recompute";
}

}  // namespace moesaic
