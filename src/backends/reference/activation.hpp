// SPDX-License-Identifier: Apache-2.0
// SwiGLU between the two products of the expert MLP, in double precision.
#pragma once

#include "backends/backend.hpp"

namespace moesaic::backends::reference {

/// h = up * silu(gate) for the rows of valid segments.
void activation_forward(const ActivationArgs& args);
/// du from dh and u, and h again when args.h is given.
void activation_backward(const ActivationArgs& args);

}  // namespace moesaic::backends::reference
