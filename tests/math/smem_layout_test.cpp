// SPDX-License-Identifier: Apache-2.0
#include "math/smem_layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace moesaic::math {
namespace {

// 256×192×64, three stages, 32 KiB of staging, six barriers: 3 · (32 + 24) KiB + 32 KiB + 48.
constexpr SmemMap kLarge = smem_map({256, 192, 64, 3, 2, 32768, 6});
static_assert(kLarge.a_stage_bytes == 32768 && kLarge.b_stage_bytes == 24576);
static_assert(kLarge.stage_expect_bytes() == 57344);
static_assert(kLarge.a_offset(2) == 65536 && kLarge.b_offset(0) == 98304 &&
              kLarge.b_offset(2) == 147456);
static_assert(kLarge.staging_begin == 172032 && kLarge.barrier_offset(0) == 204800);
static_assert(kLarge.total_bytes == 204848 && kLarge.fits());
static_assert(!smem_map({256, 192, 64, 4, 2, 32768, 8}).fits(), "a fourth stage is too much");
// 128×256×64, four stages of 48 KiB.
static_assert(smem_map({128, 256, 64, 4, 2, 32768, 8}).total_bytes == 4 * 49152 + 32768 + 64);
static_assert(smem_map({128, 256, 64, 4, 2, 32768, 8}).fits());
static_assert(kSm90SmemBytes == 227 * 1024);
// The limit itself fits, one barrier more does not.
static_assert(smem_map({64, 64, 64, 14, 2, 3064, 1}).total_bytes == kSm90SmemBytes);
static_assert(smem_map({64, 64, 64, 14, 2, 3064, 1}).fits());
static_assert(!smem_map({64, 64, 64, 14, 2, 3064, 2}).fits());

using Span = std::pair<std::int64_t, std::int64_t>;

std::vector<Span> regions(const SmemConfig& config, const SmemMap& map) {
  std::vector<Span> all;
  for (std::int64_t stage = 0; stage < config.stages; ++stage) {
    all.emplace_back(map.a_offset(stage), map.a_offset(stage) + map.a_bytes);
    all.emplace_back(map.b_offset(stage), map.b_offset(stage) + map.b_bytes);
  }
  if (config.staging_bytes > 0)
    all.emplace_back(map.staging_begin, map.staging_begin + config.staging_bytes);
  for (std::int64_t barrier = 0; barrier < config.num_barriers; ++barrier) {
    all.emplace_back(map.barrier_offset(barrier), map.barrier_offset(barrier) + 8);
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST(SmemLayout, RegionsAreAlignedAndDisjoint) {
  for (const std::int64_t tile_m : {8, 64, 128, 192, 256}) {
    for (const std::int64_t tile_n : {8, 24, 64, 192, 256}) {
      for (const std::int64_t block_k : {32, 64, 128}) {
        for (std::int64_t stages = 1; stages <= 8; ++stages) {
          for (const std::int64_t staging : {0, 1000, 1024, 32768}) {
            for (const std::int64_t element : {1, 2}) {
              const SmemConfig config{tile_m,  tile_n,  block_k,       stages,
                                      element, staging, 2 * stages + 3};
              const SmemMap map = smem_map(config);
              const std::vector<Span> all = regions(config, map);
              for (std::size_t i = 1; i < all.size(); ++i) {
                ASSERT_LE(all[i - 1].second, all[i].first);
              }
              ASSERT_EQ(all.front().first, 0);
              ASSERT_EQ(all.back().second, map.total_bytes);
              for (std::int64_t stage = 0; stage < stages; ++stage) {
                ASSERT_EQ(map.a_offset(stage) % 1024, 0);
                ASSERT_EQ(map.b_offset(stage) % 1024, 0);
              }
              ASSERT_EQ(map.staging_begin % 1024, 0);
              ASSERT_EQ(map.barriers_begin % 8, 0);
              ASSERT_EQ(map.stage_expect_bytes(), (tile_m + tile_n) * block_k * element);
            }
          }
        }
      }
    }
  }
}

TEST(SmemLayout, PanelsHoldEveryElementOnce) {
  for (const std::int32_t lines : {8, 64, 128, 192}) {
    for (const std::int32_t across : {64, 128, 256}) {
      std::vector<int> seen(static_cast<std::size_t>(lines) * across, 0);
      for (std::int32_t line = 0; line < lines; ++line) {
        for (std::int32_t x = 0; x < across; ++x) {
          const std::int32_t offset = panel_offset(line, x, lines);
          ASSERT_EQ(offset % 2, 0);
          ASSERT_LT(offset / 2, lines * across);
          ++seen[offset / 2];
          // A copy box writes 64 × lines elements: the panel, and the line within it, are kept.
          ASSERT_EQ(offset / panel_bytes(lines), x / 64);
          ASSERT_EQ(offset % panel_bytes(lines) / 128, line);
        }
      }
      for (const int count : seen) ASSERT_EQ(count, 1);
    }
  }
}

TEST(SmemLayout, ElementsByHand) {
  EXPECT_EQ(k_major_offset(0, 0, 128), 0);
  EXPECT_EQ(k_major_offset(0, 63, 128), 126);
  EXPECT_EQ(k_major_offset(1, 0, 128), 128 + 16);
  EXPECT_EQ(k_major_offset(9, 8, 128), 9 * 128 + 0) << "row 9 is row 1 of its atom: chunk 1 ^ 1";
  EXPECT_EQ(k_major_offset(3, 17, 128), 3 * 128 + (2 ^ 3) * 16 + 2);
  EXPECT_EQ(k_major_offset(0, 64, 128), 128 * 128) << "block_k 128: the second panel";
  EXPECT_EQ(mn_major_offset(0, 1, 64), 128 + 16) << "k is the line";
  EXPECT_EQ(mn_major_offset(64, 0, 64), 64 * 128) << "columns 64… are the second panel";
  EXPECT_EQ(mn_major_offset(130, 5, 64), 2 * 8192 + 5 * 128 + (0 ^ 5) * 16 + 4);
}

// How a wgmma walks a swizzled operand: it computes the unswizzled address from start, leading and
// stride, and then swizzles address bits. The model must land where panel_offset() put the element.
TEST(SmemLayout, DescriptorsLeadToTheElements) {
  const auto swizzled = [](std::int32_t address) {
    return static_cast<std::int32_t>(
        swizzle_offset(Swizzle::bytes_128, static_cast<std::uint32_t>(address)));
  };
  for (const std::int32_t block_k : {64, 128}) {
    const std::int32_t extent = 256;
    const WgmmaOperand k_major = k_major_operand();
    const WgmmaOperand mn_major = mn_major_operand(block_k);
    for (std::int32_t step = 0; step < block_k / kWgmmaK; ++step) {
      for (std::int32_t mn = 0; mn < extent; ++mn) {
        for (std::int32_t k = 0; k < kWgmmaK; ++k) {
          const std::int32_t along_k = k_major_step_bytes(step, extent) +
                                       mn / 8 * k_major.stride_bytes + mn % 8 * 128 + k * 2;
          ASSERT_EQ(swizzled(along_k), k_major_offset(mn, step * kWgmmaK + k, extent));
          const std::int32_t along_mn = mn_major_step_bytes(step) +
                                        mn / 64 * mn_major.leading_bytes +
                                        k / 8 * mn_major.stride_bytes + k % 8 * 128 + mn % 64 * 2;
          ASSERT_EQ(swizzled(along_mn), mn_major_offset(mn, step * kWgmmaK + k, block_k));
        }
      }
    }
  }
}

static_assert(k_major_step_bytes(1, 128) == 32 && k_major_step_bytes(4, 128) == 16384);
static_assert(mn_major_step_bytes(1) == 2048);
static_assert(k_major_operand().stride_bytes == 1024);
static_assert(mn_major_operand(64).leading_bytes == 8192 &&
              mn_major_operand(64).stride_bytes == 1024);
// Start 0x8400 → 0x840, leading 8192 → 0x200, stride 1024 → 0x40, swizzle 1.
static_assert(wgmma_descriptor(0x8400, mn_major_operand(64)) == 0x4000'0040'0200'0840u);
static_assert(wgmma_descriptor(0, k_major_operand()) == 0x4000'0040'0001'0000u);

// ldmatrix.x4.trans: register j of a thread holds, of the matrix whose eight lines lanes 8 j …
// point at, two lines' element thread / 4. wgmma's fragment of A wants in register j row thread / 4
// + 8 (j mod 2) and columns 2 (thread mod 4), + 1, from 8 (j / 2) on.
TEST(SmemLayout, LeftFragmentsAreWhatWgmmaTakes) {
  for (int warp = 0; warp < 4; ++warp) {
    for (int thread = 0; thread < 32; ++thread) {
      for (int j = 0; j < 4; ++j) {
        for (int element = 0; element < 2; ++element) {
          const OperandElement line =
              left_fragment_source(warp, 8 * j + 2 * (thread % 4) + element);
          EXPECT_EQ(line.mn + thread / 4, 16 * warp + thread / 4 + 8 * (j % 2));
          EXPECT_EQ(line.k, 2 * (thread % 4) + element + 8 * (j / 2));
          EXPECT_EQ(line.mn % 8, 0) << "the line's eight elements are one 16-byte chunk";
        }
      }
    }
  }
}

TEST(SmemLayout, DescriptorAdvancesByPlainAddition) {
  // Kernels add step bytes / 16 to the low word: no carry into the leading offset below 256 KiB.
  const auto map = kLarge;
  for (std::int32_t step = 0; step < 4; ++step) {
    const auto start = static_cast<std::uint32_t>(map.b_offset(2));
    const auto bytes = static_cast<std::uint32_t>(k_major_step_bytes(step, 192));
    EXPECT_EQ(wgmma_descriptor(start + bytes, k_major_operand()),
              wgmma_descriptor(start, k_major_operand()) + (bytes >> 4));
  }
}

}  // namespace
}  // namespace moesaic::math
