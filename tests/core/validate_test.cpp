// SPDX-License-Identifier: Apache-2.0
// Values that no enumerator has, and strides whose arithmetic would overflow: refused by name.
#include "core/validate.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>

#include "support/expect_error.hpp"

namespace moesaic::core {
namespace {

using testing::expect_error;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

GroupedGemmProblem product() {
  GroupedGemmProblem problem;
  problem.num_experts = 3;
  problem.max_rows = 20;
  problem.n = 16;
  problem.k = 24;
  return problem;
}

TEST(CheckProblem, RefusesWhatNoEnumeratorHas) {
  const auto refuse = [](std::initializer_list<std::string_view> parts,
                         const std::function<void(GroupedGemmProblem&)>& spoil) {
    GroupedGemmProblem problem = product();
    EXPECT_NO_THROW(check_problem(problem));
    spoil(problem);
    expect_error(ErrorCode::invalid_argument, parts, [&] { check_problem(problem); });
  };
  refuse({"pass", "forward, dgrad or wgrad", "3"}, [](auto& p) { p.pass = static_cast<Pass>(3); });
  refuse({"format", "bf16", "f32", "200"}, [](auto& p) { p.format = static_cast<Format>(200); });
  refuse({"weights", "enk or ekn", "2"},
         [](auto& p) { p.weights = static_cast<WeightStorage>(2); });
  refuse({"tail", "leave or zero", "255"}, [](auto& p) { p.tail = static_cast<Tail>(255); });
  refuse({"strategy", "grouped, padded_bmm or host_loop", "7"},
         [](auto& p) { p.strategy = static_cast<Strategy>(7); });
  refuse({"capacity.rule", "ceil_mean or eight_row", "2"},
         [](auto& p) { p.capacity.rule = static_cast<CapacityRule>(2); });
}

TEST(CheckProblem, RefusesWhatNoEnumeratorHasInTheMlp) {
  const auto refuse = [](std::initializer_list<std::string_view> parts,
                         const std::function<void(ExpertMlpProblem&)>& spoil) {
    ExpertMlpProblem problem{
        .num_experts = 3, .max_rows = 20, .d = 16, .h = 24, .order = UpGateOrder::up_gate};
    EXPECT_NO_THROW(check_problem(problem));
    spoil(problem);
    expect_error(ErrorCode::invalid_argument, parts, [&] { check_problem(problem); });
  };
  refuse({"order", "up_gate, gate_up or interleaved", "77"},
         [](auto& p) { p.order = static_cast<UpGateOrder>(77); });
  refuse({"activations", "save or recompute", "2"},
         [](auto& p) { p.activations = static_cast<Activations>(2); });
  refuse({"x_rows", "in_order, indexed or copied", "3"},
         [](auto& p) { p.x_rows = static_cast<XRows>(3); });
  refuse({"tail", "9"}, [](auto& p) { p.tail = static_cast<Tail>(9); });
  refuse({"strategy", "9"}, [](auto& p) { p.strategy = static_cast<Strategy>(9); });
  refuse({"format", "9"}, [](auto& p) { p.format = static_cast<Format>(9); });
  refuse({"capacity.rule", "9"}, [](auto& p) { p.capacity.rule = static_cast<CapacityRule>(9); });
  // 2h is a width as well.
  refuse({"h", "2^29"}, [](auto& p) { p.h = std::int64_t{1} << 30; });
}

/// Aligned memory that no check reads.
ConstTensorView matrix(std::int64_t rows, std::int64_t columns, std::int64_t row_stride) {
  alignas(16) static const std::byte kMemory[16] = {};
  return {kMemory, DType::bf16, Device{}, 2, {rows, columns, 0}, {row_stride, 1, 0}};
}

TEST(CheckMatrix, RefusesStridesPastTheAddresses) {
  const MatrixSpec two_rows{DType::bf16, Device{}, 0, 2, 8, true};
  EXPECT_NO_THROW(check_matrix("a", matrix(2, 8, std::int64_t{1} << 40), two_rows));
  for (const std::int64_t stride : {kMax - 7, kMax / 2 - 7, std::int64_t{1} << 62}) {
    expect_error(ErrorCode::invalid_argument, {"a", "row", "2^63", std::to_string(stride)},
                 [&] { check_matrix("a", matrix(2, 8, stride), two_rows); });
  }
  const MatrixSpec many_rows{DType::bf16, Device{}, 0, 1'000'000, 8, true};
  expect_error(ErrorCode::invalid_argument, {"a", "row", "2^63"},
               [&] { check_matrix("a", matrix(1'000'000, 8, std::int64_t{1} << 50), many_rows); });
  const MatrixSpec one_row{DType::bf16, Device{}, 0, 1, 8, true};
  EXPECT_NO_THROW(check_matrix("a", matrix(1, 8, kMax), one_row)) << "one row has no row stride";
}

TEST(CheckMatrix, RefusesExpertStridesPastTheAddresses) {
  ConstTensorView weights = matrix(0, 0, 0);
  weights.rank = 3;
  weights.shape = {3, 2, 8};
  weights.stride = {std::int64_t{1} << 62, 8, 1};
  for (const bool written : {false, true}) {
    const MatrixSpec spec{DType::bf16, Device{}, 3, 2, 8, written};
    expect_error(ErrorCode::invalid_argument, {"b", "expert", "2^63"},
                 [&] { check_matrix("b", weights, spec); });
  }
}

/// Views that nothing has checked, since packed weights stand in for them.
TEST(CheckNoOverlap, SurvivesAnyView) {
  const ConstTensorView written = matrix(4, 8, 8);
  ConstTensorView wild = matrix(4, 8, kMax);
  wild.rank = 3;
  wild.shape = {kMax, kMax, kMax};
  wild.stride = {kMax, kMax, kMax};
  expect_error(ErrorCode::invalid_argument, {"y", "apart from w"},
               [&] { check_no_overlap("y", written, "w", wild); });
  ConstTensorView line = matrix(1, 8, kMax - 1);
  expect_error(ErrorCode::invalid_argument, {"y", "apart from w"},
               [&] { check_no_overlap("y", line, "w", line); });
  wild.data = static_cast<const std::byte*>(written.data) + 64;
  EXPECT_NO_THROW(check_no_overlap("y", written, "w", wild)) << "it begins behind the last row";
}

}  // namespace
}  // namespace moesaic::core
