// SPDX-License-Identifier: Apache-2.0
// The activation by itself, and copies of rows: for strategies that have no product with it in its
// launch, or none that finds its rows.
#pragma once

#include "backends/backend.hpp"

namespace moesaic::backends::cuda::launch {

void swiglu(const ActivationArgs& args, const Stream& stream);
void dswiglu(const ActivationArgs& args, const Stream& stream);
void scale_rows(const ScaleRowsArgs& args, const Stream& stream);
void take_rows(const TakeRowsArgs& args, const Stream& stream);

}  // namespace moesaic::backends::cuda::launch
