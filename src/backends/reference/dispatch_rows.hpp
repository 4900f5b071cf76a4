// SPDX-License-Identifier: Apache-2.0
// Dispatch of a simulated exchange, in both of its forms.
#pragma once

#include <span>

#include "core/expert_parallel_impl.hpp"

namespace moesaic::backends::reference {

/// Puts every row of every rank; with DispatchForm::fan_out a barrier lies between the rows that
/// travel and their copies.
void dispatch_rows(const detail::ExpertParallelImpl& exchange,
                   std::span<const DispatchPutArgs> ranks);

}  // namespace moesaic::backends::reference
