// SPDX-License-Identifier: Apache-2.0
// See nvshmem_exchange.hpp. Calls enqueue kernels and nothing else; plans and new buffers meet the
// other ranks.

#include "backends/cuda/launch/nvshmem_exchange.hpp"

#include <algorithm>

#include "backends/cuda/launch/cuda_error.hpp"
#include "backends/cuda/launch/exchange_launch.hpp"
#include "backends/cuda/launch/nvshmem_group.hpp"
#include "backends/cuda/transport/nvshmem_version.hpp"
#include "core/field_checks.hpp"
#include "core/sizes.hpp"
#include "core/validate.hpp"
#include "core/workspace_header.hpp"
#include "math/route_blocks.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

/// CTAs of 16 warps per SM when the caller names no number: docs/notebook/0008-rows-over-nvlink.md.
constexpr int kBlocksPerSm = 2;

const std::int32_t* ints(const ConstTensorView& view) {
  return static_cast<const std::int32_t*>(view.data);
}
std::int32_t* ints(const TensorView& view) {
  return view.rank == 0 ? nullptr : static_cast<std::int32_t*>(view.data);
}
const float* floats(const ConstTensorView& view) {
  return view.rank == 0 ? nullptr : static_cast<const float*>(view.data);
}
cudaStream_t native(const Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

unsigned long long* header_word(const Workspace& workspace, std::size_t offset) {
  return reinterpret_cast<unsigned long long*>(workspace.bytes.data() + offset);
}
unsigned long long* fault_word(const Workspace& workspace) {
  return header_word(workspace, offsetof(core::WorkspaceHeader, route_fault_word));
}

NvshmemGroup& nvshmem_group(const ExpertParallelGroup& group) {
  return dynamic_cast<NvshmemGroup&>(group.impl());
}

/// What ranks compare. What automatic came to is part of it: ranks that chose apart would wait for
/// each other.
std::string text_of(const ExpertParallelProblem& problem, DispatchForm form) {
  return std::string(moesaic::name(problem.format)) +
         ", E = " + std::to_string(problem.num_experts) +
         ", topk = " + std::to_string(problem.topk) +
         ", T = " + std::to_string(problem.max_tokens) + ", d = " + std::to_string(problem.d) +
         ", capacity_factor_millionths = " + std::to_string(problem.capacity_factor_millionths) +
         ", dispatch = " + std::string(moesaic::name(problem.dispatch)) +
         (form == problem.dispatch ? "" : " (" + std::string(moesaic::name(form)) + ")");
}

class NvshmemExchange final : public detail::ExpertParallelImpl {
 public:
  NvshmemExchange(const ExpertParallelProblem& problem, const ExpertParallelGroup& group)
      : ExpertParallelImpl(problem, group),
        group_(nvshmem_group(group)),
        placement_{group.num_ranks(), local_experts()},
        blocks_(math::max_route_blocks(problem.max_tokens * problem.topk, problem.num_experts)) {
    group_.throw_if_broken();
    const std::string plan = "plan " + std::to_string(group_.next_plan());
    group_.agree("problem of " + plan, text_of(problem, dispatch_form()));
    const std::int64_t counts = std::int64_t{2} * group.num_ranks() * problem.num_experts;
    sources_index_ = math::round_up<std::int64_t>(counts, 4);
    calls_index_ = sources_index_ + 2 * max_rows();
    const std::size_t words = static_cast<std::size_t>(calls_index_) + 1;
    region_ = group_.make_region("counts of " + plan, words * sizeof(std::int32_t));
    if (dispatch_form() == DispatchForm::fan_out) {
      fan_out_layout_ = {group.num_ranks(), problem.max_tokens * problem.topk};
      fan_out_region_ = group_.make_region(
          "fan-out of " + plan,
          static_cast<std::size_t>(fan_out_layout_.words()) * sizeof(std::int32_t));
    }
  }

  [[nodiscard]] std::string_view name() const noexcept override {
    return nvshmem_exchange().name();
  }
  [[nodiscard]] std::size_t workspace_bytes() const noexcept override {
    return first_rows_offset() + static_cast<std::size_t>(placement_.num_ranks) *
                                     static_cast<std::size_t>(placement_.num_experts()) *
                                     sizeof(std::int64_t);
  }

  void route_maps(std::span<const RouteMapsArgs> ranks, const Stream& stream) const override {
    group_.throw_if_broken();
    const DeviceScope scope(group_.device().index);
    const RouteMapParams params = route_map_params(ranks.front());
    launch_route_counts(params, native(stream));
    group_.barrier(stream);
    launch_route_places(params, native(stream));
    if (params.src_ranks != nullptr) {
      group_.barrier(stream);
      launch_inverse_maps(params, native(stream));
    }
  }

  void dispatch_put(std::span<const DispatchPutArgs> ranks, const Stream& stream,
                    const PutOptions& options) const override {
    const DispatchPutArgs& args = ranks.front();
    const Buffer buffer = buffer_of("out", args.out);
    ExchangeParams params = params_of(args.dst_ranks, args.dst_rows, buffer, args.workspace);
    params.probs = floats(args.probs);
    params.input = static_cast<const std::byte*>(args.input.data);
    params.input_stride = row_stride(args.input, 0);
    run(stream, options, [&] {
      if (fan_out_region_ == nullptr) {
        launch_put(params, dtype(), blocks_of(options.nblocks, params.routes), native(stream));
      } else {
        put_by_fan_out(params, *buffer.region, options.nblocks, stream);
      }
    });
  }

  void combine_get(std::span<const CombineGetArgs> ranks, const Stream& stream,
                   const GetOptions& options, detail::CombineForm form) const override {
    const CombineGetArgs& args = ranks.front();
    const Buffer buffer = buffer_of("expert_out", args.expert_out);
    ExchangeParams params = params_of(args.src_ranks, args.src_rows, buffer, args.workspace);
    params.probs = floats(args.probs);
    params.out = static_cast<std::byte*>(args.out.data);
    params.out_stride = row_stride(args.out, 0);
    set_gathered(params, args.gathered);
    const std::int64_t pieces = math::ceil_div<std::int64_t>(params.row_vectors, 32);
    const std::int64_t units = args.out.shape[0] * pieces;
    // Without `gathered` there is nowhere to gather: then both forms are the fused kernel.
    const bool two = form == detail::CombineForm::gather_then_sum && params.gathered != nullptr;
    run(stream, options, [&] {
      if (two) {
        launch_gather(params, blocks_of(options.nblocks, params.routes), native(stream));
      }
      launch_combine(params, dtype(), two, blocks_of(options.nblocks, units), native(stream));
    });
  }

  void gather_get(std::span<const GatherGetArgs> ranks, const Stream& stream,
                  const GetOptions& options) const override {
    const GatherGetArgs& args = ranks.front();
    const Buffer buffer = buffer_of("expert_out", args.expert_out);
    ExchangeParams params = params_of(args.src_ranks, args.src_rows, buffer, args.workspace);
    set_gathered(params, args.gathered);
    run(stream, options,
        [&] { launch_gather(params, blocks_of(options.nblocks, params.routes), native(stream)); });
  }

  void probs_grad(std::span<const ProbsGradArgs> ranks, const Stream& stream) const override {
    const ProbsGradArgs& args = ranks.front();
    const DeviceScope scope(group_.device().index);
    ProbsGradParams params;
    params.ranks = ints(args.src_ranks);
    params.rows = ints(args.src_rows);
    params.gathered = static_cast<const std::byte*>(args.gathered.data);
    params.gathered_token_stride = args.gathered.stride[0] * element_bytes();
    params.gathered_slot_stride = args.gathered.stride[1] * element_bytes();
    params.dout = static_cast<const std::byte*>(args.dout.data);
    params.dout_stride = row_stride(args.dout, 0);
    params.dprobs = static_cast<float*>(args.dprobs.data);
    params.routes = args.dprobs.shape[0] * args.dprobs.shape[1];
    params.max_rows = max_rows();
    params.row_vectors = row_vectors();
    params.topk = problem().topk;
    params.num_ranks = placement_.num_ranks;
    launch_probs_grad(params, dtype(), blocks_of(0, params.routes), native(stream));
  }

 private:
  struct Buffer {
    std::shared_ptr<SymmetricRegion> region;
    std::int64_t offset_bytes = 0, stride_bytes = 0;
  };

  [[nodiscard]] DType dtype() const { return core::operand_dtype(problem().format); }
  [[nodiscard]] std::int64_t element_bytes() const { return dtype() == DType::f32 ? 4 : 2; }
  [[nodiscard]] std::int64_t row_vectors() const {
    return problem().d * element_bytes() / static_cast<std::int64_t>(sizeof(std::uint64_t) * 2);
  }
  [[nodiscard]] std::size_t first_rows_offset() const {
    return core::kWorkspaceHeaderBytes +
           math::round_up<std::size_t>(static_cast<std::size_t>(blocks_) *
                                           static_cast<std::size_t>(placement_.num_experts()) *
                                           sizeof(std::int32_t),
                                       16);
  }
  /// In bytes; a matrix of one row may have any stride, which is then not used.
  [[nodiscard]] std::int64_t row_stride(const ConstTensorView& matrix, std::size_t axis) const {
    return (matrix.shape[axis] > 1 ? matrix.stride[axis] : problem().d) * element_bytes();
  }

  /// Where peers have the buffer that `view` lies in.
  [[nodiscard]] Buffer buffer_of(const std::string& field, const ConstTensorView& view) const {
    const std::int64_t stride = row_stride(view, 0);
    const std::int64_t rows = view.shape[0];
    const std::int64_t bytes = rows == 0 ? 0 : (rows - 1) * stride + problem().d * element_bytes();
    if (bytes == 0) {
      return {region_, 0, stride};  // nothing is moved
    }
    const auto place = group_.pool().find(view.data, 0);
    if (!place || static_cast<std::int64_t>(place->room_bytes) < bytes) {
      core::refuse("ranks[0]." + field, "memory of a buffer that the group has leased now",
                   place
                       ? "rows of " + std::to_string(bytes) + " bytes where buffer " +
                             std::to_string(place->id) + " has " + std::to_string(place->room_bytes)
                       : std::string("other memory"));
    }
    return {group_.buffer(place->id), static_cast<std::int64_t>(place->offset_bytes), stride};
  }

  [[nodiscard]] ExchangeParams params_of(const ConstTensorView& map_ranks,
                                         const ConstTensorView& map_rows, const Buffer& buffer,
                                         const Workspace& workspace) const {
    ExchangeParams params;
    params.ranks = ints(map_ranks);
    params.rows = ints(map_rows);
    params.peers = buffer.region->peers();
    params.offset_bytes = buffer.offset_bytes;
    params.peer_stride = buffer.stride_bytes;
    params.routes = map_ranks.shape[0] * map_ranks.shape[1];
    params.max_rows = max_rows();
    params.row_vectors = row_vectors();
    params.topk = problem().topk;
    params.fault_word = fault_word(workspace);
    params.group = group_.view();
    return params;
  }
  void set_gathered(ExchangeParams& params, const TensorView& gathered) const {
    if (gathered.rank == 0) {
      return;
    }
    params.gathered = static_cast<std::byte*>(gathered.data);
    params.gathered_token_stride = gathered.stride[0] * element_bytes();
    params.gathered_slot_stride = gathered.stride[1] * element_bytes();
  }

  [[nodiscard]] RouteMapParams route_map_params(const RouteMapsArgs& args) const {
    RouteMapParams params;
    params.ids = ints(args.expert_ids);
    params.dst_ranks = ints(args.dst_ranks);
    params.dst_rows = ints(args.dst_rows);
    params.offs = ints(args.offs);
    params.kept = ints(args.kept);
    params.num_routes = args.expert_ids.shape[0] * args.expert_ids.shape[1];
    params.capacity = max_rows();
    params.placement = placement_;
    params.blocks = math::route_blocks(params.num_routes, placement_.num_experts());
    std::byte* scratch = args.workspace.bytes.data();
    params.block_counts = reinterpret_cast<std::int32_t*>(scratch + core::kWorkspaceHeaderBytes);
    params.first_rows = reinterpret_cast<std::int64_t*>(scratch + first_rows_offset());
    params.counts = reinterpret_cast<std::int32_t*>(region_->data());
    params.peers = region_->peers();
    params.sources_index = sources_index_;
    params.calls = reinterpret_cast<std::uint32_t*>(params.counts + calls_index_);
    params.src_ranks = ints(args.src_ranks);
    params.src_routes = ints(args.src_routes);
    params.fault_word = fault_word(args.workspace);
    params.dropped_routes =
        header_word(args.workspace, offsetof(core::WorkspaceHeader, dropped_routes));
    params.group = group_.view();
    return params;
  }

  /// Each token once to every rank; that rank then copies it, once it is there.
  void put_by_fan_out(const ExchangeParams& params, const SymmetricRegion& buffer, int nblocks,
                      const Stream& stream) const {
    FanOutParams fan_out;
    fan_out.layout = fan_out_layout_;
    fan_out.words = reinterpret_cast<std::int32_t*>(fan_out_region_->data());
    fan_out.peers = fan_out_region_->peers();
    fan_out.own_buffer = buffer.data();
    fan_out.max_tokens = problem().max_tokens;
    const std::int64_t pieces = math::ceil_div<std::int64_t>(params.row_vectors, kPieceVectors);
    const std::int64_t sent = params.routes / params.topk * pieces;
    const std::int64_t received = (placement_.num_ranks - 1) * fan_out.max_tokens * pieces;
    launch_put_tokens(params, fan_out, dtype(), blocks_of(nblocks, sent), native(stream));
    group_.barrier(stream);
    launch_copy_tokens(params, fan_out, dtype(), blocks_of(nblocks, received), native(stream));
  }

  /// Thread blocks for `units` pieces of work of one warp each.
  [[nodiscard]] int blocks_of(int wanted, std::int64_t units) const {
    const std::int64_t useful =
        std::max<std::int64_t>(1, math::ceil_div<std::int64_t>(units, kExchangeWarps));
    const std::int64_t most = wanted > 0 ? wanted : kBlocksPerSm * group_.num_sms();
    return static_cast<int>(std::min(useful, most));
  }

  template <class Options, class Body>
  void run(const Stream& stream, const Options& options, const Body& body) const {
    group_.throw_if_broken();
    const DeviceScope scope(group_.device().index);
    if (options.pre_barrier) group_.barrier(stream);
    body();
    if (options.post_barrier) group_.barrier(stream);
  }

  NvshmemGroup& group_;  // kept alive by group()
  math::ExpertPlacement placement_;
  std::int64_t blocks_;
  std::int64_t sources_index_ = 0, calls_index_ = 0;  // in words of the region
  std::shared_ptr<SymmetricRegion> region_;
  math::FanOutLayout fan_out_layout_;
  std::shared_ptr<SymmetricRegion> fan_out_region_;  // null where dispatch is direct
};

class NvshmemImplementation final : public ExpertParallelImplementation {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "cuda/nvshmem/rowwise"; }
  [[nodiscard]] Support supports(const ExpertParallelProblem& /*problem*/,
                                 const ExpertParallelGroup& group) const override {
    if (dynamic_cast<const NvshmemGroup*>(&group.impl()) == nullptr) {
      return {false, "it serves nvshmem groups, one process per GPU, not " +
                         std::string(group.transport()) + " ones"};
    }
    return {true, {}};
  }
  [[nodiscard]] std::shared_ptr<const detail::ExpertParallelImpl> make(
      const ExpertParallelProblem& problem, const ExpertParallelGroup& group) const override {
    return std::make_shared<NvshmemExchange>(problem, group);
  }
  [[nodiscard]] std::shared_ptr<detail::ExpertParallelGroupImpl> join(
      const NvshmemGroupOptions& options) const override {
    const Support match =
        transport::versions_match(transport::header_version(), transport::library_version());
    if (!match) {
      throw Error(ErrorCode::unsupported, match.reason);
    }
    return std::make_shared<NvshmemGroup>(options);
  }
};

}  // namespace

const ExpertParallelImplementation& nvshmem_exchange() {
  static const NvshmemImplementation instance;
  return instance;
}

}  // namespace moesaic::backends::cuda::launch
