// SPDX-License-Identifier: Apache-2.0
// Dense products of one size as one oneDNN call: what grouped products are compared with.
#pragma once

#include <memory>

#include "backends/backend.hpp"

namespace moesaic::backends::onednn {

/// @throws Error{unsupported} with oneDNN's reason.
std::unique_ptr<detail::BatchedGemmImpl> make_batched(const BatchedGemmProblem& problem,
                                                      const DeviceInfo& device);

}  // namespace moesaic::backends::onednn
