// SPDX-License-Identifier: Apache-2.0
// Checks of one grouped product.

#include <cstdint>
#include <string>
#include <vector>

#include "check/compare.hpp"
#include "core/message.hpp"
#include "core/validate.hpp"
#include "math/expert_segment.hpp"

namespace moesaic {
namespace {

using check::Bounded;
using core::Sum;

struct Sampled {
  const GroupedGemmProblem& problem;
  const GroupedGemmArgs& args;
  const CheckOptions& options;
  ConstTensorView d_before;

  [[nodiscard]] math::RowRange segment(std::int64_t expert) const {
    return math::expert_rows(static_cast<const std::int32_t*>(args.offs.data),
                             static_cast<std::int32_t>(expert), problem.max_rows);
  }
  [[nodiscard]] std::uint64_t seed(std::int64_t expert) const {
    return check::expert_seed(options, expert);
  }
};

/// One row of forward or dgrad.
template <class T>
void check_row(const Sampled& in, std::int64_t expert, std::int64_t row, CheckResult& result) {
  const ConstTensorView& a = in.args.a.qdata;
  const ConstTensorView& b = in.args.b.qdata;
  const bool dot_form =
      (in.problem.pass == Pass::forward) == (in.problem.weights == WeightStorage::enk);
  const T* left = static_cast<const T*>(a.data) + row * a.stride[0];
  const T* weights = static_cast<const T*>(b.data) + expert * b.stride[0];
  const std::int64_t width = in.args.d.shape[1];
  std::vector<Sum> sums(static_cast<std::size_t>(width));
  for (std::int64_t outer = 0; outer < b.shape[1]; ++outer) {
    const T* line = weights + outer * b.stride[1];
    for (std::int64_t inner = 0; inner < b.shape[2]; ++inner) {
      const std::int64_t contracted = dot_form ? inner : outer;
      const std::int64_t column = dot_form ? outer : inner;
      sums[static_cast<std::size_t>(column)].add(core::load(left[contracted]) *
                                                 core::load(line[inner]));
    }
  }
  const char* name = in.problem.pass == Pass::forward ? "y" : "dx";
  for (std::int64_t column = 0; column < width; ++column) {
    const Bounded want = check::rounded(sums[static_cast<std::size_t>(column)], in.problem.d_dtype);
    check::compare(check::load_element(in.args.d, row * in.args.d.stride[0] + column), want,
                   {name, expert, row, column}, result);
  }
}

/// Elements rows x columns of dw[expert].
template <class T>
void check_weights(const Sampled& in, std::int64_t expert, const std::vector<std::int64_t>& rows,
                   const std::vector<std::int64_t>& columns, CheckResult& result) {
  const bool enk = in.problem.weights == WeightStorage::enk;
  const ConstTensorView& left = enk ? in.args.a.qdata : in.args.b.qdata;
  const ConstTensorView& right = enk ? in.args.b.qdata : in.args.a.qdata;
  const TensorView& d = in.args.d;
  const math::RowRange segment = in.segment(expert);
  for (const std::int64_t i : rows) {
    std::vector<Sum> sums(columns.size());
    for (std::int64_t row = segment.begin; row < segment.end; ++row) {
      const double factor = core::load(static_cast<const T*>(left.data)[row * left.stride[0] + i]);
      const T* line = static_cast<const T*>(right.data) + row * right.stride[0];
      for (std::size_t j = 0; j < columns.size(); ++j) {
        sums[j].add(factor * core::load(line[columns[j]]));
      }
    }
    for (std::size_t j = 0; j < columns.size(); ++j) {
      if (in.problem.accumulate) {
        sums[j].add(check::load_element(
            in.d_before, expert * in.d_before.stride[0] + i * in.d_before.stride[1] + columns[j]));
      }
      Bounded want = check::rounded(sums[j], in.problem.d_dtype);
      if (segment.empty()) {
        want.error = 0;  // zero, or the old content, bit for bit
      }
      const double got =
          check::load_element(d, expert * d.stride[0] + i * d.stride[1] + columns[j]);
      check::compare(got, want, {"dw", expert, i, columns[j]}, result);
    }
  }
}

template <class T>
void check_expert(const Sampled& in, std::int64_t expert, CheckResult& result) {
  const math::RowRange segment = in.segment(expert);
  if (in.problem.pass != Pass::wgrad) {
    for (const std::int64_t row :
         check::sample(segment.rows(), in.options.rows_per_expert, in.seed(expert))) {
      check_row<T>(in, expert, segment.begin + row, result);
    }
    return;
  }
  // A square sample: a few rows of dw crossed with a few columns costs one pass over the segment.
  std::int64_t side = in.options.elements_per_expert;
  if (side >= 0) {
    std::int64_t root = 1;
    while ((root + 1) * (root + 1) <= side) {
      ++root;
    }
    side = root;
  }
  check_weights<T>(in, expert, check::sample(in.args.d.shape[1], side, in.seed(expert)),
                   check::sample(in.args.d.shape[2], side, in.seed(expert) + 1), result);
}

}  // namespace

CheckResult check_grouped_gemm(const GroupedGemmProblem& problem, const GroupedGemmArgs& args,
                               const CheckOptions& options, ConstTensorView d_before) {
  core::check_problem(problem);
  GroupedGemmArgs plain = args;
  plain.packed_b = nullptr;  // the reference reads the weights themselves
  core::check_args(problem, plain, Device{});
  if (problem.accumulate) {
    const core::OperandShapes shapes = core::operand_shapes(problem);
    core::check_matrix(
        "d_before", d_before,
        {problem.d_dtype, Device{}, shapes.d_experts, shapes.d_rows, shapes.d_columns, false});
  }
  const Sampled in{problem, plain, options, d_before};
  return check::check_experts(problem.num_experts, [&](std::int64_t expert, CheckResult& result) {
    problem.format == Format::f32 ? check_expert<float>(in, expert, result)
                                  : check_expert<BFloat16>(in, expert, result);
  });
}

}  // namespace moesaic
