// SPDX-License-Identifier: Apache-2.0
// What all kernels of expert parallelism share: elements of rows as FP32, where an entry of the
// maps points, and which warp this is.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/exchange_params.hpp"
#include "backends/cuda/ptx/bf16.cuh"
#include "backends/cuda/transport/peer_access.cuh"
#include "math/route_fault.hpp"

namespace moesaic::backends::cuda {

using transport::Access;
using transport::Vector;

/// FP32 values of a 16-byte vector, and back with one rounding each.
template <class T>
struct Values;
template <>
struct Values<float> {
  static constexpr int kCount = 4;
  static __device__ __forceinline__ void unpack(const Vector& v, float (&to)[kCount]) {
    to[0] = __uint_as_float(v.x);
    to[1] = __uint_as_float(v.y);
    to[2] = __uint_as_float(v.z);
    to[3] = __uint_as_float(v.w);
  }
  static __device__ __forceinline__ Vector pack(const float (&from)[kCount]) {
    return {__float_as_uint(from[0]), __float_as_uint(from[1]), __float_as_uint(from[2]),
            __float_as_uint(from[3])};
  }
};
template <>
struct Values<__nv_bfloat16> {
  static constexpr int kCount = 8;
  static __device__ __forceinline__ void unpack(const Vector& v, float (&to)[kCount]) {
    const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[2 * i] = ptx::low_bf16(words[i]);
      to[2 * i + 1] = ptx::high_bf16(words[i]);
    }
  }
  static __device__ __forceinline__ Vector pack(const float (&from)[kCount]) {
    return {ptx::pack_bf16(from[0], from[1]), ptx::pack_bf16(from[2], from[3]),
            ptx::pack_bf16(from[4], from[5]), ptx::pack_bf16(from[6], from[7])};
  }
};

/// Where an entry of the maps points; negative rank: nowhere. Records its fault.
struct RowPlace {
  std::int32_t rank = -1;
  std::int64_t offset_bytes = 0;
};
__device__ __forceinline__ RowPlace row_place(const ExchangeParams& p, std::int64_t route,
                                              math::Transfer transfer, bool records) {
  const std::int32_t rank = p.ranks[route], row = p.rows[route];
  if (math::moves_row(rank, row, p.group.num_ranks, p.max_rows)) {
    return {rank, p.offset_bytes + row * p.peer_stride};
  }
  const std::uint64_t fault = math::encode_route_fault(math::map_fault(
      rank, row, p.group.num_ranks, p.max_rows, static_cast<std::int32_t>(route), transfer));
  if (records && fault != 0) atomicMax(p.fault_word, static_cast<unsigned long long>(fault));
  return {};
}

__device__ __forceinline__ std::int64_t first_warp() {
  return static_cast<std::int64_t>(blockIdx.x) * kExchangeWarps +
         static_cast<int>(threadIdx.x) / transport::kWarp;
}
__device__ __forceinline__ std::int64_t num_warps() {
  return static_cast<std::int64_t>(gridDim.x) * kExchangeWarps;
}

inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

}  // namespace moesaic::backends::cuda
