// SPDX-License-Identifier: Apache-2.0
// A thousand layers back to back, with ranks that are late at random and buffers that are used
// again: every row and every sum looked at on the device.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <random>

#include "ep/ep_run.hpp"
#include "ep/stress_kernels.hpp"

namespace moesaic::ep_tests {
namespace {

constexpr int kIterations = 1000;

std::int32_t* ints(const TensorView& view) { return static_cast<std::int32_t*>(view.data); }

class Stress : public OnRanks {
 protected:
  void a_thousand_iterations(DispatchForm form);
  [[nodiscard]] cudaStream_t native() const { return static_cast<cudaStream_t>(stream().native()); }
  /// Up to 0.2 ms, one time in four.
  void late() {
    if (random_() % 4 == 0) delay(random_() % 200'000, native());
  }

 private:
  std::mt19937 random_{static_cast<std::uint32_t>(ranks().rank) + 1};
};

void Stress::a_thousand_iterations(DispatchForm form) {
  const int topk = 8, experts = 8 * ranks().count;
  const std::int64_t tokens = 257, d = 1024;
  auto problem = testing::exchange_problem(experts, topk, tokens, d);
  problem.capacity_factor_millionths = 900'000;  // some routes are dropped
  problem.dispatch = form;
  const testing::RankIds ids(static_cast<std::size_t>(ranks().count),
                             std::vector<std::int32_t>(tokens * topk, 0));
  EpRun run(world(), ranks().rank, problem, ids, 1, stream());
  const StressShape shape{tokens, run.exchange.max_rows(), d, topk, experts};
  const OnDevice out = run.rows_like(tokens);
  const OnDevice wrong(std::vector<std::uint64_t>{0}, stream());
  auto* count = reinterpret_cast<unsigned long long*>(wrong.data());
  const RouteMapsArgs maps = run.maps_args();
  const DispatchPutArgs put = run.put_args(false);
  const CombineGetArgs get = run.get_args(out, nullptr, false);
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    const RowPattern pattern{iteration, ranks().rank};
    auto* token_ids = static_cast<std::int32_t*>(const_cast<void*>(maps.expert_ids.data));
    fill_tokens(token_ids, const_cast<void*>(put.input.data), pattern, shape, native());
    late();
    run.exchange.route_maps(std::vector{maps}, stream());
    late();
    // No barrier before: that of the maps says that all peers have fetched the rows of before.
    // By fan-out, this rank's rows are complete without one behind either.
    run.exchange.dispatch_put(std::vector{put}, stream(),
                              {.post_barrier = form == DispatchForm::direct || iteration % 3 == 0});
    late();
    check_rows(put.out.data, ints(maps.src_ranks), ints(maps.src_routes),
               ints(maps.offs) + run.exchange.local_experts() - 1, iteration, shape, count,
               native());
    late();
    iteration % 2 == 0 ? run.exchange.combine_get_fused(std::vector{get}, stream())
                       : run.exchange.combine_get(std::vector{get}, stream());
    check_sums(get.out.data, ints(maps.dst_rows), pattern, shape, count, native());
    if (iteration % 100 == 99) {
      world().check(stream());
      ASSERT_EQ(wrong.get<std::uint64_t>(stream()).front(), 0U) << "by iteration " << iteration;
    }
  }
  EXPECT_FALSE(run.exchange.read_fault(run.workspace(), stream()));
}

TEST_F(Stress, AThousandIterationsWithSlowRanks) { a_thousand_iterations(DispatchForm::direct); }

TEST_F(Stress, AThousandIterationsByFanOut) { a_thousand_iterations(DispatchForm::fan_out); }

/// Dispatch after dispatch of one plan with no barrier but its own, so that a rank tells of the
/// next rows while another copies the last ones; routings and buffers do not come around together.
TEST_F(Stress, PutsByFanOutFollowOneAnother) {
  const int topk = 8, experts = 8 * ranks().count;
  const std::int64_t tokens = 61, d = 1024;
  auto problem = testing::exchange_problem(experts, topk, tokens, d);
  problem.dispatch = DispatchForm::fan_out;
  const testing::RankIds ids(static_cast<std::size_t>(ranks().count),
                             std::vector<std::int32_t>(tokens * topk, 0));
  std::vector<std::unique_ptr<EpRun>> runs;
  for (int routing = 0; routing < 3; ++routing) {
    runs.push_back(std::make_unique<EpRun>(world(), ranks().rank, problem, ids, 1, stream()));
    EpRun& run = *runs.back();
    const StressShape shape{tokens, run.exchange.max_rows(), d, topk, experts};
    const RouteMapsArgs maps = run.maps_args();
    fill_tokens(static_cast<std::int32_t*>(const_cast<void*>(maps.expert_ids.data)),
                const_cast<void*>(run.put_args(false).input.data), {routing, ranks().rank}, shape,
                native());
    run.exchange.route_maps(std::vector{maps}, stream());
  }
  const ExpertParallel& exchange = runs.front()->exchange;
  const StressShape shape{tokens, exchange.max_rows(), d, topk, experts};
  const OnDevice other_ids(std::vector<std::int32_t>(tokens * topk), stream());
  const OnDevice wrong(std::vector<std::uint64_t>{0}, stream());
  auto* count = reinterpret_cast<unsigned long long*>(wrong.data());
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    const EpRun& run = *runs[static_cast<std::size_t>(iteration % 3)];
    const RouteMapsArgs maps = run.maps_args();
    DispatchPutArgs put = run.put_args(false);
    put.out = runs[static_cast<std::size_t>(iteration % 2)]->buffer();
    fill_tokens(reinterpret_cast<std::int32_t*>(other_ids.data()),
                const_cast<void*>(put.input.data), {iteration, ranks().rank}, shape, native());
    late();
    exchange.dispatch_put(std::vector{put}, stream(), {.post_barrier = false});
    late();
    check_rows(put.out.data, ints(maps.src_ranks), ints(maps.src_routes),
               ints(maps.offs) + exchange.local_experts() - 1, iteration, shape, count, native());
    if (iteration % 100 == 99) {
      world().check(stream());
      ASSERT_EQ(wrong.get<std::uint64_t>(stream()).front(), 0U) << "by iteration " << iteration;
    }
  }
  meet();  // no rank gives its buffers back while another writes there
}

}  // namespace
}  // namespace moesaic::ep_tests
