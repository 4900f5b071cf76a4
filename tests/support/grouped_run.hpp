// SPDX-License-Identifier: Apache-2.0
// One grouped product with its host tensors, and what it must give: integer sums written down a
// second time straight from the contract.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "moesaic/grouped_gemm.hpp"
#include "support/counts.hpp"
#include "support/host_tensor.hpp"

namespace moesaic::testing {

/// Element types of operands and result.
struct Types {
  Format format;
  DType d_dtype;
};
inline constexpr Types kBf16{Format::bf16, DType::bf16};
inline constexpr Types kBf16ToF32{Format::bf16, DType::f32};
inline constexpr Types kF32{Format::f32, DType::f32};
inline constexpr Types kAllTypes[] = {kBf16, kBf16ToF32, kF32};
inline constexpr Pass kAllPasses[] = {Pass::forward, Pass::dgrad, Pass::wgrad};
inline constexpr WeightStorage kAllStorages[] = {WeightStorage::enk, WeightStorage::ekn};

inline GroupedGemmProblem make_problem(Pass pass, WeightStorage weights, Types types,
                                       std::int64_t experts, std::int64_t rows, std::int64_t n,
                                       std::int64_t k) {
  GroupedGemmProblem problem;
  problem.pass = pass;
  problem.weights = weights;
  problem.format = types.format;
  problem.d_dtype = types.d_dtype;
  problem.num_experts = static_cast<int>(experts);
  problem.max_rows = rows;
  problem.n = n;
  problem.k = k;
  return problem;
}

/// Fills the given rows with integers of -limit … limit, the share 1 - density being 0.
inline void fill_integers(HostTensor& tensor, std::int64_t begin, std::int64_t end, int limit,
                          double density, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int> value(1, limit);
  std::uniform_real_distribution<double> share(0, 1);
  for (std::int64_t expert = 0; expert < (tensor.experts() == 0 ? 1 : tensor.experts()); ++expert) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t column = 0; column < tensor.columns(); ++column) {
        const bool zero = share(random) >= density;
        const int sign = (random() & 1) != 0 ? 1 : -1;
        tensor.set(expert, row, column, zero ? 0.0 : sign * value(random));
      }
    }
  }
}

inline void fill_normal(HostTensor& tensor, std::int64_t begin, std::int64_t end,
                        std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> value;
  for (std::int64_t expert = 0; expert < (tensor.experts() == 0 ? 1 : tensor.experts()); ++expert) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t column = 0; column < tensor.columns(); ++column) {
        tensor.set(expert, row, column, value(random));
      }
    }
  }
}

/// Rows [begin, end); empty when the offsets of the expert are wrong.
struct Segment {
  std::int64_t begin = 0, end = 0;
  [[nodiscard]] std::int64_t rows() const { return end - begin; }
};

struct GroupedRun {
  GroupedGemmProblem problem;
  std::vector<std::int32_t> offs;
  HostTensor a, b, d;

  GroupedRun(const GroupedGemmProblem& grouped, std::vector<std::int32_t> end_rows,
             const Layout& layout = kDense)
      : problem(grouped), offs(std::move(end_rows)) {
    const DType in = problem.format == Format::f32 ? DType::f32 : DType::bf16;
    const std::int64_t experts = problem.num_experts;
    const bool enk = problem.weights == WeightStorage::enk;
    const std::int64_t w_rows = enk ? problem.n : problem.k;
    const std::int64_t w_columns = enk ? problem.k : problem.n;
    const bool forward = problem.pass == Pass::forward;
    a = HostTensor(in, 0, problem.max_rows, forward ? problem.k : problem.n, layout);
    if (problem.pass == Pass::wgrad) {
      b = HostTensor(in, 0, problem.max_rows, problem.k, layout);
      d = HostTensor(problem.d_dtype, experts, w_rows, w_columns, layout);
    } else {
      b = HostTensor(in, experts, w_rows, w_columns, layout);
      d = HostTensor(problem.d_dtype, 0, problem.max_rows, forward ? problem.n : problem.k, layout);
    }
  }

  [[nodiscard]] GroupedGemmArgs args() {
    GroupedGemmArgs args;
    args.a.qdata = std::as_const(a).view();
    args.b.qdata = std::as_const(b).view();
    args.offs = moesaic::view(std::span<const std::int32_t>(offs),
                              {static_cast<std::int64_t>(offs.size())});
    args.d = d.view();
    return args;
  }

  /// The rows that the offsets give to an expert, from the words of the contract: start and end
  /// must both be valid, or the segment counts as empty.
  [[nodiscard]] Segment segment(std::int64_t expert) const {
    const std::int64_t begin = expert == 0 ? 0 : offs[static_cast<std::size_t>(expert - 1)];
    const std::int64_t end = offs[static_cast<std::size_t>(expert)];
    const auto inside = [&](std::int64_t row) { return 0 <= row && row <= problem.max_rows; };
    return inside(begin) && inside(end) && begin <= end ? Segment{begin, end} : Segment{};
  }
  /// Which rows of the buffer belong to some expert.
  [[nodiscard]] std::vector<bool> routed_rows() const {
    std::vector<bool> routed(static_cast<std::size_t>(problem.max_rows), false);
    for (std::int64_t expert = 0; expert < problem.num_experts; ++expert) {
      for (std::int64_t row = segment(expert).begin; row < segment(expert).end; ++row) {
        routed[static_cast<std::size_t>(row)] = true;
      }
    }
    return routed;
  }

  /// w[expert][n][k] whatever the storage.
  [[nodiscard]] double weight(std::int64_t expert, std::int64_t n, std::int64_t k) const {
    return problem.weights == WeightStorage::enk ? b.get(expert, n, k) : b.get(expert, k, n);
  }

  /// Calls term(left, right) for every product that d[expert][i][j] is the sum of; `i` is the
  /// buffer's row in forward and dgrad.
  template <class Term>
  void for_each_term(std::int64_t expert, std::int64_t i, std::int64_t j, const Term& term) const {
    if (problem.pass == Pass::forward) {
      for (std::int64_t k = 0; k < problem.k; ++k) {
        term(a.get(0, i, k), weight(expert, j, k));
      }
    } else if (problem.pass == Pass::dgrad) {
      for (std::int64_t n = 0; n < problem.n; ++n) {
        term(a.get(0, i, n), weight(expert, n, j));
      }
    } else {
      const bool enk = problem.weights == WeightStorage::enk;
      const Segment rows = segment(expert);
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        term(a.get(0, row, enk ? i : j), b.get(0, row, enk ? j : i));
      }
    }
  }
  [[nodiscard]] std::int64_t integer_sum(std::int64_t expert, std::int64_t i,
                                         std::int64_t j) const {
    std::int64_t sum = 0;
    for_each_term(expert, i, j, [&](double left, double right) {
      sum += static_cast<std::int64_t>(left) * static_cast<std::int64_t>(right);
    });
    return sum;
  }

  /// Calls visit(expert, i, j) for every element of d that belongs to a valid non-empty segment.
  template <class Visit>
  void for_each_result(const Visit& visit) const {
    for (std::int64_t expert = 0; expert < problem.num_experts; ++expert) {
      const Segment rows = segment(expert);
      if (rows.rows() == 0) {
        continue;
      }
      const bool wgrad = problem.pass == Pass::wgrad;
      for (std::int64_t i = wgrad ? 0 : rows.begin; i < (wgrad ? d.rows() : rows.end); ++i) {
        for (std::int64_t j = 0; j < d.columns(); ++j) {
          visit(expert, i, j);
        }
      }
    }
  }
  /// An element of d; forward and dgrad have no expert axis.
  [[nodiscard]] double result(std::int64_t expert, std::int64_t i, std::int64_t j) const {
    return d.get(problem.pass == Pass::wgrad ? expert : 0, i, j);
  }
};

/// Routed rows get integers; all other rows keep their NaN.
inline void fill_operands(GroupedRun& run, int limit, double density, std::uint64_t seed) {
  if (run.problem.pass != Pass::wgrad) {
    fill_integers(run.b, 0, run.b.rows(), limit, density, seed);
  }
  for (std::int64_t expert = 0; expert < run.problem.num_experts; ++expert) {
    const Segment rows = run.segment(expert);
    const auto salt = static_cast<std::uint64_t>(expert) * 7919 + seed;
    fill_integers(run.a, rows.begin, rows.end, limit, density, salt + 1);
    if (run.problem.pass == Pass::wgrad) {
      fill_integers(run.b, rows.begin, rows.end, limit, density, salt + 2);
    }
  }
}

inline void fill_random(GroupedRun& run, std::uint64_t seed) {
  if (run.problem.pass != Pass::wgrad) {
    fill_normal(run.b, 0, run.b.rows(), seed);
  }
  for (std::int64_t expert = 0; expert < run.problem.num_experts; ++expert) {
    const Segment rows = run.segment(expert);
    const auto salt = static_cast<std::uint64_t>(expert) * 7919 + seed;
    fill_normal(run.a, rows.begin, rows.end, salt + 1);
    if (run.problem.pass == Pass::wgrad) {
      fill_normal(run.b, rows.begin, rows.end, salt + 2);
    }
  }
}

/// Sums of products and of their magnitudes for every routed element. Valid offsets only: where
/// segments overlap, the last expert's would win.
template <class Number>
class ExactResult {
 public:
  explicit ExactResult(const GroupedRun& run) : wgrad_(run.problem.pass == Pass::wgrad) {
    rows_ = run.d.rows();
    columns_ = run.d.columns();
    const std::int64_t matrices = wgrad_ ? run.problem.num_experts : 1;
    sums_.assign(static_cast<std::size_t>(matrices * rows_ * columns_), Number{});
    magnitudes_ = sums_;
    for (std::int64_t expert = 0; expert < run.problem.num_experts; ++expert) {
      const Segment rows = run.segment(expert);
      if (rows.rows() > 0) {
        wgrad_ ? add_weights(run, expert, rows) : add_rows(run, expert, rows);
      }
    }
  }
  [[nodiscard]] Number sum(std::int64_t expert, std::int64_t i, std::int64_t j) const {
    return sums_[index(expert, i, j)];
  }
  [[nodiscard]] Number magnitude(std::int64_t expert, std::int64_t i, std::int64_t j) const {
    return magnitudes_[index(expert, i, j)];
  }

 private:
  [[nodiscard]] std::size_t index(std::int64_t expert, std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(((wgrad_ ? expert * rows_ : 0) + i) * columns_ + j);
  }
  /// d[i][:] += left * right[:]
  void add(std::size_t to, Number left, const std::vector<Number>& right) {
    for (std::size_t j = 0; j < right.size(); ++j) {
      const Number product = left * right[j];
      sums_[to + j] += product;
      magnitudes_[to + j] += product < 0 ? -product : product;
    }
  }
  void add_rows(const GroupedRun& run, std::int64_t expert, Segment rows) {
    const bool forward = run.problem.pass == Pass::forward;
    std::vector<Number> line(static_cast<std::size_t>(columns_));
    for (std::int64_t c = 0; c < run.a.columns(); ++c) {
      for (std::int64_t j = 0; j < columns_; ++j) {
        line[static_cast<std::size_t>(j)] =
            static_cast<Number>(forward ? run.weight(expert, j, c) : run.weight(expert, c, j));
      }
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        add(index(0, row, 0), static_cast<Number>(run.a.get(0, row, c)), line);
      }
    }
  }
  void add_weights(const GroupedRun& run, std::int64_t expert, Segment rows) {
    const bool enk = run.problem.weights == WeightStorage::enk;
    const HostTensor& left = enk ? run.a : run.b;
    const HostTensor& right = enk ? run.b : run.a;
    std::vector<Number> line(static_cast<std::size_t>(columns_));
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t j = 0; j < columns_; ++j) {
        line[static_cast<std::size_t>(j)] = static_cast<Number>(right.get(0, row, j));
      }
      for (std::int64_t i = 0; i < rows_; ++i) {
        add(index(expert, i, 0), static_cast<Number>(left.get(0, row, i)), line);
      }
    }
  }

  bool wgrad_;
  std::int64_t rows_ = 0, columns_ = 0;
  std::vector<Number> sums_, magnitudes_;
};

/// "expert 3, element (4, 5): got 1, want 2"
inline std::string difference(std::int64_t expert, std::int64_t i, std::int64_t j, double got,
                              double want) {
  std::ostringstream text;
  text.precision(17);
  text << "expert " << expert << ", element (" << i << ", " << j << "): got " << got << ", want "
       << want;
  return text.str();
}

/// The first routed element that is not exactly the integer sum (plus `before` where accumulating).
inline std::string integer_mismatch(const GroupedRun& run,
                                    const std::optional<std::int64_t>& before = {}) {
  const ExactResult<std::int64_t> exact(run);
  std::string first;
  run.for_each_result([&](std::int64_t expert, std::int64_t i, std::int64_t j) {
    const auto want = static_cast<double>(exact.sum(expert, i, j) + before.value_or(0));
    const double got = run.result(expert, i, j);
    if (first.empty() && !(got == want)) {
      first = difference(expert, i, j, got, want);
    }
  });
  return first;
}

/// Half the distance between neighbours of the type at |value|.
inline double half_spacing(double value, DType dtype) {
  const int digits = dtype == DType::f32 ? 24 : 8;
  int exponent = -125;
  if (value != 0) {
    std::frexp(value, &exponent);  // value = f * 2^exponent, 0.5 <= f < 1
    exponent = std::max(exponent, -125);
  }
  return std::ldexp(0.5, exponent - digits);
}

/// The first routed element outside |d - ref| <= 64 * 2^-24 * sum|a||b| + half an ulp, and
/// `slack` where the caller has a reason for it.
inline std::string bound_mismatch(const GroupedRun& run, double slack = 0) {
  const ExactResult<double> exact(run);
  std::string first;
  run.for_each_result([&](std::int64_t expert, std::int64_t i, std::int64_t j) {
    const double sum = exact.sum(expert, i, j);
    const double accumulated = std::ldexp(64.0, -24) * exact.magnitude(expert, i, j) + slack;
    const double bound =
        accumulated + half_spacing(std::abs(sum) + accumulated, run.problem.d_dtype);
    const double got = run.result(expert, i, j);
    if (first.empty() && !(std::abs(got - sum) <= bound)) {
      first = difference(expert, i, j, got, sum);
    }
  });
  return first;
}

}  // namespace moesaic::testing
