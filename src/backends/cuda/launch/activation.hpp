// SPDX-License-Identifier: Apache-2.0
// The activation by itself: for strategies that have no product with it in the epilogue.
#pragma once

#include "backends/backend.hpp"

namespace moesaic::backends::cuda::launch {

void swiglu(const ActivationArgs& args, const Stream& stream);
void dswiglu(const ActivationArgs& args, const Stream& stream);
void scale_rows(const ScaleRowsArgs& args, const Stream& stream);

}  // namespace moesaic::backends::cuda::launch
