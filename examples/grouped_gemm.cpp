// SPDX-License-Identifier: Apache-2.0
// One grouped product on the CPU: plan, workspace, execute, fault check. Then what the contract
// says of tail rows and of wrong offsets, checked.
#include "moesaic/grouped_gemm.hpp"

#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "moesaic/check.hpp"

namespace {

/// Small integers, so that every product and sum is exact.
std::vector<moesaic::BFloat16> numbers(std::size_t count) {
  std::vector<moesaic::BFloat16> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = moesaic::BFloat16(static_cast<float>(i * 7 % 11) - 5.0F);
  }
  return values;
}

bool require(bool condition, const char* what) {
  if (!condition) std::fprintf(stderr, "grouped_gemm: expected %s\n", what);
  return condition;
}

}  // namespace

int main() {
  const std::vector<moesaic::BFloat16> x = numbers(16 * 64), w = numbers(4 * 32 * 64);
  const auto untouched = moesaic::BFloat16(99.0F);
  std::vector<moesaic::BFloat16> y(16 * 32, untouched);

  // [grouped_gemm]
  // Four experts and a buffer of 16 rows. Routing filled 13 of them: 5, 0, 6 and 2.
  moesaic::GroupedGemmProblem problem;
  problem.num_experts = 4;
  problem.max_rows = 16;
  problem.n = 32;
  problem.k = 64;
  const auto gemm = moesaic::GroupedGemm::plan(problem, moesaic::query_device(moesaic::Device{}));
  const moesaic::HostWorkspace workspace(gemm.workspace_bytes());

  std::vector<std::int32_t> offs = {5, 5, 11, 13};  // end row of every expert
  moesaic::GroupedGemmArgs args;
  args.a.qdata = moesaic::view(std::span(x), {16, 64});
  args.b.qdata = moesaic::view(std::span(w), {4, 32, 64});
  args.offs = moesaic::view(std::span(offs), {4});
  args.d = moesaic::view(std::span(y), {16, 32});
  gemm.execute(args, workspace.get(), moesaic::Stream::cpu());

  const moesaic::DeviceFault fault = moesaic::read_fault(workspace.get(), moesaic::Stream::cpu());
  if (fault) {
    std::fprintf(stderr, "offs[%d] = %lld is wrong\n", fault.expert,
                 static_cast<long long>(fault.value));
  }
  // [/grouped_gemm]
  bool good = require(!fault, "no fault");

  // Every routed row is right, and rows 13 to 15 are as they were.
  const moesaic::CheckResult check =
      moesaic::check_grouped_gemm(problem, args, {.rows_per_expert = -1});
  good = require(check.elements == 13 * 32 && check.mismatches == 0, "13 right rows") && good;
  for (std::size_t i = 13 * 32; i < y.size(); ++i) {
    good = require(y[i] == untouched, "untouched tail rows") && good;
  }
  std::printf("%.*s: %lld elements checked, %lld wrong, tail untouched\n",
              static_cast<int>(gemm.implementation().size()), gemm.implementation().data(),
              static_cast<long long>(check.elements), static_cast<long long>(check.mismatches));

  // [wrong_offsets]
  // Expert 2 ends before expert 1 does: its segment counts as empty, and the workspace remembers
  // it.
  offs = {5, 8, 7, 13};
  gemm.execute(args, workspace.get(), moesaic::Stream::cpu());
  const moesaic::DeviceFault wrong = moesaic::read_fault(workspace.get(), moesaic::Stream::cpu());
  // wrong.kind == offs_not_monotonic, wrong.expert == 2, wrong.value == 7
  // [/wrong_offsets]
  good = require(wrong.kind == moesaic::DeviceFault::Kind::offs_not_monotonic &&
                     wrong.expert == 2 && wrong.value == 7,
                 "a fault of expert 2") &&
         good;
  good = require(!moesaic::read_fault(workspace.get(), moesaic::Stream::cpu()),
                 "the fault to be cleared") &&
         good;
  std::printf("wrong offsets: expert %d, value %lld\n", wrong.expert,
              static_cast<long long>(wrong.value));
  return good ? 0 : 1;
}
