// SPDX-License-Identifier: Apache-2.0
// Grouped products on the CPU: exact rows, tiles in parallel (`grouped`) or experts in turn
// (`host_loop`).
#pragma once

#include <memory>
#include <string_view>

#include "backends/backend.hpp"

namespace moesaic::backends::onednn {

std::shared_ptr<const detail::GroupedGemmImpl> make_grouped(std::string_view name,
                                                            const PlanRequest& request);
std::shared_ptr<const detail::GroupedGemmImpl> make_host_loop(std::string_view name,
                                                              const PlanRequest& request);
std::shared_ptr<const detail::GroupedGemmImpl> make_padded(std::string_view name,
                                                           const PlanRequest& request);

}  // namespace moesaic::backends::onednn
