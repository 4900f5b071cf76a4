// SPDX-License-Identifier: Apache-2.0
// See exchange_launch.hpp. The one translation unit with NVSHMEM's device code.

#include "backends/cuda/kernels/barrier_kernel.cuh"
#include "backends/cuda/kernels/exchange_kernels.cuh"
#include "backends/cuda/kernels/route_map_kernels.cuh"
#include "backends/cuda/launch/cuda_error.hpp"
#include "backends/cuda/launch/exchange_launch.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

void check_launch(const char* kernel) { check_cuda(cudaGetLastError(), kernel); }

template <class Body>
void with_access(const ExchangeParams& params, const Body& body) {
  params.group.all_mapped ? body.template operator()<Access::mapped>()
                          : body.template operator()<Access::any>();
}

template <class Body>
void with_element(DType dtype, const Body& body) {
  dtype == DType::bf16 ? body.template operator()<__nv_bfloat16>()
                       : body.template operator()<float>();
}

unsigned grid(std::int64_t blocks) { return static_cast<unsigned>(blocks); }

}  // namespace

void launch_barrier(const transport::GroupView& group, cudaStream_t stream) {
  barrier_kernel<<<1, kBarrierThreads, 0, stream>>>(group);
  check_launch("barrier_kernel");
}

void launch_route_counts(const RouteMapParams& params, cudaStream_t stream) {
  count_routes_kernel<<<grid(params.blocks.count), kRouteThreads, 0, stream>>>(params);
  check_launch("count_routes_kernel");
  const std::int64_t warps = params.placement.num_experts();
  scan_blocks_kernel<<<grid(math::ceil_div<std::int64_t>(warps, kRouteWarps)), kRouteThreads, 0,
                       stream>>>(params);
  check_launch("scan_blocks_kernel");
}

void launch_route_places(const RouteMapParams& params, cudaStream_t stream) {
  scan_cells_kernel<<<grid(params.placement.num_ranks), kCellThreads, 0, stream>>>(params);
  check_launch("scan_cells_kernel");
  place_routes_kernel<<<grid(math::ceil_div<std::int64_t>(params.blocks.count, kRouteWarps)),
                        kRouteThreads, 0, stream>>>(params);
  check_launch("place_routes_kernel");
}

void launch_inverse_maps(const RouteMapParams& params, cudaStream_t stream) {
  if (params.capacity == 0) return;
  const std::int64_t blocks = math::ceil_div<std::int64_t>(params.capacity, kRouteThreads);
  inverse_maps_kernel<<<grid(math::min<std::int64_t>(blocks, 1024)), kRouteThreads, 0, stream>>>(
      params);
  check_launch("inverse_maps_kernel");
}

void launch_put(const ExchangeParams& params, DType dtype, int blocks, cudaStream_t stream) {
  if (params.routes == 0) return;
  with_access(params, [&]<Access kAccess>() {
    if (params.probs == nullptr) {
      put_rows_kernel<kAccess><<<grid(blocks), kExchangeThreads, 0, stream>>>(params);
    } else {
      with_element(dtype, [&]<class T>() {
        put_weighted_rows_kernel<T, kAccess><<<grid(blocks), kExchangeThreads, 0, stream>>>(params);
      });
    }
  });
  check_launch("put_rows_kernel");
}

void launch_gather(const ExchangeParams& params, int blocks, cudaStream_t stream) {
  if (params.routes == 0) return;
  with_access(params, [&]<Access kAccess>() {
    gather_rows_kernel<kAccess><<<grid(blocks), kExchangeThreads, 0, stream>>>(params);
  });
  check_launch("gather_rows_kernel");
}

void launch_combine(const ExchangeParams& params, DType dtype, bool gathered, int blocks,
                    cudaStream_t stream) {
  if (params.routes == 0) return;
  with_element(dtype, [&]<class T>() {
    if (gathered) {
      combine_rows_kernel<T, Access::mapped, true>
          <<<grid(blocks), kExchangeThreads, 0, stream>>>(params);
      return;
    }
    with_access(params, [&]<Access kAccess>() {
      combine_rows_kernel<T, kAccess, false><<<grid(blocks), kExchangeThreads, 0, stream>>>(params);
    });
  });
  check_launch("combine_rows_kernel");
}

void launch_probs_grad(const ProbsGradParams& params, DType dtype, int blocks,
                       cudaStream_t stream) {
  if (params.routes == 0) return;
  with_element(dtype, [&]<class T>() {
    probs_grad_kernel<T><<<grid(blocks), kExchangeThreads, 0, stream>>>(params);
  });
  check_launch("probs_grad_kernel");
}

}  // namespace moesaic::backends::cuda::launch
