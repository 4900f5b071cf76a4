// SPDX-License-Identifier: Apache-2.0
// Operands of one SwiGLU layer in hostile surroundings.
#include "mlp_fixture.hpp"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "compare.hpp"
#include "gemm_fixture.hpp"
#include "operands.hpp"

namespace moesaic::cli {
namespace {

constexpr std::int64_t kGuardBytes = 1024;

/// Rows of x that somebody is: the even ones.
std::int64_t num_named(XOrder order, std::int64_t routed) {
  return std::max<std::int64_t>(1, order == XOrder::reversed ? routed : routed / 4);
}

HostTensor make_tensor(DType dtype, std::vector<std::int64_t> shape) {
  const std::int64_t gap = shape.back() == 1 ? 0 : 16 / size_bytes(dtype);  // vectors have none
  HostTensor tensor(dtype, std::move(shape), {gap, kGuardBytes, 16});
  tensor.poison();
  return tensor;
}

}  // namespace

std::int64_t num_x_rows(XOrder order, std::int64_t routed) { return 2 * num_named(order, routed); }

std::vector<std::int32_t> make_x_rows(XOrder order, std::int64_t rows, std::int64_t routed,
                                      std::uint64_t seed) {
  const auto tokens = static_cast<std::int32_t>(num_x_rows(order, routed));
  const auto named = static_cast<std::uint64_t>(num_named(order, routed));
  const std::int32_t wild[] = {-1, tokens, std::numeric_limits<std::int32_t>::min(),
                               std::numeric_limits<std::int32_t>::max()};
  std::mt19937_64 random(seed);
  std::vector<std::int32_t> x_rows;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto at = static_cast<std::size_t>(row);
    if (row >= routed) {
      x_rows.push_back(row % 2 == 0 ? tokens - 1 : wild[at / 2 % 4]);
    } else if (order == XOrder::reversed) {
      x_rows.push_back(static_cast<std::int32_t>(2 * (routed - 1 - row)));
    } else if (order == XOrder::outside && row % 3 == 1) {
      x_rows.push_back(wild[at / 3 % 4]);
    } else {
      x_rows.push_back(static_cast<std::int32_t>(2 * (random() % named)));
    }
  }
  return x_rows;
}

MlpFixture::MlpFixture(const ExpertMlpProblem& problem, std::vector<std::int32_t> offs,
                       XOrder order, std::uint64_t seed)
    : problem_(problem), seed_(seed) {
  tensors_.offs = std::move(offs);
  const DType dtype = problem.format == Format::bf16 ? DType::bf16 : DType::f32;
  const std::int64_t rows = problem.max_rows, experts = problem.num_experts;
  const bool gathers = order != XOrder::in_order;
  if (gathers) tensors_.x_rows = make_x_rows(order, rows, routed(), seed);
  tensors_.x = make_tensor(dtype, {gathers ? num_x_rows(order, routed()) : rows, problem.d});
  tensors_.dy = make_tensor(dtype, {rows, problem.d});
  tensors_.w_up_gate = make_tensor(dtype, {experts, 2 * problem.h, problem.d});
  tensors_.w_down = make_tensor(dtype, {experts, problem.d, problem.h});
  tensors_.y = make_tensor(dtype, {rows, problem.d});
  tensors_.dx = make_tensor(dtype, {rows, problem.d});
  tensors_.dw_up_gate = make_tensor(problem.wgrad_dtype, {experts, 2 * problem.h, problem.d});
  tensors_.dw_down = make_tensor(problem.wgrad_dtype, {experts, problem.d, problem.h});
  if (problem.activations == Activations::save) {
    tensors_.u = make_tensor(dtype, {rows, 2 * problem.h});
  }
  if (problem.row_weights) {
    tensors_.row_weights = make_tensor(DType::f32, {rows, 1});
    tensors_.drow_weights = make_tensor(DType::f32, {rows, 1});
  }
  fill();
}

void MlpFixture::fill() {
  const std::int64_t rows = problem_.max_rows;
  fill_normal(tensors_.x, 1, seed_, OperandStream::x);
  fill_normal(tensors_.dy, 1, seed_, OperandStream::dy);
  // U of order one, so that silu is neither flat nor linear.
  fill_normal(tensors_.w_up_gate, 0.15, seed_, OperandStream::weights);
  fill_normal(tensors_.w_down, 0.15, seed_, OperandStream::down_weights);
  fill_nan_rows(tensors_.dy, routed(), rows);
  if (tensors_.x_rows.empty()) {
    fill_nan_rows(tensors_.x, routed(), rows);
  } else {
    for (std::int64_t row = 1; row < tensors_.x.rows(); row += 2) {
      fill_nan_rows(tensors_.x, row, row + 1);
    }
  }
  if (problem_.row_weights) {
    fill_normal(tensors_.row_weights, 1, seed_, OperandStream::row_weights);
    for (std::int64_t row = 2; row < routed(); row += 5) tensors_.row_weights.set(row, 0, 0);
    fill_nan_rows(tensors_.row_weights, routed(), rows);
  }
}

std::vector<MlpFixture::Output> MlpFixture::outputs() const {
  std::vector<Output> all = {{"y", tensors_.y},
                             {"dx", tensors_.dx},
                             {"dw_up_gate", tensors_.dw_up_gate},
                             {"dw_down", tensors_.dw_down}};
  if (tensors_.u.size_bytes() > 0) all.push_back({"u", tensors_.u});
  if (problem_.row_weights) all.push_back({"drow_weights", tensors_.drow_weights});
  return all;
}

void MlpFixture::reset() {
  for (HostTensor* output : {&tensors_.y, &tensors_.u, &tensors_.dx, &tensors_.dw_up_gate,
                             &tensors_.dw_down, &tensors_.drow_weights}) {
    if (output->size_bytes() > 0) output->poison();
  }
}

void MlpFixture::run(const ExpertMlp& mlp, Workspace workspace, const Site& site) {
  tensors_.stage(site);
  mlp.forward(tensors_.staged_forward(), workspace, site.stream());
  mlp.backward(tensors_.staged_backward(), workspace, site.stream());
  tensors_.fetch(site);
}

CheckResult MlpFixture::check() const {
  const CheckOptions all{.rows_per_expert = -1, .elements_per_expert = -1, .seed = seed_};
  CheckResult check = check_expert_mlp_forward(problem_, tensors_.forward_args(), all);
  check.merge(check_expert_mlp_backward(problem_, tensors_.backward_args(), all));
  for (const auto& [name, got] : outputs()) {
    HostTensor before = got.clone();
    before.poison();
    const GemmFixture::Rows written{0, rows_to_write(got, tensors_.offs)};
    check.merge(
        compare_exactly(name, got, outside_as_before(got, before, {written}), tensors_.offs));
  }
  return check;
}

CheckResult MlpFixture::check_untouched() const {
  CheckResult check;
  for (const auto& [name, got] : outputs()) {
    HostTensor before = got.clone();
    before.poison();
    check.merge(compare_exactly(name, got, before, tensors_.offs));
  }
  return check;
}

CheckResult MlpFixture::check_alias(const ExpertMlp& mlp, Workspace workspace, const Site& site) {
  const HostTensor x_before = tensors_.x.clone(), dx = tensors_.dx.clone();
  tensors_.stage(site);
  ExpertMlpBackwardArgs args = tensors_.staged_backward();
  args.dx = tensors_.staged_x();
  mlp.backward(args, workspace, site.stream());
  tensors_.fetch_x(site);
  HostTensor want = x_before.clone();
  for (std::int64_t row = 0; row < routed(); ++row) {
    for (std::int64_t column = 0; column < dx.width(); ++column) {
      want.set(row, column, dx.get(row, column));
    }
  }
  CheckResult check = compare_exactly("dx in place of x", tensors_.x, want, tensors_.offs);
  tensors_.x.copy_from(x_before);
  return check;
}

}  // namespace moesaic::cli
