// SPDX-License-Identifier: Apache-2.0
// SwiGLU on words of two BF16 columns. What is fused and what is not go through these, so that they
// make the same bits.
#pragma once

#include <cstdint>

#include "backends/cuda/block/activation_layout.hpp"
#include "backends/cuda/ptx/arithmetic.cuh"
#include "backends/cuda/ptx/bf16.cuh"
#include "math/activation.hpp"
#include "math/short_exp.hpp"

namespace moesaic::backends::cuda {

/// For BF16 gates: see math::sigmoid.
struct GateExp {
  MOESAIC_HD float operator()(float x) const { return math::short_exp(x, ptx::Exp2{}); }
  MOESAIC_HD float reciprocal(float x) const { return ptx::reciprocal(x); }
};

/// Two columns of H from two of either part of U.
__device__ __forceinline__ std::uint32_t swiglu_pair(std::uint32_t first, std::uint32_t second,
                                                     bool gate_first) {
  const std::uint32_t up = gate_first ? second : first;
  const std::uint32_t gate = gate_first ? first : second;
  return ptx::pack_bf16(math::swiglu(ptx::low_bf16(up), ptx::low_bf16(gate), GateExp{}),
                        math::swiglu(ptx::high_bf16(up), ptx::high_bf16(gate), GateExp{}));
}

/// Two columns of the gradients of up and gate, and of H again.
struct DswigluWords {
  std::uint32_t dup, dgate, h;
};
__device__ __forceinline__ DswigluWords dswiglu_words(std::uint32_t up, std::uint32_t gate,
                                                      std::uint32_t dh) {
  const auto low =
      math::dswiglu(ptx::low_bf16(up), ptx::low_bf16(gate), ptx::low_bf16(dh), GateExp{});
  const auto high =
      math::dswiglu(ptx::high_bf16(up), ptx::high_bf16(gate), ptx::high_bf16(dh), GateExp{});
  return {ptx::pack_bf16(low.dup, high.dup), ptx::pack_bf16(low.dgate, high.dgate),
          swiglu_pair(up, gate, false)};
}

/// Two columns of either part of dU, and of H again.
struct DswigluPair {
  std::uint32_t first, second, h;
};
__device__ __forceinline__ DswigluPair dswiglu_pair(std::uint32_t first, std::uint32_t second,
                                                    std::uint32_t dh, bool gate_first) {
  const DswigluWords words =
      dswiglu_words(gate_first ? second : first, gate_first ? first : second, dh);
  return {gate_first ? words.dgate : words.dup, gate_first ? words.dup : words.dgate, words.h};
}

/// Two columns of H from two of either part of U, times the weight of their row.
__device__ __forceinline__ std::uint32_t weighted_swiglu_pair(std::uint32_t first,
                                                              std::uint32_t second, float weight,
                                                              bool gate_first) {
  const std::uint32_t up = gate_first ? second : first;
  const std::uint32_t gate = gate_first ? first : second;
  return ptx::pack_bf16(weight * math::swiglu(ptx::low_bf16(up), ptx::low_bf16(gate), GateExp{}),
                        weight * math::swiglu(ptx::high_bf16(up), ptx::high_bf16(gate), GateExp{}));
}

/// dswiglu_pair for a row with a weight: dH and H are multiplied by it; `dot` gains dH * H without.
__device__ __forceinline__ DswigluPair weighted_dswiglu_pair(std::uint32_t first,
                                                             std::uint32_t second, std::uint32_t dh,
                                                             float weight, bool gate_first,
                                                             float& dot) {
  const std::uint32_t up = gate_first ? second : first;
  const std::uint32_t gate = gate_first ? first : second;
  const float low_h = math::swiglu(ptx::low_bf16(up), ptx::low_bf16(gate), GateExp{});
  const float high_h = math::swiglu(ptx::high_bf16(up), ptx::high_bf16(gate), GateExp{});
  dot += ptx::low_bf16(dh) * low_h;
  dot += ptx::high_bf16(dh) * high_h;
  const auto low =
      math::dswiglu(ptx::low_bf16(up), ptx::low_bf16(gate), weight * ptx::low_bf16(dh), GateExp{});
  const auto high = math::dswiglu(ptx::high_bf16(up), ptx::high_bf16(gate),
                                  weight * ptx::high_bf16(dh), GateExp{});
  const std::uint32_t dup = ptx::pack_bf16(low.dup, high.dup);
  const std::uint32_t dgate = ptx::pack_bf16(low.dgate, high.dgate);
  return {gate_first ? dgate : dup, gate_first ? dup : dgate,
          ptx::pack_bf16(weight * low_h, weight * high_h)};
}

/// (first 0, second 0), (first 1, second 1) of (first 0, first 1), (second 0, second 1).
__device__ __forceinline__ void interleave(std::uint32_t first, std::uint32_t second,
                                           std::uint32_t& low, std::uint32_t& high) {
  const std::uint32_t mixed = __byte_perm(first, second, 0x5410);  // results may be the arguments
  high = __byte_perm(first, second, 0x7632);
  low = mixed;
}
/// Its inverse is itself.
__device__ __forceinline__ void separate(std::uint32_t low, std::uint32_t high,
                                         std::uint32_t& first, std::uint32_t& second) {
  interleave(low, high, first, second);
}

}  // namespace moesaic::backends::cuda
