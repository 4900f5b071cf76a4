// SPDX-License-Identifier: Apache-2.0
// Operands of one grouped product in hostile surroundings: NaN in tail rows, in the weights of
// experts without rows, in row gaps and guards; odd starts; an output that holds poison. And what
// it must become.
#pragma once

#include <cstdint>
#include <vector>

#include "host_tensor.hpp"
#include "moesaic/grouped_gemm.hpp"
#include "staging.hpp"

namespace moesaic::cli {

enum class Contents : std::uint8_t { integers, normal };

class GemmFixture {
 public:
  GemmFixture(const GroupedGemmProblem& problem, std::vector<std::int32_t> offs, Contents contents,
              std::uint64_t seed);

  /// Host memory, guards and all.
  [[nodiscard]] GroupedGemmArgs args() const { return tensors_.args(); }
  [[nodiscard]] GemmTensors& tensors() { return tensors_; }
  [[nodiscard]] const std::vector<std::int32_t>& offs() const { return tensors_.offs; }
  [[nodiscard]] HostTensor& a() { return tensors_.a; }
  [[nodiscard]] HostTensor& b() { return tensors_.b; }
  [[nodiscard]] HostTensor& d() { return tensors_.d; }
  [[nodiscard]] const HostTensor& before() const { return before_; }
  [[nodiscard]] const char* output_name() const;

  /// d as it was before any execute.
  void reset() { tensors_.d.copy_from(before_); }
  /// The whole allocation of d after a right execute on integers: exact sums where the contract has
  /// something written, everything else as before.
  [[nodiscard]] HostTensor expected() const;
  /// [begin, end) of an expert; empty for a wrong segment.
  struct Rows {
    std::int64_t begin = 0, end = 0;
  };
  [[nodiscard]] Rows rows_of(std::size_t expert) const;
  /// The first row behind every valid segment; 0 without experts.
  [[nodiscard]] std::int64_t tail_begin() const;

 private:
  void fill(Contents contents, std::uint64_t seed);
  void expect_rows(HostTensor& want) const;
  void expect_weights(HostTensor& want) const;

  GroupedGemmProblem problem_;
  GemmTensors tensors_;
  HostTensor before_;
};

/// What `got` must hold outside its valid rows: what `before` holds. Rows inside are not looked at.
HostTensor outside_as_before(const HostTensor& got, const HostTensor& before,
                             const std::vector<GemmFixture::Rows>& inside);

/// Everything to the site, execute there, d back.
void execute_there(const GroupedGemm& gemm, GemmFixture& fixture, const SiteWorkspace& workspace,
                   const Site& site);
/// The same in a fresh workspace.
void execute_once(const GroupedGemm& gemm, GemmFixture& fixture, const Site& site);

}  // namespace moesaic::cli
