// SPDX-License-Identifier: Apache-2.0
// The strategies that people compare with, on cuBLAS: padded_bmm and host_loop.
#pragma once

#include <memory>

#include "backends/backend.hpp"

namespace moesaic::backends::cuda::launch {

/// Whether a baseline can run: BF16, cuBLAS loadable; padded_bmm also needs what the grouped kernel
/// needs, which computes its overflow.
Support supports_baseline(const PlanRequest& request, Strategy strategy);

std::shared_ptr<const detail::GroupedGemmImpl> make_padded_bmm(const PlanRequest& request);
std::shared_ptr<const detail::GroupedGemmImpl> make_host_loop(const PlanRequest& request);

/// The same for the dense products of BatchedGemm.
Support supports_batched(const BatchedGemmProblem& problem);
std::unique_ptr<detail::BatchedGemmImpl> make_batched(const BatchedGemmProblem& problem,
                                                      const DeviceInfo& device);

}  // namespace moesaic::backends::cuda::launch
