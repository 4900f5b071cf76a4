// SPDX-License-Identifier: Apache-2.0
// Compiles every function of src/math/ for the device, each group in a kernel that keeps its
// results alive. Never run: check_resources.py reads the compiled object and fails on local memory.
#include <cstdint>

#include "math/activation.hpp"
#include "math/expert_segment.hpp"
#include "math/fault_word.hpp"
#include "math/integer.hpp"
#include "math/output_panel.hpp"
#include "math/padding.hpp"
#include "math/pair_tiles.hpp"
#include "math/pipeline_phase.hpp"
#include "math/route_fault.hpp"
#include "math/row_combine.hpp"
#include "math/row_gather.hpp"
#include "math/row_route.hpp"
#include "math/row_tile_sequence.hpp"
#include "math/short_exp.hpp"
#include "math/smem_layout.hpp"
#include "math/step_marks.hpp"
#include "math/swizzle.hpp"
#include "math/tile_bounds.hpp"
#include "math/tile_counters.hpp"
#include "math/tile_order.hpp"
#include "math/tile_scheduler.hpp"
#include "math/weight_pair.hpp"
#include "math/weight_tile_scheduler.hpp"

namespace moesaic::math {

__global__ void integer_kernel(std::int64_t* out, std::int64_t a, std::int64_t b, int c, int d) {
  out[0] = min(a, b) + max(a, b) + min(c, d) + max(c, d);
  out[1] = ceil_div(a, b) + ceil_div(c, d) + floor_div(a, b);
  out[2] = round_up(a, b) + round_down(a, b);
  out[3] = is_pow2(a) ? log2_floor(a) : log2_floor(c);
  out[4] = saturating_add(a, b);
  out[5] = saturating_mul(a, b);
  out[6] = mul_div_floor(a, b, 1 + c);
  out[7] = mul_div_ceil(a, b, 1 + c);
  out[8] = padded_rows(a, b) + tail_padding_rows(a, b);
  out[9] = ceil_mean_capacity(a, b, c);
  out[10] = eight_row_capacity(a, b, c, d);
}

__global__ void segment_kernel(unsigned long long* fault_word, std::int64_t* out,
                               const std::int32_t* offs, std::int32_t num_experts,
                               std::int64_t max_rows) {
  const auto expert = static_cast<std::int32_t>(blockIdx.x);
  const RowRange range = expert_rows(offs, expert, max_rows);
  const RowRange again = segment_between(out[0], out[1], max_rows);
  const Fault fault = expert_fault(offs, expert, max_rows);
  if (fault) atomicMax(fault_word, static_cast<unsigned long long>(encode_fault(fault)));
  out[2] = range.empty() ? again.rows() : range.rows();
  out[3] = tail_begin(offs, num_experts, max_rows);
  const std::uint64_t word = combine_faults(scan_faults(offs, num_experts, max_rows), *fault_word);
  out[4] = decode_fault(word).expert + decode_fault(word).value;
}

__global__ void bounds_kernel(std::int64_t* out, std::int64_t num_experts, std::int64_t max_rows,
                              std::int64_t n, std::int64_t k) {
  out[0] = max_row_tiles(max_rows, num_experts, 256);
  out[1] = max_row_tiles_any_offsets(max_rows, num_experts, 256);
  out[2] = row_tile_prefix_fits_int32(max_rows, num_experts, 256) ? 1 : 0;
  out[3] = local_tiles_fit<std::int32_t>(max_rows, n, 256, 384) ? 1 : 0;
  out[4] = weight_tiles_fit<std::int32_t>(num_experts, n, k, 128, 256) ? 1 : 0;
}

template <class Local>
__global__ void row_schedule_kernel(RowTile<Local>* out, const std::int32_t* offs,
                                    std::int32_t num_experts, std::int64_t max_rows, Local n,
                                    RowTileShape<Local> shape) {
  const RowTileGrid<Local> grid = row_tile_grid<Local>(num_experts, max_rows, n, shape);
  RowTileCursor cursor(offs, grid, gridDim.x, blockIdx.x);
  for (; cursor.valid(); cursor.seek(cursor.index() + gridDim.x)) {
    out[cursor.index()] = cursor.tile();
  }
  out[0].segment_end = count_row_tiles(offs, grid);
  const RowTileSequence sequence = grid.sequence(out[0].row_begin, gridDim.x);
  const RowTilePlace at = place_of(sequence, out[0].column_begin);
  out[1] = half_of(out[2], grid, at.side);
  out[1].row_begin = at.tile;
  RowTurns turns(sequence, grid.columns(), gridDim.x, blockIdx.x);
  for (; !turns.shared(); turns.advance(0)) out[turns.index()].expert = 0;
}
template __global__ void row_schedule_kernel(RowTile<std::int32_t>*, const std::int32_t*,
                                             std::int32_t, std::int64_t, std::int32_t,
                                             RowTileShape<std::int32_t>);
template __global__ void row_schedule_kernel(RowTile<std::int64_t>*, const std::int32_t*,
                                             std::int32_t, std::int64_t, std::int64_t,
                                             RowTileShape<std::int64_t>);

__global__ void pair_kernel(RowTile<std::int32_t>* out, RowTileShape<std::int32_t> shape) {
  const PairTile<std::int32_t> own = pair_tile(out[0], shape, static_cast<int>(blockIdx.x % 2));
  out[1] = own;
  out[1].columns += pair_share(shape, own);
}

__global__ void weight_pair_kernel(WeightTile<std::int32_t>* out,
                                   WeightTileGrid<std::int32_t> one) {
  const WeightTileGrid<std::int32_t> grid = pair_weight_grid(one);
  const WeightPairTile<std::int32_t> own =
      weight_pair_tile(out[0], grid, static_cast<int>(blockIdx.x % 2));
  out[1] = own;
  out[1].k_count += weight_pair_share(grid, own) + (about_equally_long(grid.n, grid.k) ? 1 : 0);
}

template <class Local>
__global__ void weight_schedule_kernel(WeightTile<Local>* out, const std::int32_t* offs,
                                       std::int32_t num_experts, std::int64_t max_rows, Local n,
                                       Local k) {
  const auto grid = weight_tile_grid<Local>(num_experts, max_rows, n, k, 128, 256, 64, 8);
  WeightTileCursor cursor(offs, grid, blockIdx.x);
  for (; cursor.valid(); cursor.seek(cursor.index() + gridDim.x)) {
    out[cursor.index()] = cursor.tile();
  }
}
template __global__ void weight_schedule_kernel(WeightTile<std::int32_t>*, const std::int32_t*,
                                                std::int32_t, std::int64_t, std::int32_t,
                                                std::int32_t);
template __global__ void weight_schedule_kernel(WeightTile<std::int64_t>*, const std::int32_t*,
                                                std::int32_t, std::int64_t, std::int64_t,
                                                std::int64_t);

__global__ void order_kernel(std::int32_t* out, std::int32_t m_tiles, std::int32_t n_tiles,
                             std::int32_t group_m) {
  const TileCoord<std::int32_t> at =
      tile_at(static_cast<std::int32_t>(blockIdx.x), m_tiles, n_tiles, group_m);
  out[0] = at.m_tile;
  out[1] = at.n_tile;
  out[2] = tile_index(at, m_tiles, n_tiles, group_m);
}

__global__ void shared_memory_kernel(std::uint64_t* out, std::int32_t stage, std::int32_t row,
                                     std::int32_t k) {
  constexpr SmemMap kMap = smem_map({256, 192, 64, 3, 2, 32768, 6});
  static_assert(kMap.fits());
  const SmemMap run_time = smem_map({row, k, 64, stage, 2, 1024, 6});
  out[0] = static_cast<std::uint64_t>(kMap.a_offset(stage) + kMap.b_offset(stage) +
                                      kMap.barrier_offset(stage) + kMap.stage_expect_bytes() +
                                      run_time.total_bytes + (run_time.fits() ? 1 : 0));
  out[1] = static_cast<std::uint64_t>(k_major_offset(row, k, 256) + mn_major_offset(row, k, 64));
  out[2] =
      wgmma_descriptor(static_cast<std::uint32_t>(k_major_step_bytes(k, 256)), k_major_operand());
  out[3] =
      wgmma_descriptor(static_cast<std::uint32_t>(mn_major_step_bytes(k)), mn_major_operand(64));
  const auto swizzle = static_cast<Swizzle>(stage);
  out[4] = swizzle_offset(swizzle, static_cast<std::uint32_t>(row)) +
           unswizzle_offset(Swizzle::bytes_64, static_cast<std::uint32_t>(k)) +
           swizzle_atom_bytes(swizzle);
}

__global__ void route_kernel(const std::int64_t* ids, std::int32_t* counts,
                             std::int64_t* first_rows, std::int32_t* ranks, std::int32_t* rows,
                             ExpertPlacement placement, std::int64_t capacity,
                             std::int64_t num_routes, unsigned long long* fault_word) {
  const auto rank = static_cast<std::int32_t>(blockIdx.x);
  const auto route = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t experts = placement.num_experts();
  count_routes(ids, route_block(rank, 64, num_routes), experts, counts);
  counts[0] = scan_blocks(counts, num_routes, experts, route % experts);
  scan_cells(counts, placement, rank, first_rows);
  first_rows[0] = place_routes(ids, num_routes, placement, capacity, first_rows, ranks, rows);
  const std::int32_t end = kept_end(counts, first_rows, placement, route, capacity);
  counts[1] = kept_rows(first_rows, placement, route, end, capacity);
  const LanePlace place = lane_place(__match_any_sync(0xFFFFFFFFu, counts[route]), route & 31);
  if (place.last) counts[route] += place.earlier + 1;
  std::uint64_t word = encode_route_fault(expert_id_fault(ids[route], experts, route));
  if (!moves_row(ranks[route], rows[route], placement.num_ranks, capacity)) {
    word = combine_route_faults(
        word, encode_route_fault(map_fault(ranks[route], rows[route], placement.num_ranks, capacity,
                                           route, Transfer::put)));
  }
  if (word != 0) atomicMax(fault_word, static_cast<unsigned long long>(word));
  counts[2] = decode_route_fault(*fault_word).route;
  first_rows[1] = rank_capacity(1'250'000, num_routes, 8);
}

__global__ void combine_kernel(float* out, float prob, float value) {
  out[0] = add_weighted(add_plain(out[0], value), prob, value) + weighted(prob, value);
}

__global__ void counters_kernel(TileCounters* counters) {
  counters->next += counters->finished + TileCounters{}.begun;
}

template <int kStages>
__global__ void pipeline_kernel(std::uint32_t* out, std::int64_t blocks) {
  PipelineState<kStages> state;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const StagePhase pure = stage_phase<std::int64_t>(block, kStages);
    out[block] = producer_parity(state.phase) + pure.phase +
                 static_cast<std::uint32_t>(pure.stage) +
                 static_cast<std::uint32_t>(state.stage_phase_now().stage);
    state.advance();
  }
  state.advance_by(blocks);
  out[0] = state.phase;
}
template __global__ void pipeline_kernel<3>(std::uint32_t*, std::int64_t);
template __global__ void pipeline_kernel<4>(std::uint32_t*, std::int64_t);

// What kernels pass: callable on both sides, as everything that math/ calls must be.
struct FastExp {
  MOESAIC_HD float operator()(float x) const {
#if defined(__CUDA_ARCH__)
    return __expf(x);
#else
    return LibraryExp{}(x);
#endif
  }
  MOESAIC_HD float reciprocal(float x) const {
#if defined(__CUDA_ARCH__)
    return __fdividef(1.0f, x);
#else
    return 1.0f / x;
#endif
  }
};

template <class Real>
__global__ void activation_kernel(Real* out, std::int64_t* columns, Real up, Real gate, Real dh,
                                  std::int64_t h) {
  const SwigluGrad<Real> grad = dswiglu(up, gate, dh);
  out[0] = silu(gate) + swiglu(up, gate);
  out[1] = grad.dup;
  out[2] = grad.dgate;
  const auto layout = static_cast<UpGateLayout>(blockIdx.x);
  columns[0] = up_column(layout, columns[1], h) + gate_column(layout, columns[1], h) +
               up_gate_element(layout, columns[1], h).j;
}
template __global__ void activation_kernel(float*, std::int64_t*, float, float, float,
                                           std::int64_t);
template __global__ void activation_kernel(double*, std::int64_t*, double, double, double,
                                           std::int64_t);

__global__ void fast_activation_kernel(float* out, float up, float gate, float dh) {
  const SwigluGrad<float> grad = dswiglu(up, gate, dh, FastExp{});
  out[0] = grad.dup + grad.dgate + swiglu(up, gate, FastExp{});
}

struct FastExp2 {
  MOESAIC_HD float operator()(float x) const { return exp2f(x); }
};
__global__ void panel_kernel(std::uint32_t* out, int lane, int block) {
  out[0] = panel_chunk(lane, block) + matrix_row(lane, block) + word_pair(lane, block);
}

__global__ void gather_kernel(std::uint32_t* out, const std::int32_t* x_rows, std::int64_t begin,
                              int lines, int num_rows, int columns) {
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t index = gathered_index(x_rows, begin, gather_line(thread, lines), lines);
  out[gather_offset(thread, lines)] = static_cast<std::uint32_t>(
      gathered_bytes(gathered_row(index, num_rows), gather_column(thread), columns));
}

__global__ void step_marks_kernel(int* out, int shortest, int stages) {
  StepMarks marks;
  marks.begin(shortest);
  for (int stage = 0; marks.any() && stage < stages; stage = marks.up_to(marks.place(stage))) {
    out[stage] = static_cast<int>(marks.place(stage));
    if (marks.place(stage) == StepMarks::Place::at_wait) marks.go_on();
  }
}

__global__ void short_exp_kernel(float* out, float x) { out[0] = short_exp(x, FastExp2{}); }

}  // namespace moesaic::math
