// SPDX-License-Identifier: Apache-2.0
// A host model of the shared memory of one CTA: what the copies of a stage bring, where the wgmmas
// read it, and where a fragment is staged for the store. The device tests compare the kernels' own
// staging with the same layout.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/block/kernel_config.hpp"
#include "backends/cuda/launch/instances.hpp"
#include "math/output_panel.hpp"
#include "math/smem_layout.hpp"
#include "math/swizzle.hpp"

namespace moesaic::backends::cuda {
namespace {

// ---- Copies

struct Box {
  std::int64_t begin, bytes;  // in the CTA's shared memory
};

/// A tile of 64-wide panels along M or N, in one box or panel by panel.
std::vector<Box> panel_boxes(std::int64_t begin, int width, PanelCopy copy) {
  const int panels = width / 64;
  if (copy == PanelCopy::whole) return {{begin, panels * math::panel_bytes(kBlockK)}};
  std::vector<Box> boxes;
  for (int panel = 0; panel < panels; ++panel) {
    boxes.push_back({begin + panel * math::panel_bytes(kBlockK), math::panel_bytes(kBlockK)});
  }
  return boxes;
}

void append(std::vector<Box>& boxes, const std::vector<Box>& more) {
  boxes.insert(boxes.end(), more.begin(), more.end());
}

/// The boxes that columns of b take. Those of a pair come from both CTAs, half from each, but a
/// block of 64 lines of up and gate each is not divided.
std::vector<Box> column_boxes(const KernelConfig& c, PanelCopy copy, std::int64_t begin,
                              int columns) {
  const bool block = c.epilogue == Epilogue::swiglu && columns == kFewColumns;
  const int ctas = block ? 1 : c.worker_ctas();
  const int share = columns / ctas;
  std::vector<Box> boxes;
  for (int rank = 0; rank < ctas; ++rank) {
    const std::int64_t at = begin + rank * share / 64 * kBlockBytes;
    append(boxes, c.wgrad || c.b_mn_major ? panel_boxes(at, share, copy)
                                          : std::vector<Box>{{at, math::panel_bytes(share)}});
  }
  return boxes;
}

/// The boxes that a stage of a large tile, or of wgrad, takes.
std::vector<Box> large_boxes(const KernelConfig& c, PanelCopy copy, std::int64_t stage) {
  const std::int64_t a = c.smem().a_offset(stage), b = c.smem().b_offset(stage);
  std::vector<Box> boxes;
  append(boxes, c.wgrad ? panel_boxes(a, c.tile_m, copy)
                        : std::vector<Box>{{a, math::panel_bytes(c.tile_m)}});
  append(boxes, column_boxes(c, copy, b, c.tile_n));
  return boxes;
}

/// The boxes that a stage of half a large tile takes: all its rows, half its columns.
std::vector<Box> half_boxes(const KernelConfig& c, PanelCopy copy, std::int64_t stage) {
  const std::int64_t b = c.smem().b_offset(stage);
  std::vector<Box> boxes = {{c.smem().a_offset(stage), math::panel_bytes(c.tile_m)}};
  append(boxes, column_boxes(c, copy, b, c.tile_n / 2));
  return boxes;
}

/// The boxes of a pair's tile that has rows for one CTA alone: these from both CTAs, and the half
/// of the columns that the CTA multiplies.
std::vector<Box> short_boxes(const KernelConfig& c, PanelCopy copy, std::int64_t stage) {
  const std::int64_t a = c.smem().a_offset(stage), b = c.smem().b_offset(stage);
  std::vector<Box> boxes = {{a, math::panel_bytes(kFewRows)},
                            {a + kBlockBytes, math::panel_bytes(kFewRows)}};
  append(boxes, c.b_mn_major ? panel_boxes(b, kFewColumns, copy)
                             : std::vector<Box>{{b, math::panel_bytes(kFewColumns)}});
  return boxes;
}

/// The boxes of a tile of few rows: two panels along the contraction, the rows by the smaller box
/// where they are the fewest.
std::vector<Box> few_boxes(const KernelConfig& c, PanelCopy copy, int stage, int box_rows) {
  std::vector<Box> boxes;
  for (int panel = 0; panel < kFewBlockK / kBlockK; ++panel) {
    const std::int64_t a = c.smem().a_offset(stage) + panel * math::panel_bytes(kFewRows);
    const std::int64_t b = c.smem().b_offset(stage) + panel * kFewBBytes;
    append(boxes, {{a, math::panel_bytes(box_rows)}});
    append(boxes, c.b_mn_major ? panel_boxes(b, kFewColumns, copy)
                               : std::vector<Box>{{b, math::panel_bytes(kFewColumns)}});
  }
  return boxes;
}

std::int64_t bytes_of(const std::vector<Box>& boxes) {
  std::int64_t bytes = 0;
  for (const Box& box : boxes) bytes += box.bytes;
  return bytes;
}

/// How often each byte of the CTA's shared memory is written.
std::vector<int> writes_of(const KernelConfig& c, const std::vector<Box>& boxes) {
  std::vector<int> writes(static_cast<std::size_t>(c.smem().total_bytes));
  for (const Box& box : boxes) {
    EXPECT_EQ(box.begin % math::kSmemTileAlignBytes, 0);
    for (std::int64_t i = 0; i < box.bytes; ++i) {
      ++writes.at(static_cast<std::size_t>(box.begin + i));
    }
  }
  return writes;
}

TEST(StageCopies, FillEveryStageOnceAndNothingElse) {
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    const math::SmemMap map = c.smem();
    for (const PanelCopy copy : {PanelCopy::whole, PanelCopy::single}) {
      std::vector<Box> all;
      for (int stage = 0; stage < c.stages; ++stage) {
        const std::vector<Box> boxes = large_boxes(c, copy, stage);
        EXPECT_EQ(bytes_of(boxes), map.stage_expect_bytes())
            << instance.name << ": the barrier would wait for ever";
        append(all, boxes);
      }
      const std::vector<int> writes = writes_of(c, all);
      for (std::int64_t i = 0; i < map.total_bytes; ++i) {
        ASSERT_EQ(writes[static_cast<std::size_t>(i)], i < map.staging_begin ? 1 : 0)
            << instance.name << " byte " << i;
      }
    }
  }
}

/// Whether boxes write no byte twice, and none that a large tile's stage does not.
void expect_inside(const Instance& instance, PanelCopy copy, int stage,
                   const std::vector<Box>& boxes) {
  const std::vector<int> writes = writes_of(instance.config, boxes);
  const std::vector<int> room =
      writes_of(instance.config, large_boxes(instance.config, copy, stage));
  for (std::size_t i = 0; i < writes.size(); ++i) {
    ASSERT_LE(writes[i], room[i]) << instance.name << " byte " << i;
  }
}

TEST(StageCopies, OfFewRowsAndOfHalvesStayInTheirStageAndApart) {
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    if (c.wgrad) continue;
    const math::SmemMap map = c.smem();
    for (const PanelCopy copy : {PanelCopy::whole, PanelCopy::single}) {
      for (int stage = 0; stage < c.stages; ++stage) {
        // The bytes are what stage_loads.cuh lets the stage's barrier expect.
        const std::vector<Box> half = half_boxes(c, copy, stage);
        EXPECT_EQ(bytes_of(half), map.a_bytes + map.b_bytes / 2) << instance.name;
        expect_inside(instance, copy, stage, half);
        if (c.pair) {
          const std::vector<Box> boxes = short_boxes(c, copy, stage);
          EXPECT_EQ(bytes_of(boxes), map.a_bytes + map.b_bytes / 2) << instance.name;
          expect_inside(instance, copy, stage, boxes);
        }
        for (const int box_rows : {kFewRows, kFewestRows}) {
          const std::vector<Box> few = few_boxes(c, copy, stage, box_rows);
          EXPECT_EQ(bytes_of(few), 2 * (box_rows * 128 + kFewColumns * 128)) << instance.name;
          expect_inside(instance, copy, stage, few);
        }
      }
    }
  }
}

// ---- What the wgmmas read

/// Operand starts as multiply_large() of mainloop.cuh adds them up, against the layout that the
/// copies leave: for all columns at once (wgrad), for the left or the right half of a whole tile,
/// and for half a tile, whose columns lie where the left half does.
TEST(StageReads, EveryWgmmaStartsAtItsRowsAndColumnsAndItsStepOfTheContraction) {
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    for (int step = 0; step < kBlockK / math::kWgmmaK; ++step) {
      const int k = step * math::kWgmmaK;
      for (int block = 0; block < c.tile_m / kBlockRows; ++block) {
        const int row = block * kBlockRows;
        EXPECT_EQ(block * kBlockBytes + (c.wgrad ? math::mn_major_step_bytes(step)
                                                 : math::k_major_step_bytes(step, c.tile_m)),
                  c.wgrad ? math::mn_major_offset(row, k, kBlockK)
                          : math::k_major_offset(row, k, c.tile_m))
            << instance.name;
      }
      const bool mn_major = c.wgrad || c.b_mn_major;
      for (const int first_column : {0, c.tile_n / 2}) {
        for (const int copied : {c.tile_n, c.tile_n / 2}) {
          if (first_column >= copied || (c.wgrad && first_column > 0)) continue;
          EXPECT_EQ(first_column / 64 * kBlockBytes +
                        (mn_major ? math::mn_major_step_bytes(step)
                                  : math::k_major_step_bytes(step, c.tile_n)),
                    mn_major ? math::mn_major_offset(first_column, k, kBlockK)
                             : math::k_major_offset(first_column, k, copied))
              << instance.name << " columns from " << first_column << " of " << copied;
        }
      }
    }
  }
}

/// The same of multiply_few(). The panels along the contraction of an MN-major operand are tiles of
/// their own.
TEST(StageReads, EveryWgmmaOfFewRowsStartsAtItsColumnsAndItsStepOfTheContraction) {
  for (int warpgroup = 0; warpgroup < kConsumerWarpgroups; ++warpgroup) {
    const int first_column = warpgroup * kFewColumns / kConsumerWarpgroups;
    const int b_part = warpgroup * kBlockBytes;
    for (int panel = 0; panel < kFewBlockK / kBlockK; ++panel) {
      const int a_panel = panel * math::panel_bytes(kFewRows);
      const int b_panel = panel * math::panel_bytes(kFewColumns);
      for (int step = 0; step < kBlockK / math::kWgmmaK; ++step) {
        const int in_panel = step * math::kWgmmaK, k = panel * kBlockK + in_panel;
        EXPECT_EQ(a_panel + math::k_major_step_bytes(step, kFewRows),
                  math::k_major_offset(0, k, kFewRows));
        EXPECT_EQ(b_part + b_panel + math::k_major_step_bytes(step, kFewColumns),
                  math::k_major_offset(first_column, k, kFewColumns));
        EXPECT_EQ(b_part + math::mn_major_step_bytes(step),
                  math::mn_major_offset(first_column, in_panel, kBlockK));
      }
    }
  }
  EXPECT_EQ(math::panel_bytes(kFewColumns), kFewColumns / 64 * math::panel_bytes(kBlockK))
      << "an MN-major panel along the contraction is as long as a K-major one";
}

/// And its panels begin where the copies brought them, in every kernel.
TEST(StageReads, ThePanelsOfFewRowsAreReadWhereTheyWereCopied) {
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    if (c.wgrad) continue;
    for (int stage = 0; stage < c.stages; ++stage) {
      const std::vector<Box> boxes = few_boxes(c, PanelCopy::whole, stage, kFewRows);
      ASSERT_EQ(boxes.size(), 4U);
      for (int panel = 0; panel < kFewBlockK / kBlockK; ++panel) {
        const auto at = static_cast<std::size_t>(2 * panel);
        EXPECT_EQ(boxes[at].begin, c.smem().a_offset(stage) + panel * kFewABytes);
        EXPECT_EQ(boxes[at + 1].begin, c.smem().b_offset(stage) + panel * kFewBBytes);
        EXPECT_EQ(boxes[at + 1].bytes, kFewBBytes);
      }
    }
  }
}

// ---- Staged output

struct Staged {
  int row = -1, column = -1;
  int writes = 0;
};

/// Where the bulk store expects element (row, column) of a panel.
std::uint32_t stored_from(int row, int column, int element_bytes) {
  return math::swizzle_offset(math::Swizzle::bytes_128,
                              static_cast<std::uint32_t>(row * 128 + column * element_bytes));
}

void expect_panel(const std::vector<Staged>& panel, int element_bytes) {
  for (int row = 0; row < kPanelRows; ++row) {
    for (int column = 0; column < 128 / element_bytes; ++column) {
      const Staged& at = panel[stored_from(row, column, element_bytes) /
                               static_cast<std::uint32_t>(element_bytes)];
      ASSERT_EQ(at.writes, 1) << row << ' ' << column;
      ASSERT_EQ(at.row, row);
      ASSERT_EQ(at.column, column);
    }
  }
}

TEST(StagedPanel, EveryBf16ElementIsWrittenOnceWhereTheStoreReadsIt) {
  std::vector<Staged> panel(kPanelBytes / 2);
  for (int pair = 0; pair < 4; ++pair) {
    // stmatrix: lane 8m + i gives the address of row i of matrix m, whose elements 2(l % 4) and the
    // next of row l / 4 come from register m of lane l.
    std::array<int, 32> address{};
    for (int lane = 0; lane < 32; ++lane) {
      address[static_cast<std::size_t>(lane)] = static_cast<int>(math::matrix_row(lane, pair));
    }
    for (int m = 0; m < 4; ++m) {
      for (int lane = 0; lane < 32; ++lane) {
        const int base = address[static_cast<std::size_t>(8 * m + lane / 4)];
        for (int next = 0; next < 2; ++next) {
          // The fragment: register m holds columns j (m < 2) or j + 1, rows l/4 or 8 below.
          Staged& at = panel.at(static_cast<std::size_t>(base / 2 + lane % 4 * 2 + next));
          at.row = lane / 4 + m % 2 * 8;
          at.column = (pair * 2 + m / 2) * 8 + lane % 4 * 2 + next;
          ++at.writes;
        }
      }
    }
  }
  expect_panel(panel, 2);
}

TEST(StagedPanel, EveryF32ElementIsWrittenOnceWhereTheStoreReadsIt) {
  std::vector<Staged> panel(kPanelBytes / 4);
  for (int lane = 0; lane < 32; ++lane) {
    for (int block = 0; block < 4; ++block) {
      for (const int below : {0, 8}) {
        for (int next = 0; next < 2; ++next) {
          const int begin = static_cast<int>(math::word_pair(lane, block)) + below * 128;
          Staged& at = panel.at(static_cast<std::size_t>(begin / 4 + next));
          at.row = lane / 4 + below;
          at.column = block * 8 + lane % 4 * 2 + next;
          ++at.writes;
        }
      }
    }
  }
  expect_panel(panel, 4);
}

/// What target() of grouped_kernel.cuh and store_panels() of epilogue.cuh make of a tile: each
/// element is stored from one panel of one warp. LargeTiles stores a whole tile as two sides, in
/// pieces of 64 columns: left and right columns.
TEST(StagedPanel, PanelsOfAllWarpsCoverTheTileOnce) {
  struct Part {
    int kind, rows, columns, sides;
  };
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    std::vector<Part> parts = {{TileMessage::large, c.tile_m, c.tile_n, 1}};
    if (!c.wgrad) {
      parts = {{TileMessage::large, c.tile_m, c.tile_n, 2},
               {TileMessage::half, c.tile_m, c.tile_n / 2, 1},
               {TileMessage::few, kFewRows, kFewColumns, 1}};
    }
    for (const Part& part : parts) {
      const bool few = part.kind == TileMessage::few;
      const int warp_columns = part.columns / (few ? kConsumerWarpgroups : part.sides);
      std::vector<int> stores(static_cast<std::size_t>(part.rows * part.columns));
      for (int warp = 0; warp < kConsumerWarps; ++warp) {
        for (int side = 0; side < part.sides; ++side) {
          const int first_row = (few ? 0 : warp / 4 * kBlockRows) + warp % 4 * kPanelRows;
          const int first_column = (few ? warp / 4 : side) * warp_columns;
          EXPECT_EQ(warp_columns % c.panel_columns(), 0) << instance.name;
          for (int i = 0; i < kPanelRows * warp_columns; ++i) {
            const int row = first_row + i / warp_columns;
            const int column = first_column + i % warp_columns;
            ++stores.at(static_cast<std::size_t>(row * part.columns + column));
          }
        }
      }
      EXPECT_EQ(std::count(stores.begin(), stores.end(), 1), part.rows * part.columns)
          << instance.name;
    }
  }
}

}  // namespace
}  // namespace moesaic::backends::cuda
