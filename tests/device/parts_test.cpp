// SPDX-License-Identifier: Apache-2.0
// What the kernels do beside math/, compared with math/ on the device: the walk of a warp through
// the schedule, and where a fragment stands in the staged panel.

#include "device/parts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "device/on_device.hpp"
#include "math/swizzle.hpp"
#include "support/random_offsets.hpp"

namespace moesaic::device_tests {
namespace {

class Parts : public OnDevice {};

struct Found {
  unsigned long long different, tiles;
};

enum class Schedule : std::uint8_t { rows, rows_and_few, spread, elastic, weights };

Found walk(const std::vector<std::int32_t>& offs, const math::ScheduleCase& c, Schedule schedule) {
  const auto experts = static_cast<std::int32_t>(offs.size());
  const DeviceMemory on_device(static_cast<std::int64_t>(offs.size()) * 4), found(sizeof(Found));
  check(cudaMemcpy(on_device.bytes(), offs.data(), offs.size() * 4, cudaMemcpyHostToDevice),
        "cudaMemcpy");
  check(cudaMemset(found.bytes(), 0, sizeof(Found)), "cudaMemset");
  const auto n = static_cast<std::int32_t>(c.n), tile_m = static_cast<std::int32_t>(c.tile_m),
             tile_n = static_cast<std::int32_t>(c.tile_n),
             group_m = static_cast<std::int32_t>(c.group_m);
  const auto workers = static_cast<int>(c.num_workers);
  auto* counts = found.as<unsigned long long>();
  if (schedule == Schedule::weights) {
    const auto grid = math::weight_tile_grid<std::int32_t>(experts, c.max_rows, n, 520, tile_n, 256,
                                                           tile_m, group_m);
    compare_weight_walks(on_device.as<std::int32_t>(), grid, workers, counts, counts + 1, nullptr);
  } else {
    const std::int32_t few_m = schedule == Schedule::rows ? 0 : tile_m / 2;
    math::RowTileShape<std::int32_t> shape{tile_m, tile_n, group_m, few_m, std::max(tile_n / 2, 1)};
    shape.spread = schedule == Schedule::spread || schedule == Schedule::elastic;
    shape.elastic = schedule == Schedule::elastic;
    const auto grid = math::row_tile_grid<std::int32_t>(experts, c.max_rows, n, shape);
    compare_row_walks(on_device.as<std::int32_t>(), grid, workers, counts, counts + 1, nullptr);
  }
  Found result{};
  check(cudaMemcpy(&result, found.bytes(), sizeof(result), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return result;
}

void expect_same_walks(int num_cases, std::uint64_t seed) {
  math::ScheduleCases cases(seed);
  unsigned long long tiles = 0;
  for (int i = 0; i < num_cases; ++i) {
    const math::ScheduleCase c = cases.next();
    const auto schedule = static_cast<Schedule>(i % 5);
    const Found found = walk(c.offs, c, schedule);
    ASSERT_EQ(found.different, 0U)
        << "schedule " << i % 5 << ", case " << i << ": " << c.offs.size() << " experts, M "
        << c.max_rows << ", tile_m " << c.tile_m;
    tiles += found.tiles;
  }
  EXPECT_GT(tiles, static_cast<unsigned long long>(num_cases));
}

// Cursors that part ways at an empty or wrong expert make producer and consumers wait for ever:
// Liger#1463.
TEST_F(Parts, TheWalkOfAWarpIsTheScheduleOfTheHost) { expect_same_walks(3000, 20'26); }
TEST_F(Parts, TheWalkOfAWarpIsTheScheduleOfTheHostSmall) { expect_same_walks(40, 7); }

TEST_F(Parts, TheWalkHoldsFor4096Experts) {
  std::vector<std::int32_t> offs;
  for (std::int32_t e = 0, end = 0; e < 4096; ++e) offs.push_back(end += e * 7 % 5 * (e % 3));
  math::ScheduleCase c;
  c.max_rows = offs.back() + 9;
  c.n = 520;
  c.tile_m = 2;
  c.tile_n = 256;
  c.group_m = 8;
  for (const std::int64_t workers : {1, 132}) {
    c.num_workers = workers;
    for (const std::int32_t wrong : {-1, 5, 1 << 30}) {
      std::vector<std::int32_t> some_wrong = offs;
      some_wrong[32] = some_wrong[2047] = some_wrong[4095] = wrong;
      for (const auto schedule : {Schedule::rows, Schedule::rows_and_few, Schedule::spread,
                                  Schedule::elastic, Schedule::weights}) {
        const Found found = walk(some_wrong, c, schedule);
        EXPECT_EQ(found.different, 0U);
        EXPECT_GT(found.tiles, 1000U);
      }
    }
  }
}

/// Element (row, column) of a staged panel as a number.
float staged(const std::vector<std::byte>& panel, bool f32_out, int row, int column) {
  const auto logical = static_cast<std::uint32_t>(row * 128 + column * (f32_out ? 4 : 2));
  const std::uint32_t at = math::swizzle_offset(math::Swizzle::bytes_128, logical);
  if (f32_out) {
    float value = 0;
    std::memcpy(&value, panel.data() + at, 4);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, panel.data() + at, 2);
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, 4);
  return value;
}

// A tile whose quarters are exchanged: sonic-moe#63, quack#131.
TEST_F(Parts, EveryElementOfAFragmentIsStagedWhereTheCopyReadsItSmall) {
  for (const bool f32_out : {false, true}) {
    const int columns = f32_out ? 32 : 64;
    for (int panel = 0; panel < 256 / columns; ++panel) {
      for (const bool rows : {false, true}) {
        const DeviceMemory out(backends::cuda::kPanelBytes);
        stage_fragment(f32_out, rows, panel, out.bytes(), nullptr);
        std::vector<std::byte> host(backends::cuda::kPanelBytes);
        check(cudaMemcpy(host.data(), out.bytes(), host.size(), cudaMemcpyDeviceToHost),
              "cudaMemcpy");
        for (int row = 0; row < backends::cuda::kPanelRows; ++row) {
          for (int column = 0; column < columns; ++column) {
            const auto want = static_cast<float>(rows ? row : panel * columns + column);
            ASSERT_EQ(staged(host, f32_out, row, column), want)
                << "f32 " << f32_out << " panel " << panel << " row " << row << " column "
                << column;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace moesaic::device_tests
