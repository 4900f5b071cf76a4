// SPDX-License-Identifier: Apache-2.0
// What the expert MLP refuses, by the names of its own structs and before anything is written. Its
// workspaces and packed weights, which are the plan's, it checks itself.
#pragma once

#include "moesaic/expert_mlp.hpp"

namespace moesaic::ops {

/// @throws Error{invalid_argument} naming the argument.
void check_forward(const ExpertMlpProblem& mlp, Device device, const ExpertMlpForwardArgs& args);
void check_backward(const ExpertMlpProblem& mlp, Device device, const ExpertMlpBackwardArgs& args);

/// A gradient of rank 0 is not.
inline bool wanted(const TensorView& gradient) { return gradient.rank != 0; }

}  // namespace moesaic::ops
