// SPDX-License-Identifier: Apache-2.0
// Dispatch by fan-out, in two kernels with a barrier between: each token once to every rank, then
// copies on that rank. One warp per piece of a token's row, which it holds in registers.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/exchange_rows.cuh"
#include "math/fan_out.hpp"
#include "math/row_combine.hpp"

namespace moesaic::backends::cuda {

static_assert(kPieceVectors == transport::kVectorsInFlight * transport::kWarp);

/// A piece of one row: vectors [begin, begin + count).
struct Piece {
  std::int64_t unit = 0;  ///< Rows before it in the order of work.
  std::int64_t begin = 0;
  int count = 0;

  [[nodiscard]] __device__ __forceinline__ std::int64_t begin_bytes() const {
    return begin * static_cast<std::int64_t>(sizeof(Vector));
  }
};
__device__ __forceinline__ std::int64_t pieces_of(std::int64_t row_vectors) {
  return (row_vectors + kPieceVectors - 1) / kPieceVectors;
}
__device__ __forceinline__ Piece piece_at(std::int64_t index, std::int64_t row_vectors) {
  const std::int64_t pieces = pieces_of(row_vectors);
  const std::int64_t unit = index / pieces;
  const std::int64_t begin = (index - unit * pieces) * kPieceVectors;
  return {unit, begin,
          static_cast<int>(math::min<std::int64_t>(kPieceVectors, row_vectors - begin))};
}

struct HeldPiece {
  Vector vectors[transport::kVectorsInFlight];

  __device__ __forceinline__ void load(const std::byte* from, int count) {
#pragma unroll
    for (int i = 0; i < transport::kVectorsInFlight; ++i) {
      const int at = transport::lane() + i * transport::kWarp;
      if (at < count) vectors[i] = reinterpret_cast<const Vector*>(from)[at];
    }
  }
  __device__ __forceinline__ void store(std::byte* to, int count) const {
#pragma unroll
    for (int i = 0; i < transport::kVectorsInFlight; ++i) {
      const int at = transport::lane() + i * transport::kWarp;
      if (at < count) reinterpret_cast<Vector*>(to)[at] = vectors[i];
    }
  }
  /// Each element times `prob`, rounded once.
  template <class T>
  __device__ __forceinline__ void store_weighted(std::byte* to, int count, float prob) const {
    using V = Values<T>;
#pragma unroll
    for (int i = 0; i < transport::kVectorsInFlight; ++i) {
      const int at = transport::lane() + i * transport::kWarp;
      if (at >= count) continue;
      float values[V::kCount];
      V::unpack(vectors[i], values);
#pragma unroll
      for (float& value : values) value = math::weighted(prob, value);
      reinterpret_cast<Vector*>(to)[at] = V::pack(values);
    }
  }
};

/// Tells every other rank of the rows that this rank's routes have there.
__device__ __forceinline__ void tell_routes(const ExchangeParams& p, const FanOutParams& f,
                                            std::uint32_t turn) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kExchangeThreads + threadIdx.x;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kExchangeThreads;
  const std::int32_t own = p.group.rank;
  for (std::int32_t to = 0; to < p.group.num_ranks; ++to) {
    if (to == own) continue;
    const transport::Peer& peer = f.peers[to];
    if (first == 0) {
      transport::put_int(peer, f.layout.tokens_index(turn, own),
                         math::encode_told_tokens(
                             {static_cast<std::int32_t>(p.routes / p.topk), p.probs != nullptr}));
    }
    for (std::int64_t route = first; route < p.routes; route += step) {
      const std::int32_t row = math::told_row(p.ranks[route], p.rows[route], to, p.max_rows);
      transport::put_int(peer, f.layout.rows_index(turn, own) + route, row);
      if (p.probs != nullptr && row >= 0) {
        transport::put_int(peer, f.layout.probs_index(turn, own) + route,
                           __float_as_int(p.probs[route]));
      }
    }
  }
}

/// One lane's slot of a token: where its row is, and whether it is this rank that writes there.
struct LaneRoute {
  RowPlace place;
  float prob = 0;
  bool writes = false;
};
__device__ __forceinline__ LaneRoute lane_route(const ExchangeParams& p, std::int64_t token,
                                                std::int32_t first_slot, bool records) {
  const int lane = transport::lane();
  const std::int32_t slot = first_slot + lane;
  const std::int64_t first_route = token * p.topk;
  LaneRoute own;
  if (slot < p.topk) {
    own.place = row_place(p, first_route + slot, math::Transfer::put, records);
    if (p.probs != nullptr) own.prob = p.probs[first_route + slot];
  }
  const std::int32_t rank = own.place.rank;
  const unsigned same = __match_any_sync(kAllLanes, rank);
  if (rank < 0) return own;
  // Every row of this rank itself; of another's, math::reaches_rank() for all slots before, those
  // of this chunk side by side.
  own.writes = rank == p.group.rank ||
               ((same & ((1u << lane) - 1)) == 0 &&
                !math::reaches_rank(p.ranks, p.rows, first_route, first_slot, rank, p.max_rows));
  return own;
}

/// The first half. calls[0] counts the calls whose copies are made and calls[1] those whose rows
/// are sent, so that each kernel reads the one that it does not write.
template <class T, Access kAccess>
__global__ void __launch_bounds__(kExchangeThreads)
    put_tokens_kernel(ExchangeParams p, FanOutParams f) {
  if (transport::is_broken(p.group)) return;
  auto* calls = reinterpret_cast<std::uint32_t*>(f.words + f.layout.calls_index());
  const std::uint32_t turn = calls[0] & 1u;
  if (blockIdx.x == 0 && threadIdx.x == 0) calls[1] = calls[0] + 1;
  tell_routes(p, f, turn);
  const std::int64_t work = p.routes / p.topk * pieces_of(p.row_vectors);
  for (std::int64_t index = first_warp(); index < work; index += num_warps()) {
    const Piece piece = piece_at(index, p.row_vectors);
    const std::int64_t token = piece.unit;
    const std::byte* from = p.input + token * p.input_stride + piece.begin_bytes();
    HeldPiece held;
    held.load(from, piece.count);
    for (std::int32_t first = 0; first < p.topk; first += transport::kWarp) {
      const LaneRoute own = lane_route(p, token, first, piece.begin == 0);
      for (unsigned left = __ballot_sync(kAllLanes, own.writes); left != 0; left &= left - 1) {
        const int i = __ffs(static_cast<int>(left)) - 1;
        const std::int32_t rank = __shfl_sync(kAllLanes, own.place.rank, i);
        const std::int64_t at =
            __shfl_sync(kAllLanes, own.place.offset_bytes, i) + piece.begin_bytes();
        if (rank == p.group.rank && p.probs != nullptr) {
          held.store_weighted<T>(f.own_buffer + at, piece.count,
                                 __shfl_sync(kAllLanes, own.prob, i));
        } else if (rank == p.group.rank) {
          held.store(f.own_buffer + at, piece.count);
        } else if (transport::is_mapped<kAccess>(p.peers[rank])) {
          held.store(p.peers[rank].mapped + at, piece.count);
        } else {
          transport::put_vectors<kAccess>(p.peers[rank], at, reinterpret_cast<const Vector*>(from),
                                          piece.count);
        }
      }
    }
  }
}

/// The second half, behind a barrier: the tokens of all other ranks, each from the row that it came
/// in to the others, and into that one too where the source has probabilities.
template <class T>
__global__ void __launch_bounds__(kExchangeThreads)
    copy_tokens_kernel(ExchangeParams p, FanOutParams f) {
  if (transport::is_broken(p.group)) return;
  auto* calls = reinterpret_cast<std::uint32_t*>(f.words + f.layout.calls_index());
  const std::uint32_t turn = (calls[1] - 1) & 1u;
  if (blockIdx.x == 0 && threadIdx.x == 0) calls[0] = calls[1];
  const std::int64_t work = (p.group.num_ranks - 1) * f.max_tokens * pieces_of(p.row_vectors);
  for (std::int64_t index = first_warp(); index < work; index += num_warps()) {
    const Piece piece = piece_at(index, p.row_vectors);
    const auto other = static_cast<std::int32_t>(piece.unit / f.max_tokens);
    const std::int64_t token = piece.unit - other * f.max_tokens;
    const std::int32_t source = other + (other >= p.group.rank ? 1 : 0);
    const math::ToldTokens tokens =
        math::decode_told_tokens(f.words[f.layout.tokens_index(turn, source)]);
    if (token >= tokens.count) continue;
    const std::int32_t* rows = f.words + f.layout.rows_index(turn, source) + token * p.topk;
    const std::int32_t* probs = f.words + f.layout.probs_index(turn, source) + token * p.topk;
    const auto address = [&](std::int32_t row) {
      return f.own_buffer + p.offset_bytes + row * p.peer_stride + piece.begin_bytes();
    };
    HeldPiece held;
    bool found = false, holds = false;
    std::int32_t carrier = 0;
    for (std::int32_t first = 0; first < p.topk; first += transport::kWarp) {
      const std::int32_t slot = first + transport::lane();
      const std::int32_t row = slot < p.topk ? rows[slot] : -1;
      const float prob = tokens.weighted && row >= 0 ? __int_as_float(probs[slot]) : 0;
      unsigned left = __ballot_sync(kAllLanes, row >= 0);
      if (left == 0) continue;
      if (!found) {
        carrier = __shfl_sync(kAllLanes, row, __ffs(static_cast<int>(left)) - 1);
        found = true;
        if (!tokens.weighted) left &= left - 1;  // it is what it is to be
      }
      if (left != 0 && !holds) {
        held.load(address(carrier), piece.count);
        holds = true;
      }
      for (; left != 0; left &= left - 1) {
        const int i = __ffs(static_cast<int>(left)) - 1;
        std::byte* to = address(__shfl_sync(kAllLanes, row, i));
        if (tokens.weighted) {
          held.store_weighted<T>(to, piece.count, __shfl_sync(kAllLanes, prob, i));
        } else {
          held.store(to, piece.count);
        }
      }
    }
  }
}

}  // namespace moesaic::backends::cuda
