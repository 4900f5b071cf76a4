// SPDX-License-Identifier: Apache-2.0
// The words that devices and enums have in messages, results and on the command line.

#include "core/enum_words.hpp"

namespace moesaic {

std::string to_string(Device device) {
  return device.kind == DeviceKind::cpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

std::string_view name(Pass pass) noexcept { return core::word(pass); }
std::string_view name(Format format) noexcept { return core::word(format); }
std::string_view name(WeightStorage storage) noexcept { return core::word(storage); }
std::string_view name(Tail tail) noexcept { return core::word(tail); }
std::string_view name(Strategy strategy) noexcept { return core::word(strategy); }
std::string_view name(CapacityRule rule) noexcept { return core::word(rule); }
std::string_view name(UpGateOrder order) noexcept { return core::word(order); }
std::string_view name(Activations mode) noexcept { return core::word(mode); }
std::string_view name(XRows rows) noexcept { return core::word(rows); }
std::string_view name(DispatchForm form) noexcept { return core::word(form); }

}  // namespace moesaic
