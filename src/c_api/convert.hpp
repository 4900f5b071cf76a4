// SPDX-License-Identifier: Apache-2.0
// Structs of the C ABI as the C++ types they stand for. Numbers that are no enumerator are refused
// by the name of their field.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "moesaic/c_api.h"
#include "moesaic/c_api_exchange.h"
#include "moesaic/expert_mlp.hpp"
#include "moesaic/expert_parallel.hpp"
#include "moesaic/grouped_gemm.hpp"

// What the opaque handles hold.
struct moesaic_gemm {
  moesaic::GroupedGemm plan;
  moesaic::Device device;
  std::string implementation;
};
struct moesaic_expert_mlp {
  moesaic::ExpertMlp plan;
  moesaic::Device device;
  std::string implementation;
};
struct moesaic_packed_weights {
  moesaic::PackedWeights weights;
};
struct moesaic_candidate_list {
  std::vector<moesaic::Candidate> candidates;
};

namespace moesaic::c_api {

Device to_device(const moesaic_device& device);
GroupedGemmProblem to_problem(const moesaic_gemm_problem& problem);
ExpertMlpProblem to_problem(const moesaic_expert_mlp_problem& problem);
ExpertParallelProblem to_problem(const moesaic_ep_problem& problem);
/// Null gives the defaults.
PlanOptions to_options(const moesaic_plan_options* options);

TensorView to_view(std::string_view argument, const moesaic_tensor& tensor);
ConstTensorView to_const_view(std::string_view argument, const moesaic_tensor& tensor);
Operand to_operand(std::string_view argument, const moesaic_operand& operand);
inline const PackedWeights* to_packed(const moesaic_packed_weights* packed) {
  return packed == nullptr ? nullptr : &packed->weights;
}

Workspace to_workspace(void* data, std::size_t size_bytes, Device device);
inline Workspace to_workspace(const moesaic_workspace& workspace, Device device) {
  return to_workspace(workspace.data, workspace.size_bytes, device);
}

/// query_device(), asked once per device.
const DeviceInfo& device_info(Device device);

}  // namespace moesaic::c_api
