// SPDX-License-Identifier: Apache-2.0
// Operands of one grouped product in hostile surroundings: NaN in tail rows, in the weights of
// experts without rows, in row gaps and guards; odd starts; an output that holds poison. And what
// it must become.
#pragma once

#include <cstdint>
#include <vector>

#include "host_tensor.hpp"
#include "moesaic/grouped_gemm.hpp"

namespace moesaic::cli {

enum class Contents : std::uint8_t { integers, normal };

class GemmFixture {
 public:
  GemmFixture(const GroupedGemmProblem& problem, std::vector<std::int32_t> offs, Contents contents,
              std::uint64_t seed);

  [[nodiscard]] GroupedGemmArgs args() const;
  [[nodiscard]] const std::vector<std::int32_t>& offs() const { return offs_; }
  [[nodiscard]] HostTensor& a() { return a_; }
  [[nodiscard]] HostTensor& b() { return b_; }
  [[nodiscard]] HostTensor& d() { return d_; }
  [[nodiscard]] const HostTensor& before() const { return before_; }
  [[nodiscard]] const char* output_name() const;

  /// d as it was before any execute.
  void reset() { d_.copy_from(before_); }
  /// The whole allocation of d after a right execute on integers: exact sums where the contract has
  /// something written, everything else as before.
  [[nodiscard]] HostTensor expected() const;
  /// [begin, end) of an expert; empty for a wrong segment.
  struct Rows {
    std::int64_t begin = 0, end = 0;
  };
  [[nodiscard]] Rows rows_of(std::size_t expert) const;

 private:
  void fill(Contents contents, std::uint64_t seed);
  void expect_rows(HostTensor& want) const;
  void expect_weights(HostTensor& want) const;

  GroupedGemmProblem problem_;
  std::vector<std::int32_t> offs_;
  HostTensor a_, b_, d_, before_;
};

/// What `got` must hold outside its valid rows: what `before` holds. Rows inside are not looked at.
HostTensor outside_as_before(const HostTensor& got, const HostTensor& before,
                             const std::vector<GemmFixture::Rows>& inside);

/// The workspace of `gemm`, execute, done.
void execute_once(const GroupedGemm& gemm, const GroupedGemmArgs& args);

}  // namespace moesaic::cli
