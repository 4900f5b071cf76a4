// SPDX-License-Identifier: Apache-2.0
// SwiGLU between the two products of the expert MLP, in double precision.
#pragma once

#include "backends/backend.hpp"

namespace moesaic::backends::reference {

/// h = up * silu(gate), times their weights, for the rows of valid segments.
void activation_forward(const ActivationArgs& args);
/// du from dh and u, h again and drow_weights, each when args has it.
void activation_backward(const ActivationArgs& args);
/// y = row_weights * sums, and its tail.
void scale_rows(const ScaleRowsArgs& args);
/// Rows of x where x_rows says they go.
void take_rows(const TakeRowsArgs& args);

}  // namespace moesaic::backends::reference
