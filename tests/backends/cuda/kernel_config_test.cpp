// SPDX-License-Identifier: Apache-2.0
// The table of compiled kernels: what its rows say about tiles, registers and shared memory, and
// the coordinates of ragged copies.

#include "backends/cuda/block/kernel_config.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
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
    const char* const what = c.epilogue == Epilogue::swiglu    ? "_swiglu_"
                             : c.epilogue == Epilogue::dswiglu ? "_dswiglu_"
                             : c.wgrad                         ? "_wgrad_"
                                                               : "_rows_";
    name << (c.f32_out ? "f32" : "bf16") << what << (c.pair ? "2x" : "") << c.tile_m << 'x'
         << c.tile_n;
    if (!c.wgrad) name << (c.b_mn_major ? "_mn" : "_k");
    if (c.gather) name << "_gather";
    if (c.row_weights) name << "_weighted";
    EXPECT_EQ(instance.name, name.str());
    EXPECT_TRUE(names.insert(instance.name).second) << instance.name << " twice";
  }
}

TEST(KernelConfig, WarpsCoverTheTileOnce) {
  EXPECT_EQ(kPanelBytes, kPanelRows * 128);
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    EXPECT_EQ(c.rows_per_warpgroup() * kConsumerWarpgroups, c.tile_m) << instance.name;
    EXPECT_EQ(c.rows_per_warpgroup(), kBlockRows) << instance.name << ": of a wgmma";
    EXPECT_EQ(kPanelRows * kConsumerWarps, c.tile_m) << instance.name;
    EXPECT_EQ(c.accumulators() * kWarpgroupThreads * kConsumerWarpgroups, c.tile_m * c.tile_n);
    EXPECT_EQ(c.panel_columns() * (c.f32_out ? 4 : 2), 128) << instance.name;
    EXPECT_EQ(c.stages, 4) << instance.name;
  }
}

// Half a tile's columns of b are copied by the boxes of a tile of few rows, and its rows are those
// of the whole.
TEST(KernelConfig, HalvesOfLargeTiles) {
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    if (c.wgrad) continue;
    EXPECT_EQ(c.tile_n, 2 * kFewColumns) << instance.name;
    EXPECT_EQ(c.tile_n / 2 % 64, 0) << instance.name << ": whole panels";
    // The left half's first part is stored before its second: whole staged panels each.
    EXPECT_EQ(c.tile_n / 4 % c.panel_columns(), 0) << instance.name;
    const math::SmemMap map = c.smem();
    EXPECT_EQ(map.b_bytes / 2, kFewColumns * kBlockK * 2) << instance.name;
  }
}

TEST(KernelConfig, RegistersAreSharedOut) {
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    EXPECT_GE(c.consumer_registers(), c.launch_registers()) << instance.name << ": it takes more";
    EXPECT_LE(c.launch_registers() * c.threads(), 65'536) << instance.name;
    EXPECT_EQ(c.launch_registers() % 8, 0) << instance.name;
    EXPECT_LE((c.warpgroups() - kConsumerWarpgroups) * c.other_registers() +
                  kConsumerWarpgroups * c.consumer_registers(),
              c.warpgroups() * c.launch_registers())
        << instance.name;
    for (const int registers : {c.other_registers(), c.consumer_registers()}) {
      EXPECT_EQ(registers % 8, 0) << instance.name;
      EXPECT_GE(registers, 24) << instance.name;
    }
    EXPECT_LE(c.other_registers(), c.launch_registers()) << instance.name << ": it gives some back";
  }
}

// What applies the activation: a warpgroup of its own, and the producer's warps that load nothing.
TEST(KernelConfig, SidesAreHandedOver) {
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    EXPECT_EQ(c.hands_over(), c.epilogue != Epilogue::store) << instance.name;
    if (!c.hands_over()) {
      EXPECT_EQ(c.threads(), (1 + kConsumerWarpgroups) * kWarpgroupThreads) << instance.name;
      for (int warp = 0; warp < c.threads() / 32; ++warp) EXPECT_EQ(c.activation_warp(warp), -1);
      continue;
    }
    // Whoever neither loads nor multiplies is one of them, each once.
    std::set<int> indices;
    for (int warp = 0; warp < c.threads() / 32; ++warp) {
      const bool multiplies = warp >= 4 && warp < 4 + kConsumerWarps;
      const bool loads = warp == 0 || (c.gather && warp < 4);
      const int index = c.activation_warp(warp);
      EXPECT_EQ(index < 0, multiplies || loads) << instance.name << " warp " << warp;
      if (index < 0) continue;
      EXPECT_TRUE(indices.insert(index).second) << instance.name;
    }
    EXPECT_EQ(static_cast<int>(indices.size()), c.activation_warps()) << instance.name;
    EXPECT_EQ(*indices.begin(), 0) << instance.name;
    EXPECT_EQ(*indices.rbegin(), c.activation_warps() - 1) << instance.name;
    EXPECT_EQ(c.handed_arrivals(), 4) << "of a warpgroup";
    EXPECT_EQ(c.taken_arrivals(), c.activation_warps()) << instance.name;
    // A side of the tile fills the warps' panels, and what is said of it lies behind all else.
    EXPECT_EQ(c.tile_m * c.tile_n / 2 * 2, kConsumerWarps * kStagingPanels * kPanelBytes)
        << instance.name;
    EXPECT_EQ(c.hand_over_begin() % 16, 0) << instance.name;
    EXPECT_EQ(c.smem_bytes() - c.hand_over_begin(), kHandOverBytes) << instance.name;
    EXPECT_LE(c.smem_bytes(), math::kSm90SmemBytes) << instance.name;
  }
}

TEST(KernelConfig, TilesOfFewRows) {
  EXPECT_EQ(kFewRows, 4 * kPanelRows) << "the four warps of a warpgroup have all rows";
  EXPECT_EQ(kFewColumns % (kConsumerWarpgroups * 64), 0) << "and whole panels of its columns";
  EXPECT_EQ(kFewBlockK % kBlockK, 0);
  EXPECT_LE(kFewestRows, kFewRows);
  EXPECT_EQ(kFewestRows % 8, 0) << "whole swizzle atoms";
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    const math::RowTileShape<std::int32_t> shape = c.row_shape();
    EXPECT_EQ(shape.tile_m, c.worker_ctas() * c.tile_m);
    EXPECT_EQ(shape.tile_n, c.tile_n);
    EXPECT_EQ(shape.group_m, c.group_m);
    EXPECT_EQ(shape.few_n, c.worker_ctas() * kFewColumns);
    EXPECT_EQ(shape.few_m, kFewRows);
    EXPECT_LT(shape.few_m, shape.tile_m) << instance.name;
    // Its operands lie where those of a large tile do.
    EXPECT_LE(kFewRows * kFewBlockK * 2, c.smem().a_stage_bytes) << instance.name;
    EXPECT_LE(kFewColumns * kFewBlockK * 2, c.smem().b_stage_bytes) << instance.name;
  }
}

// Passes of 128 threads make whole panels: of a large tile, of few rows and fewest, of the rows
// that a weight gradient contracts. A lane keeps one index of a tile.
TEST(KernelConfig, GatheredRowsAreWholePasses) {
  EXPECT_EQ(kWarpgroupThreads, math::kGatherThreads) << "all of the producer's";
  EXPECT_EQ(kFewRows % math::kGatherLines, 0);
  EXPECT_EQ(kFewestRows % math::kGatherLines, 0);
  EXPECT_EQ(kBlockK % math::kGatherLines, 0);
  int gathering = 0;
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    EXPECT_EQ(c.full_arrivals(), c.gather ? 129 : 1) << instance.name;
    if (!c.gather) continue;
    ++gathering;
    EXPECT_EQ(c.tile_m, 32 * (math::kGatherThreads / 32)) << instance.name;
    EXPECT_EQ(c.tile_n % 64, 0) << instance.name;
    EXPECT_FALSE(is_product(c)) << instance.name << " reads what no GroupedGemm has";
  }
  EXPECT_EQ(gathering, 3) << "up and gate, and its weight gradient in two types";
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
    EXPECT_EQ(map.staging_begin + kConsumerWarps * kStagingPanels * kPanelBytes,
              map.barriers_begin);
    EXPECT_EQ(map.total_bytes, map.barriers_begin + 2 * c.stages * 8) << "two per stage";
  }
}

// Behind the barriers: a message per stage, read as two 16-byte words, where rows are walked
// through, the ends of every group of experts, of both kinds of tile, and where they are gathered,
// what the gathering warps are told, with two barriers each.
TEST(KernelConfig, MessagesAndTheTableLieBehindTheBarriers) {
  EXPECT_EQ(sizeof(TileMessage), 32U);
  EXPECT_EQ(offsetof(TileMessage, segment_begin), 16U) << "the second word";
  EXPECT_EQ(std::size(GroupTable{}.ends), 2U);
  EXPECT_EQ(sizeof(GroupTable), 2U * 4U * (kMaxExperts / kExpertsPerGroup));
  EXPECT_EQ(kMaxExperts % kExpertsPerGroup, 0);
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    EXPECT_GE(c.messages_begin(), c.smem().total_bytes) << instance.name;
    EXPECT_LT(c.messages_begin(), c.smem().total_bytes + 16) << instance.name;
    EXPECT_EQ(c.messages_begin() % 16, 0) << instance.name;
    EXPECT_EQ(c.table_begin(), c.messages_begin() + c.stages * 32) << instance.name;
    EXPECT_EQ(c.table_begin() % static_cast<std::int64_t>(alignof(GroupTable)), 0);
    const std::int64_t table = c.wgrad ? 0 : static_cast<std::int64_t>(sizeof(GroupTable));
    EXPECT_EQ(c.gather_begin(), c.table_begin() + table) << instance.name;
    EXPECT_EQ(c.gather_begin() % 16, 0) << instance.name;
    const std::int64_t slots = c.gather_begin() + (c.gather ? kGatherSlots * (16 + 2 * 8)
                                                   : c.pair ? (math::PairAnswers::kSlots + 1) * 8
                                                            : 0);
    const bool handed = c.epilogue != Epilogue::store;  // a word and four barriers more
    EXPECT_EQ(c.smem_bytes(), handed ? math::round_up<std::int64_t>(slots, 16) + 16 + 4 * 8 : slots)
        << instance.name;
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
