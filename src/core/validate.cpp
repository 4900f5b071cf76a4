// SPDX-License-Identifier: Apache-2.0
// Validation of problems and arguments; see validate.hpp.

#include "core/validate.hpp"

#include <algorithm>
#include <string>

#include "core/enum_words.hpp"
#include "core/field_checks.hpp"
#include "core/grouped_gemm_impl.hpp"
#include "core/message.hpp"
#include "math/integer.hpp"

namespace moesaic::core {
namespace {

void check_capacity(const Capacity& capacity) {
  check_constant("capacity.rule", capacity.rule);
  if (capacity.factor_millionths <= 0) {
    refuse("capacity.factor_millionths", "a positive factor",
           std::to_string(capacity.factor_millionths));
  }
  check_range("capacity.source_ranks", capacity.source_ranks, 1, 1'000'000);
}

std::string shape_text(const MatrixSpec& spec) {
  std::string text(name(spec.dtype));
  text += " [";
  if (spec.experts > 0) {
    text += std::to_string(spec.experts) + ", ";
  }
  return text + std::to_string(spec.rows) + ", " + std::to_string(spec.columns) + "] on " +
         to_string(spec.device);
}

void check_stride(std::string_view argument, std::string_view which, std::int64_t stride,
                  std::int64_t least, std::int64_t element_bytes) {
  if (stride < least) {
    refuse(argument, std::string(which) + " stride of at least " + std::to_string(least),
           std::to_string(stride));
  }
  if (stride % (kAlignmentBytes / element_bytes) != 0) {
    refuse(argument, std::string(which) + " stride that is a multiple of 16 bytes",
           std::to_string(stride) + " elements of " + std::to_string(element_bytes) + " bytes");
  }
}

/// Elements from the first one of `count` lines, a stride apart and `line` elements long, to behind
/// the last one; held at 2^63 - 1.
std::int64_t span_elems(std::int64_t count, std::int64_t stride, std::int64_t line) {
  return math::saturating_add(math::saturating_mul(count - 1, std::max<std::int64_t>(stride, 0)),
                              line);
}

/// Refuses a stride whose last element lies past every address.
void check_span(std::string_view argument, std::string_view which, std::int64_t stride,
                std::int64_t elems, std::int64_t element_bytes) {
  if (math::saturating_mul(elems, element_bytes) == math::kInt64Max) {
    refuse(argument, std::string(which) + " stride that ends below 2^63 bytes",
           std::to_string(stride));
  }
}

/// Bytes from the first element to behind the last one, of any view; held at 2^63 - 1.
std::int64_t extent_bytes(const ConstTensorView& view) {
  std::int64_t elems = 1;
  for (std::size_t axis = 0; axis < view.shape.size(); ++axis) {
    if (static_cast<int>(axis) >= view.rank) {
      break;
    }
    if (view.shape[axis] <= 0) {
      return 0;
    }
    elems = span_elems(view.shape[axis], view.stride[axis], elems);
  }
  return math::saturating_mul(elems, size_bytes(view.dtype));
}

/// Two column windows of one row-strided buffer lie beside each other and share no element.
bool separate_columns(const ConstTensorView& a, const ConstTensorView& b, std::int64_t distance) {
  if (a.rank != 2 || b.rank != 2) {
    return false;
  }
  const auto bytes = [](std::int64_t elems, DType dtype) {
    return math::saturating_mul(std::max<std::int64_t>(elems, 0), size_bytes(dtype));
  };
  const std::int64_t pitch = bytes(a.stride[0], a.dtype);
  if (pitch == 0 || pitch == math::kInt64Max || pitch != bytes(b.stride[0], b.dtype)) {
    return false;
  }
  std::int64_t shift = distance % pitch;  // b's first column behind a's
  shift += shift < 0 ? pitch : 0;
  return shift >= bytes(a.shape[1], a.dtype) && bytes(b.shape[1], b.dtype) <= pitch - shift;
}

/// What the two problems say alike of how they run.
void check_run(Tail tail, Strategy strategy, const Capacity& capacity) {
  check_constant("tail", tail);
  check_constant("strategy", strategy);
  check_capacity(capacity);
}

}  // namespace

DType operand_dtype(Format format) { return format == Format::f32 ? DType::f32 : DType::bf16; }

void check_format(Format format, DType d_dtype, std::string_view d_field) {
  check_constant("format", format);
  if (format == Format::mxfp8) {
    refuse("format", "bf16 or f32", "mxfp8, which this version does not multiply",
           ErrorCode::unsupported);
  }
  const bool fits = d_dtype == DType::f32 || (d_dtype == DType::bf16 && format == Format::bf16);
  if (!fits) {
    refuse(d_field, format == Format::bf16 ? "bf16 or f32" : "f32 for an f32 problem",
           name(d_dtype));
  }
}

void check_problem(const GroupedGemmProblem& problem) {
  check_range("num_experts", problem.num_experts, 1, kMaxExperts);
  check_range("max_rows", problem.max_rows, 0, kMaxRows);
  check_constant("pass", problem.pass);
  check_constant("weights", problem.weights);
  check_run(problem.tail, problem.strategy, problem.capacity);
  check_width("n", problem.n);
  check_width("k", problem.k);
  check_format(problem.format, problem.d_dtype, "d_dtype");
  if (problem.accumulate && problem.pass != Pass::wgrad) {
    refuse("accumulate", "false, since only wgrad accumulates",
           "true with pass " + std::string(name(problem.pass)));
  }
}

void check_problem(const ExpertMlpProblem& problem) {
  check_range("num_experts", problem.num_experts, 1, kMaxExperts);
  check_range("max_rows", problem.max_rows, 0, kMaxRows);
  check_constant("order", problem.order);
  check_constant("activations", problem.activations);
  check_constant("x_rows", problem.x_rows);
  check_run(problem.tail, problem.strategy, problem.capacity);
  check_width("d", problem.d);
  check_width("h", problem.h);
  if (problem.h > kMaxWidth / 2) {
    refuse("h", "at most 2^29, since u has 2h columns", std::to_string(problem.h));
  }
  check_format(problem.format, problem.wgrad_dtype, "wgrad_dtype");
}

void check_matrix(std::string_view argument, const ConstTensorView& view, const MatrixSpec& spec) {
  const bool batched = spec.experts > 0;
  const std::size_t row_axis = batched ? 1 : 0;
  const bool fits = view.rank == (batched ? 3 : 2) && view.dtype == spec.dtype &&
                    view.device == spec.device && (!batched || view.shape[0] == spec.experts) &&
                    view.shape[row_axis] == spec.rows && view.shape[row_axis + 1] == spec.columns;
  if (!fits) {
    refuse(argument, shape_text(spec), describe(view));
  }
  if (spec.rows == 0) {
    return;  // nothing is read or written: neither pointer nor strides matter
  }
  if (view.data == nullptr) {
    refuse(argument, "memory", "a null pointer");
  }
  if (reinterpret_cast<std::uintptr_t>(view.data) % kAlignmentBytes != 0) {
    refuse(argument, "a 16-byte aligned address",
           "one that is off by " +
               std::to_string(reinterpret_cast<std::uintptr_t>(view.data) % kAlignmentBytes));
  }
  if (view.stride[row_axis + 1] != 1) {
    refuse(argument, "a last stride of 1", std::to_string(view.stride[row_axis + 1]));
  }
  const std::int64_t element_bytes = size_bytes(spec.dtype);
  const std::int64_t row_stride = view.stride[row_axis];
  if (spec.rows > 1) {
    check_stride(argument, "a row", row_stride, spec.columns, element_bytes);
  }
  const std::int64_t matrix = span_elems(spec.rows, row_stride, spec.columns);
  check_span(argument, "a row", row_stride, matrix, element_bytes);
  if (batched && spec.experts > 1) {
    check_stride(argument, "an expert", view.stride[0], spec.written ? matrix : 0, element_bytes);
    check_span(argument, "an expert", view.stride[0],
               span_elems(spec.experts, view.stride[0], matrix), element_bytes);
  }
}

void check_vector(std::string_view argument, const ConstTensorView& view, DType dtype,
                  std::int64_t length, Device device) {
  const bool fits = view.rank == 1 && view.dtype == dtype && view.shape[0] == length &&
                    view.device == device && (length <= 1 || view.stride[0] == 1);
  if (!fits) {
    refuse(argument,
           std::string(name(dtype)) + " [" + std::to_string(length) + "] stride [1] on " +
               to_string(device),
           describe(view));
  }
  if (length == 0) {
    return;  // nothing is read or written
  }
  if (view.data == nullptr || reinterpret_cast<std::uintptr_t>(view.data) % 4 != 0) {
    refuse(argument, "a 4-byte aligned address",
           view.data == nullptr ? "a null pointer" : "a misaligned one");
  }
}

void check_offs(std::string_view argument, const ConstTensorView& offs, std::int64_t num_experts,
                Device device) {
  check_vector(argument, offs, DType::i32, num_experts, device);
}

void check_row_numbers(std::string_view argument, const ConstTensorView& view,
                       const ExpertMlpProblem& problem, Device device) {
  if (problem.row_weights) {
    check_vector(argument, view, DType::f32, problem.max_rows, device);
  } else if (view.rank != 0 || view.data != nullptr) {
    refuse(argument, "an empty view, since the problem has no row_weights", describe(view));
  }
}

void check_x(const ConstTensorView& x, const ConstTensorView& x_rows,
             const ExpertMlpProblem& problem, Device device) {
  MatrixSpec spec{operand_dtype(problem.format), device, 0, problem.max_rows, problem.d, false};
  if (problem.x_rows == XRows::in_order) {
    if (x_rows.rank != 0 || x_rows.data != nullptr) {
      refuse("x_rows", "an empty view, since the problem's x_rows is in_order", describe(x_rows));
    }
  } else {
    check_range("x.shape[0]", x.shape[0], 0, kMaxRows);
    spec.rows = x.shape[0];
    check_vector("x_rows", x_rows, DType::i32, problem.max_rows, device);
  }
  check_matrix("x", x, spec);
}

void check_no_overlap(std::string_view written_name, const ConstTensorView& written,
                      std::string_view read_name, const ConstTensorView& read) {
  const std::int64_t written_bytes = extent_bytes(written);
  const std::int64_t read_bytes = extent_bytes(read);
  if (written.data == nullptr || read.data == nullptr || written_bytes == 0 || read_bytes == 0) {
    return;
  }
  const auto written_begin = reinterpret_cast<std::intptr_t>(written.data);
  const auto read_begin = reinterpret_cast<std::intptr_t>(read.data);
  const std::intptr_t distance = read_begin - written_begin;
  const bool apart = distance >= written_bytes || -distance >= read_bytes ||
                     separate_columns(written, read, distance);
  if (!apart) {
    refuse(written_name, "memory apart from " + std::string(read_name),
           "an overlap of " + describe(written) + " with " + describe(read));
  }
}

OperandShapes operand_shapes(const GroupedGemmProblem& problem) {
  const bool enk = problem.weights == WeightStorage::enk;
  const std::int64_t experts = problem.num_experts;
  const std::int64_t weight_rows = enk ? problem.n : problem.k;
  const std::int64_t weight_columns = enk ? problem.k : problem.n;
  switch (problem.pass) {
    case Pass::forward:
      return {problem.k, experts, weight_rows, weight_columns, 0, problem.max_rows, problem.n};
    case Pass::dgrad:
      return {problem.n, experts, weight_rows, weight_columns, 0, problem.max_rows, problem.k};
    case Pass::wgrad:
      break;
  }
  return {problem.n, 0, problem.max_rows, problem.k, experts, weight_rows, weight_columns};
}

void check_args(const GroupedGemmProblem& problem, const GroupedGemmArgs& args, Device device) {
  const OperandShapes shapes = operand_shapes(problem);
  const DType dtype = operand_dtype(problem.format);
  check_matrix("a", args.a.qdata, {dtype, device, 0, problem.max_rows, shapes.a_columns, false});
  if (args.packed_b == nullptr) {
    check_matrix("b", args.b.qdata,
                 {dtype, device, shapes.b_experts, shapes.b_rows, shapes.b_columns, false});
  } else if (args.b.qdata.data != nullptr) {
    refuse("b", "an empty operand when packed_b is given", describe(args.b.qdata));
  } else if (problem.pass == Pass::wgrad) {
    refuse("packed_b", "nothing in wgrad, which reads no weights", "packed weights");
  }
  check_offs("offs", args.offs, problem.num_experts, device);
  check_matrix("d", args.d,
               {problem.d_dtype, device, shapes.d_experts, shapes.d_rows, shapes.d_columns, true});
  check_no_overlap("d", args.d, "a", args.a.qdata);
  check_no_overlap("d", args.d, "b", args.b.qdata);
  check_no_overlap("d", args.d, "offs", args.offs);
  for (const Operand* operand : {&args.a, &args.b}) {
    if (operand->scales.data != nullptr) {
      refuse(operand == &args.a ? "a.scales" : "b.scales",
             "nothing for " + std::string(name(problem.format)) + " operands",
             describe(operand->scales));
    }
  }
}

void check_packed(std::string_view argument, const PackedWeights& packed,
                  std::string_view implementation, const GroupedGemmProblem& problem) {
  if (packed.impl() == nullptr) {
    refuse(argument, "packed weights", "an empty object");
  }
  packed.impl()->check_fits(argument, implementation, problem);
}

void check_stream(const Stream& stream, Device device) {
  if (!(stream.device() == device)) {
    refuse("stream", "a stream of " + to_string(device), "one of " + to_string(stream.device()));
  }
}

}  // namespace moesaic::core
