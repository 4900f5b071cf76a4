// SPDX-License-Identifier: Apache-2.0
// The SwiGLU expert behind its C handle.

#include "moesaic/expert_mlp.hpp"

#include "c_api/convert.hpp"
#include "c_api/status.hpp"

using namespace moesaic::c_api;

namespace {

moesaic::ExpertMlpForwardArgs to_args(const moesaic_expert_mlp_forward_args& args,
                                      moesaic::Device device) {
  moesaic::ExpertMlpForwardArgs result;
  result.x = to_const_view("x", args.x);
  result.w_up_gate = to_const_view("w_up_gate", args.w_up_gate);
  result.w_down = to_const_view("w_down", args.w_down);
  result.offs = to_const_view("offs", args.offs);
  result.y = to_view("y", args.y);
  result.u = to_view("u", args.u);
  result.packed_up_gate = to_packed(args.packed_up_gate);
  result.packed_down = to_packed(args.packed_down);
  result.scratch = to_workspace(args.scratch, device);
  result.row_weights = to_const_view("row_weights", args.row_weights);
  result.x_rows = to_const_view("x_rows", args.x_rows);
  return result;
}

moesaic::ExpertMlpBackwardArgs to_args(const moesaic_expert_mlp_backward_args& args,
                                       moesaic::Device device) {
  moesaic::ExpertMlpBackwardArgs result;
  result.dy = to_const_view("dy", args.dy);
  result.x = to_const_view("x", args.x);
  result.w_up_gate = to_const_view("w_up_gate", args.w_up_gate);
  result.w_down = to_const_view("w_down", args.w_down);
  result.offs = to_const_view("offs", args.offs);
  result.u = to_const_view("u", args.u);
  result.dx = to_view("dx", args.dx);
  result.dw_up_gate = to_view("dw_up_gate", args.dw_up_gate);
  result.dw_down = to_view("dw_down", args.dw_down);
  result.scratch = to_workspace(args.scratch, device);
  result.row_weights = to_const_view("row_weights", args.row_weights);
  result.x_rows = to_const_view("x_rows", args.x_rows);
  result.drow_weights = to_view("drow_weights", args.drow_weights);
  return result;
}

moesaic::Stream stream_of(const moesaic_expert_mlp& handle, void* stream) {
  return moesaic::Stream::from_native(handle.device, stream);
}

}  // namespace

extern "C" {

int moesaic_expert_mlp_create(const moesaic_expert_mlp_problem* problem, moesaic_device device,
                              const moesaic_plan_options* options, moesaic_expert_mlp** plan) {
  return guarded([&] {
    const moesaic::Device where = to_device(device);
    moesaic_expert_mlp*& result = required("plan", plan);
    const auto mlp = moesaic::ExpertMlp::plan(to_problem(required("problem", problem)),
                                              device_info(where), to_options(options));
    result = new moesaic_expert_mlp{mlp, where, mlp.implementation()};
  });
}

void moesaic_expert_mlp_destroy(moesaic_expert_mlp* plan) { delete plan; }

const char* moesaic_expert_mlp_implementation(const moesaic_expert_mlp* plan) {
  return plan == nullptr ? "" : plan->implementation.c_str();
}

int32_t moesaic_expert_mlp_copies_x(const moesaic_expert_mlp* plan) {
  return plan != nullptr && plan->plan.copies_x() ? 1 : 0;
}

size_t moesaic_expert_mlp_forward_workspace_bytes(const moesaic_expert_mlp* plan) {
  return plan == nullptr ? 0 : plan->plan.forward_workspace_bytes();
}

size_t moesaic_expert_mlp_backward_workspace_bytes(const moesaic_expert_mlp* plan) {
  return plan == nullptr ? 0 : plan->plan.backward_workspace_bytes();
}

size_t moesaic_expert_mlp_forward_scratch_bytes(const moesaic_expert_mlp* plan) {
  return plan == nullptr ? 0 : plan->plan.forward_scratch_bytes();
}

size_t moesaic_expert_mlp_backward_scratch_bytes(const moesaic_expert_mlp* plan) {
  return plan == nullptr ? 0 : plan->plan.backward_scratch_bytes();
}

int moesaic_expert_mlp_pack_up_gate(const moesaic_expert_mlp* plan,
                                    const moesaic_operand* w_up_gate, void* stream,
                                    moesaic_packed_weights** packed) {
  return guarded([&] {
    const moesaic_expert_mlp& handle = required("plan", plan);
    moesaic_packed_weights*& result = required("packed", packed);
    result = new moesaic_packed_weights{handle.plan.pack_up_gate(
        to_operand("w_up_gate", required("w_up_gate", w_up_gate)), stream_of(handle, stream))};
  });
}

int moesaic_expert_mlp_pack_down(const moesaic_expert_mlp* plan, const moesaic_operand* w_down,
                                 void* stream, moesaic_packed_weights** packed) {
  return guarded([&] {
    const moesaic_expert_mlp& handle = required("plan", plan);
    moesaic_packed_weights*& result = required("packed", packed);
    result = new moesaic_packed_weights{handle.plan.pack_down(
        to_operand("w_down", required("w_down", w_down)), stream_of(handle, stream))};
  });
}

int moesaic_expert_mlp_forward(const moesaic_expert_mlp* plan,
                               const moesaic_expert_mlp_forward_args* args,
                               const moesaic_workspace* workspace, void* stream) {
  return guarded([&] {
    const moesaic_expert_mlp& handle = required("plan", plan);
    handle.plan.forward(to_args(required("args", args), handle.device),
                        to_workspace(required("workspace", workspace), handle.device),
                        stream_of(handle, stream));
  });
}

int moesaic_expert_mlp_backward(const moesaic_expert_mlp* plan,
                                const moesaic_expert_mlp_backward_args* args,
                                const moesaic_workspace* workspace, void* stream) {
  return guarded([&] {
    const moesaic_expert_mlp& handle = required("plan", plan);
    handle.plan.backward(to_args(required("args", args), handle.device),
                         to_workspace(required("workspace", workspace), handle.device),
                         stream_of(handle, stream));
  });
}

}  // extern "C"
