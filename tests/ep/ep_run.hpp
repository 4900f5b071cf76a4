// SPDX-License-Identifier: Apache-2.0
// One rank's part of an exchange on its GPU, beside the same exchange of all ranks simulated on the
// CPU, whose bits are wanted.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ep/ranks.hpp"
#include "support/exchange_run.hpp"

namespace moesaic::ep_tests {

/// Device memory with the bytes of a dense host array.
class OnDevice {
 public:
  OnDevice(const void* host, std::size_t size_bytes, Stream stream)
      : buffer_(std::max<std::size_t>(size_bytes, 256), device()), size_bytes_(size_bytes) {
    buffer_.fill(std::byte{0xFF}, stream);
    if (host != nullptr && size_bytes > 0) {
      buffer_.copy_from_host({static_cast<const std::byte*>(host), size_bytes}, 0, stream);
    }
  }
  template <class T>
  OnDevice(const std::vector<T>& host, Stream stream)
      : OnDevice(host.data(), host.size() * sizeof(T), stream) {}

  [[nodiscard]] TensorView view(DType dtype, std::vector<std::int64_t> shape) const {
    TensorView view{buffer_.data(), dtype, device(), static_cast<int>(shape.size()), {}, {}};
    std::int64_t stride = 1;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      view.shape[axis] = shape[axis];
      view.stride[axis] = stride;
      stride *= shape[axis];
    }
    return view;
  }
  template <class T>
  [[nodiscard]] std::vector<T> get(Stream stream) const {
    std::vector<T> values(size_bytes_ / sizeof(T));
    if (!values.empty()) buffer_.copy_to_host(std::as_writable_bytes(std::span(values)), 0, stream);
    return values;
  }
  [[nodiscard]] std::byte* data() const { return buffer_.data(); }

 private:
  DeviceBuffer buffer_;
  std::size_t size_bytes_;
};

/// The bytes of a dense host tensor, without its guards.
inline std::vector<std::byte> bytes_of(testing::HostTensor& tensor) {
  const TensorView view = tensor.view();
  const auto size =
      static_cast<std::size_t>(view.shape[0] * view.shape[1] * size_bytes(view.dtype));
  const auto* data = static_cast<const std::byte*>(view.data);
  return size == 0 ? std::vector<std::byte>() : std::vector<std::byte>(data, data + size);
}

class EpRun {
 public:
  EpRun(const ExpertParallelGroup& group, int group_rank, const ExpertParallelProblem& problem,
        const testing::RankIds& ids, std::uint32_t seed, Stream stream)
      : wanted(direct(problem), ids),
        exchange(ExpertParallel::plan(problem, group)),
        own(wanted.ranks[static_cast<std::size_t>(group_rank)]),
        stream_(stream),
        dtype_(problem.format == Format::f32 ? DType::f32 : DType::bf16),
        row_bytes_(static_cast<std::size_t>(problem.d * size_bytes(dtype_))),
        workspace_(nullptr, exchange.workspace_bytes(), stream),
        ids_(own.ids, stream),
        ranks_(own.dst_ranks, stream),
        rows_(own.dst_rows, stream),
        offs_(own.offs, stream),
        kept_(own.kept, stream),
        src_ranks_(own.src_ranks, stream),
        src_routes_(own.src_routes, stream) {
    wanted.fill(seed);
    probs_ = std::make_unique<OnDevice>(own.probs, stream);
    const std::vector<std::byte> x = bytes_of(own.x);
    x_ = std::make_unique<OnDevice>(x, stream);
    clear_workspace();
    lease_ = group.lease(std::max<std::size_t>(1, static_cast<std::size_t>(exchange.max_rows())) *
                         row_bytes_);
    poison();
  }
  EpRun(const EpRun&) = delete;
  EpRun& operator=(const EpRun&) = delete;
  ~EpRun() { exchange.group().release(lease_); }

  [[nodiscard]] Workspace workspace() const {
    return {{workspace_.data(), exchange.workspace_bytes()}, device()};
  }
  [[nodiscard]] TensorView buffer() const {
    TensorView view{lease_.data.front(), dtype_, device(), 2, {}, {}};
    view.shape = {exchange.max_rows(), problem().d, 0};
    view.stride = {problem().d, 1, 0};
    return view;
  }
  [[nodiscard]] const ExpertParallelProblem& problem() const { return exchange.problem(); }

  /// Fills the leased rows with 0xFF on all ranks before any goes on, and after all have fetched
  /// what they wanted of them.
  void poison() {
    const std::vector<std::byte> ones(static_cast<std::size_t>(exchange.max_rows()) * row_bytes_,
                                      std::byte{0xFF});
    exchange.group().barrier(stream_);
    copy(lease_.data.front(), ones.data(), ones.size(), stream_);
    exchange.group().barrier(stream_);
  }

  [[nodiscard]] RouteMapsArgs maps_args() const {
    RouteMapsArgs args;
    args.expert_ids = per_route(ids_, DType::i32);
    args.dst_ranks = per_route(ranks_, DType::i32);
    args.dst_rows = per_route(rows_, DType::i32);
    args.offs = offs_.view(DType::i32, {exchange.local_experts()});
    args.kept = kept_.view(DType::i32, {exchange.local_experts()});
    args.src_ranks = src_ranks_.view(DType::i32, {exchange.max_rows()});
    args.src_routes = src_routes_.view(DType::i32, {exchange.max_rows()});
    args.workspace = workspace();
    return args;
  }
  [[nodiscard]] DispatchPutArgs put_args(bool weighted) const {
    DispatchPutArgs args;
    args.input = x_->view(dtype_, {own.tokens, problem().d});
    args.out = buffer();
    args.dst_ranks = per_route(ranks_, DType::i32);
    args.dst_rows = per_route(rows_, DType::i32);
    if (weighted) args.probs = per_route(*probs_, DType::f32);
    args.workspace = workspace();
    return args;
  }
  [[nodiscard]] CombineGetArgs get_args(const OnDevice& out, const OnDevice* gathered,
                                        bool weighted) const {
    CombineGetArgs args;
    args.expert_out = buffer();
    args.out = out.view(dtype_, {own.tokens, problem().d});
    args.src_ranks = per_route(ranks_, DType::i32);
    args.src_rows = per_route(rows_, DType::i32);
    if (weighted) args.probs = per_route(*probs_, DType::f32);
    if (gathered != nullptr) args.gathered = cube(*gathered);
    args.workspace = workspace();
    return args;
  }
  [[nodiscard]] TensorView cube(const OnDevice& rows) const {
    return rows.view(dtype_, {own.tokens, problem().topk, problem().d});
  }
  [[nodiscard]] TensorView per_route(const OnDevice& values, DType dtype) const {
    return values.view(dtype, {own.tokens, problem().topk});
  }
  [[nodiscard]] OnDevice rows_like(std::int64_t count) const {
    return {nullptr, static_cast<std::size_t>(count) * row_bytes_, stream_};
  }

  /// Everything once, on both sides, every bit compared.
  void check_all() {
    check_maps();
    for (const bool weighted : {false, true}) {
      check_put(weighted);
      check_get(weighted);
    }
    check_probs_grad();
    exchange.group().check(stream_);
  }

  void check_maps() {
    SCOPED_TRACE("route maps");
    wanted.route_maps();
    exchange.route_maps(std::vector{maps_args()}, stream_);
    EXPECT_EQ(ranks_.get<std::int32_t>(stream_), own.dst_ranks);
    EXPECT_EQ(rows_.get<std::int32_t>(stream_), own.dst_rows);
    EXPECT_EQ(offs_.get<std::int32_t>(stream_), own.offs);
    EXPECT_EQ(kept_.get<std::int32_t>(stream_), own.kept);
    EXPECT_EQ(src_ranks_.get<std::int32_t>(stream_), own.src_ranks);
    EXPECT_EQ(src_routes_.get<std::int32_t>(stream_), own.src_routes);
    EXPECT_EQ(exchange.read_dropped_routes(workspace(), stream_),
              wanted.exchange.read_dropped_routes(own.workspace.get(), Stream::cpu()));
    expect_same_fault();
  }

  void check_put(bool weighted) {
    check_put_of([&](std::size_t /*rank*/) { return weighted; });
  }
  /// With probs on some ranks.
  void check_put_of(const std::function<bool(std::size_t)>& is_weighted) {
    const auto here = static_cast<std::size_t>(&own - wanted.ranks.data());
    SCOPED_TRACE(std::string(name(problem().dispatch)) +
                 (is_weighted(here) ? " weighted put" : " put"));
    for (testing::RankData& rank : wanted.ranks) {
      const TensorView view = rank.buffer.view();
      std::memset(view.data, 0xFF,
                  static_cast<std::size_t>(view.shape[0] * problem().d * size_bytes(dtype_)));
    }
    std::vector<DispatchPutArgs> all = wanted.put_args(true);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (!is_weighted(rank)) all[rank].probs = {};
    }
    wanted.exchange.dispatch_put(all, Stream::cpu());
    const std::vector<std::byte> rows = bytes_of(own.buffer);
    for (const int nblocks : {1, 37, 0}) {
      poison();
      exchange.dispatch_put(std::vector{put_args(is_weighted(here))}, stream_,
                            {.nblocks = nblocks});
      EXPECT_EQ(leased_bytes(), rows) << "rows of the buffer, nblocks " << nblocks;
    }
    expect_same_fault();
  }

  /// Behind check_put(): the rows of all ranks are those of the simulation.
  void check_get(bool weighted) {
    SCOPED_TRACE(weighted ? "weighted get" : "get");
    wanted.exchange.combine_get(wanted.get_args(weighted), Stream::cpu());
    const std::vector<std::byte> y = bytes_of(own.y), rows = bytes_of(own.gathered);
    const std::int64_t routes = own.tokens * problem().topk;
    for (const int nblocks : {0, 1, 37}) {
      for (const bool fused : {false, true}) {
        for (const bool keeps : {false, true}) {
          const OnDevice out = rows_like(own.tokens), gathered = rows_like(routes);
          const auto args = std::vector{get_args(out, keeps ? &gathered : nullptr, weighted)};
          const GetOptions options{.nblocks = nblocks};
          fused ? exchange.combine_get_fused(args, stream_, options)
                : exchange.combine_get(args, stream_, options);
          EXPECT_EQ(out.get<std::byte>(stream_), y) << "fused " << fused << " keeps " << keeps;
          if (keeps) {
            EXPECT_EQ(gathered.get<std::byte>(stream_), rows) << "fused " << fused;
          }
        }
      }
    }
    const OnDevice gathered = rows_like(routes);
    exchange.gather_get(
        std::vector{GatherGetArgs{buffer(), cube(gathered), per_route(ranks_, DType::i32),
                                  per_route(rows_, DType::i32), workspace()}},
        stream_);
    EXPECT_EQ(gathered.get<std::byte>(stream_), rows) << "gather";
    expect_same_fault();
  }

  /// FP32 on the device, double on the CPU.
  void check_probs_grad() {
    SCOPED_TRACE("gradient of probs");
    wanted.exchange.probs_grad(wanted.probs_grad_args(), Stream::cpu());
    const std::vector<std::byte> y = bytes_of(own.y), rows = bytes_of(own.gathered);
    const OnDevice dout(y, stream_), gathered(rows, stream_);
    const OnDevice dprobs(std::vector<float>(own.probs.size(), -7.0F), stream_);
    exchange.probs_grad(
        std::vector{ProbsGradArgs{cube(gathered), dout.view(dtype_, {own.tokens, problem().d}),
                                  per_route(ranks_, DType::i32), per_route(rows_, DType::i32),
                                  per_route(dprobs, DType::f32)}},
        stream_);
    const std::vector<float> got = dprobs.get<float>(stream_);
    for (std::size_t route = 0; route < got.size(); ++route) {
      double scale = 0;
      for (std::int64_t j = 0; j < problem().d; ++j) {
        const auto token = static_cast<std::int64_t>(route) / problem().topk;
        scale += std::abs(own.gathered.get(0, static_cast<std::int64_t>(route), j) *
                          own.y.get(0, token, j));
      }
      EXPECT_NEAR(got[route], own.dprobs[route], 1e-6 * scale) << "route " << route;
      if (own.dst_rows[route] < 0) {
        EXPECT_EQ(got[route], 0.0F);
      }
    }
  }

  void expect_same_fault() {
    const RouteFault got = exchange.read_fault(workspace(), stream_);
    const RouteFault want = wanted.exchange.read_fault(own.workspace.get(), Stream::cpu());
    EXPECT_EQ(static_cast<int>(got.kind), static_cast<int>(want.kind));
    EXPECT_EQ(got.token, want.token);
    EXPECT_EQ(got.slot, want.slot);
    EXPECT_EQ(got.value, want.value);
  }

  /// Other maps than those that were made, on both sides.
  void set_map(std::size_t route, std::int32_t rank, std::int32_t row) {
    own.dst_ranks.at(route) = rank;
    own.dst_rows.at(route) = row;
    ranks_ = OnDevice(own.dst_ranks, stream_);
    rows_ = OnDevice(own.dst_rows, stream_);
  }
  /// Other ids of this rank, in place; the simulation has to be told for all ranks.
  void upload_ids() {
    copy(ids_.data(), own.ids.data(), own.ids.size() * sizeof(std::int32_t), stream_);
  }

  [[nodiscard]] std::vector<std::byte> leased_bytes() const {
    std::vector<std::byte> bytes(static_cast<std::size_t>(exchange.max_rows()) * row_bytes_);
    copy(bytes.data(), lease_.data.front(), bytes.size(), stream_);
    return bytes;
  }

  testing::ExchangeRun wanted;  ///< All ranks, on the CPU, with direct dispatch.
  ExpertParallel exchange;
  testing::RankData& own;  ///< This rank's there.

 private:
  /// The simulation dispatches directly: what is wanted does not depend on the form.
  static ExpertParallelProblem direct(ExpertParallelProblem problem) {
    problem.dispatch = DispatchForm::direct;
    return problem;
  }
  void clear_workspace() const {
    const std::vector<std::byte> zeros(exchange.workspace_bytes());
    copy(workspace_.data(), zeros.data(), zeros.size(), stream_);
  }

  Stream stream_;
  DType dtype_;
  std::size_t row_bytes_;
  OnDevice workspace_, ids_, ranks_, rows_, offs_, kept_, src_ranks_, src_routes_;
  std::unique_ptr<OnDevice> probs_, x_;
  SymmetricBuffer lease_;
};

}  // namespace moesaic::ep_tests
