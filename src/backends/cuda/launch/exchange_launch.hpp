// SPDX-License-Identifier: Apache-2.0
// Launches of the kernels of expert parallelism, on the current device.
#pragma once

#include <cuda_runtime_api.h>

#include "backends/cuda/kernels/exchange_params.hpp"
#include "moesaic/tensor.hpp"

namespace moesaic::backends::cuda::launch {

void launch_barrier(const transport::GroupView& group, cudaStream_t stream);

/// Up to the counts of all ranks, which a barrier must follow.
void launch_route_counts(const RouteMapParams& params, cudaStream_t stream);
/// Behind that barrier: offs, kept and the maps. With inverse maps another barrier must follow.
void launch_route_places(const RouteMapParams& params, cudaStream_t stream);
/// Behind that one.
void launch_inverse_maps(const RouteMapParams& params, cudaStream_t stream);

/// Weighted where there are probs. Nothing is launched for no route.
void launch_put(const ExchangeParams& params, DType dtype, int blocks, cudaStream_t stream);
/// By fan-out: rows, which a barrier must follow, also where there is no route.
void launch_put_tokens(const ExchangeParams& params, const FanOutParams& fan_out, DType dtype,
                       int blocks, cudaStream_t stream);
/// Behind that barrier: their copies.
void launch_copy_tokens(const ExchangeParams& params, const FanOutParams& fan_out, DType dtype,
                        int blocks, cudaStream_t stream);
void launch_gather(const ExchangeParams& params, int blocks, cudaStream_t stream);
/// `gathered`: the rows lie there already.
void launch_combine(const ExchangeParams& params, DType dtype, bool gathered, int blocks,
                    cudaStream_t stream);
void launch_probs_grad(const ProbsGradParams& params, DType dtype, int blocks, cudaStream_t stream);

}  // namespace moesaic::backends::cuda::launch
