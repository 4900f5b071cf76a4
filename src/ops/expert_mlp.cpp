// SPDX-License-Identifier: Apache-2.0
// The SwiGLU expert as grouped products around the element-wise activation.

#include "moesaic/expert_mlp.hpp"

#include <string>
#include <utility>

#include "core/validate.hpp"
#include "dispatch/backend_list.hpp"
#include "ops/expert_mlp_checks.hpp"
#include "ops/expert_mlp_plan.hpp"

namespace moesaic {
namespace {

using Impl = detail::ExpertMlpImpl;

std::size_t unsigned_bytes(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }

/// Cuts the intermediates out of the memory that holds them.
class Scratch {
 public:
  Scratch(const Impl& impl, const Workspace& workspace, const Workspace& apart,
          const detail::WorkspaceSizes& sizes)
      : impl_(impl),
        next_(apart.bytes.empty() ? workspace.bytes.data() + sizes.products : apart.bytes.data()) {}

  /// A dense [M, columns] matrix, of the operands' type unless another is named.
  TensorView matrix(std::int64_t columns) {
    return matrix(columns, core::operand_dtype(impl_.problem.format));
  }
  TensorView matrix(std::int64_t columns, DType dtype) {
    const TensorView view{
        next_,          dtype, impl_.device_info.device, 2, {impl_.problem.max_rows, columns, 0},
        {columns, 1, 0}};
    next_ += detail::matrix_bytes(impl_.problem, columns, dtype);
    return view;
  }

 private:
  const Impl& impl_;
  std::byte* next_;
};

bool recomputes(const Impl& impl) { return impl.problem.activations == Activations::recompute; }

/// Packed weights, where they are given, are those of these products.
void check_packed(const Impl& impl, const ExpertMlpForwardArgs& args) {
  if (args.packed_up_gate != nullptr) {
    core::check_packed("packed_up_gate", *args.packed_up_gate, impl.up.implementation(),
                       impl.up.problem());
  }
  if (args.packed_down != nullptr) {
    core::check_packed("packed_down", *args.packed_down, impl.down.implementation(),
                       impl.down.problem());
  }
}

void check_memory(const Impl& impl, const Workspace& workspace, const Workspace& apart,
                  const detail::WorkspaceSizes& sizes) {
  const Device device = impl.device_info.device;
  const bool within = apart.bytes.empty();
  core::check_workspace(workspace, unsigned_bytes(within ? sizes.total : sizes.products), device);
  if (!within) {
    core::check_workspace(apart, unsigned_bytes(sizes.scratch), device, "scratch");
  }
}

GroupedGemmArgs product_args(const ConstTensorView& a, const ConstTensorView& b,
                             const ConstTensorView& offs, const TensorView& d,
                             const PackedWeights* packed = nullptr) {
  GroupedGemmArgs args;
  args.a.qdata = a;
  if (packed == nullptr) {
    args.b.qdata = b;
  }
  args.offs = offs;
  args.d = d;
  args.packed_b = packed;
  return args;
}

const backends::Backend& activation_of(const Impl& impl) {
  return dispatch::activation_backend(impl.device_info.device.kind);
}

/// The rows of the buffer: x as it is given, perhaps with the index that finds them in it, or a
/// copy in their order.
struct RowsOfX {
  ConstTensorView x, x_rows;
};
template <class Args>
RowsOfX rows_of_x(const Impl& impl, const Args& args, Scratch& scratch, const Stream& stream) {
  if (!impl.copies_x()) {
    return {args.x, args.x_rows};
  }
  const TensorView rows = scratch.matrix(impl.problem.d);
  activation_of(impl).take_rows({args.x, args.x_rows, args.offs, rows, impl.threads}, stream);
  return {rows, {}};
}

/// Forward's U, where it is kept, and H. `scratch` is free again afterwards.
void up_gate(const Impl& impl, const ExpertMlpForwardArgs& args, const TensorView& h,
             Scratch scratch, const Workspace& workspace, const Stream& stream) {
  const RowsOfX rows = rows_of_x(impl, args, scratch, stream);
  if (impl.fused != nullptr) {  // which has no packed layout
    impl.fused->up_gate({rows.x, args.w_up_gate, args.offs, args.u, h, rows.x_rows}, workspace,
                        stream);
    return;
  }
  const TensorView u = recomputes(impl) ? scratch.matrix(2 * impl.problem.h) : args.u;
  impl.up.execute(product_args(rows.x, args.w_up_gate, args.offs, u, args.packed_up_gate),
                  workspace, stream);
  activation_of(impl).swiglu({u, args.offs, {}, h, {}, impl.problem.order, impl.threads}, stream);
}

/// Forward's y of H: the product itself, or times the weights of the rows; where nothing fused does
/// that, the product goes to FP32 first.
void down(const Impl& impl, const ExpertMlpForwardArgs& args, const TensorView& h, Scratch scratch,
          const Workspace& workspace, const Stream& stream) {
  const bool weighted = impl.problem.row_weights;
  if (weighted && impl.fused != nullptr) {
    impl.fused->weighted_down({h, args.w_down, args.offs, args.row_weights, args.y}, workspace,
                              stream);
    return;
  }
  const TensorView y = weighted ? scratch.matrix(impl.problem.d, DType::f32) : args.y;
  impl.down.execute(product_args(h, args.w_down, args.offs, y, args.packed_down), workspace,
                    stream);
  if (weighted) {
    activation_of(impl).scale_rows(
        {y, args.row_weights, args.offs, args.y, impl.problem.tail, impl.threads}, stream);
  }
}

/// Backward's dU and the gradient of the rows' weights, where anything needs them, and H times
/// these weights, where it is wanted.
void down_gradient(const Impl& impl, const ExpertMlpBackwardArgs& args, const RowsOfX& rows,
                   const TensorView& du, const TensorView& h, Scratch& scratch,
                   const Workspace& workspace, const Stream& stream) {
  const bool needs_du = ops::wanted(args.dx) || ops::wanted(args.dw_up_gate);
  const bool needs_dh = needs_du || ops::wanted(args.drow_weights);
  TensorView missing_h = ops::wanted(args.dw_down) ? h : TensorView{};
  ConstTensorView u = args.u;
  if (recomputes(impl)) {
    const TensorView again = scratch.matrix(2 * impl.problem.h);
    u = again;
    if (impl.fused != nullptr) {
      // H comes with U; without weights of rows it is what dw_down takes.
      const bool weighted = impl.problem.row_weights;
      const TensorView kept = needs_du || weighted ? again : TensorView{};
      impl.fused->up_gate({rows.x, args.w_up_gate, args.offs, kept, h, rows.x_rows}, workspace,
                          stream);
      if (!weighted) {
        missing_h = {};
      }
    } else {
      impl.up.execute(product_args(rows.x, args.w_up_gate, args.offs, again), workspace, stream);
    }
  }
  if (needs_du && impl.fuses_gradient()) {
    impl.fused->down_gradient({args.dy, args.w_down, args.offs, u, du, missing_h}, workspace,
                              stream);
  } else if (needs_dh) {
    const TensorView dh = scratch.matrix(impl.problem.h);
    impl.dh.execute(product_args(args.dy, args.w_down, args.offs, dh), workspace, stream);
    activation_of(impl).dswiglu(
        {u, args.offs, dh, missing_h, needs_du ? du : TensorView{}, impl.problem.order,
         impl.threads, args.row_weights, args.drow_weights, impl.problem.tail},
        stream);
  } else if (missing_h.data != nullptr) {
    activation_of(impl).swiglu(
        {u, args.offs, {}, h, {}, impl.problem.order, impl.threads, args.row_weights}, stream);
  }
}

/// Backward's dw_up_gate.
void up_gate_wgrad(const Impl& impl, const ExpertMlpBackwardArgs& args, const RowsOfX& rows,
                   const TensorView& du, const Workspace& workspace, const Stream& stream) {
  if (rows.x_rows.rank != 0) {  // left to what is fused
    impl.fused->up_gate_wgrad({du, rows.x, rows.x_rows, args.offs, args.dw_up_gate}, workspace,
                              stream);
  } else {
    impl.dw_up.execute(product_args(du, rows.x, args.offs, args.dw_up_gate), workspace, stream);
  }
}

}  // namespace

ExpertMlp::ExpertMlp(std::shared_ptr<const detail::ExpertMlpImpl> impl) : impl_(std::move(impl)) {}

ExpertMlp ExpertMlp::plan(const ExpertMlpProblem& problem, const DeviceInfo& device,
                          const PlanOptions& options) {
  core::check_problem(problem);
  dispatch::activation_backend(device.device.kind);  // refuse now, not in forward
  return ExpertMlp(std::make_shared<const detail::ExpertMlpImpl>(problem, device, options));
}

const ExpertMlpProblem& ExpertMlp::problem() const noexcept { return impl_->problem; }

std::string ExpertMlp::implementation() const {
  return std::string(impl_->fused ? impl_->fused->name() : impl_->up.implementation());
}

bool ExpertMlp::copies_x() const noexcept { return impl_->copies_x(); }

std::size_t ExpertMlp::forward_workspace_bytes() const noexcept {
  return unsigned_bytes(impl_->forward_sizes.total);
}

std::size_t ExpertMlp::backward_workspace_bytes() const noexcept {
  return unsigned_bytes(impl_->backward_sizes.total);
}

std::size_t ExpertMlp::forward_scratch_bytes() const noexcept {
  return unsigned_bytes(impl_->forward_sizes.scratch);
}

std::size_t ExpertMlp::backward_scratch_bytes() const noexcept {
  return unsigned_bytes(impl_->backward_sizes.scratch);
}

PackedWeights ExpertMlp::pack_up_gate(const Operand& w_up_gate, Stream stream) const {
  return impl_->up.pack_weights(w_up_gate, stream);
}

PackedWeights ExpertMlp::pack_down(const Operand& w_down, Stream stream) const {
  return impl_->down.pack_weights(w_down, stream);
}

void ExpertMlp::forward(const ExpertMlpForwardArgs& args, Workspace workspace,
                        Stream stream) const {
  const Impl& impl = *impl_;
  check_packed(impl, args);
  ops::check_forward(impl.problem, impl.device_info.device, args);
  check_memory(impl, workspace, args.scratch, impl.forward_sizes);
  core::check_stream(stream, impl.device_info.device);
  Scratch scratch(impl, workspace, args.scratch, impl.forward_sizes);
  const TensorView h = scratch.matrix(impl.problem.h);
  up_gate(impl, args, h, scratch, workspace, stream);
  down(impl, args, h, scratch, workspace, stream);
}

void ExpertMlp::backward(const ExpertMlpBackwardArgs& args, Workspace workspace,
                         Stream stream) const {
  const Impl& impl = *impl_;
  ops::check_backward(impl.problem, impl.device_info.device, args);
  check_memory(impl, workspace, args.scratch, impl.backward_sizes);
  core::check_stream(stream, impl.device_info.device);
  Scratch scratch(impl, workspace, args.scratch, impl.backward_sizes);
  const TensorView du = scratch.matrix(2 * impl.problem.h);
  const TensorView h = scratch.matrix(impl.problem.h);
  RowsOfX rows;
  if (recomputes(impl) || ops::wanted(args.dw_up_gate)) {
    rows = rows_of_x(impl, args, scratch, stream);
  }
  down_gradient(impl, args, rows, du, h, scratch, workspace, stream);
  if (ops::wanted(args.dw_down)) {
    impl.dw_down.execute(product_args(args.dy, h, args.offs, args.dw_down), workspace, stream);
  }
  if (ops::wanted(args.dw_up_gate)) {
    up_gate_wgrad(impl, args, rows, du, workspace, stream);
  }
  if (ops::wanted(args.dx)) {
    // Last: dx may be the memory of x, which dw_up has just read.
    impl.dx.execute(product_args(du, args.w_up_gate, args.offs, args.dx), workspace, stream);
  }
}

}  // namespace moesaic
