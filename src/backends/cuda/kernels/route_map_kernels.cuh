// SPDX-License-Identifier: Apache-2.0
// Route maps on the device, by the parallel form of math/row_route.hpp: count blocks of routes,
// scan the blocks of each expert and hand the totals to all ranks, (barrier,) scan the cells of
// each destination, place the routes.
#pragma once

#include <cstdint>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_scan.cuh>

#include "backends/cuda/kernels/exchange_params.hpp"
#include "backends/cuda/transport/peer_access.cuh"
#include "math/route_fault.hpp"
#include "math/row_route.hpp"

namespace moesaic::backends::cuda {

inline constexpr int kRouteThreads = 256;
inline constexpr int kRouteWarps = kRouteThreads / transport::kWarp;
inline constexpr int kCellThreads = 512;

/// Begin of the counts that this call works on. A rank may be one call ahead of another, which
/// still reads the counts of the call before; it cannot be two ahead, since the barrier lies
/// between.
__device__ __forceinline__ std::int64_t turn_offset(const RouteMapParams& p) {
  return (*p.calls & 1u) == 0 ? 0 : math::count_index(p.placement, p.placement.num_ranks, 0);
}

/// One CTA per block of routes.
__global__ void __launch_bounds__(kRouteThreads) count_routes_kernel(RouteMapParams p) {
  if (transport::is_broken(p.group)) return;
  const std::int32_t num_experts = p.placement.num_experts();
  std::int32_t* counts = p.block_counts + static_cast<std::int64_t>(blockIdx.x) * num_experts;
  for (std::int32_t e = static_cast<std::int32_t>(threadIdx.x); e < num_experts; e += kRouteThreads)
    counts[e] = 0;
  if (blockIdx.x == 0 && threadIdx.x == 0) *p.dropped_routes = 0;
  __syncthreads();
  const math::RouteRange routes = math::route_block(blockIdx.x, p.blocks.size, p.num_routes);
  for (std::int64_t route = routes.begin + threadIdx.x; route < routes.end;
       route += kRouteThreads) {
    const std::int32_t id = p.ids[route];
    const std::int32_t expert = math::routed_expert(id, num_experts);
    // Sums of integers: the same in any order.
    if (expert >= 0) atomicAdd(&counts[expert], 1);
    const std::uint64_t fault = math::encode_route_fault(
        math::expert_id_fault(id, num_experts, static_cast<std::int32_t>(route)));
    if (fault != 0) atomicMax(p.fault_word, static_cast<unsigned long long>(fault));
  }
}

/// One warp per expert: math::scan_blocks(), 32 blocks at a time. The total goes to every rank.
__global__ void __launch_bounds__(kRouteThreads) scan_blocks_kernel(RouteMapParams p) {
  if (transport::is_broken(p.group)) return;
  using Scan = cub::WarpScan<std::int32_t>;
  __shared__ typename Scan::TempStorage scratch[kRouteWarps];
  const int warp = static_cast<int>(threadIdx.x) / transport::kWarp;
  const std::int32_t num_experts = p.placement.num_experts();
  const std::int32_t expert = static_cast<std::int32_t>(blockIdx.x) * kRouteWarps + warp;
  if (expert >= num_experts) return;  // a whole warp
  std::int32_t total = 0;
  for (std::int64_t begin = 0; begin < p.blocks.count; begin += transport::kWarp) {
    const std::int64_t block = begin + transport::lane();
    const std::int64_t index = block * num_experts + expert;
    const std::int32_t count = block < p.blocks.count ? p.block_counts[index] : 0;
    std::int32_t earlier = 0, sum = 0;
    Scan(scratch[warp]).ExclusiveSum(count, earlier, sum);
    if (block < p.blocks.count) p.block_counts[index] = total + earlier;
    total += sum;
    __syncwarp();  // the scratch is used again
  }
  const std::int64_t index = turn_offset(p) + math::count_index(p.placement, p.group.rank, expert);
  for (int rank = transport::lane(); rank < p.placement.num_ranks; rank += transport::kWarp) {
    transport::put_int(p.peers[rank], index, total);
  }
}

/// One CTA per destination rank: math::scan_cells(), kCellThreads cells at a time; that of this
/// rank writes offs and kept.
__global__ void __launch_bounds__(kCellThreads) scan_cells_kernel(RouteMapParams p) {
  if (transport::is_broken(p.group)) return;
  using Scan = cub::BlockScan<std::int64_t, kCellThreads>;
  __shared__ typename Scan::TempStorage scratch;
  const auto rank = static_cast<std::int32_t>(blockIdx.x);
  const std::int32_t* counts = p.counts + turn_offset(p);
  const std::int64_t cells = math::num_cells(p.placement);
  std::int64_t row = 0;
  for (std::int64_t begin = 0; begin < cells; begin += kCellThreads) {
    const std::int64_t cell = begin + threadIdx.x;
    const std::int64_t index = cell < cells ? math::cell_index(p.placement, rank, cell) : 0;
    const std::int64_t count = cell < cells ? counts[index] : 0;
    std::int64_t earlier = 0, sum = 0;
    Scan(scratch).ExclusiveSum(count, earlier, sum);
    if (cell < cells) p.first_rows[index] = row + earlier;
    row += sum;
    __syncthreads();  // the scratch is used again, and first_rows are read below
  }
  if (rank != p.group.rank) return;
  for (std::int32_t local = static_cast<std::int32_t>(threadIdx.x);
       local < p.placement.local_experts; local += kCellThreads) {
    const std::int32_t expert = p.placement.first_expert(rank) + local;
    const std::int32_t end = math::kept_end(counts, p.first_rows, p.placement, expert, p.capacity);
    p.offs[local] = end;
    if (p.kept != nullptr) {
      p.kept[local] = math::kept_rows(p.first_rows, p.placement, expert, end, p.capacity);
    }
  }
}

/// One warp per block of routes, 32 routes at a time. block_counts become the cursors.
__global__ void __launch_bounds__(kRouteThreads) place_routes_kernel(RouteMapParams p) {
  if (transport::is_broken(p.group)) return;
  const int lane = transport::lane();
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * kRouteWarps +
                             static_cast<int>(threadIdx.x) / transport::kWarp;
  if (blockIdx.x == 0 && threadIdx.x == 0) *p.calls += 1;  // nobody below reads counts any more
  if (block >= p.blocks.count) return;
  const std::int32_t num_experts = p.placement.num_experts();
  std::int32_t* cursors = p.block_counts + block * num_experts;
  const std::int64_t* first_rows = p.first_rows + math::count_index(p.placement, p.group.rank, 0);
  const math::RouteRange routes = math::route_block(block, p.blocks.size, p.num_routes);
  std::int32_t dropped = 0;
  for (std::int64_t begin = routes.begin; begin < routes.end; begin += transport::kWarp) {
    const std::int64_t route = begin + lane;
    const bool in_range = route < routes.end;
    const std::int32_t expert = in_range ? math::routed_expert(p.ids[route], num_experts) : -1;
    const std::uint32_t same = __match_any_sync(0xFFFFFFFFu, expert);
    const math::LanePlace place = math::lane_place(same, lane);
    math::RouteTarget target;
    std::int32_t cursor = 0;
    if (expert >= 0) {
      cursor = cursors[expert] + place.earlier;
      target = math::route_target(p.placement, expert, first_rows[expert] + cursor, p.capacity);
      dropped += target.kept() ? 0 : 1;
    }
    __syncwarp();  // all lanes have read the cursors before the last of each expert moves them on
    if (expert >= 0 && place.last) cursors[expert] = cursor + 1;
    __syncwarp();
    if (!in_range) continue;
    p.dst_ranks[route] = target.rank;
    p.dst_rows[route] = target.row;
    if (p.src_ranks != nullptr && target.kept()) {
      const std::int64_t at = p.sources_index + std::int64_t{2} * target.row;
      transport::put_int(p.peers[target.rank], at, p.group.rank);
      transport::put_int(p.peers[target.rank], at + 1, static_cast<std::int32_t>(route));
    }
  }
  if (dropped > 0) atomicAdd(p.dropped_routes, static_cast<unsigned long long>(dropped));
}

/// Behind a barrier: what the ranks wrote about this rank's rows, apart and with −1 in the tail.
__global__ void __launch_bounds__(kRouteThreads) inverse_maps_kernel(RouteMapParams p) {
  if (transport::is_broken(p.group)) return;
  const std::int32_t end = p.offs[p.placement.local_experts - 1];
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kRouteThreads;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kRouteThreads + threadIdx.x;
       row < p.capacity; row += step) {
    const std::int32_t* source = p.counts + p.sources_index + 2 * row;
    p.src_ranks[row] = row < end ? source[0] : -1;
    p.src_routes[row] = row < end ? source[1] : -1;
  }
}

}  // namespace moesaic::backends::cuda
