// SPDX-License-Identifier: Apache-2.0
// A host model of the shared memory of one CTA: what the copies of a stage bring, where the wgmmas
// read it, and where a fragment is staged for the store. The device tests compare the kernels' own
// staging with the same layout.

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "backends/cuda/block/kernel_config.hpp"
#include "backends/cuda/launch/instances.hpp"
#include "math/smem_layout.hpp"
#include "math/swizzle.hpp"

namespace moesaic::backends::cuda {
namespace {

constexpr int kBlockBytes = 64 * math::kPanelLineBytes;

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

/// The boxes that write the a operand of a stage in one CTA; a pair's CTAs each bring half the rows
/// for both.
std::vector<Box> a_boxes(const KernelConfig& c, PanelCopy copy, std::int64_t stage) {
  const std::int64_t begin = c.smem().a_offset(stage);
  if (c.wgrad) return panel_boxes(begin, c.tile_m, copy);
  std::vector<Box> boxes;
  const int share = c.tile_m / c.cluster;
  for (int rank = 0; rank < c.cluster; ++rank) {
    boxes.push_back({begin + math::panel_bytes(rank * share), math::panel_bytes(share)});
  }
  return boxes;
}

std::vector<Box> b_boxes(const KernelConfig& c, PanelCopy copy, std::int64_t stage) {
  const std::int64_t begin = c.smem().b_offset(stage);
  if (c.wgrad || c.b_mn_major) return panel_boxes(begin, c.tile_n, copy);
  return {{begin, math::panel_bytes(c.tile_n)}};
}

TEST(StageCopies, FillEveryStageOnceAndNothingElse) {
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    const math::SmemMap map = c.smem();
    for (const PanelCopy copy : {PanelCopy::whole, PanelCopy::single}) {
      std::vector<int> writes(static_cast<std::size_t>(map.total_bytes));
      for (int stage = 0; stage < c.stages; ++stage) {
        std::int64_t stage_bytes = 0;
        for (const auto& boxes : {a_boxes(c, copy, stage), b_boxes(c, copy, stage)}) {
          for (const Box& box : boxes) {
            EXPECT_EQ(box.begin % math::kSmemTileAlignBytes, 0) << instance.name;
            stage_bytes += box.bytes;
            for (std::int64_t i = 0; i < box.bytes; ++i) {
              ++writes.at(static_cast<std::size_t>(box.begin + i));
            }
          }
        }
        EXPECT_EQ(stage_bytes, map.stage_expect_bytes())
            << instance.name << ": the barrier would wait for ever";
      }
      for (std::int64_t i = 0; i < map.total_bytes; ++i) {
        ASSERT_EQ(writes[static_cast<std::size_t>(i)], i < map.staging_begin ? 1 : 0)
            << instance.name << " byte " << i;
      }
    }
  }
}

// ---- What the wgmmas read

/// Operand starts as mainloop.cuh adds them up, against the layout that the copies leave.
TEST(StageReads, EveryWgmmaStartsAtItsRowsAndItsStepOfTheContraction) {
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    for (int warpgroup = 0; warpgroup < kConsumerWarpgroups; ++warpgroup) {
      const int a_part = c.split_n ? 0 : warpgroup * c.m64_blocks() * kBlockBytes;
      const int b_part = c.split_n ? warpgroup * c.columns_per_warpgroup() / 64 * kBlockBytes : 0;
      const int first_row = c.split_n ? 0 : warpgroup * c.rows_per_warpgroup();
      const int first_column = c.split_n ? warpgroup * c.columns_per_warpgroup() : 0;
      for (int step = 0; step < kBlockK / math::kWgmmaK; ++step) {
        const int k = step * math::kWgmmaK;
        for (int block = 0; block < c.m64_blocks(); ++block) {
          const int row = first_row + block * 64;
          const int a_start = a_part + block * kBlockBytes;
          EXPECT_EQ(a_start + (c.wgrad ? math::mn_major_step_bytes(step)
                                       : math::k_major_step_bytes(step, c.tile_m)),
                    c.wgrad ? math::mn_major_offset(row, k, kBlockK)
                            : math::k_major_offset(row, k, c.tile_m))
              << instance.name;
        }
        const bool mn_major = c.wgrad || c.b_mn_major;
        EXPECT_EQ(b_part + (mn_major ? math::mn_major_step_bytes(step)
                                     : math::k_major_step_bytes(step, c.tile_n)),
                  mn_major ? math::mn_major_offset(first_column, k, kBlockK)
                           : math::k_major_offset(first_column, k, c.tile_n))
            << instance.name;
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
  for (int warp = 0; warp < 4; ++warp) {
    for (int pair = 0; pair < 4; ++pair) {
      // stmatrix: lane 8m + i gives the address of row i of matrix m, whose elements 2(l % 4) and
      // the next of row l / 4 come from register m of lane l.
      std::array<int, 32> address{};
      for (int lane = 0; lane < 32; ++lane) {
        const int row = warp * 16 + lane % 16;
        const int chunk = pair * 2 + lane / 16;
        address[static_cast<std::size_t>(lane)] = row * 128 + ((chunk ^ (row % 8)) * 16);
      }
      for (int m = 0; m < 4; ++m) {
        for (int lane = 0; lane < 32; ++lane) {
          const int base = address[static_cast<std::size_t>(8 * m + lane / 4)];
          for (int next = 0; next < 2; ++next) {
            // The fragment: register m holds columns j (m < 2) or j + 1, rows l/4 or 8 below.
            Staged& at = panel[static_cast<std::size_t>(base / 2 + lane % 4 * 2 + next)];
            at.row = warp * 16 + lane / 4 + m % 2 * 8;
            at.column = (pair * 2 + m / 2) * 8 + lane % 4 * 2 + next;
            ++at.writes;
          }
        }
      }
    }
  }
  expect_panel(panel, 2);
}

TEST(StagedPanel, EveryF32ElementIsWrittenOnceWhereTheStoreReadsIt) {
  std::vector<Staged> panel(kPanelBytes / 4);
  for (int warp = 0; warp < 4; ++warp) {
    for (int lane = 0; lane < 32; ++lane) {
      const int row = warp * 16 + lane / 4;
      for (int block = 0; block < 4; ++block) {
        const int chunk = block * 2 + lane % 4 / 2;
        const int within = ((chunk ^ (row % 8)) * 16) + lane % 2 * 8;
        for (const int below : {0, 8}) {
          for (int next = 0; next < 2; ++next) {
            Staged& at = panel[static_cast<std::size_t>(((row + below) * 128 + within) / 4 + next)];
            at.row = row + below;
            at.column = block * 8 + lane % 4 * 2 + next;
            ++at.writes;
          }
        }
      }
    }
  }
  expect_panel(panel, 4);
}

}  // namespace
}  // namespace moesaic::backends::cuda
