// SPDX-License-Identifier: Apache-2.0
// The producer warp: one bulk tensor copy per operand and stage (two for few rows), or one per
// panel where a box of panels would reach past the operand. All lanes run the loops; one elected
// lane issues.
#pragma once

#include <cstdint>

#include "backends/cuda/block/ring.cuh"
#include "backends/cuda/block/row_tile_walk.cuh"
#include "backends/cuda/block/tensor_maps.hpp"
#include "backends/cuda/block/weight_tile_walk.cuh"
#include "backends/cuda/ptx/tensor_copy.cuh"
#include "math/halved_tiles.hpp"
#include "math/pipeline_phase.hpp"

namespace moesaic::backends::cuda {

/// MN-major weights: `kWidth` columns of 64 lines of the contraction.
template <int kWidth>
__device__ __forceinline__ void load_weight_columns(const CUtensorMap* map, PanelCopy copy,
                                                    std::uint32_t to, std::uint32_t full, int k,
                                                    int column, int expert, std::uint64_t policy) {
  if (copy == PanelCopy::whole) {
    ptx::load_box(to, map, full, {0, k, column / 64, expert}, policy);
  } else {
#pragma unroll
    for (int panel = 0; panel < kWidth / 64; ++panel) {
      ptx::load_box(to + panel * math::panel_bytes(kBlockK), map, full,
                    {column + panel * 64, k, expert}, policy);
    }
  }
}

/// swiglu: `kLines` lines of either part of the weights of 2h lines, one after the other.
template <int kLines>
__device__ __forceinline__ void load_paired_lines(const CUtensorMap* map, std::uint32_t to,
                                                  std::uint32_t full, int k, int line, int expert,
                                                  int pairs, std::uint64_t policy) {
#pragma unroll
  for (int pair = 0; pair < 2; ++pair) {
    if (pair < pairs) {
      ptx::load_box(to + pair * math::panel_bytes(2 * kLines), map, full,
                    {k, line + pair * kLines, 0, expert}, policy);
    }
  }
}

/// Forward, dgrad: rows of a, columns of b (half of them for half a tile), one step of the
/// contraction. Rows past the segment are someone else's or past the buffer; they only make rows
/// that are not stored. Rows that are gathered are not copied here: see row_gather.cuh.
template <KernelConfig kConfig>
__device__ __forceinline__ void load_row_stage(const TensorMaps& maps, const KernelParams& params,
                                               const Ring<kConfig>& ring, int stage,
                                               const math::RowTile<std::int32_t>& tile, int k_block,
                                               std::uint64_t policy) {
  constexpr math::SmemMap kMap = kConfig.smem();
  const std::uint32_t full = ring.full(stage);
  const int k = k_block * kBlockK;
  const int column = static_cast<int>(tile.column_begin);
  ptx::barrier_arrive_expect(
      full, static_cast<std::uint32_t>((kConfig.boxes_of_a() ? kMap.a_bytes : 0) +
                                       (tile.half ? kMap.b_bytes / 2 : kMap.b_bytes)));
  if constexpr (kConfig.boxes_of_a()) {
    ptx::load_box<2>(ring.a(stage), &maps.a, full, {k, static_cast<int>(tile.row_begin)});
  }
  const CUtensorMap* columns_map = tile.half ? &maps.b_few : &maps.b;
  if constexpr (kConfig.epilogue == Epilogue::swiglu) {
    load_paired_lines<64>(&maps.b, ring.b(stage), full, k, column / 2, tile.expert,
                          tile.half ? 1 : 2, policy);
  } else if constexpr (!kConfig.b_mn_major) {
    ptx::load_box(ring.b(stage), columns_map, full, {k, column, tile.expert}, policy);
  } else if (tile.half) {
    load_weight_columns<kConfig.tile_n / 2>(columns_map, params.b_panels, ring.b(stage), full, k,
                                            column, tile.expert, policy);
  } else {
    load_weight_columns<kConfig.tile_n>(columns_map, params.b_panels, ring.b(stage), full, k,
                                        column, tile.expert, policy);
  }
}

/// The same for a tall tile: of its rows as many blocks of 64 as it has.
template <KernelConfig kConfig>
__device__ __forceinline__ void load_tall_stage(const TensorMaps& maps, const KernelParams& params,
                                                const Ring<kConfig>& ring, int stage,
                                                const math::RowTile<std::int32_t>& tile,
                                                int k_block, std::uint64_t policy) {
  const std::uint32_t full = ring.full(stage);
  const int k = k_block * kBlockK;
  const int row = static_cast<int>(tile.row_begin);
  const int column = static_cast<int>(tile.column_begin);
  const int row_blocks = math::ceil_div(tile.rows, kBlockRows);
  const bool slim = tile.kind == math::RowTileKind::slim;
  const int columns = slim ? kSlimColumns : kConfig.tile_n;
  ptx::barrier_arrive_expect(full,
                             static_cast<std::uint32_t>(row_blocks * kBlockBytes + columns * 128));
  if (row_blocks == kConfig.tile_m / kBlockRows) {
    ptx::load_box<2>(ring.a(stage), &maps.a, full, {k, row});
  } else {
    for (int block = 0; block < row_blocks; ++block) {
      ptx::load_box<2>(ring.a(stage) + static_cast<std::uint32_t>(block * kBlockBytes), &maps.a_few,
                       full, {k, row + block * kBlockRows});
    }
  }
  const CUtensorMap* columns_map = slim ? &maps.b_few : &maps.b;
  if constexpr (!kConfig.b_mn_major) {
    ptx::load_box(ring.b(stage), columns_map, full, {k, column, tile.expert}, policy);
  } else if (slim) {
    load_weight_columns<kSlimColumns>(columns_map, params.b_panels, ring.b(stage), full, k, column,
                                      tile.expert, policy);
  } else {
    load_weight_columns<kConfig.tile_n>(columns_map, params.b_panels, ring.b(stage), full, k,
                                        column, tile.expert, policy);
  }
}

/// The same for a tile of few rows: two panels along the contraction, of which the second may be
/// past its end and is then zero. What is not copied of a panel's 64 rows makes rows that are not
/// stored.
template <KernelConfig kConfig>
__device__ __forceinline__ void load_few_rows_stage(const TensorMaps& maps,
                                                    const KernelParams& params,
                                                    const Ring<kConfig>& ring, int stage,
                                                    const math::RowTile<std::int32_t>& tile,
                                                    int k_block, std::uint64_t policy) {
  const bool fewest = tile.rows <= kFewestRows;
  const CUtensorMap* rows_map = fewest ? &maps.a_fewest : &maps.a_few;
  const std::uint32_t row_bytes = (fewest ? kFewestRows : kFewRows) * 128U;
  const std::uint32_t full = ring.full(stage);
  const int column = static_cast<int>(tile.column_begin);
  ptx::barrier_arrive_expect(full, 2 * ((kConfig.boxes_of_a() ? row_bytes : 0) + kFewBBytes));
#pragma unroll
  for (int panel = 0; panel < 2; ++panel) {
    const int k = k_block * kFewBlockK + panel * kBlockK;
    const std::uint32_t b = ring.few_b(stage, panel);
    if constexpr (kConfig.epilogue == Epilogue::swiglu) {
      load_paired_lines<32>(&maps.b_few, b, full, k, column / 2, tile.expert, 2, policy);
    } else if constexpr (!kConfig.b_mn_major) {
      ptx::load_box(b, &maps.b_few, full, {k, column, tile.expert}, policy);
    } else {
      load_weight_columns<kFewColumns>(&maps.b_few, params.b_panels, b, full, k, column,
                                       tile.expert, policy);
    }
    if constexpr (kConfig.boxes_of_a()) {
      ptx::load_box<2>(ring.few_a(stage, panel), rows_map, full,
                       {k, static_cast<int>(tile.row_begin)});
    }
  }
}

/// How L2 is to keep the weights of a tile. Where one raster group has all rows of the expert,
/// nobody reads them again later (NB-0009).
__device__ __forceinline__ std::uint64_t weight_policy(
    const math::RowTileShape<std::int32_t>& shape, const math::RowTile<std::int32_t>& tile) {
  const std::int64_t rows = tile.segment_end - tile.row_begin + tile.row;
  return rows <= shape.group_m * shape.tile_m ? ptx::l2_evict_first() : ptx::l2_evict_normal();
}

/// wgrad: 64 rows of the segment; rows past its end arrive as zeros in both operands.
template <int kWidth>
__device__ __forceinline__ void load_ragged(const CUtensorMap* map, PanelCopy copy,
                                            std::uint32_t to, std::uint32_t full,
                                            const RaggedCoordinates& at, int column) {
  if (copy == PanelCopy::whole) {
    ptx::load_box<5>(to, map, full, {0, at.row, column / 64, at.wrap, at.end});
  } else {
#pragma unroll
    for (int panel = 0; panel < kWidth / 64; ++panel) {
      ptx::load_box<4>(to + panel * math::panel_bytes(kBlockK), map, full,
                       {column + panel * 64, at.row, at.wrap, at.end});
    }
  }
}

template <KernelConfig kConfig>
__device__ __forceinline__ void load_weight_stage(const TensorMaps& maps,
                                                  const KernelParams& params,
                                                  const Ring<kConfig>& ring, int stage,
                                                  const math::WeightTile<std::int32_t>& tile,
                                                  int row_block) {
  constexpr math::SmemMap kMap = kConfig.smem();
  const std::uint32_t full = ring.full(stage);
  const RaggedCoordinates at = ragged(tile.rows.begin, tile.rows.rows(), row_block * kBlockK);
  const int column = static_cast<int>(tile.k_begin);
  const std::int64_t b_bytes = tile.half ? kMap.b_bytes / 2 : kMap.b_bytes;
  ptx::barrier_arrive_expect(
      full, static_cast<std::uint32_t>(kMap.a_bytes + (kConfig.boxes_of_b() ? b_bytes : 0)));
  load_ragged<kConfig.tile_m>(&maps.a, params.a_panels, ring.a(stage), full, at,
                              static_cast<int>(tile.n_begin));
  if constexpr (kConfig.boxes_of_b()) {
    if (tile.half) {
      load_ragged<kConfig.tile_n / 2>(&maps.b_few, params.b_panels, ring.b(stage), full, at,
                                      column);
    } else {
      load_ragged<kConfig.tile_n>(&maps.b, params.b_panels, ring.b(stage), full, at, column);
    }
  }
}

// ---- What the consumers are told of a tile

template <KernelConfig kConfig>
__device__ __forceinline__ TileMessage describe(const KernelParams& params,
                                                const math::RowTile<std::int32_t>& tile) {
  const auto begin = static_cast<std::int32_t>(tile.row_begin) - tile.row;
  const bool few = tile.kind == math::RowTileKind::few;
  const bool slim = kConfig.tall() && tile.kind == math::RowTileKind::slim;
  const int block_k = few ? kFewBlockK : kBlockK;
  const TileMessage::Kind whole = kConfig.tall() ? (slim ? TileMessage::slim : TileMessage::tall)
                                  : tile.half    ? TileMessage::half
                                                 : TileMessage::large;
  return {few ? TileMessage::few : whole,
          math::ceil_div(params.k, block_k),
          tile.row,
          static_cast<std::int32_t>(tile.column_begin),
          begin,
          static_cast<std::int32_t>(tile.segment_end) - begin,
          0,
          kConfig.tall() ? math::ceil_div(tile.rows, kBlockRows) : 0};
}

template <KernelConfig kConfig>
__device__ __forceinline__ TileMessage describe(const KernelParams& /*params*/,
                                                const math::WeightTile<std::int32_t>& tile) {
  return {tile.half ? TileMessage::half : TileMessage::large,
          tile.row_blocks,
          static_cast<std::int32_t>(tile.n_begin),
          static_cast<std::int32_t>(tile.k_begin),
          0,
          0,
          tile.expert,
          0};
}

// ---- Sharing out the tiles

/// The tiles that nobody has yet. Lane 0 asks early, so that the answer is there when the tile
/// before is done.
class TileQueue {
 public:
  __device__ explicit TileQueue(math::TileCounters& counters) : counters_(counters) {}

  __device__ void ask() {
    if (lane_id() == 0) {
      taken_ = atomicAdd(reinterpret_cast<unsigned long long*>(&counters_.next), 1ULL);
    }
  }
  /// How many were taken before.
  __device__ std::int64_t answer() const {
    return static_cast<std::int64_t>(__shfl_sync(kAllLanes, taken_, 0));
  }
  /// The last CTA of the launch leaves the counters as it found them.
  __device__ void leave() {
    if (lane_id() != 0) return;
    __threadfence();  // every question of this CTA comes before its leave
    if (atomicInc(&counters_.finished, gridDim.x - 1) == gridDim.x - 1) {
      atomicExch(reinterpret_cast<unsigned long long*>(&counters_.next), 0ULL);
    }
  }

 private:
  math::TileCounters& counters_;
  unsigned long long taken_ = 0;
};

/// dswiglu: U of a tile's rows behind its contraction, 64 columns of H per stage. Rows past the
/// segment make rows that are not stored.
template <KernelConfig kConfig>
__device__ __forceinline__ void load_saved_u(const ExpertMaps& maps, const KernelParams& params,
                                             const Ring<kConfig>& ring,
                                             math::PipelineState<kConfig.stages>& state,
                                             const math::RowTile<std::int32_t>& tile) {
  constexpr std::uint32_t kPartBytes = kConfig.tile_m * 128U;
  const int stages = (tile.half ? kConfig.tile_n / 2 : kConfig.tile_n) / 64;
  for (int block = 0; block < stages; ++block) {
    ptx::barrier_wait(ring.empty(state.stage), math::producer_parity(state.phase));
    if (ptx::elect_one()) {
      const std::uint32_t full = ring.full(state.stage);
      const int column = static_cast<int>(tile.column_begin) + block * 64;
      ptx::barrier_arrive_expect(full, 2 * kPartBytes);
#pragma unroll
      for (int panel = 0; panel < 2; ++panel) {
        const PartPanel part = part_panel(params.expert.layout, column, panel);
        ptx::load_box<3>(ring.b(state.stage) + panel * kPartBytes, &maps.saved_u, full,
                         {part.column, static_cast<int>(tile.row_begin), part.part});
      }
    }
    __syncwarp();
    state.advance();
  }
}

/// What one lane does for a stage: tells the consumers of the tile in its first, copies operands.
template <KernelConfig kConfig, class Tile>
__device__ __forceinline__ void fill_stage(const MapsOf<kConfig.epilogue>& maps,
                                           const KernelParams& params, const Ring<kConfig>& ring,
                                           int stage, const Tile& tile, const TileMessage& message,
                                           int k_block, std::uint64_t policy) {
  if (k_block == 0) send(ring.message(stage), message);
  if constexpr (kConfig.wgrad) {
    if (message.k_blocks > 0) {
      load_weight_stage<kConfig>(maps, params, ring, stage, tile, k_block);
    } else {
      ptx::barrier_arrive(ring.full(stage));
    }
  } else if (message.kind == TileMessage::few) {
    load_few_rows_stage<kConfig>(maps, params, ring, stage, tile, k_block, policy);
  } else if constexpr (kConfig.tall()) {
    load_tall_stage<kConfig>(maps, params, ring, stage, tile, k_block, policy);
  } else {
    load_row_stage<kConfig>(maps, params, ring, stage, tile, k_block, policy);
  }
}

/// Tells the consumers of a tile and loads its stages.
template <KernelConfig kConfig, class Tile>
__device__ __forceinline__ void load_tile(const MapsOf<kConfig.epilogue>& maps,
                                          const KernelParams& params, const Ring<kConfig>& ring,
                                          math::PipelineState<kConfig.stages>& state,
                                          const Tile& tile) {
  const TileMessage message = describe<kConfig>(params, tile);
  // A tile without stages of its own takes one for its message.
  const int stages = math::max(message.k_blocks, 1);
  std::uint64_t policy = 0;
  if constexpr (!kConfig.wgrad) policy = weight_policy(kConfig.row_shape(), tile);
  for (int k_block = 0; k_block < stages; ++k_block) {
    ptx::barrier_wait(ring.empty(state.stage), math::producer_parity(state.phase));
    if (ptx::elect_one()) {
      fill_stage<kConfig>(maps, params, ring, state.stage, tile, message, k_block, policy);
    }
    __syncwarp();
    state.advance();
  }
  if constexpr (kConfig.epilogue == Epilogue::dswiglu) {
    if (message.kind != TileMessage::few) load_saved_u<kConfig>(maps, params, ring, state, tile);
  }
}

template <KernelConfig kConfig>
__device__ __forceinline__ void send_end(const Ring<kConfig>& ring,
                                         const math::PipelineState<kConfig.stages>& state) {
  ptx::barrier_wait(ring.empty(state.stage), math::producer_parity(state.phase));
  if (ptx::elect_one()) {
    send(ring.message(state.stage), {.kind = TileMessage::end});
    ptx::barrier_arrive(ring.full(state.stage));
  }
}

/// The producer warp's life in forward and dgrad. Whole large tiles are equally long: every CTA
/// takes each gridDim.x-th, so that CTAs side by side share columns of b at the same time; that
/// saves energy (NB-0005). The smaller ones that follow go to whoever is free. `loading` is where
/// it is in the ring, or leads three other warps: see begin_loading().
template <KernelConfig kConfig, class Loading>
__device__ __forceinline__ void produce_rows(const MapsOf<kConfig.epilogue>& maps,
                                             const KernelParams& params, const Ring<kConfig>& ring,
                                             const math::RowTileGrid<std::int32_t>& grid,
                                             const GroupTable& table, Loading loading) {
  TileQueue queue(*params.counters);
  RowTileWalk walk(params, grid, table);
  math::RowTurns turns(walk.sequence(), grid.columns(), gridDim.x, blockIdx.x);
  auto tile = walk.find(turns.index());
  while (tile.valid()) {
    const bool shared = turns.shared();
    if (shared) queue.ask();
    // Of half a tile nothing may exist.
    if (tile.columns > 0) load_tile<kConfig>(maps, params, ring, loading, tile);
    turns.advance(shared ? queue.answer() : 0);
    tile = walk.find(turns.index());
  }
  queue.leave();
  send_end<kConfig>(ring, loading);
}

/// The same in wgrad. Where lengths differ, the tiles go to whoever is free, the longest first.
/// Else every CTA takes each gridDim.x-th, and the last round's are halved as in forward.
template <KernelConfig kConfig, class Loading>
__device__ __forceinline__ void produce_weights(const TensorMaps& maps, const KernelParams& params,
                                                const Ring<kConfig>& ring, Loading loading) {
  TileQueue queue(*params.counters);
  WeightTileWalk walk(params);
  const bool shared = !walk.same_length();
  const math::HalvedTiles tiles =
      shared ? math::HalvedTiles{walk.count(), 0} : math::halve_last_round(walk.count(), gridDim.x);
  std::int64_t index = blockIdx.x;
  auto place = math::place_of(tiles, index);
  auto tile = walk.find(place.tile);
  while (tile.valid()) {
    if (shared) queue.ask();
    if (place.side >= 0) tile = math::half_of(tile, params.weights, place.side);
    // The right half of a tile may lie past the last column.
    if (tile.k_count > 0) load_tile<kConfig>(maps, params, ring, loading, tile);
    index = shared ? gridDim.x + queue.answer() : index + gridDim.x;
    place = math::place_of(tiles, index);
    tile = walk.find(place.tile);
  }
  queue.leave();
  send_end<kConfig>(ring, loading);
}

}  // namespace moesaic::backends::cuda
