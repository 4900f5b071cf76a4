// SPDX-License-Identifier: Apache-2.0
// The table of compiled kernels: what its rows say about tiles, registers and shared memory, and
// the coordinates of ragged copies.

#include "backends/cuda/block/kernel_config.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "backends/cuda/launch/instances.hpp"

namespace moesaic::backends::cuda {
namespace {

TEST(KernelConfig, NamesSayWhatIsCompiled) {
  std::set<std::string_view> names;
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    std::ostringstream name;
    name << (c.f32_out ? "f32" : "bf16") << (c.wgrad ? "_wgrad_" : "_rows_") << c.tile_m << 'x'
         << c.tile_n << 'x' << kBlockK << "_s" << c.stages;
    if (c.cluster > 1) name << "_c" << c.cluster;
    if (!c.wgrad) name << (c.b_mn_major ? "_mn" : "_k");
    EXPECT_EQ(instance.name, name.str());
    EXPECT_TRUE(names.insert(instance.name).second) << instance.name << " twice";
  }
}

TEST(KernelConfig, WarpgroupsCoverTheTileOnce) {
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    const int parts = c.rows_per_warpgroup() * c.columns_per_warpgroup() * kConsumerWarpgroups;
    EXPECT_EQ(parts, c.tile_m * c.tile_n) << instance.name;
    EXPECT_EQ(c.m64_blocks() * kPanelRows, c.rows_per_warpgroup()) << instance.name;
    EXPECT_EQ(c.output_panels() * c.panel_columns(), c.columns_per_warpgroup()) << instance.name;
    EXPECT_EQ(c.accumulators() * kWarpgroupThreads * kConsumerWarpgroups, c.tile_m * c.tile_n);
    EXPECT_EQ(c.panel_columns() * (c.f32_out ? 4 : 2), 128);
  }
}

TEST(KernelConfig, MemoryFitsAndIsAligned) {
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    const math::SmemMap map = c.smem();
    EXPECT_LE(c.smem_bytes(), math::kSm90SmemBytes) << instance.name;
    for (const std::int64_t begin : {map.a_stage_bytes, map.b_stage_bytes, map.b_begin,
                                     map.staging_begin, std::int64_t{kPanelBytes}}) {
      EXPECT_EQ(begin % math::kSmemTileAlignBytes, 0) << instance.name;
    }
    EXPECT_EQ(map.staging_begin + kConsumerWarpgroups * kStagingPanels * kPanelBytes,
              map.barriers_begin);
    EXPECT_EQ(map.total_bytes, map.barriers_begin + 2 * c.stages * 8);
    // The walk's table behind it: groups + 1 entries, and the last segment's end.
    const std::int64_t table = c.wgrad ? 0 : (kMaxExperts / kExpertsPerGroup + 2) * 4;
    EXPECT_EQ(c.smem_bytes() - map.total_bytes, table);
    EXPECT_EQ(map.total_bytes % 4, 0);
  }
}

/// Column `column` of the resource table that the codegen test holds the compiled kernels to.
std::map<std::string, std::int64_t> resource_table(const std::string& column) {
  std::ifstream file(MOESAIC_TEST_DATA "/../codegen/sm90_resources.csv");
  std::map<std::string, std::int64_t> table;
  std::string line;
  std::ptrdiff_t at = -1;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> cells;
    std::istringstream cell_stream(line);
    for (std::string cell; std::getline(cell_stream, cell, ',');) cells.push_back(cell);
    if (at < 0) {
      at = std::find(cells.begin(), cells.end(), column) - cells.begin();
    } else {
      table[cells.at(0)] = std::stoll(cells.at(static_cast<std::size_t>(at)));
    }
  }
  return table;
}

TEST(KernelConfig, SharedMemoryIsWhatTheResourceTableSays) {
  const auto table = resource_table("dynamic_smem_bytes");
  EXPECT_EQ(table.size(), kInstances.size());
  for (const Instance& instance : kInstances) {
    const auto row = table.find(std::string(instance.name));
    ASSERT_NE(row, table.end()) << instance.name << " is not in the table";
    EXPECT_EQ(row->second, instance.config.smem_bytes()) << instance.name;
  }
}

// ---- Ragged coordinates

/// The byte that a ragged map addresses, as the hardware adds it up: modulo 2^64.
std::uint64_t address(std::uint64_t base, const RaggedCoordinates& at, std::uint64_t stride,
                      std::uint64_t element_bytes) {
  return base + element_bytes * (static_cast<std::uint64_t>(at.row) * stride +
                                 static_cast<std::uint64_t>(at.wrap) *
                                     (static_cast<std::uint64_t>(kRaggedWrapElems) - stride) +
                                 static_cast<std::uint64_t>(at.end) * stride);
}

void expect_identity(std::int64_t stride, std::int64_t element_bytes, std::int64_t begin,
                     std::int64_t rows, std::int64_t row) {
  constexpr std::uint64_t kBase = 0x7F12'3456'7800;
  const RaggedCoordinates at = ragged(begin, rows, row);
  const auto bytes = static_cast<std::uint64_t>(element_bytes);
  const auto s = static_cast<std::uint64_t>(stride);
  EXPECT_EQ(address(kBase, at, s, bytes),
            kBase + bytes * s * static_cast<std::uint64_t>(begin + row))
      << "stride " << stride << " begin " << begin << " rows " << rows << " row " << row;
  // The bound of the map is kRaggedRows: in the segment below it, behind the segment not.
  EXPECT_EQ(at.row >= kRaggedRows, row >= rows) << begin << ' ' << rows << ' ' << row;
  EXPECT_GE(at.row, 0);
  EXPECT_GE(at.end, 0);
}

TEST(RaggedCoordinates, AddressTheRowWhateverTheStrideAndTheSegment) {
  std::mt19937_64 random(11);
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
  };
  for (int i = 0; i < 200'000; ++i) {
    const std::int64_t stride = 8 * (1 + below(i % 2 == 0 ? 1 << 17 : 4096));
    const std::int64_t begin = below(i % 3 == 0 ? kRaggedRows - 1 : 4096);
    const std::int64_t rows = below(std::min<std::int64_t>(kRaggedRows - begin, 1 << (i % 31)));
    const std::int64_t row = below(rows + 320);
    expect_identity(stride, i % 5 == 0 ? 4 : 2, begin, rows, row);
  }
}

TEST(RaggedCoordinates, HoldAtTheEnds) {
  for (const std::int64_t stride :
       {std::int64_t{8}, std::int64_t{1} << 20, std::int64_t{1} << 30}) {
    for (const std::int64_t bytes : {2, 4}) {
      for (const std::int64_t rows : {0, 1, 63, 64, kRaggedRows - 1}) {
        for (const std::int64_t row : {std::int64_t{0}, rows - 1, rows, rows + 63}) {
          if (row < 0) continue;
          expect_identity(stride, bytes, 0, rows, row);
          expect_identity(stride, bytes, kRaggedRows - 1 - rows, rows, row);
        }
      }
      // What a tensor map may hold: strides below 2^40 bytes, multiples of 16.
      EXPECT_LT((kRaggedWrapElems - stride) * bytes, std::int64_t{1} << 40);
      EXPECT_EQ((kRaggedWrapElems - stride) * bytes % 16, 0);
    }
  }
}

}  // namespace
}  // namespace moesaic::backends::cuda
