// SPDX-License-Identifier: Apache-2.0
// Operands and checks of experiments' cases: those of a device, where the host has only what it
// looks at, against those of the CPU, where all of it lies on the host. The device is the CPU with
// memory of its own, and every CUDA device that is here.
#include "tools/moesaic/experiment/workbench.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <vector>

#include "tools/moesaic/experiment/arm_call.hpp"
#include "tools/moesaic/operands.hpp"

namespace moesaic::cli::experiment {
namespace {

constexpr std::uint64_t kSeed = 3;

Case make_case(const std::vector<std::int64_t>& counts, std::int64_t width,
               ExpertRows expert_rows = ExpertRows::own) {
  Case one;
  one.key = "case";
  one.shape = {.d = width, .h = width};
  one.record.counts = counts;
  one.expert_rows = expert_rows;
  one.dense =
      expert_rows == ExpertRows::repeated ? DenseControl::joined : DenseControl::first_expert;
  return one;
}

struct Place {
  DeviceInfo device;
  CpuMemory memory;
};

std::vector<Place> places_apart() {
  std::vector<Place> places = {{query_device(Device{}), CpuMemory::apart}};
  for (const DeviceInfo& device : list_devices().devices) {
    if (device.device.kind != DeviceKind::cpu) places.push_back({device, CpuMemory::shared});
  }
  return places;
}

/// What lies at the site, brought to the host.
std::vector<std::uint16_t> content(Workbench& bench, StagedMatrix& matrix, std::int64_t rows,
                                   std::int64_t width) {
  std::vector<std::int64_t> all;
  for (std::int64_t row = 0; row < rows; ++row) all.push_back(row);
  matrix.fetch_rows(width, all, bench.site());
  std::vector<std::uint16_t> words(static_cast<std::size_t>(rows * width));
  std::memcpy(words.data(), matrix.host_view({rows, width}).data, words.size() * 2);
  return words;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {make_case({40, 0, 25, 1}, 32),
                                        make_case({3, 30, 6, 11}, 32),  // fewer rows of the same
                                        make_case({20, 21, 20, 20}, 32),
                                        make_case({20, 21, 20, 20}, 16),
                                        make_case({9, 9}, 16, ExpertRows::repeated),
                                        make_case({9, 9, 9, 9}, 16, ExpertRows::repeated),
                                        make_case({9, 9, 9}, 16, ExpertRows::repeated),
                                        make_case({5, 13}, 16)};
  return all;
}

/// Whatever the cases before left behind, a case's operands are those of a bench of its own.
TEST(Workbench, MakesTheSameOperandsEverywhere) {
  for (const Place& place : places_apart()) {
    Workbench bench(place.device, kSeed, place.memory);
    for (const Case& one : cases()) {
      Workbench plain(query_device(Device{}), kSeed);
      const planner::ProductShape size = one.product();
      const std::int64_t rows = one.record.rows(), capacity = 23;
      for (Workbench* each : {&plain, &bench}) each->prepare(one);
      EXPECT_EQ(content(bench, bench.x, rows, size.k), content(plain, plain.x, rows, size.k));
      EXPECT_EQ(content(bench, bench.w, one.experts() * size.n, size.k),
                content(plain, plain.w, one.experts() * size.n, size.k));
      for (Workbench* each : {&plain, &bench}) each->prepare_batch(one, capacity);
      EXPECT_EQ(content(bench, bench.batch_x, one.experts() * capacity, size.k),
                content(plain, plain.batch_x, one.experts() * capacity, size.k));
    }
  }
}

TEST(Workbench, DrawsXAsTheOperandsOfOtherVerbs) {
  Workbench bench(query_device(Device{}), kSeed);
  const Case one = make_case({7, 7, 7}, 16, ExpertRows::repeated);
  bench.prepare(one);
  HostTensor first(DType::bf16, {7, 16});
  fill_normal(first, kActivationScale, kSeed, OperandStream::x);
  for (std::int64_t row = 0; row < 21; ++row) {
    for (std::int64_t column = 0; column < 16; ++column) {
      ASSERT_EQ(bench.x.host().get(row, column), first.get(row % 7, column)) << row;
    }
  }
}

/// The rows of x and of the batch that the host shows are those that lie at the site.
TEST(Workbench, ShowsTheRowsThatAreThere) {
  for (const Place& place : places_apart()) {
    for (const Case& one : cases()) {
      Workbench bench(place.device, kSeed, place.memory);
      const std::int64_t k = one.product().k, capacity = 12;
      bench.prepare(one);
      bench.prepare_batch(one, capacity);
      const std::vector<std::int64_t> rows = {0, 1, 8, 11, 12, 13, 17};
      const auto shown = [&](StagedMatrix& matrix) {
        std::vector<std::vector<std::byte>> lines;
        for (const std::int64_t row : rows) {
          const std::byte* line = matrix.host().row_data(row);
          lines.emplace_back(line, line + 2 * k);
        }
        return lines;
      };
      for (StagedMatrix* matrix : {&bench.x, &bench.batch_x}) {
        matrix == &bench.x ? bench.show_x_rows(rows) : bench.show_batch_rows(rows);
        const auto made = shown(*matrix);
        matrix->fetch_rows(k, rows, bench.site());
        EXPECT_EQ(made, shown(*matrix));
      }
    }
  }
}

/// All arms of all cases, on every place: the same elements compared, and none wrong.
TEST(ArmCall, ChecksTheSameElementsEverywhere) {
  for (const Place& place : places_apart()) {
    Workbench bench(place.device, kSeed, place.memory), plain(query_device(Device{}), kSeed);
    const bool same_backend = place.device.device.kind == DeviceKind::cpu;
    for (Case one : cases()) {
      one.padded = one.record.counts.front() == 20 || one.expert_rows == ExpertRows::repeated
                       ? PaddedBatch::prefilled
                       : PaddedBatch::copied;
      bench.prepare(one);
      plain.prepare(one);
      for (const Arm arm : {Arm::grouped, Arm::padded_bmm, Arm::host_loop, Arm::dense}) {
        std::optional<CheckResult> want;
        try {
          want = make_call(arm, one, plain).check();
        } catch (const Error& error) {
          ASSERT_EQ(error.code(), ErrorCode::unsupported);  // a build without oneDNN
          continue;
        }
        const CheckResult got = make_call(arm, one, bench).check();
        EXPECT_EQ(got.mismatches, 0) << name(arm);
        EXPECT_EQ(got.elements, want->elements) << name(arm);
        EXPECT_GT(got.elements, 0) << name(arm);
        if (same_backend) {
          EXPECT_EQ(got.worst, want->worst) << name(arm);
        }
      }
    }
  }
}

/// A product that writes nothing, or reads another row of x, is found out.
TEST(ArmCall, FindsWhatIsWrongAtTheSite) {
  for (const Place& place : places_apart()) {
    Workbench bench(place.device, kSeed, place.memory);
    const Case one = make_case({9, 9, 9, 9}, 16, ExpertRows::repeated);
    bench.prepare(one);
    ArmCall call = make_call(Arm::grouped, one, bench);
    EXPECT_EQ(call.check().mismatches, 0);
    bench.x.copy_rows(bench.x, 1, 2, 35, bench.site());  // the last row of all
    EXPECT_GT(call.check().mismatches, 0);
    const std::vector<std::int32_t> offs = {36};
    bench.y.poison(bench.site());
    EXPECT_EQ(bench.y.find_unwritten("y", offs, bench.site()).mismatches, 36 * 16);
  }
}

}  // namespace
}  // namespace moesaic::cli::experiment
