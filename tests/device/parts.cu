// SPDX-License-Identifier: Apache-2.0
// See parts.hpp.

#include "backends/cuda/block/epilogue.cuh"
#include "backends/cuda/block/tile_walk.cuh"
#include "device/parts.hpp"

namespace moesaic::device_tests {
namespace {

using backends::cuda::KernelConfig;
namespace block = backends::cuda;

__global__ void walk_kernel(block::KernelParams params, unsigned long long* different,
                            unsigned long long* tiles) {
  __shared__ block::GroupTable table;
  block::build_group_table(params, table);
  if (threadIdx.x >= 32) return;
  block::RowTileWalk walk(params, table);
  math::RowTileCursor<const std::int32_t*, std::int32_t> cursor(params.offs, params.rows,
                                                                blockIdx.x, gridDim.x);
  unsigned long long wrong = 0, all = 0;
  for (std::int64_t index = blockIdx.x;; index += gridDim.x) {
    const DeviceTile tile = walk.find(index);
    if (!tile.valid() || !cursor.valid()) {
      wrong += tile.valid() != cursor.valid() ? 1U : 0U;
      break;
    }
    wrong += tile == cursor.tile() ? 0U : 1U;
    ++all;
    cursor.advance();
  }
  atomicAdd(different, wrong);  // every lane: all must agree
  if (threadIdx.x == 0) atomicAdd(tiles, all);
}

struct Bf16Rows {
  static constexpr KernelConfig kConfig = {.tile_m = 128, .tile_n = 256};
};
struct F32Rows {
  static constexpr KernelConfig kConfig = {.tile_m = 128, .tile_n = 256, .f32_out = true};
};

/// The fragment of a wgmma: see stage_panel.
template <class Rows>
__global__ void stage_kernel(bool rows, int panel, uint4* out) {
  constexpr KernelConfig kConfig = Rows::kConfig;
  __shared__ __align__(1024) unsigned char staging[block::kPanelBytes];
  constexpr int kSums = kConfig.columns_per_warpgroup() / 2;
  float sums[kSums];
  const int lane = block::lane_id();
  const int row = static_cast<int>(threadIdx.x / 32) * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    sums[i] = static_cast<float>(rows ? row + i / 2 % 2 * 8 : column);
  }
#pragma unroll
  for (int which = 0; which < kConfig.output_panels(); ++which) {
    if (which == panel)
      block::stage_panel<kConfig>(block::ptx::shared_address(staging), sums, which);
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < block::kPanelBytes / 16; i += blockDim.x) {
    out[i] = reinterpret_cast<const uint4*>(staging)[i];
  }
}

}  // namespace

void compare_walks(const std::int32_t* offs, const math::RowTileGrid<std::int32_t>& grid,
                   int workers, unsigned long long* different, unsigned long long* tiles,
                   cudaStream_t stream) {
  block::KernelParams params;
  params.offs = offs;
  params.rows = grid;
  params.num_experts = grid.num_experts;
  params.max_rows = grid.max_rows;
  walk_kernel<<<workers, block::kThreads, 0, stream>>>(params, different, tiles);
}

void stage_fragment(bool f32_out, bool rows, int panel, void* out, cudaStream_t stream) {
  if (f32_out) {
    stage_kernel<F32Rows><<<1, 128, 0, stream>>>(rows, panel, static_cast<uint4*>(out));
  } else {
    stage_kernel<Bf16Rows><<<1, 128, 0, stream>>>(rows, panel, static_cast<uint4*>(out));
  }
}

}  // namespace moesaic::device_tests
