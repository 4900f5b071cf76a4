// SPDX-License-Identifier: Apache-2.0
// A captured layer, replayed after the ids changed in place.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "ep/ep_run.hpp"

namespace moesaic::ep_tests {
namespace {

class Capture : public OnRanks {
 protected:
  void replays_follow_the_ids(DispatchForm form);
};

void Capture::replays_follow_the_ids(DispatchForm form) {
  const int experts = 4 * ranks().count;
  testing::RankIds ids(static_cast<std::size_t>(ranks().count), std::vector<std::int32_t>(128, 0));
  auto problem = testing::exchange_problem(experts, 2, 64, 256);
  problem.dispatch = form;
  EpRun run(world(), ranks().rank, problem, ids, 9, stream());
  run.check_all();  // nothing is loaded or allocated for the first time in the capture
  const OnDevice out = run.rows_like(64);
  auto* native = static_cast<cudaStream_t>(stream().native());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  {
    const OwnDevice own;
    must(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal),
         "cudaStreamBeginCapture");
  }
  run.exchange.route_maps(std::vector{run.maps_args()}, stream());
  run.exchange.dispatch_put(std::vector{run.put_args(false)}, stream(), {.pre_barrier = true});
  run.exchange.combine_get_fused(std::vector{run.get_args(out, nullptr, true)}, stream());
  {
    const OwnDevice own;
    must(cudaStreamEndCapture(native, &graph), "cudaStreamEndCapture");
    must(cudaGraphInstantiate(&replay, graph, 0), "cudaGraphInstantiate");
  }
  for (std::int32_t round = 0; round < 20; ++round) {
    for (std::size_t r = 0; r < run.wanted.ranks.size(); ++r) {
      for (std::size_t i = 0; i < 128; ++i) {
        run.wanted.ranks[r].ids[i] = static_cast<std::int32_t>(
            (i * (static_cast<std::size_t>(round) + 3) + r) % static_cast<std::size_t>(experts));
      }
    }
    run.upload_ids();
    {
      const OwnDevice own;
      must(cudaGraphLaunch(replay, native), "cudaGraphLaunch");
    }
    world().check(stream());
    run.wanted.route_maps();
    run.wanted.exchange.dispatch_put(run.wanted.put_args(false), Stream::cpu());
    run.wanted.exchange.combine_get(run.wanted.get_args(true), Stream::cpu());
    ASSERT_EQ(out.get<std::byte>(stream()), bytes_of(run.own.y)) << "round " << round;
  }
  const OwnDevice own;
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
}

TEST_F(Capture, ReplaysFollowTheIds) { replays_follow_the_ids(DispatchForm::direct); }

TEST_F(Capture, ReplaysFollowTheIdsByFanOut) { replays_follow_the_ids(DispatchForm::fan_out); }

}  // namespace
}  // namespace moesaic::ep_tests
