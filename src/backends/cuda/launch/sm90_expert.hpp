// SPDX-License-Identifier: Apache-2.0
// The SwiGLU expert's products with the activation in their launch, on one Hopper device.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backends/backend.hpp"

namespace moesaic::backends::cuda::launch {

/// Null where the kernels do not take the problem; the products and the activation apart then do,
/// or say why they do not. `implementation`: see ExpertKernels::choose.
std::unique_ptr<const FusedExpert> make_sm90_expert(
    const ExpertMlpProblem& problem, const DeviceInfo& device,
    const std::optional<std::string>& implementation);

}  // namespace moesaic::backends::cuda::launch
