// SPDX-License-Identifier: Apache-2.0
// The grouped product behind its C handle.

#include <cstddef>
#include <string>
#include <utility>

#include "c_api/convert.hpp"
#include "c_api/status.hpp"

using namespace moesaic::c_api;

namespace {

moesaic::GroupedGemmArgs to_args(const moesaic_gemm_args& args) {
  moesaic::GroupedGemmArgs result;
  result.a = to_operand("a", args.a);
  result.b = to_operand("b", args.b);
  result.offs = to_const_view("offs", args.offs);
  result.d = to_view("d", args.d);
  result.packed_b = to_packed(args.packed_b);
  return result;
}

void run(const moesaic_gemm& handle, const moesaic::GroupedGemmArgs& args, void* workspace,
         std::size_t workspace_bytes, void* stream) {
  const moesaic::Device device = handle.device;
  handle.plan.execute(args, to_workspace(workspace, workspace_bytes, device),
                      moesaic::Stream::from_native(device, stream));
}

}  // namespace

extern "C" {

int moesaic_gemm_create(const moesaic_gemm_problem* problem, moesaic_device device,
                        const moesaic_plan_options* options, moesaic_gemm** plan) {
  return guarded([&] {
    const moesaic::Device where = to_device(device);
    moesaic_gemm*& result = required("plan", plan);
    auto gemm = moesaic::GroupedGemm::plan(to_problem(required("problem", problem)),
                                           device_info(where), to_options(options));
    std::string implementation(gemm.implementation());
    result = new moesaic_gemm{std::move(gemm), where, std::move(implementation)};
  });
}

void moesaic_gemm_destroy(moesaic_gemm* plan) { delete plan; }

size_t moesaic_gemm_workspace_bytes(const moesaic_gemm* plan) {
  return plan == nullptr ? 0 : plan->plan.workspace_bytes();
}

const char* moesaic_gemm_implementation(const moesaic_gemm* plan) {
  return plan == nullptr ? "" : plan->implementation.c_str();
}

int moesaic_gemm_execute(const moesaic_gemm* plan, const moesaic_gemm_args* args,
                         const moesaic_workspace* workspace, void* stream) {
  return guarded([&] {
    const moesaic_workspace& scratch = required("workspace", workspace);
    run(required("plan", plan), to_args(required("args", args)), scratch.data, scratch.size_bytes,
        stream);
  });
}

int moesaic_gemm_execute_at(const moesaic_gemm* plan, const moesaic_gemm_args* layout,
                            const void* a, const void* b, const void* offs, void* d,
                            void* workspace, size_t workspace_bytes, void* stream) {
  return guarded([&] {
    moesaic::GroupedGemmArgs args = to_args(required("layout", layout));
    args.a.qdata.data = a;
    args.b.qdata.data = b;
    args.offs.data = offs;
    args.d.data = d;
    run(required("plan", plan), args, workspace, workspace_bytes, stream);
  });
}

int moesaic_gemm_candidates(const moesaic_gemm_problem* problem, moesaic_device device,
                            const moesaic_plan_options* options, moesaic_candidate_list** list) {
  return guarded([&] {
    const moesaic::DeviceInfo& info = device_info(to_device(device));
    required("list", list) = new moesaic_candidate_list{moesaic::GroupedGemm::candidates(
        to_problem(required("problem", problem)), info, to_options(options))};
  });
}

size_t moesaic_candidate_count(const moesaic_candidate_list* list) {
  return list == nullptr ? 0 : list->candidates.size();
}

const char* moesaic_candidate_name(const moesaic_candidate_list* list, size_t index) {
  return index < moesaic_candidate_count(list) ? list->candidates[index].implementation.c_str()
                                               : nullptr;
}

const char* moesaic_candidate_reason(const moesaic_candidate_list* list, size_t index) {
  return index < moesaic_candidate_count(list) ? list->candidates[index].support.reason.c_str()
                                               : nullptr;
}

void moesaic_candidate_list_destroy(moesaic_candidate_list* list) { delete list; }

int moesaic_gemm_pack_weights(const moesaic_gemm* plan, const moesaic_operand* w, void* stream,
                              moesaic_packed_weights** packed) {
  return guarded([&] {
    const moesaic_gemm& handle = required("plan", plan);
    moesaic_packed_weights*& result = required("packed", packed);
    result = new moesaic_packed_weights{handle.plan.pack_weights(
        to_operand("w", required("w", w)), moesaic::Stream::from_native(handle.device, stream))};
  });
}

int64_t moesaic_packed_weights_size_bytes(const moesaic_packed_weights* packed) {
  return packed == nullptr ? 0 : packed->weights.size_bytes();
}

void moesaic_packed_weights_destroy(moesaic_packed_weights* packed) { delete packed; }

}  // extern "C"
