// SPDX-License-Identifier: Apache-2.0
// Row-wise expert parallelism: dispatch puts rows of tokens into the buffers of the ranks that hold
// their experts, combine gets them back. No permutation, no packing, no counts on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "moesaic/expert_parallel_group.hpp"
#include "moesaic/grouped_gemm.hpp"

namespace moesaic {

namespace detail {
class ExpertParallelImpl;
}  // namespace detail

/// How dispatch sends a token to a rank that is to have several rows of it. What lies in the
/// buffers behind it is the same, bit by bit.
enum class DispatchForm : std::uint8_t {
  /// Whichever of the two is expected to be faster, by R, E, topk, T and the bytes of a row, which
  /// all ranks share; never by data. ExpertParallel::dispatch_form() says which it is.
  automatic,
  direct,  ///< Once for each row.
  /// Once, into the first of its rows there; that rank then copies it to the others. Fewer bytes
  /// between ranks; one more barrier, before the copies; and 16 * R * T * topk bytes on every rank
  /// that peers can reach.
  fan_out,
};
std::string_view name(DispatchForm form) noexcept;  ///< "auto", "direct", "fan_out"

/// An exchange of rows without its data; the same on every rank.
///
/// A route is a slot of a token, numbered token * topk + slot on its source rank. Rank r holds the
/// experts [r * E / R, (r + 1) * E / R). Every rank has a buffer of M = ceil(c * T * topk) rows, in
/// which the rows for it lie by local expert, then by source rank, then by route, dense from row 0.
struct ExpertParallelProblem {
  Format format = Format::bf16;  ///< Of a row: bf16 or f32.
  int num_experts = 0;           ///< E of all ranks, a multiple of their number, at most 65,536.
  int topk = 0;                  ///< Slots of a token, 1 to 256. An expert may repeat in a token.
  std::int64_t max_tokens = 0;   ///< T: no rank has more tokens in a call, each may have fewer.
  std::int64_t d = 0;            ///< Elements of a row, a multiple of 8.
  std::int64_t capacity_factor_millionths = 1'250'000;  ///< c; routes past M are dropped.
  DispatchForm dispatch = DispatchForm::automatic;      ///< Of all PUTs, also weighted ones.
};

/// One rank's part in making the route maps. `tokens` is this rank's own number, 0 to T. All maps
/// and counts are dense int32.
struct RouteMapsArgs {
  ConstTensorView expert_ids;  ///< [tokens, topk]: a negative id is no route, one >= E is a fault
                               ///< and no route.
  TensorView dst_ranks;        ///< [tokens, topk]: rank of the expert; -1: no route, or dropped.
  TensorView dst_rows;         ///< [tokens, topk]: row of that rank's buffer; -1 likewise.
  TensorView offs;             ///< [E / R]: end row of each local expert, for the grouped product.
  TensorView kept{};           ///< [E / R] or empty: rows of each local expert.
  /// [M] each, both or neither: the inverse maps, source rank and route of each row of this rank's
  /// buffer; -1 in both behind the last row.
  TensorView src_ranks{}, src_routes{};
  Workspace workspace;
};

/// One rank's part in a dispatch. The map may be any in which no two routes have the same
/// destination; negative in either map is no route. A rank >= R or a row >= M is a fault and no
/// route.
struct DispatchPutArgs {
  ConstTensorView input;                ///< [tokens, d]
  TensorView out;                       ///< [M, d]; rows that no route has stay as they are.
  ConstTensorView dst_ranks, dst_rows;  ///< int32 [tokens, topk]
  ConstTensorView probs{};  ///< f32 [tokens, topk] or empty: a row is multiplied by its own in FP32
                            ///< and rounded once.
  Workspace workspace;
};

/// One rank's part in a combine: out[t] = sum over k of probs[t, k] * the row that the maps name.
/// The sum is FP32, fused multiply-adds from zero in ascending k, rounded once; without probs it is
/// a sum of rows. Entries with a negative rank or row, and with a row >= M, are left out whatever
/// their probability. A rank >= R is left out too, and is a fault.
struct CombineGetArgs {
  ConstTensorView expert_out;           ///< [M, d]
  TensorView out;                       ///< [tokens, d]; zero where all slots are left out.
  ConstTensorView src_ranks, src_rows;  ///< int32 [tokens, topk]: the maps of dispatch.
  ConstTensorView probs{};              ///< f32 [tokens, topk] or empty.
  TensorView gathered{};  ///< [tokens, topk, d] or empty: the rows as they came, zero where left
                          ///< out. What the gradient of probs needs.
  Workspace workspace;
};

/// One rank's part in a gather: combine's `gathered` without the sum.
struct GatherGetArgs {
  ConstTensorView expert_out;           ///< [M, d]
  TensorView gathered;                  ///< [tokens, topk, d]
  ConstTensorView src_ranks, src_rows;  ///< int32 [tokens, topk]
  Workspace workspace;
};

/// One rank's part in the gradient of probs: dprobs[t, k] = sum over j of gathered[t, k, j] *
/// dout[t, j], in double on the CPU and rounded once; zero where combine left the entry out.
struct ProbsGradArgs {
  ConstTensorView gathered;             ///< [tokens, topk, d]
  ConstTensorView dout;                 ///< [tokens, d]: gradient of combine's out.
  ConstTensorView src_ranks, src_rows;  ///< int32 [tokens, topk]
  TensorView dprobs;                    ///< f32 [tokens, topk]
};

/// Barriers of a PUT. The one behind it says that all rows have arrived everywhere. The one before
/// it is needed when a rank may still read what is overwritten. DispatchForm::fan_out has one of
/// its own between: without the one behind it, the rows of this rank have arrived for what follows
/// in its stream, those of others may not.
struct PutOptions {
  int nblocks = 0;  ///< Thread blocks of the transfer; 0 = the transport's own number.
  bool pre_barrier = false;
  bool post_barrier = true;
};

/// Barriers of a GET. The one before it says that all ranks have written what is fetched. The one
/// behind it is needed when a rank overwrites its buffer without another barrier in between.
struct GetOptions {
  int nblocks = 0;  ///< Thread blocks of the transfer; 0 = the transport's own number.
  bool pre_barrier = true;
  bool post_barrier = false;
};

/// What was wrong with a route.
struct RouteFault {
  enum class Kind : std::uint32_t {
    none = 0,
    expert_out_of_range = 1,  ///< An expert id >= E.
    rank_out_of_range = 2,    ///< A rank >= R in a map.
    row_out_of_range = 3,     ///< A row >= M in the map of a PUT.
  };
  Kind kind = Kind::none;
  std::int64_t token = -1;  ///< Of the lowest bad route.
  int slot = -1;
  std::int64_t value = 0;  ///< The id, rank or row as it was read.
  explicit operator bool() const noexcept { return kind != Kind::none; }
};

/// A planned exchange: immutable, cheap to copy, safe to share between threads that do not use one
/// group at a time.
///
/// Every operation takes one entry of arguments per local rank, in the order of local_ranks(), and
/// is collective: all ranks call it. Buffers `out` of PUT and `expert_out` of GET are symmetric:
/// the same shape and row stride on every rank, and where ranks are processes each lies in a
/// buffer that the group leased, at the same place in it. Backward is made of the same operations:
///
/// | forward                          | backward                                                  |
/// |----------------------------------|-----------------------------------------------------------|
/// | dispatch_put(input -> out)       | combine_get without probs (dout -> dinput)                |
/// | combine_get(expert_out -> out)   | dispatch_put with probs (dout -> dexpert_out), probs_grad |
class ExpertParallel {
 public:
  /// Validates, sizes the buffers and the workspace.
  /// @throws Error{invalid_argument} naming the field, what was expected and what came;
  /// Error{unsupported} when no implementation serves the group.
  static ExpertParallel plan(const ExpertParallelProblem& problem,
                             const ExpertParallelGroup& group);
  /// Every implementation for any group, each with its reason. Never throws.
  static std::vector<Candidate> candidates(const ExpertParallelProblem& problem,
                                           const ExpertParallelGroup& group);

  [[nodiscard]] const ExpertParallelProblem& problem() const noexcept;  ///< As it was given.
  [[nodiscard]] const ExpertParallelGroup& group() const noexcept;
  [[nodiscard]] std::string_view implementation() const noexcept;  ///< "cpu/reference/rowwise".
  /// direct or fan_out: what problem().dispatch says, or what automatic came to.
  [[nodiscard]] DispatchForm dispatch_form() const noexcept;
  [[nodiscard]] std::int64_t max_rows() const noexcept;        ///< M
  [[nodiscard]] int local_experts() const noexcept;            ///< E / R
  [[nodiscard]] std::size_t workspace_bytes() const noexcept;  ///< Of each local rank.

  /// Makes the maps of a layer from the ids of all ranks. Passes one barrier, since ranks exchange
  /// their counts. Deterministic.
  /// @throws Error{invalid_argument} naming the argument as ranks[i].name, what was expected and
  /// what came; Error{workspace_too_small}. So do the operations below. Everything is checked
  /// before anything is written.
  void route_maps(std::span<const RouteMapsArgs> ranks, Stream stream) const;
  /// Writes each routed row of `input` into the `out` of its rank, in dispatch_form().
  void dispatch_put(std::span<const DispatchPutArgs> ranks, Stream stream,
                    const PutOptions& options = {}) const;
  /// Fetches the rows that the maps name, then sums them. Without `gathered` there is nowhere to
  /// fetch them to: then a transport with kernels does what combine_get_fused does.
  void combine_get(std::span<const CombineGetArgs> ranks, Stream stream,
                   const GetOptions& options = {}) const;
  /// The same bits, fetched and summed in one kernel.
  void combine_get_fused(std::span<const CombineGetArgs> ranks, Stream stream,
                         const GetOptions& options = {}) const;
  /// Fetches the rows that the maps name.
  void gather_get(std::span<const GatherGetArgs> ranks, Stream stream,
                  const GetOptions& options = {}) const;
  /// The gradient of probs from gathered rows. No transfer, no barrier.
  void probs_grad(std::span<const ProbsGradArgs> ranks, Stream stream) const;

  /// Returns the fault of the lowest bad route of all operations on a rank's `workspace` since the
  /// last call, and clears it. Synchronizes `stream`.
  [[nodiscard]] RouteFault read_fault(Workspace workspace, Stream stream) const;
  /// Routes of that rank that found no room in the last route_maps. Synchronizes `stream`.
  [[nodiscard]] std::int64_t read_dropped_routes(Workspace workspace, Stream stream) const;

 private:
  explicit ExpertParallel(std::shared_ptr<const detail::ExpertParallelImpl> impl);
  std::shared_ptr<const detail::ExpertParallelImpl> impl_;
};

}  // namespace moesaic
