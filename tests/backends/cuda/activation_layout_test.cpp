// SPDX-License-Identifier: Apache-2.0
// Where the expert's kernels find up and gate: in U, in the lines of a tile of weights, and in the
// words of a lane.

#include "backends/cuda/block/activation_layout.hpp"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "backends/cuda/block/kernel_config.hpp"
#include "backends/cuda/launch/instances.hpp"
#include "math/output_panel.hpp"
#include "math/pair_tiles.hpp"

namespace moesaic::backends::cuda {
namespace {

using math::UpGateLayout;

constexpr UpGateLayout kLayouts[] = {UpGateLayout::up_gate, UpGateLayout::gate_up,
                                     UpGateLayout::interleaved};

std::int64_t u_column(UpGateLayout layout, bool second, std::int64_t j, std::int64_t h) {
  const bool gate = second != (layout == UpGateLayout::gate_up);
  return gate ? math::gate_column(layout, j, h) : math::up_column(layout, j, h);
}

/// Element of U that column `c` of panel `panel` is, for 64 columns of H from `begin` on; −1 where
/// the map clips.
std::int64_t element_of(UpGateLayout layout, std::int64_t h, std::int32_t begin, int panel, int c) {
  const PartLayout parts = part_layout(layout);
  const PartPanel at = part_panel(parts, begin, panel);
  const PartExtent extent = part_extent(parts, h);
  EXPECT_LT(at.part, extent.parts);
  const std::int64_t column = at.column + c;
  return column < extent.columns ? at.part * extent.columns + column : -1;
}

TEST(PartPanels, EveryColumnOfUIsInOnePanelAtItsColumnOfH) {
  for (const UpGateLayout layout : kLayouts) {
    const bool interleaved = part_layout(layout).interleaved;
    for (const std::int64_t h : {8, 64, 72, 200, 256}) {
      std::map<std::int64_t, int> seen;
      for (std::int32_t begin = 0; begin < paired_width(h) / 2; begin += 64) {
        for (int panel = 0; panel < 2; ++panel) {
          for (int c = 0; c < 64; ++c) {
            const std::int64_t element = element_of(layout, h, begin, panel, c);
            if (element < 0) continue;
            ++seen[element];
            const bool second = interleaved ? c % 2 == 1 : panel == 1;
            const std::int64_t j = begin + (interleaved ? 32 * panel + c / 2 : c);
            ASSERT_LT(j, h);
            ASSERT_EQ(element, u_column(layout, second, j, h));
          }
        }
      }
      EXPECT_EQ(seen.size(), static_cast<std::size_t>(2 * h));
      for (const auto& [element, times] : seen) ASSERT_EQ(times, 1) << element;
    }
  }
}

TEST(PairedWidth, IsWholeBlocksOfBothParts) {
  EXPECT_EQ(paired_width(8), 128);
  EXPECT_EQ(paired_width(64), 128);
  EXPECT_EQ(paired_width(72), 256);
  EXPECT_EQ(paired_width(256), 512);
}

/// What load_paired_lines() of stage_loads.cuh brings: line of the CTA's b -> (second part, column
/// of H).
std::vector<std::pair<bool, int>> lines_of(int lines, int first, int pairs) {
  std::vector<std::pair<bool, int>> all;
  for (int pair = 0; pair < pairs; ++pair) {
    for (const bool second : {false, true}) {
      for (int line = 0; line < lines; ++line) {
        all.emplace_back(second, first + pair * lines + line);
      }
    }
  }
  return all;
}

// A lane has both parts of a column of H: SwigluStore takes the second 32 of a half's sums for the
// second part of the first 32, store_few_swiglu the second 16.
TEST(PairedLines, AHalfOfALargeTileIsBothPartsOf64Columns) {
  const KernelConfig config;
  const int half = config.tile_n / 2;
  for (const int tile_column : {0, 256, 512}) {
    const auto lines = lines_of(64, tile_column / 2, 2);
    ASSERT_EQ(lines.size(), static_cast<std::size_t>(config.tile_n));
    for (int side = 0; side < 2; ++side) {
      for (int c = 0; c < half; ++c) {
        const int column = tile_column + side * half;  // what a target's column is
        EXPECT_EQ(lines[static_cast<std::size_t>(side * half + c)],
                  std::make_pair(c >= 64, column / 2 + c % 64));
      }
    }
  }
  for (const int tile_column : {0, 128, 384}) {
    const auto lines = lines_of(32, tile_column / 2, 2);
    ASSERT_EQ(lines.size(), static_cast<std::size_t>(kFewColumns));
    for (int warpgroup = 0; warpgroup < kConsumerWarpgroups; ++warpgroup) {
      const int width = kFewColumns / kConsumerWarpgroups;
      for (int c = 0; c < width; ++c) {
        const int column = tile_column + warpgroup * width;
        EXPECT_EQ(lines[static_cast<std::size_t>(warpgroup * width + c)],
                  std::make_pair(c >= 32, column / 2 + c % 32));
      }
    }
  }
}

// Of a pair each CTA loads a block for both, to where it lies in the tile's lines; of half a tile,
// and of a tile with rows for one CTA alone, each has one block.
TEST(PairedLines, EachCtaOfAPairLoadsABlockOfTheTile) {
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    if (!c.pair || c.epilogue != Epilogue::swiglu) continue;
    const math::RowTileShape<std::int32_t> shape = c.row_shape();
    math::RowTile<std::int32_t> tile;
    tile.rows = shape.tile_m;
    constexpr int kColumn = 512;
    tile.column_begin = kColumn;
    tile.columns = shape.tile_n;
    const int share = math::pair_share(shape, math::pair_tile(tile, shape, 0));
    ASSERT_EQ(share, 2 * 64) << "64 lines of either part";
    const auto lines = lines_of(64, kColumn / 2, 2);
    std::vector<std::pair<bool, int>> loaded;
    for (int cta = 0; cta < 2; ++cta) {
      const auto block = lines_of(64, (kColumn + cta * share) / 2, 1);
      loaded.insert(loaded.end(), block.begin(), block.end());
    }
    EXPECT_EQ(loaded, lines);
    tile.rows = shape.tile_m / 2;
    for (int cta = 0; cta < 2; ++cta) {
      const auto own = math::pair_tile(tile, shape, cta);
      EXPECT_EQ(own.columns, share);
      EXPECT_EQ(own.column_begin % share, 0) << "a block of its own";
    }
  }
}

/// Byte of a 128-byte-swizzled panel.
std::uint32_t byte_of(int row, int byte) {
  return math::swizzle_offset(math::Swizzle::bytes_128,
                              static_cast<std::uint32_t>(row * 128 + byte));
}

// store_quarter() and load_quarter() of activation.cuh: where word i of quarter q of a lane goes in
// an interleaved U, against the panel's columns.
TEST(InterleavedPanels, AWordsColumnsStandWhereTheMapExpectsThem) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int q = 0; q < 4; ++q) {
      for (int j = 0; j < 2; ++j) {
        const int h_column = 16 * q + 8 * j + 2 * (lane % 4);
        const int panel = h_column / 32;
        EXPECT_EQ(panel, q < 2 ? 0 : 1);
        for (const int below : {0, 8}) {
          for (int next = 0; next < 2; ++next) {  // (first, second) of h_column + next
            const std::uint32_t at = math::word_pair(lane, q % 2 * 2 + j) +
                                     static_cast<std::uint32_t>(below * 128 + next * 4);
            EXPECT_EQ(at, byte_of(lane / 4 + below, (h_column + next - 32 * panel) * 4));
          }
        }
      }
    }
  }
}

// Both CTAs of a pair go through as many stages of U, 64 columns each, whatever rows they have.
TEST(SavedU, HasAStageFor64Columns) {
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    const bool saved = c.epilogue == Epilogue::dswiglu;
    EXPECT_EQ(c.saved_stages(false) * 64, saved ? c.tile_n : 0) << instance.name;
    EXPECT_EQ(c.saved_stages(true) * 64, saved ? c.tile_n / 2 : 0) << instance.name;
  }
}

// U's panels are where b was, H's where a was: a stage of 64 columns fits a stage.
TEST(SavedU, AStageHoldsBothPartsAndRoomForH) {
  const KernelConfig config;
  const math::SmemMap map = config.smem();
  EXPECT_EQ(2 * math::panel_bytes(config.tile_m), map.b_bytes);
  EXPECT_LE(math::panel_bytes(config.tile_m), map.a_bytes);
  // A warp's lines begin on a swizzle atom, as far in as its staged panel is long.
  EXPECT_EQ(kPanelBytes % math::kSmemTileAlignBytes, 0);
  EXPECT_EQ(math::panel_bytes(kPanelRows), kPanelBytes);
}

}  // namespace
}  // namespace moesaic::backends::cuda
