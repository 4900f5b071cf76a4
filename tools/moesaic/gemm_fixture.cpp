// SPDX-License-Identifier: Apache-2.0
// Operands of one grouped product in hostile surroundings.
#include "gemm_fixture.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "operands.hpp"

namespace moesaic::cli {
namespace {

constexpr std::int64_t kGuardBytes = 4096;

/// Gaps of 16 and 32 bytes between rows, first elements 16 bytes past a cache line.
TensorLayout hostile(DType dtype, std::int64_t gap_units) {
  return {gap_units * 16 / size_bytes(dtype), kGuardBytes, 16};
}

std::vector<std::int64_t> weight_shape(const GroupedGemmProblem& problem) {
  if (problem.weights == WeightStorage::enk) return {problem.num_experts, problem.n, problem.k};
  return {problem.num_experts, problem.k, problem.n};
}

/// Rows of `tensor` without gaps, as floats.
std::vector<float> dense(const HostTensor& tensor) {
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(tensor.rows() * tensor.width()));
  for (std::int64_t row = 0; row < tensor.rows(); ++row) {
    for (std::int64_t i = 0; i < tensor.width(); ++i) values.push_back(tensor.get(row, i));
  }
  return values;
}

/// Adding nothing to -0 gives +0, which tells an expert that was left alone from one that was not.
void make_zeros_negative(HostTensor& tensor) {
  for (std::int64_t row = 0; row < tensor.rows(); ++row) {
    for (std::int64_t i = 0; i < tensor.width(); ++i) {
      if (tensor.get(row, i) == 0) tensor.set(row, i, -0.0F);
    }
  }
}

}  // namespace

GemmFixture::GemmFixture(const GroupedGemmProblem& problem, std::vector<std::int32_t> offs,
                         Contents contents, std::uint64_t seed)
    : problem_(problem) {
  tensors_.offs = std::move(offs);
  const DType dtype = problem.format == Format::bf16 ? DType::bf16 : DType::f32;
  const std::int64_t rows = problem.max_rows;
  const bool forward = problem.pass == Pass::forward;
  tensors_.a = HostTensor(dtype, {rows, forward ? problem.k : problem.n}, hostile(dtype, 1));
  if (problem.pass == Pass::wgrad) {
    tensors_.b = HostTensor(dtype, {rows, problem.k}, hostile(dtype, 2));
    tensors_.d = HostTensor(problem.d_dtype, weight_shape(problem), hostile(problem.d_dtype, 1));
  } else {
    tensors_.b = HostTensor(dtype, weight_shape(problem), hostile(dtype, 2));
    tensors_.d = HostTensor(problem.d_dtype, {rows, forward ? problem.n : problem.k},
                            hostile(problem.d_dtype, 1));
  }
  fill(contents, seed);
}

void GemmFixture::fill(Contents contents, std::uint64_t seed) {
  for (HostTensor* tensor : {&tensors_.a, &tensors_.b, &tensors_.d}) tensor->poison();
  const bool wgrad = problem_.pass == Pass::wgrad;
  const OperandStream a_stream =
      problem_.pass == Pass::forward ? OperandStream::x : OperandStream::dy;
  const OperandStream b_stream = wgrad ? OperandStream::x : OperandStream::weights;
  if (contents == Contents::integers) {
    fill_integers(tensors_.a, seed, a_stream);
    fill_integers(tensors_.b, seed, b_stream);
  } else {
    // Weights of order one: small ones would hide an error below the bound.
    fill_normal(tensors_.a, 1, seed, a_stream);
    fill_normal(tensors_.b, 1, seed, b_stream);
  }
  if (problem_.accumulate) {
    if (contents == Contents::integers) {
      fill_integers(tensors_.d, seed, OperandStream::old_gradient);
      make_zeros_negative(tensors_.d);
    } else {
      fill_normal(tensors_.d, 1, seed, OperandStream::old_gradient);
    }
  }
  fill_nan_rows(tensors_.a, tail_begin(), problem_.max_rows);
  if (wgrad) fill_nan_rows(tensors_.b, tail_begin(), problem_.max_rows);
  if (!wgrad) {
    const std::int64_t per_expert = tensors_.b.view().shape[1];
    for (std::size_t e = 0; e < tensors_.offs.size(); ++e) {
      const Rows rows = rows_of(e);
      const auto expert = static_cast<std::int64_t>(e);
      if (rows.begin == rows.end)
        fill_nan_rows(tensors_.b, expert * per_expert, (expert + 1) * per_expert);
    }
  }
  before_ = tensors_.d.clone();
}

const char* GemmFixture::output_name() const {
  return problem_.pass == Pass::forward ? "y" : problem_.pass == Pass::dgrad ? "dx" : "dw";
}

GemmFixture::Rows GemmFixture::rows_of(std::size_t expert) const {
  const std::int64_t begin = expert == 0 ? 0 : tensors_.offs[expert - 1];
  const std::int64_t end = tensors_.offs[expert];
  const bool valid = 0 <= begin && begin <= end && end <= problem_.max_rows;
  return valid ? Rows{begin, end} : Rows{};
}

std::int64_t GemmFixture::tail_begin() const {
  std::int64_t end = 0;
  for (std::size_t e = 0; e < offs().size(); ++e) end = std::max(end, rows_of(e).end);
  return end;
}

HostTensor GemmFixture::expected() const {
  HostTensor want = before_.clone();
  if (problem_.pass == Pass::wgrad) {
    expect_weights(want);
  } else {
    expect_rows(want);
  }
  return want;
}

void GemmFixture::expect_rows(HostTensor& want) const {
  const std::vector<float> left = dense(tensors_.a), weights = dense(tensors_.b);
  const std::int64_t contracted = tensors_.a.width(), columns = want.width();
  const bool forward = problem_.pass == Pass::forward;
  // Steps of a weight's element along the contracted and the output index.
  const bool contracted_last = forward == (problem_.weights == WeightStorage::enk);
  const std::int64_t step_contracted = contracted_last ? 1 : tensors_.b.width();
  const std::int64_t step_column = contracted_last ? tensors_.b.width() : 1;
  for (std::size_t e = 0; e < tensors_.offs.size(); ++e) {
    const Rows rows = rows_of(e);
    const float* w = weights.data() + static_cast<std::int64_t>(e) * problem_.n * problem_.k;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const float* x = left.data() + row * contracted;
      for (std::int64_t column = 0; column < columns; ++column) {
        float total = 0;
        for (std::int64_t i = 0; i < contracted; ++i) {
          total += x[i] * w[i * step_contracted + column * step_column];
        }
        want.set(row, column, total);
      }
    }
  }
  if (problem_.tail != Tail::zero) return;
  for (std::int64_t row = tail_begin(); row < problem_.max_rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) want.set(row, column, 0);
  }
}

void GemmFixture::expect_weights(HostTensor& want) const {
  const std::vector<float> dy = dense(tensors_.a), x = dense(tensors_.b);
  const std::int64_t n = problem_.n, k = problem_.k;
  const bool enk = problem_.weights == WeightStorage::enk;
  std::vector<float> sums(static_cast<std::size_t>(n * k));
  for (std::size_t e = 0; e < tensors_.offs.size(); ++e) {
    const Rows rows = rows_of(e);
    if (rows.begin == rows.end && problem_.accumulate) continue;
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t i = 0; i < n; ++i) {
        const float factor = dy[static_cast<std::size_t>(row * n + i)];
        float* line = sums.data() + i * k;
        const float* values = x.data() + row * k;
        for (std::int64_t j = 0; j < k; ++j) line[j] += factor * values[j];
      }
    }
    const std::int64_t first = static_cast<std::int64_t>(e) * (enk ? n : k);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < k; ++j) {
        const std::int64_t row = first + (enk ? i : j), column = enk ? j : i;
        const float old = problem_.accumulate ? before_.get(row, column) : 0;
        want.set(row, column, old + sums[static_cast<std::size_t>(i * k + j)]);
      }
    }
  }
}

HostTensor outside_as_before(const HostTensor& got, const HostTensor& before,
                             const std::vector<GemmFixture::Rows>& inside) {
  HostTensor want = before.clone();
  const auto bytes = static_cast<std::size_t>(got.width() * size_bytes(got.dtype()));
  for (const GemmFixture::Rows& rows : inside) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      std::memcpy(want.row_data(row), got.row_data(row), bytes);
    }
  }
  return want;
}

void execute_there(const GroupedGemm& gemm, GemmFixture& fixture, const SiteWorkspace& workspace,
                   const Site& site) {
  gemm.execute(fixture.tensors().stage(site), workspace.get(), site.stream());
  fixture.tensors().fetch(site);
}

void execute_once(const GroupedGemm& gemm, GemmFixture& fixture, const Site& site) {
  execute_there(gemm, fixture, SiteWorkspace(gemm.workspace_bytes(), site.stream()), site);
}

}  // namespace moesaic::cli
