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

class Stress : public OnRanks {};

TEST_F(Stress, AThousandIterationsWithSlowRanks) {
  const int topk = 8, experts = 8 * ranks().count;
  const std::int64_t tokens = 257, d = 1024;
  auto problem = testing::exchange_problem(experts, topk, tokens, d);
  problem.capacity_factor_millionths = 900'000;  // some routes are dropped
  const testing::RankIds ids(static_cast<std::size_t>(ranks().count),
                             std::vector<std::int32_t>(tokens * topk, 0));
  EpRun run(world(), ranks().rank, problem, ids, 1, stream());
  const StressShape shape{tokens, run.exchange.max_rows(), d, topk, experts};
  const OnDevice out = run.rows_like(tokens);
  const OnDevice wrong(std::vector<std::uint64_t>{0}, stream());
  auto* count = reinterpret_cast<unsigned long long*>(wrong.data());
  auto* native = static_cast<cudaStream_t>(stream().native());
  const RouteMapsArgs maps = run.maps_args();
  const DispatchPutArgs put = run.put_args(false);
  const CombineGetArgs get = run.get_args(out, nullptr, false);
  const auto ints = [](const TensorView& view) { return static_cast<std::int32_t*>(view.data); };
  std::mt19937 random(static_cast<std::uint32_t>(ranks().rank) + 1);
  const auto late = [&] {
    if (random() % 4 == 0) delay(random() % 200'000, native);  // up to 0.2 ms
  };
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    const RowPattern pattern{iteration, ranks().rank};
    auto* token_ids = static_cast<std::int32_t*>(const_cast<void*>(maps.expert_ids.data));
    fill_tokens(token_ids, const_cast<void*>(put.input.data), pattern, shape, native);
    late();
    run.exchange.route_maps(std::vector{maps}, stream());
    late();
    // No barrier before: that of the maps says that all peers have fetched the rows of before.
    run.exchange.dispatch_put(std::vector{put}, stream());
    late();
    check_rows(put.out.data, ints(maps.src_ranks), ints(maps.src_routes),
               ints(maps.offs) + run.exchange.local_experts() - 1, iteration, shape, count, native);
    late();
    iteration % 2 == 0 ? run.exchange.combine_get_fused(std::vector{get}, stream())
                       : run.exchange.combine_get(std::vector{get}, stream());
    check_sums(get.out.data, ints(maps.dst_rows), pattern, shape, count, native);
    if (iteration % 100 == 99) {
      world().check(stream());
      ASSERT_EQ(wrong.get<std::uint64_t>(stream()).front(), 0U) << "by iteration " << iteration;
    }
  }
  EXPECT_FALSE(run.exchange.read_fault(run.workspace(), stream()));
}

}  // namespace
}  // namespace moesaic::ep_tests
