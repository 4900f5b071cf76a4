// SPDX-License-Identifier: Apache-2.0
// The SwiGLU expert: Y_e = (up * silu(gate)) W_down,e^T with [up gate] = X_e W_ug,e^T, and its
// backward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "moesaic/grouped_gemm.hpp"

namespace moesaic {

/// Which columns of U = X W_ug^T [M, 2h] are up and which are gate. There is no default: libraries
/// disagree, shapes cannot tell, and a wrong guess trains to nonsense.
enum class UpGateOrder : std::uint8_t {
  up_gate,      ///< Columns [0, h) are up, [h, 2h) gate.
  gate_up,      ///< Columns [0, h) are gate, [h, 2h) up.
  interleaved,  ///< Even columns are up, odd ones gate.
};

/// What forward keeps for backward.
enum class Activations : std::uint8_t {
  save,       ///< U [M, 2h] is kept; backward derives H from it.
  recompute,  ///< Nothing but x is kept; backward computes U again (4*M*d*h more FLOPs).
};

/// Which row of x each row of the buffer is.
enum class XRows : std::uint8_t {
  in_order,  ///< x is [M, d]: row m is its row m.
  indexed,   ///< x is [T, d]: row m is its row x_rows[m]. Read there; copied where no kernel can.
  copied,    ///< The same, copied whatever can: what `indexed` is compared with.
};

/// The enumerator's own word: "up_gate", "save", …
std::string_view name(UpGateOrder order) noexcept;
std::string_view name(Activations mode) noexcept;
std::string_view name(XRows rows) noexcept;

/// An expert MLP without its data. M = `max_rows` is the buffers' capacity, not the rows routed.
struct ExpertMlpProblem {
  Format format = Format::bf16;
  int num_experts = 0;        ///< E
  std::int64_t max_rows = 0;  ///< M
  std::int64_t d = 0, h = 0;  ///< Model width and expert width, multiples of 8.
  UpGateOrder order;          ///< No default, see UpGateOrder.
  Activations activations = Activations::save;
  Tail tail = Tail::leave;          ///< Of y, dx and drow_weights.
  DType wgrad_dtype = DType::bf16;  ///< Of dw_up_gate and dw_down; f32 for an f32 problem.
  bool accumulate_wgrad = false;    ///< dw += result.
  bool row_weights = false;         ///< Rows of y have weights.
  XRows x_rows = XRows::in_order;
  Strategy strategy = Strategy::grouped;
  Capacity capacity{};
};

/// Layouts: x [M, d] (or [T, d], see XRows), w_up_gate [E, 2h, d], w_down [E, d, h], offs int32
/// [E], y [M, d], u [M, 2h], row_weights f32 [M], x_rows int32 [M].
struct ExpertMlpForwardArgs {
  ConstTensorView x, w_up_gate, w_down, offs;
  TensorView y;
  TensorView u{};  ///< Kept for backward. Required with `save`, left empty with `recompute`.
  const PackedWeights* packed_up_gate = nullptr;  ///< In place of w_up_gate.
  const PackedWeights* packed_down = nullptr;     ///< In place of w_down.
  Workspace scratch{};                            ///< See ExpertMlp::forward_scratch_bytes.
  /// What row r of y is multiplied by before it is rounded. Required with the problem's
  /// `row_weights`, else empty. Read of rows of valid segments alone.
  ConstTensorView row_weights{};
  /// Required unless the problem's `x_rows` is in_order, else empty. A row of x may come any number
  /// of times; an index outside of x is a row of zeros. Of rows at or past the last segment's end
  /// none is read.
  ConstTensorView x_rows{};
};

/// dx [M, d], dw_up_gate [E, 2h, d], dw_down [E, d, h]. dx may be the very memory of x: both weight
/// gradients are computed before dx is written. Tail rows of x, u, dy and row_weights never reach a
/// gradient. A gradient of rank 0 is not wanted, and what only it needs is not computed; one is
/// wanted. With `x_rows`, dx is still [M, d], of the rows; a row of x has the sum of those that it
/// is, which is the caller's, and dx lies apart from x.
struct ExpertMlpBackwardArgs {
  ConstTensorView dy, x, w_up_gate, w_down, offs;
  ConstTensorView u{};  ///< What forward kept; empty with `recompute`.
  TensorView dx, dw_up_gate, dw_down;
  Workspace scratch{};            ///< See ExpertMlp::backward_scratch_bytes.
  ConstTensorView row_weights{};  ///< Those of forward; required with the problem's `row_weights`.
  /// f32 [M]: dy_r · (what y_r was before its weight), summed in FP32 from dh and unrounded h in
  /// one order. Rows of no segment as the problem's `tail` says.
  TensorView drow_weights{};
  ConstTensorView x_rows{};  ///< Those of forward.
};

namespace detail {
class ExpertMlpImpl;
}

/// A planned expert MLP, composed of grouped products: immutable, safe to share between threads.
class ExpertMlp {
 public:
  /// @throws Error like GroupedGemm::plan.
  static ExpertMlp plan(const ExpertMlpProblem& problem, const DeviceInfo& device,
                        const PlanOptions& options = {});

  [[nodiscard]] const ExpertMlpProblem& problem() const noexcept;
  /// Of the product of up and gate. Named in PlanOptions, it has the other products like it.
  [[nodiscard]] std::string implementation() const;
  /// With x_rows: whether a call copies the rows of x into its scratch, M*d elements, and reads
  /// them there.
  [[nodiscard]] bool copies_x() const noexcept;
  [[nodiscard]] std::size_t forward_workspace_bytes() const noexcept;
  [[nodiscard]] std::size_t backward_workspace_bytes() const noexcept;
  /// The part of the workspace's bytes that holds intermediates: of any content, and needed only
  /// while a call runs. Given apart as `scratch`, the workspace needs that much less.
  [[nodiscard]] std::size_t forward_scratch_bytes() const noexcept;
  [[nodiscard]] std::size_t backward_scratch_bytes() const noexcept;

  /// Weights for ExpertMlpForwardArgs, each in place of its tensor; backward reads the tensors.
  /// @throws Error like GroupedGemm::pack_weights.
  [[nodiscard]] PackedWeights pack_up_gate(const Operand& w_up_gate, Stream stream) const;
  [[nodiscard]] PackedWeights pack_down(const Operand& w_down, Stream stream) const;

  /// Two grouped products; the activation is in the epilogue of the first or between them, row
  /// weights are in the epilogue of the second or behind it, through an FP32 [M, d] of scratch, as
  /// the implementation has it. Faults: read_fault(workspace, stream).
  /// @throws Error like GroupedGemm::execute; the message names the argument of this struct.
  void forward(const ExpertMlpForwardArgs& args, Workspace workspace, Stream stream) const;
  /// Order: dh, du (and h, drow_weights), dw_down, dw_up_gate, dx last.
  void backward(const ExpertMlpBackwardArgs& args, Workspace workspace, Stream stream) const;

 private:
  explicit ExpertMlp(std::shared_ptr<const detail::ExpertMlpImpl> impl);
  std::shared_ptr<const detail::ExpertMlpImpl> impl_;
};

}  // namespace moesaic
