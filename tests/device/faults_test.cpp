// SPDX-License-Identifier: Apache-2.0
// Wrong offsets, which only the device sees: contained, recorded, and forgotten once read.
// Reports: FBGEMM#4283, flashinfer#4734, DeepGEMM#103.

#include <gtest/gtest.h>

#include <limits>
#include <tuple>

#include "device/case.hpp"

namespace moesaic::device_tests {
namespace {

using Kind = DeviceFault::Kind;
constexpr std::int64_t kRows = 400;

struct WrongOffsets {
  std::string name;
  std::vector<std::int32_t> offs;
  Kind kind;
  int expert;
  std::int64_t value;
};
void PrintTo(const WrongOffsets& wrong, std::ostream* out) { *out << wrong.name; }

std::vector<WrongOffsets> wrong_offsets() {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
  return {
      {"decreasing", {100, 50, 300, 400}, Kind::offs_not_monotonic, 1, 50},
      {"last_decreasing", {10, 20, 30, 29}, Kind::offs_not_monotonic, 3, 29},
      {"reversed", {400, 300, 200, 0}, Kind::offs_not_monotonic, 1, 300},
      {"past_the_buffer", {100, 200, 5000, 400}, Kind::offs_out_of_range, 2, 5000},
      {"last_past_the_buffer", {100, 200, 300, 401}, Kind::offs_out_of_range, 3, 401},
      {"negative", {-7, 100, 200, 300}, Kind::offs_out_of_range, 0, -7},
      {"last_negative", {5, 10, 20, -1}, Kind::offs_out_of_range, 3, -1},
      {"all_huge", {kMost, kMost, kMost, kMost}, Kind::offs_out_of_range, 0, kMost},
      {"all_least", {kLeast, kLeast, kLeast, kLeast}, Kind::offs_out_of_range, 0, kLeast},
      {"two_faults", {10, 5, 999, 40}, Kind::offs_not_monotonic, 1, 5},
      {"sizes_for_offsets", {16, 8, 64, 16}, Kind::offs_not_monotonic, 1, 8},
  };
}

Case make(Pass pass, const std::vector<std::int32_t>& offs) {
  Case c;
  c.offs = offs;
  c.rows = kRows;
  c.n = 264;
  c.k = 136;
  c.pass = pass;
  return c;
}

class Faults : public OnDevice,
               public ::testing::WithParamInterface<std::tuple<Pass, WrongOffsets>> {};

/// Runs the case with every implementation; each time the record must come, and only once.
void expect_contained(const Case& c, const WrongOffsets& wrong) {
  SCOPED_TRACE(describe(c));
  CaseOnDevice on(c);
  for (const std::string& implementation : on.implementations()) {
    SCOPED_TRACE(implementation);
    const GroupedGemm plan = on.plan(implementation);
    on.poison(nullptr);
    on.execute(plan, nullptr);
    on.compare(nullptr);
    EXPECT_EQ(on.differences(nullptr), "");
    const DeviceFault fault = on.fault(nullptr);
    EXPECT_EQ(fault.kind, wrong.kind);
    EXPECT_EQ(fault.expert, wrong.expert);
    EXPECT_EQ(fault.value, wrong.value);
    EXPECT_FALSE(on.fault(nullptr)) << "not cleared by reading";
  }
}

TEST_P(Faults, WrongOffsetsReachNoMemoryAndNoOtherExpert) {
  const auto& [pass, wrong] = GetParam();
  for (const DType d_dtype : {DType::bf16, DType::f32}) {
    for (const bool flag : {false, true}) {
      Case c = make(pass, wrong.offs);
      c.d_dtype = d_dtype;
      c.accumulate = flag && pass == Pass::wgrad;
      c.tail = flag && pass != Pass::wgrad ? Tail::zero : Tail::leave;
      expect_contained(c, wrong);
    }
  }
}

TEST_P(Faults, BaselinesRecordTheSameFault) {
  const auto& [pass, wrong] = GetParam();
  for (const Strategy strategy : {Strategy::padded_bmm, Strategy::host_loop}) {
    Case c = make(pass, wrong.offs);
    c.strategy = strategy;
    expect_contained(c, wrong);
  }
}

INSTANTIATE_TEST_SUITE_P(Offsets, Faults,
                         ::testing::Combine(::testing::Values(Pass::forward, Pass::dgrad,
                                                              Pass::wgrad),
                                            ::testing::ValuesIn(wrong_offsets())),
                         [](const auto& parameter) {
                           return std::string(name(std::get<Pass>(parameter.param))) + "_" +
                                  std::get<WrongOffsets>(parameter.param).name;
                         });

// Few, for compute-sanitizer.
class FaultsSmall : public OnDevice {};
TEST_F(FaultsSmall, WrongOffsetsReachNoMemory) {
  const std::vector<WrongOffsets> all = wrong_offsets();
  for (const Pass pass : {Pass::forward, Pass::wgrad}) {
    for (const std::size_t which : {1U, 3U, 5U, 7U}) {
      Case c = make(pass, all[which].offs);
      c.tail = pass == Pass::forward ? Tail::zero : Tail::leave;
      expect_contained(c, all[which]);
    }
  }
}

class FaultRecords : public OnDevice {};
// The tail begins behind every valid segment: rows 20 to 29 are the third expert's.
TEST_F(FaultRecords, ZeroingTheTailWipesNobodysRows) {
  Case c = make(Pass::forward, {10, 20, 30, 29});
  c.tail = Tail::zero;
  CaseOnDevice on(c);
  const GroupedGemm plan = on.plan();
  on.poison(nullptr);
  on.execute(plan, nullptr);
  on.compare(nullptr);
  EXPECT_EQ(on.differences(nullptr), "");
  EXPECT_EQ(on.fault(nullptr).value, 29);
}

TEST_F(FaultRecords, AGoodLaunchAfterABadOneIsClean) {
  CaseOnDevice on(make(Pass::forward, {100, 50, 300, 400}));
  const GroupedGemm plan = on.plan();
  on.execute(plan, nullptr);
  on.prepare({100, 150, 300, 400}, 3, nullptr);
  on.poison(nullptr);
  on.execute(plan, nullptr);
  on.compare(nullptr);
  EXPECT_EQ(on.differences(nullptr), "");
  EXPECT_EQ(on.fault(nullptr).expert, 1) << "kept until it is read";
  on.execute(plan, nullptr);
  EXPECT_FALSE(on.fault(nullptr));
}

}  // namespace
}  // namespace moesaic::device_tests
