// SPDX-License-Identifier: Apache-2.0
// Where the expert's kernels find up and gate: in U, and in the lines of a tile of weights.

#include "backends/cuda/block/activation_layout.hpp"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "backends/cuda/block/kernel_config.hpp"
#include "backends/cuda/launch/instances.hpp"
#include "math/output_panel.hpp"
#include "math/pair_tiles.hpp"
#include "math/side_units.hpp"

namespace moesaic::backends::cuda {
namespace {

using math::UpGateLayout;

constexpr UpGateLayout kLayouts[] = {UpGateLayout::up_gate, UpGateLayout::gate_up,
                                     UpGateLayout::interleaved};

std::int64_t u_column(UpGateLayout layout, bool second, std::int64_t j, std::int64_t h) {
  const bool gate = second != (layout == UpGateLayout::gate_up);
  return gate ? math::gate_column(layout, j, h) : math::up_column(layout, j, h);
}

// PartChunks of part_chunks.cuh: a lane's eight columns of up and of gate, or of both, mixed.
TEST(ChunkColumns, EveryColumnOfUIsInOneChunkOfItsColumnOfH) {
  for (const UpGateLayout layout : kLayouts) {
    const PartLayout parts = part_layout(layout);
    for (const std::int64_t h : {8, 64, 72, 200, 256}) {
      std::map<std::int64_t, int> seen;
      for (std::int64_t column = 0; column < h; column += 8) {
        const ChunkColumns at = chunk_columns(parts, column, h);
        EXPECT_EQ(at.up % 8, 0) << "16 bytes";
        EXPECT_EQ(at.gate % 8, 0);
        for (std::int64_t i = 0; i < 8; ++i) {
          ++seen[at.up + i];
          ++seen[at.gate + i];
          const std::int64_t up = parts.interleaved ? at.up + 2 * i : at.up + i;
          const std::int64_t gate = parts.interleaved ? at.up + 2 * i + 1 : at.gate + i;
          ASSERT_EQ(up, u_column(layout, parts.gate_first, column + i, h));
          ASSERT_EQ(gate, u_column(layout, !parts.gate_first, column + i, h));
        }
      }
      EXPECT_EQ(seen.size(), static_cast<std::size_t>(2 * h));
      for (const auto& [element, times] : seen) {
        ASSERT_EQ(times, 1) << element;
        ASSERT_TRUE(element >= 0 && element < 2 * h);
      }
      // A lane's next chunk is 64 columns of H further.
      const ChunkColumns first = chunk_columns(parts, 0, h), next = chunk_columns(parts, 64, h);
      EXPECT_EQ(next.up - first.up, chunk_step(parts));
      EXPECT_EQ(next.gate - next.up, first.gate - first.up);
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

// A lane has both parts of a column of H: the second panel that is handed over is the second part
// of the first, and store_few_swiglu takes the second 16 sums for the second part of the first 16.
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

// load_panel() of activation_warps.cuh reads what store_matrices() puts down: eight columns of a
// row of a panel, a lane each.
TEST(Chunks, OfAPanelAreTheRowsOfItsMatrices) {
  std::map<std::uint32_t, std::pair<int, int>> put;  // where -> row, first column
  for (int pair = 0; pair < 4; ++pair) {
    for (int lane = 0; lane < 32; ++lane) {
      put[math::matrix_row(lane, pair)] = {lane % 16, pair * 16 + lane / 16 * 8};
    }
  }
  ASSERT_EQ(put.size(), 128U);
  for (int unit_row = 0; unit_row < kPanelRows; unit_row += math::SideUnits<1>::kRows) {
    for (int lane = 0; lane < 32; ++lane) {
      const int row = unit_row + lane / 8, chunk = lane % 8;
      const auto found = put.find(math::panel_chunk(row, chunk));
      ASSERT_NE(found, put.end());
      EXPECT_EQ(found->second, std::make_pair(row, chunk * 8));
      put.erase(found);
    }
  }
  EXPECT_TRUE(put.empty());
}

}  // namespace
}  // namespace moesaic::backends::cuda
