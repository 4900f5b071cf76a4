// SPDX-License-Identifier: Apache-2.0
// See parts.hpp.

#include "backends/cuda/block/epilogue.cuh"
#include "backends/cuda/block/row_tile_walk.cuh"
#include "backends/cuda/block/weight_tile_walk.cuh"
#include "device/parts.hpp"

namespace moesaic::device_tests {
namespace {

namespace block = backends::cuda;

/// Whether there is a tile `index`; counts it, and whether both find the same.
template <class Walk, class Cursor>
__device__ bool same(Walk& walk, Cursor& cursor, std::int64_t index, unsigned long long& wrong,
                     unsigned long long& all) {
  const auto tile = walk.find(index);
  cursor.seek(index);
  if (!tile.valid() || !cursor.valid()) {
    wrong += tile.valid() != cursor.valid() ? 1U : 0U;
    return false;
  }
  wrong += tile == cursor.tile() ? 0U : 1U;
  ++all;
  return true;
}

/// Follows `walk` and `cursor` in the steps of a worker that takes every `gridDim.x`th tile and now
/// and then leaves some out, as a worker of a shared queue does.
template <class Walk, class Cursor>
__device__ void follow(Walk& walk, Cursor& cursor, unsigned long long* different,
                       unsigned long long* tiles) {
  unsigned long long wrong = 0, all = 0;
  for (std::int64_t index = blockIdx.x; same(walk, cursor, index, wrong, all);) {
    index += gridDim.x + index % 3;
  }
  atomicAdd(different, wrong);  // every lane: all must agree
  if (threadIdx.x == 0) atomicAdd(tiles, all);
}

__global__ void row_walk_kernel(block::KernelParams params, unsigned long long* different,
                                unsigned long long* tiles) {
  __shared__ block::GroupTable table;
  block::build_group_table<block::KernelConfig{}.threads() / 32>(params, params.rows, table);
  if (threadIdx.x >= 32) return;
  block::RowTileWalk walk(params, params.rows, table);
  math::RowTileCursor<const std::int32_t*, std::int32_t> cursor(params.offs, params.rows, gridDim.x,
                                                                blockIdx.x);
  follow(walk, cursor, different, tiles);
  // And again, in the turns of a worker, which take two ways at once where few rows are spread.
  unsigned long long wrong = walk.sequence() == cursor.sequence() ? 0U : 1U, all = 0;
  block::RowTileWalk again(params, params.rows, table);
  math::RowTurns turns(again.sequence(), params.rows.columns(), gridDim.x, blockIdx.x);
  for (std::int64_t asked = blockIdx.x; same(again, cursor, turns.index(), wrong, all);) {
    const bool shared = turns.shared();
    turns.advance(shared ? asked : 0);
    asked += shared ? gridDim.x : 0;
  }
  atomicAdd(different, wrong);
  if (threadIdx.x == 0) atomicAdd(tiles, all);
}

__global__ void weight_walk_kernel(block::KernelParams params, unsigned long long* different,
                                   unsigned long long* tiles) {
  using Cursor = math::WeightTileCursor<const std::int32_t*, std::int32_t>;
  block::WeightTileWalk<block::KernelConfig{.wgrad = true}> walk(params);
  Cursor cursor(params.offs, params.weights, blockIdx.x);
  follow(walk, cursor, different, tiles);
  // And again, through the tiles of pairs where they work together.
  block::WeightTileWalk<block::KernelConfig{.wgrad = true, .pair = true}> pairs(params);
  const bool together = pairs.same_length();
  const auto grid = together ? math::pair_weight_grid(params.weights) : params.weights;
  Cursor again(params.offs, grid, blockIdx.x);
  follow(pairs, again, different, tiles);
}

/// The fragment of a wgmma: see stage_panel.
template <bool kF32Out>
__global__ void stage_kernel(bool rows, int panel, uint4* out) {
  constexpr int kPanelColumns = kF32Out ? 32 : 64;
  __shared__ __align__(1024) unsigned char staging[block::kPanelBytes];
  float sums[128];
  const int lane = block::lane_id();
#pragma unroll
  for (int i = 0; i < 128; ++i) {
    const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    sums[i] = static_cast<float>(rows ? lane / 4 + i / 2 % 2 * 8 : column);
  }
#pragma unroll
  for (int which = 0; which < 256 / kPanelColumns; ++which) {
    if (which == panel)
      block::stage_panel<kF32Out>(block::ptx::shared_address(staging), sums, which);
  }
  __syncwarp();
  for (int i = lane; i < block::kPanelBytes / 16; i += 32) {
    out[i] = reinterpret_cast<const uint4*>(staging)[i];
  }
}

}  // namespace

void compare_row_walks(const std::int32_t* offs, const math::RowTileGrid<std::int32_t>& grid,
                       int workers, unsigned long long* different, unsigned long long* tiles,
                       cudaStream_t stream) {
  block::KernelParams params;
  params.offs = offs;
  params.rows = grid;
  params.num_experts = grid.num_experts;
  params.max_rows = grid.max_rows;
  row_walk_kernel<<<workers, block::KernelConfig{}.threads(), 0, stream>>>(params, different,
                                                                           tiles);
}

void compare_weight_walks(const std::int32_t* offs, const math::WeightTileGrid<std::int32_t>& grid,
                          int workers, unsigned long long* different, unsigned long long* tiles,
                          cudaStream_t stream) {
  block::KernelParams params;
  params.offs = offs;
  params.weights = grid;
  params.num_experts = grid.num_experts;
  params.max_rows = grid.max_rows;
  weight_walk_kernel<<<workers, 32, 0, stream>>>(params, different, tiles);
}

void stage_fragment(bool f32_out, bool rows, int panel, void* out, cudaStream_t stream) {
  if (f32_out) {
    stage_kernel<true><<<1, 32, 0, stream>>>(rows, panel, static_cast<uint4*>(out));
  } else {
    stage_kernel<false><<<1, 32, 0, stream>>>(rows, panel, static_cast<uint4*>(out));
  }
}

}  // namespace moesaic::device_tests
