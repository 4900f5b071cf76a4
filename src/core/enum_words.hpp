// SPDX-License-Identifier: Apache-2.0
// The words of the public enums in the order of their constants: what name() says, and what a
// refusal of any other value lists.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "moesaic/expert_mlp.hpp"
#include "moesaic/expert_parallel.hpp"
#include "moesaic/grouped_gemm.hpp"

namespace moesaic::core {

/// Specialized below for every enum that has words.
template <class Enum>
inline constexpr std::array<std::string_view, 0> kWords{};

template <>
inline constexpr std::array<std::string_view, 3> kWords<Pass>{"forward", "dgrad", "wgrad"};
template <>
inline constexpr std::array<std::string_view, 3> kWords<Format>{"bf16", "f32", "mxfp8"};
template <>
inline constexpr std::array<std::string_view, 2> kWords<WeightStorage>{"enk", "ekn"};
template <>
inline constexpr std::array<std::string_view, 2> kWords<Tail>{"leave", "zero"};
template <>
inline constexpr std::array<std::string_view, 3> kWords<Strategy>{"grouped", "padded_bmm",
                                                                  "host_loop"};
template <>
inline constexpr std::array<std::string_view, 2> kWords<CapacityRule>{"ceil_mean", "eight_row"};
template <>
inline constexpr std::array<std::string_view, 3> kWords<UpGateOrder>{"up_gate", "gate_up",
                                                                     "interleaved"};
template <>
inline constexpr std::array<std::string_view, 2> kWords<Activations>{"save", "recompute"};
template <>
inline constexpr std::array<std::string_view, 3> kWords<XRows>{"in_order", "indexed", "copied"};
template <>
inline constexpr std::array<std::string_view, 3> kWords<DispatchForm>{"auto", "direct", "fan_out"};

/// Whether `value` is one of the constants, and not another number that the type holds.
template <class Enum>
constexpr bool is_constant(Enum value) {
  return static_cast<std::size_t>(value) < kWords<Enum>.size();
}

template <class Enum>
constexpr std::string_view word(Enum value) {
  return is_constant(value) ? kWords<Enum>[static_cast<std::size_t>(value)] : "unknown";
}

/// "up_gate, gate_up or interleaved"
template <class Enum>
std::string all_words() {
  constexpr auto& kAll = kWords<Enum>;
  std::string text;
  for (std::size_t i = 0; i < kAll.size(); ++i) {
    text.append(i == 0 ? "" : i + 1 == kAll.size() ? " or " : ", ").append(kAll[i]);
  }
  return text;
}

}  // namespace moesaic::core
