// SPDX-License-Identifier: Apache-2.0
// Rows between ranks. PUT and gather: one warp per route. Combine: one warp per piece of a token's
// row, slots ascending, so that the bits are those of every other form.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/exchange_rows.cuh"
#include "math/row_combine.hpp"

namespace moesaic::backends::cuda {

__device__ __forceinline__ std::byte* gathered_row(const ExchangeParams& p, std::int64_t token,
                                                   std::int32_t slot) {
  return p.gathered + token * p.gathered_token_stride + slot * p.gathered_slot_stride;
}

template <Access kAccess>
__global__ void __launch_bounds__(kExchangeThreads) put_rows_kernel(ExchangeParams p) {
  if (transport::is_broken(p.group)) return;
  for (std::int64_t route = first_warp(); route < p.routes; route += num_warps()) {
    const RowPlace place = row_place(p, route, math::Transfer::put, transport::lane() == 0);
    if (place.rank < 0) continue;
    const auto* from = reinterpret_cast<const Vector*>(p.input + (route / p.topk) * p.input_stride);
    transport::put_vectors<kAccess>(p.peers[place.rank], place.offset_bytes, from, p.row_vectors);
  }
}

/// A weighted row, 32 vectors at a time; those that NVSHMEM sends lie in shared memory before.
template <class T, Access kAccess>
__global__ void __launch_bounds__(kExchangeThreads) put_weighted_rows_kernel(ExchangeParams p) {
  __shared__ Vector staged[kExchangeWarps][transport::kWarp];
  if (transport::is_broken(p.group)) return;
  using V = Values<T>;
  const int lane = transport::lane();
  Vector* stage = staged[static_cast<int>(threadIdx.x) / transport::kWarp];
  for (std::int64_t route = first_warp(); route < p.routes; route += num_warps()) {
    const RowPlace place = row_place(p, route, math::Transfer::put, lane == 0);
    if (place.rank < 0) continue;
    const transport::Peer& peer = p.peers[place.rank];
    const float prob = p.probs[route];
    const auto* from = reinterpret_cast<const Vector*>(p.input + (route / p.topk) * p.input_stride);
    auto* to = reinterpret_cast<Vector*>(peer.mapped + place.offset_bytes);
#pragma unroll 4
    for (std::int64_t begin = 0; begin < p.row_vectors; begin += transport::kWarp) {
      const std::int64_t at = begin + lane;
      Vector result{};
      if (at < p.row_vectors) {
        float values[V::kCount];
        V::unpack(from[at], values);
#pragma unroll
        for (float& value : values) value = math::weighted(prob, value);
        result = V::pack(values);
      }
      if (transport::is_mapped<kAccess>(peer)) {
        if (at < p.row_vectors) to[at] = result;
      } else {
        stage[lane] = result;
        __syncwarp();
        const std::int64_t count = math::min<std::int64_t>(transport::kWarp, p.row_vectors - begin);
        transport::put_vectors<kAccess>(
            peer, place.offset_bytes + begin * static_cast<std::int64_t>(sizeof(Vector)), stage,
            count);
        __syncwarp();  // a blocking put has read its source
      }
    }
  }
}

template <Access kAccess>
__global__ void __launch_bounds__(kExchangeThreads) gather_rows_kernel(ExchangeParams p) {
  if (transport::is_broken(p.group)) return;
  for (std::int64_t route = first_warp(); route < p.routes; route += num_warps()) {
    const RowPlace place = row_place(p, route, math::Transfer::get, transport::lane() == 0);
    const std::int64_t token = route / p.topk;
    const auto slot = static_cast<std::int32_t>(route - token * p.topk);
    auto* to = reinterpret_cast<Vector*>(gathered_row(p, token, slot));
    if (place.rank < 0) {
      transport::zero_vectors(to, p.row_vectors);
    } else {
      transport::get_vectors<kAccess>(to, p.peers[place.rank], place.offset_bytes, p.row_vectors);
    }
  }
}

/// Slots whose loads are in flight at once, for one vector per lane.
inline constexpr int kSlotsInFlight = 8;

/// One slot of a token: where its row is, and how much it counts.
struct SlotSource {
  RowPlace place;
  std::uint64_t row = 0;  ///< Address of a peer's row as seen here; 0 where it is not.
  float prob = 0;
};

/// That of slot `slot`, of no row from topk on. Each lane asks for another slot, so that the maps
/// of a token are read at once and not one after the other.
template <Access kAccess, bool kGathered>
__device__ __forceinline__ SlotSource slot_source(const ExchangeParams& p, std::int64_t token,
                                                  std::int32_t slot, bool records) {
  SlotSource source;
  if (slot >= p.topk) return source;
  const std::int64_t route = token * p.topk + slot;
  source.place = row_place(p, route, math::Transfer::get, records);
  if (source.place.rank < 0) return source;
  if (p.probs != nullptr) source.prob = p.probs[route];
  if constexpr (!kGathered) {
    const transport::Peer& peer = p.peers[source.place.rank];
    if (transport::is_mapped<kAccess>(peer)) {
      source.row = reinterpret_cast<std::uint64_t>(peer.mapped + source.place.offset_bytes);
    }
  }
  return source;
}

/// The sum of a token's rows in pieces of 32 vectors. kGathered: the rows lie in `gathered`
/// already; else they are fetched here, and kept there where it is wanted.
template <class T, Access kAccess, bool kGathered>
__global__ void __launch_bounds__(kExchangeThreads) combine_rows_kernel(ExchangeParams p) {
  __shared__ Vector staged[kExchangeWarps][transport::kWarp];
  if (transport::is_broken(p.group)) return;
  using V = Values<T>;
  const int lane = transport::lane();
  Vector* stage = staged[static_cast<int>(threadIdx.x) / transport::kWarp];
  const std::int64_t pieces = (p.row_vectors + transport::kWarp - 1) / transport::kWarp;
  const std::int64_t units = p.routes / p.topk * pieces;
  for (std::int64_t unit = first_warp(); unit < units; unit += num_warps()) {
    const std::int64_t token = unit / pieces, begin = unit % pieces * transport::kWarp;
    const std::int64_t at = begin + lane;
    const bool in_row = at < p.row_vectors;
    const std::int64_t count = math::min<std::int64_t>(transport::kWarp, p.row_vectors - begin);
    const bool records = !kGathered && begin == 0;
    float sums[V::kCount] = {};
    for (std::int32_t first = 0; first < p.topk; first += kSlotsInFlight) {
      const SlotSource own = slot_source<kAccess, kGathered>(
          p, token, lane < kSlotsInFlight ? first + lane : p.topk, records);
      const unsigned moves = __ballot_sync(kAllLanes, own.place.rank >= 0);
      Vector held[kSlotsInFlight];
#pragma unroll
      for (int i = 0; i < kSlotsInFlight; ++i) {
        held[i] = Vector{0, 0, 0, 0};
        if ((moves >> i & 1u) == 0) continue;
        if constexpr (kGathered) {
          const auto* row = reinterpret_cast<const Vector*>(gathered_row(p, token, first + i));
          if (in_row) held[i] = row[at];
          continue;
        }
        const std::uint64_t row = __shfl_sync(kAllLanes, own.row, i);
        if (kAccess == Access::mapped || row != 0) {
          if (in_row) held[i] = reinterpret_cast<const Vector*>(row)[at];
        } else {
          const std::int32_t rank = __shfl_sync(kAllLanes, own.place.rank, i);
          const std::int64_t offset_bytes = __shfl_sync(kAllLanes, own.place.offset_bytes, i);
          transport::get_vectors<kAccess>(
              stage, p.peers[rank],
              offset_bytes + begin * static_cast<std::int64_t>(sizeof(Vector)), count);
          __syncwarp();
          held[i] = stage[lane];
          __syncwarp();  // the next get overwrites it
        }
      }
#pragma unroll
      for (int i = 0; i < kSlotsInFlight; ++i) {
        if constexpr (!kGathered) {
          if (p.gathered != nullptr && in_row && first + i < p.topk) {
            reinterpret_cast<Vector*>(gathered_row(p, token, first + i))[at] = held[i];
          }
        }
        if ((moves >> i & 1u) == 0) continue;
        const float prob = __shfl_sync(kAllLanes, own.prob, i);
        float values[V::kCount];
        V::unpack(held[i], values);
#pragma unroll
        for (int j = 0; j < V::kCount; ++j) {
          sums[j] = p.probs == nullptr ? math::add_plain(sums[j], values[j])
                                       : math::add_weighted(sums[j], prob, values[j]);
        }
      }
    }
    if (in_row) reinterpret_cast<Vector*>(p.out + token * p.out_stride)[at] = V::pack(sums);
  }
}

/// One warp per route; lanes sum every 32nd vector, then pair up: the same order each time.
template <class T>
__global__ void __launch_bounds__(kExchangeThreads) probs_grad_kernel(ProbsGradParams p) {
  using V = Values<T>;
  for (std::int64_t route = first_warp(); route < p.routes; route += num_warps()) {
    float sum = 0;
    if (math::moves_row(p.ranks[route], p.rows[route], p.num_ranks, p.max_rows)) {
      const std::int64_t token = route / p.topk;
      const auto* row = reinterpret_cast<const Vector*>(
          p.gathered + token * p.gathered_token_stride + (route % p.topk) * p.gathered_slot_stride);
      const auto* dout = reinterpret_cast<const Vector*>(p.dout + token * p.dout_stride);
      for (std::int64_t at = transport::lane(); at < p.row_vectors; at += transport::kWarp) {
        float a[V::kCount], b[V::kCount];
        V::unpack(row[at], a);
        V::unpack(dout[at], b);
#pragma unroll
        for (int j = 0; j < V::kCount; ++j) sum = math::add_weighted(sum, a[j], b[j]);
      }
    }
#pragma unroll
    for (int other = transport::kWarp / 2; other > 0; other /= 2) {
      sum += __shfl_xor_sync(kAllLanes, sum, other);
    }
    if (transport::lane() == 0) p.dprobs[route] = sum;
  }
}

}  // namespace moesaic::backends::cuda
