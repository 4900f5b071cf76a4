// SPDX-License-Identifier: Apache-2.0
// The checks every product passes before a backend sees it. Each refusal names its argument.
#pragma once

#include <cstdint>
#include <string_view>

#include "moesaic/expert_mlp.hpp"
#include "moesaic/grouped_gemm.hpp"

namespace moesaic::core {

/// Alignment of base pointers and of row and expert strides.
inline constexpr std::int64_t kAlignmentBytes = 16;

/// Element type of the operands of a format.
DType operand_dtype(Format format);

/// @throws Error{invalid_argument} naming the field.
void check_problem(const GroupedGemmProblem& problem);
void check_problem(const ExpertMlpProblem& problem);

/// What a matrix argument must be: [rows, columns], or [experts, rows, columns] when experts > 0.
struct MatrixSpec {
  DType dtype;
  Device device;
  std::int64_t experts;  ///< 0 for rank 2.
  std::int64_t rows, columns;
  bool written;  ///< Then no two elements may share memory.
};
void check_matrix(std::string_view argument, const ConstTensorView& view, const MatrixSpec& spec);

/// `dtype` [length] on `device`, dense, 4-byte aligned.
void check_vector(std::string_view argument, const ConstTensorView& view, DType dtype,
                  std::int64_t length, Device device);

/// int32 [E], likewise.
void check_offs(std::string_view argument, const ConstTensorView& offs, std::int64_t num_experts,
                Device device);

/// One number per row, the weights or their gradient: f32 [M] of a problem with row_weights, an
/// empty view of one without.
void check_row_numbers(std::string_view argument, const ConstTensorView& view,
                       const ExpertMlpProblem& problem, Device device);

/// The layer's rows: x [M, d], or x of any number of rows and x_rows int32 [M], as the problem
/// says.
void check_x(const ConstTensorView& x, const ConstTensorView& x_rows,
             const ExpertMlpProblem& problem, Device device);

/// Refuses when an element of `written` may be an element of `read`.
void check_no_overlap(std::string_view written_name, const ConstTensorView& written,
                      std::string_view read_name, const ConstTensorView& read);

/// All of a grouped product's arguments against its problem; `packed_b` is check_packed()'s.
void check_args(const GroupedGemmProblem& problem, const GroupedGemmArgs& args, Device device);

/// `packed` in place of the weights of `problem`, read by `implementation`.
void check_packed(std::string_view argument, const PackedWeights& packed,
                  std::string_view implementation, const GroupedGemmProblem& problem);

void check_stream(const Stream& stream, Device device);

/// Shapes of the operands that the pass implies.
struct OperandShapes {
  std::int64_t a_columns;  ///< a is [M, a_columns].
  std::int64_t b_experts;  ///< 0 when b is [M, b_columns] (wgrad).
  std::int64_t b_rows, b_columns;
  std::int64_t d_experts;  ///< 0 unless wgrad.
  std::int64_t d_rows, d_columns;
};
OperandShapes operand_shapes(const GroupedGemmProblem& problem);

}  // namespace moesaic::core
