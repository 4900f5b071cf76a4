// SPDX-License-Identifier: Apache-2.0
// Rows of x that lie anywhere. A copy box takes neighbours only, so that the four producer warps
// copy these rows themselves, 16 bytes a thread, where a box would put them (math/row_gather.hpp);
// the other operand comes as ever. The first warp leads: it finds the tiles, tells the three others
// and issues the bulk copies. A stage is full when these bytes have come and all 128 threads'
// copies are complete (KernelConfig::full_arrivals).
#pragma once

#include <cstdint>

#include "backends/cuda/block/producer.cuh"
#include "backends/cuda/ptx/row_copy.cuh"
#include "math/row_gather.hpp"

namespace moesaic::backends::cuda {

/// One thread's share of the copies, from tile to tile.
template <KernelConfig kConfig>
class RowGather {
 public:
  __device__ RowGather(const KernelParams& params, const Ring<kConfig>& ring)
      : params_(params.gather),
        ring_(ring),
        column_(math::gather_column(static_cast<int>(threadIdx.x))),
        offset_(math::gather_offset(static_cast<int>(threadIdx.x), 0)) {}

  /// The leading warp tells the others of a tile, or of the end. Its arrival at the slot's full
  /// barrier comes behind the store, and theirs at its empty one behind the loads: neither is read
  /// too early or written too early.
  __device__ __forceinline__ void tell(const GatherTile& tile) {
    ptx::barrier_wait(ring_.gather_empty(slot_.stage), math::producer_parity(slot_.phase));
    if (ptx::elect_one()) {
      ptx::store_shared_v4(ring_.gather_tile(slot_.stage), tile.kind, tile.begin, tile.rows,
                           tile.column);
      ptx::barrier_arrive(ring_.gather_full(slot_.stage));
    }
    __syncwarp();
    slot_.advance();
  }
  /// What the others hear. One lane reads, and says that it has: see receive().
  __device__ __forceinline__ GatherTile hear() {
    ptx::barrier_wait(ring_.gather_full(slot_.stage), slot_.phase);
    int4 word{};
    if (lane_id() == 0) {
      word = ptx::load_shared_v4(ring_.gather_tile(slot_.stage));
      ptx::barrier_arrive(ring_.gather_empty(slot_.stage));
    }
    slot_.advance();
    return {static_cast<TileMessage::Kind>(from_lane_0(word.x)), from_lane_0(word.y),
            from_lane_0(word.z), from_lane_0(word.w)};
  }

  /// A tile's stages. `fill(stage, k_block)` does what else is to be done for one.
  template <class Fill>
  __device__ __forceinline__ void load(const GatherTile& tile, std::int32_t k, const Fill& fill) {
    if constexpr (kConfig.wgrad) {
      load_blocks(tile, fill);
    } else if (tile.kind == TileMessage::few) {
      load_few_rows(tile, k, fill);
    } else {
      load_rows(tile, k, fill);
    }
  }

  /// Behind the last tile there is a stage with a message alone, which is full when all have
  /// arrived there too. `send(state)` waits for it and sends, in the leading warp.
  template <class Send>
  __device__ __forceinline__ void end(const Send& send) {
    ptx::barrier_wait(ring_.empty(state_.stage), math::producer_parity(state_.phase));
    send(state_);
    ptx::arrive_after_copies(ring_.full(state_.stage));
  }

 private:
  /// The index that this lane keeps, of `lines` rows of the buffer from `begin` on.
  [[nodiscard]] __device__ __forceinline__ std::int32_t keep(std::int32_t begin,
                                                             std::int32_t lines) const {
    return math::gathered_index(params_.x_rows, begin,
                                math::gather_kept_line(static_cast<int>(threadIdx.x)), lines);
  }

  /// This thread's part of kPanels panels side by side, 64 columns each of kLines rows, columns
  /// from `column` on. A row that is not there has an address too, that of row 0, of which nothing
  /// is read. All 32 lanes.
  template <int kLines, int kPanels>
  __device__ __forceinline__ void copy_panels(std::uint32_t to, std::int32_t kept,
                                              std::int32_t column) const {
    const std::int32_t row_kept = math::gathered_row(kept, params_.num_rows);
    column += column_;
    const char* from = static_cast<const char*>(params_.x) + std::int64_t{column} * 2;
#pragma unroll 2  // more at once did not fit beside what the walk keeps
    for (int pass = 0; pass < kLines / math::kGatherLines; ++pass) {
      const std::int32_t row = __shfl_sync(
          kAllLanes, row_kept, math::gather_keeper(static_cast<int>(threadIdx.x), pass));
      const char* line = from + math::max(row, 0) * params_.x_row_bytes;
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel) {
        ptx::copy_16(to +
                         static_cast<std::uint32_t>(panel * math::panel_bytes(kLines) +
                                                    pass * math::kGatherPassBytes) +
                         offset_,
                     line + panel * math::kPanelLineBytes,
                     math::gathered_bytes(row, column + panel * 64, params_.columns));
      }
    }
  }

  /// Waits for a stage, fills it by `fill` and `copy`, and goes on to the next.
  template <class Fill, class Copy>
  __device__ __forceinline__ void load_stage(int k_block, const Fill& fill, const Copy& copy) {
    ptx::barrier_wait(ring_.empty(state_.stage), math::producer_parity(state_.phase));
    fill(state_.stage, k_block);
    copy(state_.stage);
    ptx::arrive_after_copies(ring_.full(state_.stage));
    state_.advance();
  }

  template <class Fill>
  __device__ __forceinline__ void load_rows(const GatherTile& tile, std::int32_t k,
                                            const Fill& fill) {
    const std::int32_t kept = keep(tile.begin, tile.rows);
    const int k_blocks = math::ceil_div(k, kBlockK);
    for (int k_block = 0; k_block < k_blocks; ++k_block) {
      load_stage(k_block, fill, [&](int stage) {
        copy_panels<kConfig.tile_m, 1>(ring_.a(stage), kept, k_block * kBlockK);
      });
    }
  }

  /// Two panels along the contraction, of which the second may be past its end and is then zero.
  template <class Fill>
  __device__ __forceinline__ void load_few_rows(const GatherTile& tile, std::int32_t k,
                                                const Fill& fill) {
    const std::int32_t kept = keep(tile.begin, tile.rows);
    const int k_blocks = math::ceil_div(k, kFewBlockK);
    for (int k_block = 0; k_block < k_blocks; ++k_block) {
      load_stage(k_block, fill, [&](int stage) {
#pragma unroll
        for (int panel = 0; panel < 2; ++panel) {
          const std::uint32_t to = ring_.few_a(stage, panel);
          const int column = k_block * kFewBlockK + panel * kBlockK;
          if (tile.rows <= kFewestRows) {
            copy_panels<kFewestRows, 1>(to, kept, column);
          } else {
            copy_panels<kFewRows, 1>(to, kept, column);
          }
        }
      });
    }
  }

  /// wgrad: 64 rows of the segment a stage, zeros past its end. The indices of the next stage are
  /// read while this one is waited for and copied.
  template <class Fill>
  __device__ __forceinline__ void load_blocks(const GatherTile& tile, const Fill& fill) {
    std::int32_t kept = keep(tile.begin, tile.rows);
    const int blocks = math::max(math::ceil_div(tile.rows, kBlockK), 1);  // a message at least
    for (int block = 0; block < blocks; ++block) {
      const int done = (block + 1) * kBlockK;
      const std::int32_t next = keep(tile.begin + done, tile.rows - done);
      load_stage(block, fill, [&](int stage) {
        if (tile.kind == TileMessage::half) {
          copy_panels<kBlockK, kConfig.tile_n / 2 / 64>(ring_.b(stage), kept, tile.column);
        } else {
          copy_panels<kBlockK, kConfig.tile_n / 64>(ring_.b(stage), kept, tile.column);
        }
      });
      kept = next;
    }
  }

  const GatherParams& params_;
  const Ring<kConfig>& ring_;
  std::int32_t column_;   // that this thread copies first, in a panel
  std::uint32_t offset_;  // where to, in pass 0
  math::PipelineState<kConfig.stages> state_;
  math::PipelineState<kGatherSlots> slot_;
};

__device__ __forceinline__ GatherTile gather_tile(const TileMessage& message,
                                                  const math::RowTile<std::int32_t>& tile) {
  return {message.kind, static_cast<std::int32_t>(tile.row_begin), tile.rows, 0};
}
__device__ __forceinline__ GatherTile gather_tile(const TileMessage& message,
                                                  const math::WeightTile<std::int32_t>& tile) {
  return {message.kind, static_cast<std::int32_t>(tile.rows.begin),
          static_cast<std::int32_t>(tile.rows.rows()), static_cast<std::int32_t>(tile.k_begin)};
}

/// What the leading warp does for a tile: see produce_rows() and produce_weights().
template <KernelConfig kConfig, class Tile>
__device__ __forceinline__ void load_tile(const TensorMaps& maps, const KernelParams& params,
                                          const Ring<kConfig>& ring, RowGather<kConfig>& gather,
                                          const Tile& tile) {
  const TileMessage message = describe<kConfig>(params, tile);
  const GatherTile told = gather_tile(message, tile);
  gather.tell(told);
  std::uint64_t policy = 0;
  if constexpr (!kConfig.wgrad) policy = weight_policy(kConfig.row_shape(), tile);
  gather.load(told, params.k, [&](int stage, int k_block) {
    if (ptx::elect_one()) {
      fill_stage<kConfig>(maps, params, ring, stage, tile, message, k_block, policy);
    }
    __syncwarp();
  });
}

template <KernelConfig kConfig>
__device__ __forceinline__ void send_end(const Ring<kConfig>& ring, RowGather<kConfig>& gather) {
  gather.tell({.kind = TileMessage::end});
  gather.end([&](const auto& state) { send_end<kConfig>(ring, state); });
}

/// What the three others do from first to last.
template <KernelConfig kConfig>
__device__ __forceinline__ void follow(const KernelParams& params, const Ring<kConfig>& ring) {
  RowGather<kConfig> gather(params, ring);
  GatherTile tile = gather.hear();
  while (tile.kind != TileMessage::end) {
    gather.load(tile, params.k, [](int /*stage*/, int /*k_block*/) {});
    tile = gather.hear();
  }
  gather.end([](const auto& /*state*/) {});
}

/// How the warp that finds the tiles loads them: alone, or leading three others.
template <KernelConfig kConfig>
__device__ __forceinline__ auto begin_loading(const KernelParams& params,
                                              const Ring<kConfig>& ring) {
  if constexpr (kConfig.gather) {
    return RowGather<kConfig>(params, ring);
  } else {
    return math::PipelineState<kConfig.stages>{};
  }
}

}  // namespace moesaic::backends::cuda
