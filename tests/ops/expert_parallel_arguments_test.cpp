// SPDX-License-Identifier: Apache-2.0
// What an exchange refuses: by name, and before anything is written.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "support/exchange_run.hpp"
#include "support/expect_error.hpp"

namespace moesaic::testing {
namespace {

// Two ranks, four experts, two slots; three and two tokens.
RankIds some_ids() { return {{0, 1, 2, 3, 0, 2}, {3, 3, 1, -1}}; }
ExpertParallelProblem some_problem() { return exchange_problem(4, 2, 3, 16); }

void refuse_plan(std::initializer_list<std::string_view> parts,
                 const std::function<void(ExpertParallelProblem&)>& spoil,
                 ErrorCode code = ErrorCode::invalid_argument) {
  ExpertParallelProblem problem = some_problem();
  spoil(problem);
  expect_error(code, parts,
               [&] { ExpertParallel::plan(problem, ExpertParallelGroup::simulated(2)); });
}

TEST(ExchangePlan, RefusalsNameTheField) {
  refuse_plan({"num_experts", "0"}, [](auto& p) { p.num_experts = 0; });
  refuse_plan({"num_experts", "multiple of the 2 ranks", "5"}, [](auto& p) { p.num_experts = 5; });
  refuse_plan({"num_experts", "65537"}, [](auto& p) { p.num_experts = 65'537; });
  refuse_plan({"topk", "0"}, [](auto& p) { p.topk = 0; });
  refuse_plan({"topk", "257"}, [](auto& p) { p.topk = 257; });
  refuse_plan({"max_tokens", "-1"}, [](auto& p) { p.max_tokens = -1; });
  refuse_plan({"max_tokens", "1073741824"}, [](auto& p) { p.max_tokens = std::int64_t{1} << 30; });
  refuse_plan({"d", "12"}, [](auto& p) { p.d = 12; });
  refuse_plan({"d", "0"}, [](auto& p) { p.d = 0; });
  refuse_plan({"capacity_factor_millionths", "0"},
              [](auto& p) { p.capacity_factor_millionths = 0; });
  refuse_plan({"capacity_factor_millionths", "2^31 - 1 rows"}, [](auto& p) {
    p.max_tokens = 1'000'000'000;
    p.capacity_factor_millionths = 2'000'000;
  });
  refuse_plan(
      {"format", "mxfp8"}, [](auto& p) { p.format = Format::mxfp8; }, ErrorCode::unsupported);
  refuse_plan({"dispatch", "auto, direct or fan_out", "3"},
              [](auto& p) { p.dispatch = static_cast<DispatchForm>(3); });
  for (const int ranks : {0, -1, 1025}) {
    expect_error(ErrorCode::invalid_argument, {"num_ranks", std::to_string(ranks)},
                 [&] { ExpertParallelGroup::simulated(ranks); });
  }
}

TEST(ExchangePlan, SaysWhatItUsesAndNeeds) {
  ExpertParallelProblem problem = some_problem();
  problem.max_tokens = 1001;
  const auto group = ExpertParallelGroup::simulated(2);
  const auto exchange = ExpertParallel::plan(problem, group);
  EXPECT_EQ(exchange.max_rows(), 2503) << "ceil(1.25 * 2002)";
  EXPECT_EQ(exchange.local_experts(), 2);
  EXPECT_EQ(exchange.implementation(), "cpu/reference/rowwise");
  EXPECT_EQ(exchange.group().num_ranks(), 2);
  EXPECT_EQ(group.transport(), "simulated");
  EXPECT_EQ(group.local_ranks().size(), 2u);
  EXPECT_EQ(group.local_ranks()[1], 1);
  EXPECT_EQ(group.device(), Device{});
  bool found = false;
  for (const Candidate& candidate : ExpertParallel::candidates(problem, group)) {
    found = found || (candidate.implementation == exchange.implementation() && candidate.support);
    EXPECT_EQ(candidate.support.ok, candidate.support.reason.empty());
  }
  EXPECT_TRUE(found);
}

TEST(ExchangePlan, ChoosesTheFormOfDispatch) {
  const auto form = [](int ranks, const ExpertParallelProblem& problem) {
    const auto exchange = ExpertParallel::plan(problem, ExpertParallelGroup::simulated(ranks));
    EXPECT_EQ(exchange.problem().dispatch, problem.dispatch) << "as it was given";
    return exchange.dispatch_form();
  };
  ExpertParallelProblem problem;
  EXPECT_EQ(problem.dispatch, DispatchForm::automatic);
  problem.num_experts = 64;
  problem.topk = 8;
  problem.d = 4096;
  for (const int ranks : {2, 4}) {  // the sizes of NB-0008
    for (const std::int64_t tokens : {0, 8, 64}) {
      problem.max_tokens = tokens;
      EXPECT_EQ(form(ranks, problem), DispatchForm::direct) << ranks << " ranks, T = " << tokens;
    }
    for (const std::int64_t tokens : {512, 8192}) {
      problem.max_tokens = tokens;
      EXPECT_EQ(form(ranks, problem), DispatchForm::fan_out) << ranks << " ranks, T = " << tokens;
    }
  }
  EXPECT_EQ(form(1, problem), DispatchForm::direct);
  problem.max_tokens = 200;  // of twice the bytes in FP32
  EXPECT_EQ(form(2, problem), DispatchForm::direct);
  problem.format = Format::f32;
  EXPECT_EQ(form(2, problem), DispatchForm::fan_out);
  // Who names a form gets it.
  problem.dispatch = DispatchForm::direct;
  EXPECT_EQ(form(2, problem), DispatchForm::direct);
  problem.max_tokens = 1;
  problem.dispatch = DispatchForm::fan_out;
  EXPECT_EQ(form(2, problem), DispatchForm::fan_out);
}

/// Spoils the arguments of one operation; nothing may have been written.
template <class Args>
using Spoil = std::function<void(std::vector<Args>&)>;

template <class Args>
void refuse_call(std::initializer_list<std::string_view> parts, const Spoil<Args>& spoil,
                 const std::function<std::vector<Args>(ExchangeRun&)>& args_of,
                 const std::function<void(const ExchangeRun&, std::span<const Args>)>& call,
                 ErrorCode code = ErrorCode::invalid_argument) {
  ExchangeRun run(some_problem(), some_ids());
  run.fill(3);
  run.route_maps();
  std::vector<std::vector<std::byte>> before;
  for (RankData& data : run.ranks) {
    before.push_back(data.buffer.snapshot());
    before.push_back(data.y.snapshot());
    before.push_back(data.gathered.snapshot());
  }
  std::vector<Args> args = args_of(run);
  spoil(args);
  expect_error(code, parts, [&] { call(run, args); });
  std::vector<std::vector<std::byte>> after;
  for (RankData& data : run.ranks) {
    after.push_back(data.buffer.snapshot());
    after.push_back(data.y.snapshot());
    after.push_back(data.gathered.snapshot());
  }
  EXPECT_TRUE(before == after) << "something was written";
}

void refuse_maps(std::initializer_list<std::string_view> parts, const Spoil<RouteMapsArgs>& spoil,
                 ErrorCode code = ErrorCode::invalid_argument) {
  refuse_call<RouteMapsArgs>(
      parts, spoil, [](ExchangeRun& run) { return run.maps_args(); },
      [](const ExchangeRun& run, auto args) { run.exchange.route_maps(args, Stream::cpu()); },
      code);
}
void refuse_put(std::initializer_list<std::string_view> parts, const Spoil<DispatchPutArgs>& spoil,
                ErrorCode code = ErrorCode::invalid_argument) {
  refuse_call<DispatchPutArgs>(
      parts, spoil, [](ExchangeRun& run) { return run.put_args(true); },
      [](const ExchangeRun& run, auto args) { run.exchange.dispatch_put(args, Stream::cpu()); },
      code);
}
void refuse_get(std::initializer_list<std::string_view> parts, const Spoil<CombineGetArgs>& spoil,
                ErrorCode code = ErrorCode::invalid_argument) {
  for (const bool fused : {false, true}) {
    refuse_call<CombineGetArgs>(
        parts, spoil, [](ExchangeRun& run) { return run.get_args(true); },
        [&](const ExchangeRun& run, auto args) {
          fused ? run.exchange.combine_get_fused(args, Stream::cpu())
                : run.exchange.combine_get(args, Stream::cpu());
        },
        code);
  }
}

TEST(ExchangeArguments, OfRouteMaps) {
  refuse_maps({"ranks", "2 local ranks", "1"}, [](auto& args) { args.pop_back(); });
  refuse_maps({"ranks[0].expert_ids", "max_tokens = 3"},
              [](auto& args) { args[0].expert_ids.shape[0] = 4; });
  refuse_maps({"ranks[1].expert_ids", "[2, 2]"},
              [](auto& args) { args[1].expert_ids.shape[1] = 1; });
  refuse_maps({"ranks[1].expert_ids", "f32"},
              [](auto& args) { args[1].expert_ids.dtype = DType::f32; });
  refuse_maps({"ranks[0].expert_ids"}, [](auto& args) { args[0].expert_ids = {}; });
  refuse_maps({"ranks[0].expert_ids", "dense"},
              [](auto& args) { args[0].expert_ids.stride[0] = 4; });
  refuse_maps({"ranks[0].expert_ids", "null"},
              [](auto& args) { args[0].expert_ids.data = nullptr; });
  refuse_maps({"ranks[0].dst_ranks", "cuda:0"}, [](auto& args) {
    args[0].dst_ranks.device = {DeviceKind::cuda, 0};
  });
  refuse_maps({"ranks[1].dst_rows", "[2, 2]"}, [](auto& args) { args[1].dst_rows.shape[0] = 3; });
  refuse_maps({"ranks[1].offs", "i32 [2]"}, [](auto& args) { args[1].offs.shape[0] = 4; });
  refuse_maps({"ranks[0].kept", "i32 [2]"}, [](auto& args) { args[0].kept.shape[0] = 1; });
  refuse_maps({"ranks[0].src_routes", "i32 [8]"}, [](auto& args) { args[0].src_routes = {}; });
  refuse_maps({"ranks[0].src_ranks", "i32 [8]"}, [](auto& args) { args[0].src_ranks = {}; });
  refuse_maps({"ranks[0].dst_rows", "apart from ranks[0].dst_ranks"},
              [](auto& args) { args[0].dst_rows.data = args[0].dst_ranks.data; });
  refuse_maps({"ranks[1].dst_rows", "apart from ranks[0].expert_ids"}, [](auto& args) {
    args[1].dst_rows.data = const_cast<void*>(args[0].expert_ids.data);
  });
  refuse_maps(
      {"ranks[1].workspace", "bytes"}, [](auto& args) { args[1].workspace = {}; },
      ErrorCode::workspace_too_small);
  refuse_maps({"ranks[1].workspace", "apart from ranks[0].workspace"},
              [](auto& args) { args[1].workspace = args[0].workspace; });
}

TEST(ExchangeArguments, OfDispatch) {
  refuse_put({"ranks", "2 local ranks", "3"}, [](auto& args) { args.push_back(args[0]); });
  refuse_put({"ranks[0].input", "[3, 16]"}, [](auto& args) { args[0].input.shape[1] = 8; });
  refuse_put({"ranks[0].input", "f32"}, [](auto& args) { args[0].input.dtype = DType::f32; });
  refuse_put({"ranks[1].input", "max_tokens"}, [](auto& args) { args[1].input.shape[0] = 4; });
  refuse_put({"ranks[1].input", "aligned"}, [](auto& args) {
    args[1].input.data = static_cast<const std::byte*>(args[1].input.data) + 2;
  });
  refuse_put({"ranks[0].out", "[8, 16]"}, [](auto& args) { args[0].out.shape[0] = 7; });
  refuse_put({"ranks[1].out", "row stride of the first rank's, 16", "24"},
             [](auto& args) { args[1].out.stride[0] = 24; });
  refuse_put({"ranks[0].dst_ranks", "[3, 2]"}, [](auto& args) { args[0].dst_ranks.shape[0] = 2; });
  refuse_put({"ranks[0].dst_rows", "i32"}, [](auto& args) { args[0].dst_rows.dtype = DType::f32; });
  refuse_put({"ranks[1].probs", "f32 [2, 2]"},
             [](auto& args) { args[1].probs.dtype = DType::i32; });
  refuse_put({"ranks[1].out", "apart from ranks[0].out"},
             [](auto& args) { args[1].out.data = args[0].out.data; });
  refuse_put({"ranks[1].out", "apart from ranks[0].input"},
             [](auto& args) { args[1].out.data = const_cast<void*>(args[0].input.data); });
  refuse_put(
      {"ranks[0].workspace"}, [](auto& args) { args[0].workspace.bytes = {}; },
      ErrorCode::workspace_too_small);
}

TEST(ExchangeArguments, OfCombine) {
  refuse_get({"ranks", "2 local ranks", "0"}, [](auto& args) { args.clear(); });
  refuse_get({"ranks[0].expert_out", "[8, 16]"},
             [](auto& args) { args[0].expert_out.shape[0] = 9; });
  refuse_get({"ranks[1].expert_out", "row stride of the first rank's"},
             [](auto& args) { args[1].expert_out.stride[0] = 32; });
  refuse_get({"ranks[0].out", "f32"}, [](auto& args) { args[0].out.dtype = DType::f32; });
  refuse_get({"ranks[0].out", "max_tokens"}, [](auto& args) { args[0].out = {}; });
  refuse_get({"ranks[1].src_ranks", "[2, 2]"}, [](auto& args) { args[1].src_ranks.shape[0] = 1; });
  refuse_get({"ranks[1].src_rows", "i32"},
             [](auto& args) { args[1].src_rows.dtype = DType::bf16; });
  refuse_get({"ranks[0].probs", "f32 [3, 2]"}, [](auto& args) { args[0].probs.shape[1] = 3; });
  refuse_get({"ranks[0].gathered", "[3, 2, 16]"},
             [](auto& args) { args[0].gathered.shape[1] = 4; });
  refuse_get({"ranks[0].gathered", "stride"}, [](auto& args) { args[0].gathered.stride[0] = 16; });
  refuse_get({"ranks[0].out", "apart from ranks[1].expert_out"},
             [](auto& args) { args[0].out.data = const_cast<void*>(args[1].expert_out.data); });
  refuse_get({"ranks[1].gathered", "apart from ranks[1].out"},
             [](auto& args) { args[1].gathered.data = args[1].out.data; });
}

TEST(ExchangeArguments, OfGatherAndProbsGrad) {
  const auto gather = [](std::initializer_list<std::string_view> parts,
                         const Spoil<GatherGetArgs>& spoil) {
    refuse_call<GatherGetArgs>(
        parts, spoil, [](ExchangeRun& run) { return run.gather_args(); },
        [](const ExchangeRun& run, auto args) { run.exchange.gather_get(args, Stream::cpu()); });
  };
  gather({"ranks[0].gathered", "max_tokens"}, [](auto& args) { args[0].gathered = {}; });
  gather({"ranks[0].gathered", "[3, 2, 16]"}, [](auto& args) { args[0].gathered.shape[2] = 8; });
  gather({"ranks[1].expert_out"}, [](auto& args) { args[1].expert_out = {}; });
  gather({"ranks[1].src_rows"}, [](auto& args) { args[1].src_rows = {}; });
  const auto grad = [](std::initializer_list<std::string_view> parts,
                       const Spoil<ProbsGradArgs>& spoil) {
    refuse_call<ProbsGradArgs>(
        parts, spoil, [](ExchangeRun& run) { return run.probs_grad_args(); },
        [](const ExchangeRun& run, auto args) { run.exchange.probs_grad(args, Stream::cpu()); });
  };
  grad({"ranks[0].dout", "max_tokens"}, [](auto& args) { args[0].dout = {}; });
  grad({"ranks[1].gathered", "[2, 2, 16]"}, [](auto& args) { args[1].gathered.shape[0] = 3; });
  grad({"ranks[1].dprobs", "f32"}, [](auto& args) { args[1].dprobs.dtype = DType::bf16; });
  grad({"ranks[0].dprobs", "apart from ranks[0].src_rows"},
       [](auto& args) { args[0].dprobs.data = const_cast<void*>(args[0].src_rows.data); });
  grad({"ranks[0].src_ranks"}, [](auto& args) { args[0].src_ranks.shape[0] = 1; });
}

TEST(ExchangeArguments, StreamsAndBlocks) {
  ExchangeRun run(some_problem(), some_ids());
  run.route_maps();
  const Stream foreign = Stream::from_native(Device{DeviceKind::cuda, 0}, nullptr);
  expect_error(ErrorCode::invalid_argument, {"stream"},
               [&] { run.exchange.route_maps(run.maps_args(), foreign); });
  expect_error(ErrorCode::invalid_argument, {"stream"},
               [&] { run.exchange.dispatch_put(run.put_args(true), foreign); });
  expect_error(ErrorCode::invalid_argument, {"nblocks", "-1"}, [&] {
    run.exchange.dispatch_put(run.put_args(true), Stream::cpu(), {.nblocks = -1});
  });
  expect_error(ErrorCode::invalid_argument, {"nblocks", "65536"}, [&] {
    run.exchange.combine_get(run.get_args(true), Stream::cpu(), {.nblocks = 65'536});
  });
  run.exchange.dispatch_put(run.put_args(true), Stream::cpu(), {.nblocks = 32});
}

}  // namespace
}  // namespace moesaic::testing
