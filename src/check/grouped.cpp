// SPDX-License-Identifier: Apache-2.0
// Checks of one grouped product.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
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

/// Rows of the buffer that are looked at in an expert's segment.
std::vector<std::int64_t> sampled_rows(const math::RowRange& segment, const CheckOptions& options,
                                       std::int64_t expert) {
  std::vector<std::int64_t> rows =
      check::sample(segment.rows(), options.rows_per_expert, check::expert_seed(options, expert));
  for (std::int64_t& row : rows) {
    row += segment.begin;
  }
  return rows;
}

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

/// Rows whose sums are made together where weights lie along the contracted index. A weight is then
/// loaded once for all of them, and the processor works on independent sums while each of them
/// waits for its last addition. Every sum is added up in the order of that index all the same.
constexpr std::int64_t kRowBlock = 4;

/// Sums of kRowBlock rows of d, those of one column side by side; past the block's rows they mean
/// nothing.
struct BlockSums {
  explicit BlockSums(std::int64_t width)
      : value(static_cast<std::size_t>(width * kRowBlock)), magnitude(value.size()) {}
  std::vector<double> value, magnitude;
};

/// Where the values of a column or of a contracted index begin.
constexpr std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index * kRowBlock); }

/// Rows `rows` of a, at most kRowBlock, those of one contracted index side by side; zero past the
/// last.
template <class T>
std::vector<double> gather_left(const ConstTensorView& a, std::span<const std::int64_t> rows) {
  std::vector<double> left(at(a.shape[1]));
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const T* line = static_cast<const T*>(a.data) + rows[r] * a.stride[0];
    for (std::int64_t i = 0; i < a.shape[1]; ++i) left[at(i) + r] = core::load(line[i]);
  }
  return left;
}

void add_terms(const double* left, double weight, double* value, double* magnitude) {
  for (std::int64_t r = 0; r < kRowBlock; ++r) {
    const double term = left[r] * weight;
    value[r] += term;
    magnitude[r] += std::abs(term);
  }
}

/// One line of weights per column of d.
template <class T>
void sum_along_lines(const std::vector<double>& left, const ConstTensorView& b, const T* weights,
                     BlockSums& sums) {
  for (std::int64_t column = 0; column < b.shape[1]; ++column) {
    const T* line = weights + column * b.stride[1];
    const double* factors = left.data();
    std::array<double, kRowBlock> value{}, magnitude{};  // in registers
    for (std::int64_t i = 0; i < b.shape[2]; ++i, factors += kRowBlock) {
      add_terms(factors, core::load(line[i]), value.data(), magnitude.data());
    }
    std::copy(value.begin(), value.end(), &sums.value[at(column)]);
    std::copy(magnitude.begin(), magnitude.end(), &sums.magnitude[at(column)]);
  }
}

/// One line of weights per contracted index: row by row, side by side over the columns.
template <class T>
void sum_across_lines(const std::vector<double>& left, std::size_t rows, const ConstTensorView& b,
                      const T* weights, BlockSums& sums) {
  std::vector<Sum> row(static_cast<std::size_t>(b.shape[2]));
  for (std::size_t r = 0; r < rows; ++r) {
    std::fill(row.begin(), row.end(), Sum{});
    for (std::int64_t i = 0; i < b.shape[1]; ++i) {
      const double factor = left[at(i) + r];
      const T* line = weights + i * b.stride[1];
      for (std::size_t column = 0; column < row.size(); ++column) {
        row[column].add(factor * core::load(line[column]));
      }
    }
    for (std::size_t column = 0; column < row.size(); ++column) {
      sums.value[column * kRowBlock + r] = row[column].value;
      sums.magnitude[column * kRowBlock + r] = row[column].magnitude;
    }
  }
}

/// Rows `rows` of forward or dgrad, at most kRowBlock of them.
template <class T>
void check_rows(const Sampled& in, std::int64_t expert, std::span<const std::int64_t> rows,
                CheckResult& result) {
  const ConstTensorView& b = in.args.b.qdata;
  const bool dot_form =
      (in.problem.pass == Pass::forward) == (in.problem.weights == WeightStorage::enk);
  const T* weights = static_cast<const T*>(b.data) + expert * b.stride[0];
  const std::int64_t width = in.args.d.shape[1];
  const std::vector<double> left = gather_left<T>(in.args.a.qdata, rows);
  BlockSums sums(width);
  dot_form ? sum_along_lines(left, b, weights, sums)
           : sum_across_lines(left, rows.size(), b, weights, sums);
  const char* name = in.problem.pass == Pass::forward ? "y" : "dx";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::int64_t column = 0; column < width; ++column) {
      const std::size_t place = at(column) + r;
      const Bounded want =
          check::rounded({sums.value[place], sums.magnitude[place]}, in.problem.d_dtype);
      check::compare(check::load_element(in.args.d, rows[r] * in.args.d.stride[0] + column), want,
                     {name, expert, rows[r], column}, result);
    }
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
    const std::vector<std::int64_t> rows = sampled_rows(segment, in.options, expert);
    for (std::size_t i = 0; i < rows.size(); i += kRowBlock) {
      const std::size_t count = std::min<std::size_t>(kRowBlock, rows.size() - i);
      check_rows<T>(in, expert, std::span(rows).subspan(i, count), result);
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

std::vector<std::int64_t> checked_rows(const GroupedGemmProblem& problem,
                                       std::span<const std::int32_t> offs,
                                       const CheckOptions& options) {
  core::check_problem(problem);
  if (problem.pass == Pass::wgrad) {
    core::refuse("pass", "forward or dgrad, whose d has rows of experts", name(problem.pass));
  }
  if (std::ssize(offs) != problem.num_experts) {
    core::refuse("offs", "one end per expert, " + std::to_string(problem.num_experts),
                 std::to_string(offs.size()));
  }
  std::vector<std::int64_t> all;
  for (std::int32_t expert = 0; expert < problem.num_experts; ++expert) {
    const std::vector<std::int64_t> rows =
        sampled_rows(math::expert_rows(offs.data(), expert, problem.max_rows), options, expert);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

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
