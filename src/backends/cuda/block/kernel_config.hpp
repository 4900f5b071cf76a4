// SPDX-License-Identifier: Apache-2.0
// What is fixed when a kernel is compiled, and what a launch hands it. Plain C++, so that the host
// and its tests read the same table as the kernels.
#pragma once

#include <cstdint>

#include "backends/cuda/block/activation_layout.hpp"
#include "math/integer.hpp"
#include "math/pair_answers.hpp"
#include "math/row_gather.hpp"
#include "math/smem_layout.hpp"
#include "math/tile_counters.hpp"
#include "math/tile_scheduler.hpp"
#include "math/weight_tile_scheduler.hpp"

namespace moesaic::backends::cuda {

inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kConsumerWarpgroups = 2;
inline constexpr int kConsumerWarps = kConsumerWarpgroups * 4;
inline constexpr int kSmRegisters = 65'536;
inline constexpr int kBlockK = 64;     ///< Contraction per pipeline stage: one 128-byte panel.
inline constexpr int kBlockRows = 64;  ///< Of one wgmma.
inline constexpr int kBlockBytes = kBlockRows * 128;  ///< 64 rows or columns: a panel's share.
inline constexpr int kPanelRows = 16;  ///< Rows of one staged output panel: one warp's.
inline constexpr int kPanelBytes = kPanelRows * 128;
inline constexpr int kMaxExperts = 8192;     ///< Bounds the shared table of row_tile_walk.cuh.
inline constexpr int kMaxCtas = 65'535;      ///< See math::halve_last_round.
inline constexpr int kExpertsPerGroup = 32;  ///< One expert per lane.
inline constexpr int kMaxGroups = kMaxExperts / kExpertsPerGroup;

inline constexpr int kStagingPanels = 2;  ///< Per consumer warp.

// ---- Tiles of few rows (forward, dgrad): the weights stream, so that a stage holds twice the
// contraction of half the columns. NB-0005.
inline constexpr int kFewRows = 64;     ///< Most rows; one wgmma's.
inline constexpr int kFewestRows = 16;  ///< Rows of the smaller copy box: absent rows are not free.
inline constexpr int kFewColumns = 128;  ///< Each warpgroup has half.
inline constexpr int kFewBlockK = 2 * kBlockK;
/// Of a panel along the contraction.
inline constexpr int kFewABytes = kFewRows * 128, kFewBBytes = kFewColumns * 128;

/// Tile rows up to the end of each group of experts, of large tiles and of tiles of few rows: what
/// a CTA works out once from the offsets where there are more groups than a warp walks through.
struct GroupTable {
  std::int32_t ends[2][kMaxGroups];
};

/// What the producer tells the consumers of a tile, beside the tile's first stage.
struct TileMessage {
  /// large, half: of 128 rows; a half is its left or its right columns.
  enum Kind : std::int32_t { end, large, half, few };
  Kind kind;
  std::int32_t
      k_blocks;  ///< Stages; wgrad: 0 for an expert without rows, which takes one all the same.
  std::int32_t row, column;  ///< Of the tile: in its segment, or in dw[e].
  /// forward, dgrad. wgrad in pairs: whether they work together, in segment_begin.
  std::int32_t segment_begin, segment_rows;
  std::int32_t expert;  ///< wgrad
  std::int32_t unused;  ///< Of two 16-byte words.
};
static_assert(sizeof(TileMessage) == 32, "two 16-byte words");

/// What the first producer warp tells the three others of a tile whose rows are gathered.
struct GatherTile {
  TileMessage::Kind kind;
  std::int32_t begin, rows;  ///< Rows of the buffer: of the tile, or in wgrad of the segment.
  std::int32_t column;       ///< wgrad: of the tile, among those of x.
};
static_assert(sizeof(GatherTile) == 16, "one 16-byte word");
inline constexpr int kGatherSlots = 2;  ///< One is written while the other may still be read.
/// A slot is full by the arrival of who tells, and empty by those of the warps that have heard.
inline constexpr int kGatherListeners = math::kGatherThreads / 32 - 1;
inline constexpr std::int64_t kGatherSlotBytes =
    static_cast<std::int64_t>(sizeof(GatherTile) + 2 * sizeof(std::uint64_t));

/// A pair's words: what math::PairAnswers has, and the one that comes back.
inline constexpr int kPairSlots = math::PairAnswers::kSlots + 1;

/// What consumers tell the warps that apply an activation: a side of a tile, and two barriers for
/// either consumer warpgroup.
inline constexpr std::int64_t kHandedSideBytes = 16;
inline constexpr std::int64_t kHandOverBytes =
    kHandedSideBytes +
    std::int64_t{2} * kConsumerWarpgroups * static_cast<std::int64_t>(sizeof(std::uint64_t));

/// What becomes of a tile's sums.
enum class Epilogue : std::uint8_t {
  store,    ///< Rounded and stored.
  swiglu,   ///< They are U, in blocks of both parts; H is stored, U if it is kept.
  dswiglu,  ///< They are dH; dU is stored, H if it is wanted.
};

/// One compiled kernel: a row of sm90_instances.def.
struct KernelConfig {
  bool wgrad = false;  ///< Contracts the rows of an expert; else rows are the M side.
  int tile_m = 128, tile_n = 256;
  int stages = 4;
  int group_m = 8;          ///< Raster: tile rows that share columns of b, see math/tile_order.hpp.
  bool b_mn_major = false;  ///< b is contiguous along N (wgrad: always, for both operands).
  bool f32_out = false;
  Epilogue epilogue = Epilogue::store;
  bool gather = false;       ///< Rows of x lie anywhere: of swiglu's a, or of wgrad's b.
  bool row_weights = false;  ///< store: sums are multiplied by their row's before they are rounded.
  bool spread = false;       ///< Rows: tiles of few of them between large ones, not behind.
  /// Two CTAs are one worker, whose tile has both their rows: block/pair.cuh. In wgrad where tiles
  /// are equally long, else each is one.
  bool pair = false;

  [[nodiscard]] MOESAIC_HD constexpr int rows_per_warpgroup() const {
    return tile_m / kConsumerWarpgroups;
  }
  /// CTAs that are one worker of the schedule: a cluster.
  [[nodiscard]] MOESAIC_HD constexpr int worker_ctas() const { return pair ? 2 : 1; }
  /// Whether the CTAs of a pair are one worker each where that is better: see
  /// block/weight_producer.cuh.
  [[nodiscard]] MOESAIC_HD constexpr bool may_part() const { return pair && wgrad; }
  /// Whether a warpgroup may have no row of a large tile, which it then passes over.
  [[nodiscard]] MOESAIC_HD constexpr bool passes_over() const { return wgrad || pair; }
  [[nodiscard]] MOESAIC_HD constexpr int accumulators() const {
    return rows_per_warpgroup() / kBlockRows * tile_n / 2;
  }
  /// One warpgroup with the producer, two of consumers, and one that applies the activation.
  [[nodiscard]] MOESAIC_HD constexpr int warpgroups() const { return hands_over() ? 4 : 3; }
  [[nodiscard]] MOESAIC_HD constexpr int threads() const {
    return warpgroups() * kWarpgroupThreads;
  }
  /// Per thread, in eights. What is launched the warpgroups share out among themselves. Those that
  /// do not multiply have what the walk needs, which knows two grids in wgrad of pairs, or an
  /// activation warp with U on its way (NB-0018); the rest is enough.
  [[nodiscard]] MOESAIC_HD constexpr int launch_registers() const {
    return kSmRegisters / threads() / 8 * 8;
  }
  [[nodiscard]] MOESAIC_HD constexpr int other_registers() const {
    return hands_over() ? 64 : wgrad && pair ? 72 : 56;
  }
  [[nodiscard]] MOESAIC_HD constexpr int consumer_registers() const {
    return (warpgroups() * launch_registers() -
            (warpgroups() - kConsumerWarpgroups) * other_registers()) /
           kConsumerWarpgroups;
  }
  [[nodiscard]] MOESAIC_HD constexpr int panel_columns() const { return f32_out ? 32 : 64; }
  [[nodiscard]] MOESAIC_HD constexpr math::RowTileShape<std::int32_t> row_shape() const {
    return {.tile_m = worker_ctas() * tile_m,
            .tile_n = tile_n,
            .group_m = group_m,
            .few_m = kFewRows,
            .few_n = worker_ctas() * kFewColumns,
            .spread = spread,
            .elastic = true};
  }
  [[nodiscard]] MOESAIC_HD constexpr math::SmemMap smem() const {
    return math::smem_map(
        {.tile_m = tile_m,
         .tile_n = tile_n,
         .block_k = kBlockK,
         .stages = stages,
         .element_bytes = 2,
         .staging_bytes = std::int64_t{kConsumerWarps} * kStagingPanels * kPanelBytes,
         .num_barriers = std::int64_t{2} * stages});
  }
  /// Columns of the larger box of b: of a tile, but of a pair's in forward and dgrad what each CTA
  /// loads of half a tile.
  [[nodiscard]] MOESAIC_HD constexpr int b_box_columns() const {
    return pair && !wgrad ? kFewColumns / 2 : tile_n;
  }
  /// Whether consumers leave large tiles to warps that apply the activation: see
  /// block/hand_over.cuh.
  [[nodiscard]] MOESAIC_HD constexpr bool hands_over() const { return epilogue != Epilogue::store; }
  /// Which activation warp a warp of the CTA is, or −1.
  [[nodiscard]] MOESAIC_HD constexpr int activation_warp(int warp) const {
    constexpr int kBegin = 4 + kConsumerWarps;  // those of the fourth warpgroup come first
    if (!hands_over()) return -1;
    if (warp >= kBegin) return warp - kBegin;
    return warp >= 1 && warp < 4 && !gather ? warp + 3 : -1;
  }
  /// Arrivals of a consumer warpgroup that has left its rows, and of those who have taken them.
  [[nodiscard]] MOESAIC_HD constexpr int handed_arrivals() const {
    return kConsumerWarps / kConsumerWarpgroups;
  }
  [[nodiscard]] MOESAIC_HD constexpr int taken_arrivals() const { return activation_warps(); }
  /// All that neither multiply nor load: of a warpgroup of their own, and where one warp loads, the
  /// three others of its warpgroup.
  [[nodiscard]] MOESAIC_HD constexpr int activation_warps() const {
    return hands_over() ? threads() / 32 - kConsumerWarps - (gather ? 4 : 1) : 0;
  }
  /// Whether an operand comes by copy boxes; else its rows are gathered.
  [[nodiscard]] MOESAIC_HD constexpr bool boxes_of_a() const { return !gather || wgrad; }
  [[nodiscard]] MOESAIC_HD constexpr bool boxes_of_b() const { return !gather || !wgrad; }
  /// What fills a stage: the lane that issues the bulk copies, and every thread that copies rows.
  [[nodiscard]] MOESAIC_HD constexpr int full_arrivals() const {
    return gather ? 1 + math::kGatherThreads : 1;
  }
  /// Warps that read a stage: of both CTAs where both fill it.
  [[nodiscard]] MOESAIC_HD constexpr int empty_arrivals() const {
    return worker_ctas() * kConsumerWarps;
  }
  /// Behind the barriers: a message per stage, the walk's table, what gathering warps or the other
  /// CTA of a pair are told, what is handed over.
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t messages_begin() const {
    return math::round_up<std::int64_t>(smem().total_bytes, 16);
  }
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t table_begin() const {
    return messages_begin() + stages * static_cast<std::int64_t>(sizeof(TileMessage));
  }
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t gather_begin() const {
    return table_begin() + (wgrad ? 0 : static_cast<std::int64_t>(sizeof(GroupTable)));
  }
  /// What CTA 0 of a pair tells the other lies where a gathering CTA has its slots.
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t slots_end() const {
    return gather_begin() + (gather ? kGatherSlots * kGatherSlotBytes
                             : pair ? kPairSlots * static_cast<std::int64_t>(sizeof(std::uint64_t))
                                    : 0);
  }
  /// hands_over(): what consumers and activation warps tell each other, behind all else.
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t hand_over_begin() const {
    return math::round_up<std::int64_t>(slots_end(), 16);
  }
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t smem_bytes() const {
    return hands_over() ? hand_over_begin() + kHandOverBytes : slots_end();
  }
  bool operator==(const KernelConfig&) const = default;
};

/// How a copy box covers an operand that is contiguous along M or N: as one box of 64-wide panels
/// where the width allows it, else panel by panel (a box of panels would reach past the last
/// column).
enum class PanelCopy : std::int32_t { whole, single };

/// swiglu, dswiglu: what is not of a plain product. Strides in elements.
struct ExpertParams {
  PartLayout layout{};
  std::int32_t h = 0;
  const void* saved_u = nullptr;  ///< dswiglu: U.
  void* u = nullptr;              ///< swiglu: U, or null; dswiglu: dU.
  void* h_out = nullptr;          ///< H; dswiglu: or null.
  std::int64_t saved_u_stride = 0, u_stride = 0, h_stride = 0;
};

/// gather: x [num_rows, columns], and which of its rows every row of the buffer is.
struct GatherParams {
  const void* x = nullptr;
  const std::int32_t* x_rows = nullptr;
  std::int64_t x_row_bytes = 0;  ///< From one row to the next.
  std::int32_t num_rows = 0;
  std::int32_t columns = 0;
};

/// Run-time half of a launch. Tensor maps are passed beside it.
struct KernelParams {
  const std::int32_t* offs = nullptr;
  unsigned long long* fault_word = nullptr;
  math::TileCounters* counters = nullptr;        ///< Zero before every launch, and after it.
  math::RowTileGrid<std::int32_t> rows{};        ///< forward, dgrad
  math::WeightTileGrid<std::int32_t> weights{};  ///< wgrad
  std::int32_t k = 0;                            ///< forward, dgrad: the contraction
  PanelCopy a_panels = PanelCopy::whole;         ///< wgrad
  PanelCopy b_panels = PanelCopy::whole;
  bool accumulate = false;  ///< wgrad: d += result
  bool zero_tail = false;   ///< forward, dgrad; not where an activation follows
  void* d = nullptr;
  std::int64_t d_row_stride = 0;     ///< Elements.
  std::int64_t d_expert_stride = 0;  ///< Elements; wgrad.
  std::int64_t max_rows = 0;
  std::int32_t num_experts = 0;
  std::int64_t done_rows = 0;  ///< Per expert, by a padded batch before; see Sm90Gemm::enqueue.
  ExpertParams expert{};
  GatherParams gather{};
  const float* row_weights = nullptr;  ///< row_weights: [M]
};

/// A ragged tensor map has two extra dimensions, so that one map clips at the end of any segment:
/// address = base + s (B - len + r) + B (2^34 - s) + s (begin + len) = base + s (begin + r) modulo
/// 2^64 bytes, with row bound B, so that only r >= len is out of bounds. s is the row stride in
/// elements.
inline constexpr std::int32_t kRaggedRows = 1 << 30;  // B
inline constexpr std::int64_t kRaggedWrapElems = std::int64_t{1} << 34;

struct RaggedCoordinates {
  std::int32_t row, wrap, end;
};
/// Row `row` of segment [begin, begin + rows).
MOESAIC_HD constexpr RaggedCoordinates ragged(std::int64_t begin, std::int64_t rows,
                                              std::int64_t row) {
  return {static_cast<std::int32_t>(kRaggedRows - rows + row), kRaggedRows,
          static_cast<std::int32_t>(begin + rows)};
}

}  // namespace moesaic::backends::cuda
