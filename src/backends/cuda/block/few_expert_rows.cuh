// SPDX-License-Identifier: Apache-2.0
// The activations at the end of a tile of few rows. Its weights stream, so what is left of the
// memory's time is not worth copies: lanes read and write U and H themselves, a word or two at a
// time.
#pragma once

#include <cstdint>

#include "backends/cuda/block/activation.cuh"
#include "backends/cuda/block/epilogue.cuh"

namespace moesaic::backends::cuda {

/// Two neighbouring columns of both parts of a row of U.
template <class Word>
struct PartWords {
  Word* first;
  Word* second;  ///< Interleaved: the word behind `first`, and the two words are mixed.
};

template <class Word, class Void>
__device__ __forceinline__ PartWords<Word> part_words(Void* u, std::int64_t stride,
                                                      const ExpertParams& expert, std::int64_t row,
                                                      int column) {
  auto* line = reinterpret_cast<Word*>(u) + row * stride / 2;
  if (expert.layout.interleaved) return {line + column, line + column + 1};
  return {line + column / 2, line + (expert.h + column) / 2};
}

__device__ __forceinline__ void write_parts(const ExpertParams& expert, std::int64_t row,
                                            int column, std::uint32_t first, std::uint32_t second) {
  const auto to = part_words<std::uint32_t>(expert.u, expert.u_stride, expert, row, column);
  if (expert.layout.interleaved) interleave(first, second, first, second);
  *to.first = first;
  *to.second = second;
}

__device__ __forceinline__ void write_h(const ExpertParams& expert, std::int64_t row, int column,
                                        std::uint32_t word) {
  static_cast<std::uint32_t*>(expert.h_out)[(row * expert.h_stride + column) / 2] = word;
}

/// Calls body(row of the buffer, column of H, index among the lane's words of 64 columns) for what
/// this lane has of `kColumns` columns from `column` on.
template <int kColumns, class Body>
__device__ __forceinline__ void for_each_pair(const ExpertParams& expert, const PanelTarget& to,
                                              int column, const Body& body) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = to.row + lane_id() / 4 + 8 * half;
    if (row >= to.row_limit) continue;
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
      const int at = column + 8 * j + 2 * (lane_id() % 4);
      if (at < expert.h) body(static_cast<std::int64_t>(to.segment_begin) + row, at, 2 * j + half);
    }
  }
}

/// Sums of 32 columns of the first part, then of the second.
__device__ __forceinline__ void store_few_swiglu(const ExpertParams& expert,
                                                 const float (&sums)[32], const PanelTarget& to) {
  for_each_pair<32>(expert, to, to.column / 2, [&](std::int64_t row, int column, int i) {
    const std::uint32_t first = ptx::pack_bf16(sums[2 * i], sums[2 * i + 1]);
    const std::uint32_t second = ptx::pack_bf16(sums[16 + 2 * i], sums[16 + 2 * i + 1]);
    if (expert.u != nullptr) write_parts(expert, row, column, first, second);
    write_h(expert, row, column, swiglu_pair(first, second, expert.layout.gate_first));
  });
}

/// Sums of 64 columns of dH.
__device__ __forceinline__ void store_few_dswiglu(const ExpertParams& expert,
                                                  const float (&sums)[32], const PanelTarget& to) {
  std::uint32_t first[kPanelWords], second[kPanelWords];
  for_each_pair<64>(expert, to, to.column, [&](std::int64_t row, int column, int i) {
    const auto from =
        part_words<const std::uint32_t>(expert.saved_u, expert.saved_u_stride, expert, row, column);
    first[i] = *from.first;
    second[i] = *from.second;
  });
  for_each_pair<64>(expert, to, to.column, [&](std::int64_t row, int column, int i) {
    if (expert.layout.interleaved) separate(first[i], second[i], first[i], second[i]);
    const DswigluPair pair =
        dswiglu_pair(first[i], second[i], ptx::pack_bf16(sums[2 * i], sums[2 * i + 1]),
                     expert.layout.gate_first);
    write_parts(expert, row, column, pair.first, pair.second);
    if (expert.h_out != nullptr) write_h(expert, row, column, pair.h);
  });
}

}  // namespace moesaic::backends::cuda
