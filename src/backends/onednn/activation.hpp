// SPDX-License-Identifier: Apache-2.0
// SwiGLU between the two products of the expert MLP in single precision, written to be vectorized.
// It has no dnnl call: it lives here because it is the CPU's fast path, as the products beside it
// are.
#pragma once

#include "backends/backend.hpp"

namespace moesaic::backends::onednn {

/// h = up * silu(gate), times their weights, for the rows of valid segments.
void activation_forward(const ActivationArgs& args);
/// du from dh and u, h again and drow_weights, each when args has it.
void activation_backward(const ActivationArgs& args);
/// y = row_weights * sums, and its tail.
void scale_rows(const ScaleRowsArgs& args);
/// Rows of x where x_rows says they go.
void take_rows(const TakeRowsArgs& args);

}  // namespace moesaic::backends::onednn
