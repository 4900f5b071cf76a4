// SPDX-License-Identifier: Apache-2.0
// What a lane of an activation warp has of rows in global memory: chunks of eight columns, 64
// apart.
#pragma once

#include <cstdint>

#include "backends/cuda/block/activation.cuh"
#include "backends/cuda/ptx/global_memory.cuh"

namespace moesaic::backends::cuda {

/// Eight columns of 16 bits.
using Chunk = std::uint32_t[4];

/// Of H.
class RowChunks {
 public:
  /// `h` may be null where nothing is stored.
  __device__ __forceinline__ RowChunks(void* h, std::int64_t stride, std::int64_t row, int column)
      : at_(static_cast<char*>(h) + 2 * (row * stride + column)), row_bytes_(2 * stride) {}

  __device__ __forceinline__ void store(int chunk, const Chunk& words, bool made) const {
    ptx::store_global_v4(at_ + chunk * 128, words, made);
  }
  __device__ __forceinline__ void advance(int rows) { at_ += rows * row_bytes_; }

 private:
  char* at_;
  std::int64_t row_bytes_;
};

/// Of both parts of U or dU, for eight columns of H.
template <class Byte>
class PartChunks {
 public:
  template <class Void>
  __device__ __forceinline__ PartChunks(const PartLayout& layout, std::int64_t h, Void* u,
                                        std::int64_t stride, std::int64_t row, int column)
      : row_bytes_(2 * stride), chunk_bytes_(2 * chunk_step(layout)), mixed_(layout.interleaved) {
    const ChunkColumns columns = chunk_columns(layout, column, h);
    up_ = static_cast<Byte*>(u) + 2 * (row * stride + columns.up);
    to_gate_ = 2 * (columns.gate - columns.up);
  }

  /// `words` are for apart().
  __device__ __forceinline__ void load(int chunk, Chunk (&words)[2], bool made) const {
    ptx::load_global_v4(at(chunk), words[0], made);
    ptx::load_global_v4(at(chunk) + to_gate_, words[1], made);
  }
  __device__ __forceinline__ void apart(const Chunk (&words)[2], Chunk& up, Chunk& gate) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      up[i] = words[0][i];
      gate[i] = words[1][i];
    }
    if (!mixed_) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      separate(words[i / 2][i % 2 * 2], words[i / 2][i % 2 * 2 + 1], up[i], gate[i]);
    }
  }
  __device__ __forceinline__ void store(int chunk, const Chunk& up, const Chunk& gate,
                                        bool made) const {
    Chunk words[2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[0][i] = up[i];
      words[1][i] = gate[i];
    }
    if (mixed_) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        interleave(up[i], gate[i], words[i / 2][i % 2 * 2], words[i / 2][i % 2 * 2 + 1]);
      }
    }
    ptx::store_global_v4(at(chunk), words[0], made);
    ptx::store_global_v4(at(chunk) + to_gate_, words[1], made);
  }
  __device__ __forceinline__ void advance(int rows) { up_ += rows * row_bytes_; }

 private:
  [[nodiscard]] __device__ __forceinline__ Byte* at(int chunk) const {
    return up_ + chunk * chunk_bytes_;
  }

  Byte* up_;
  std::int64_t row_bytes_, to_gate_;
  int chunk_bytes_;
  bool mixed_;  ///< Interleaved.
};

}  // namespace moesaic::backends::cuda
