// SPDX-License-Identifier: Apache-2.0
// What the kernels of expert parallelism are told. Plain data, for host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/transport/peer.hpp"
#include "math/fan_out.hpp"
#include "math/route_blocks.hpp"
#include "math/row_route.hpp"

namespace moesaic::backends::cuda {

inline constexpr int kExchangeThreads = 512;
inline constexpr int kExchangeWarps = kExchangeThreads / 32;

/// Route maps of this rank and the symmetric buffer that they point into. Strides are in bytes.
struct ExchangeParams {
  const std::int32_t* ranks = nullptr;  ///< [tokens, topk]
  const std::int32_t* rows = nullptr;
  const float* probs = nullptr;            ///< [tokens, topk] or null.
  const transport::Peer* peers = nullptr;  ///< Of the buffer that holds the rows.
  std::int64_t offset_bytes = 0;           ///< Of the rows in that buffer.
  std::int64_t peer_stride = 0;
  const std::byte* input = nullptr;  ///< PUT: [tokens, d]
  std::int64_t input_stride = 0;
  std::byte* out = nullptr;  ///< Combine: [tokens, d]
  std::int64_t out_stride = 0;
  std::byte* gathered = nullptr;  ///< [tokens, topk, d] or null.
  std::int64_t gathered_token_stride = 0, gathered_slot_stride = 0;
  std::int64_t routes = 0;
  std::int64_t max_rows = 0;
  std::int64_t row_vectors = 0;  ///< 16-byte vectors of a row.
  std::int32_t topk = 1;
  unsigned long long* fault_word = nullptr;
  transport::GroupView group;
};

/// Vectors of a row that one warp holds and sends to several places.
inline constexpr int kPieceVectors = 256;

/// What dispatch by fan-out needs besides: where ranks tell one another of their routes.
struct FanOutParams {
  math::FanOutLayout layout;
  std::int32_t* words = nullptr;           ///< This rank's, laid out so; symmetric.
  const transport::Peer* peers = nullptr;  ///< Of `words`.
  std::byte* own_buffer = nullptr;         ///< This rank's part of the buffer that holds the rows.
  std::int64_t max_tokens = 0;             ///< T
};

struct ProbsGradParams {
  const std::int32_t* ranks = nullptr;  ///< [tokens, topk]
  const std::int32_t* rows = nullptr;
  const std::byte* gathered = nullptr;
  std::int64_t gathered_token_stride = 0, gathered_slot_stride = 0;  ///< Bytes.
  const std::byte* dout = nullptr;
  std::int64_t dout_stride = 0;  ///< Bytes.
  float* dprobs = nullptr;
  std::int64_t routes = 0, max_rows = 0, row_vectors = 0;
  std::int32_t topk = 1, num_ranks = 1;
};

struct RouteMapParams {
  const std::int32_t* ids = nullptr;  ///< [num_routes]
  std::int32_t* dst_ranks = nullptr;
  std::int32_t* dst_rows = nullptr;
  std::int32_t* offs = nullptr;  ///< [local experts]
  std::int32_t* kept = nullptr;  ///< Or null.
  std::int64_t num_routes = 0;
  std::int64_t capacity = 0;
  math::ExpertPlacement placement;
  math::RouteBlocks blocks;
  std::int32_t* block_counts = nullptr;  ///< [blocks, E]
  std::int64_t* first_rows = nullptr;    ///< [R, E]
  /// Symmetric, so that peers write into it: counts [2, R, E], of which two calls take turns, then
  /// (at sources_index) source rank and route [capacity, 2] of each row.
  std::int32_t* counts = nullptr;
  const transport::Peer* peers = nullptr;  ///< Of `counts`.
  std::int64_t sources_index = 0;
  std::uint32_t* calls = nullptr;     ///< Of this plan so far.
  std::int32_t* src_ranks = nullptr;  ///< [capacity], or null: no inverse maps are wanted.
  std::int32_t* src_routes = nullptr;
  unsigned long long* fault_word = nullptr;
  unsigned long long* dropped_routes = nullptr;
  transport::GroupView group;
};

}  // namespace moesaic::backends::cuda
