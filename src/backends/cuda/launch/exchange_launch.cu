// SPDX-License-Identifier: Apache-2.0
// See exchange_launch.hpp. The one translation unit with NVSHMEM's device code.

#include "backends/cuda/kernels/barrier_kernel.cuh"
#include "backends/cuda/kernels/exchange_kernels.cuh"
#include "backends/cuda/kernels/fan_out_kernels.cuh"
#include "backends/cuda/kernels/route_map_kernels.cuh"
#include "backends/cuda/launch/exchange_launch.hpp"
#include "backends/cuda/launch/kernel_launch.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

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

LaunchGrid grid(std::int64_t ctas, int threads) {
  return {static_cast<unsigned>(ctas), static_cast<unsigned>(threads)};
}

}  // namespace

void launch_barrier(const transport::GroupView& group, cudaStream_t stream) {
  launch_kernel("barrier_kernel", barrier_kernel, grid(1, kBarrierThreads), stream, group);
}

void launch_route_counts(const RouteMapParams& params, cudaStream_t stream) {
  launch_kernel("count_routes_kernel", count_routes_kernel,
                grid(params.blocks.count, kRouteThreads), stream, params);
  const std::int64_t warps = params.placement.num_experts();
  launch_kernel("scan_blocks_kernel", scan_blocks_kernel,
                grid(math::ceil_div<std::int64_t>(warps, kRouteWarps), kRouteThreads), stream,
                params);
}

void launch_route_places(const RouteMapParams& params, cudaStream_t stream) {
  launch_kernel("scan_cells_kernel", scan_cells_kernel,
                grid(params.placement.num_ranks, kCellThreads), stream, params);
  launch_kernel("place_routes_kernel", place_routes_kernel,
                grid(math::ceil_div<std::int64_t>(params.blocks.count, kRouteWarps), kRouteThreads),
                stream, params);
}

void launch_inverse_maps(const RouteMapParams& params, cudaStream_t stream) {
  if (params.capacity == 0) return;
  const std::int64_t blocks = math::ceil_div<std::int64_t>(params.capacity, kRouteThreads);
  launch_kernel("inverse_maps_kernel", inverse_maps_kernel,
                grid(math::min<std::int64_t>(blocks, 1024), kRouteThreads), stream, params);
}

void launch_put(const ExchangeParams& params, DType dtype, int blocks, cudaStream_t stream) {
  if (params.routes == 0) return;
  with_access(params, [&]<Access kAccess>() {
    if (params.probs == nullptr) {
      launch_kernel("put_rows_kernel", put_rows_kernel<kAccess>, grid(blocks, kExchangeThreads),
                    stream, params);
    } else {
      with_element(dtype, [&]<class T>() {
        launch_kernel("put_weighted_rows_kernel", put_weighted_rows_kernel<T, kAccess>,
                      grid(blocks, kExchangeThreads), stream, params);
      });
    }
  });
}

void launch_put_tokens(const ExchangeParams& params, const FanOutParams& fan_out, DType dtype,
                       int blocks, cudaStream_t stream) {
  with_access(params, [&]<Access kAccess>() {
    with_element(dtype, [&]<class T>() {
      launch_kernel("put_tokens_kernel", put_tokens_kernel<T, kAccess>,
                    grid(blocks, kExchangeThreads), stream, params, fan_out);
    });
  });
}

void launch_copy_tokens(const ExchangeParams& params, const FanOutParams& fan_out, DType dtype,
                        int blocks, cudaStream_t stream) {
  with_element(dtype, [&]<class T>() {
    launch_kernel("copy_tokens_kernel", copy_tokens_kernel<T>, grid(blocks, kExchangeThreads),
                  stream, params, fan_out);
  });
}

void launch_gather(const ExchangeParams& params, int blocks, cudaStream_t stream) {
  if (params.routes == 0) return;
  with_access(params, [&]<Access kAccess>() {
    launch_kernel("gather_rows_kernel", gather_rows_kernel<kAccess>, grid(blocks, kExchangeThreads),
                  stream, params);
  });
}

void launch_combine(const ExchangeParams& params, DType dtype, bool gathered, int blocks,
                    cudaStream_t stream) {
  if (params.routes == 0) return;
  with_element(dtype, [&]<class T>() {
    const auto launch = [&](void (*kernel)(ExchangeParams)) {
      launch_kernel("combine_rows_kernel", kernel, grid(blocks, kExchangeThreads), stream, params);
    };
    if (gathered) {
      launch(combine_rows_kernel<T, Access::mapped, true>);
      return;
    }
    with_access(params, [&]<Access kAccess>() { launch(combine_rows_kernel<T, kAccess, false>); });
  });
}

void launch_probs_grad(const ProbsGradParams& params, DType dtype, int blocks,
                       cudaStream_t stream) {
  if (params.routes == 0) return;
  with_element(dtype, [&]<class T>() {
    launch_kernel("probs_grad_kernel", probs_grad_kernel<T>, grid(blocks, kExchangeThreads), stream,
                  params);
  });
}

}  // namespace moesaic::backends::cuda::launch
