// SPDX-License-Identifier: Apache-2.0
// Expert parallelism through the C ABI: two simulated ranks, worked out by hand.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "moesaic/c_api_exchange.h"

namespace {

constexpr std::int64_t kWidth = 8;

template <class T>
moesaic_tensor tensor(T* data, moesaic_dtype dtype, std::int64_t rows, std::int64_t columns) {
  moesaic_tensor view{};
  view.data = data;
  view.dtype = dtype;
  view.rank = columns > 0 ? 2 : 1;
  view.shape[0] = rows;
  view.shape[1] = columns;
  view.stride[0] = columns > 0 ? columns : 1;
  view.stride[1] = columns > 0 ? 1 : 0;
  return view;
}

struct alignas(256) Scratch {
  std::array<char, 4096> bytes{};
};

/// Tokens of one rank: its two tokens have one expert each of the two there are.
struct Rank {
  std::array<std::int32_t, 2> ids, ranks{}, rows{};
  std::int32_t offs = -1;
  alignas(64) std::array<float, 2 * kWidth> x{}, y{};
  void* buffer = nullptr;
  Scratch scratch;
};

class Exchange : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(moesaic_ep_group_simulated(2, &group_), moesaic_ok) << moesaic_last_error();
    problem_.format = moesaic_format_f32;
    problem_.num_experts = 2;
    problem_.topk = 1;
    problem_.max_tokens = 2;
    problem_.d = kWidth;
    problem_.capacity_factor_millionths = 2'000'000;
    ASSERT_EQ(moesaic_ep_create(&problem_, group_, &plan_), moesaic_ok) << moesaic_last_error();
    ASSERT_LE(moesaic_ep_workspace_bytes(plan_), sizeof(Scratch));
    std::array<void*, 2> data{};
    ASSERT_EQ(moesaic_ep_group_lease(group_, 4 * kWidth * sizeof(float), &lease_, data.data()),
              moesaic_ok);
    ranks_[0].ids = {1, 0};
    ranks_[1].ids = {1, 1};
    for (std::size_t r = 0; r < 2; ++r) {
      ranks_[r].buffer = data[r];
      for (std::size_t i = 0; i < ranks_[r].x.size(); ++i) {
        ranks_[r].x[i] = static_cast<float>(100 * r + i / kWidth + 1);
      }
    }
  }
  void TearDown() override {
    moesaic_ep_destroy(plan_);
    moesaic_ep_group_destroy(group_);
  }
  static moesaic_workspace workspace(Rank& rank) {
    return {rank.scratch.bytes.data(), rank.scratch.bytes.size()};
  }

  moesaic_ep_group* group_ = nullptr;
  moesaic_ep_exchange* plan_ = nullptr;
  moesaic_ep_problem problem_{};
  std::int64_t lease_ = -1;
  std::array<Rank, 2> ranks_;
};

TEST_F(Exchange, RowsGoOutAndComeBack) {
  std::vector<moesaic_ep_route_maps_args> maps(2);
  std::vector<moesaic_ep_dispatch_put_args> put(2);
  std::vector<moesaic_ep_combine_get_args> get(2);
  for (std::size_t r = 0; r < 2; ++r) {
    Rank& rank = ranks_[r];
    maps[r].expert_ids = tensor(rank.ids.data(), moesaic_i32, 2, 1);
    maps[r].dst_ranks = tensor(rank.ranks.data(), moesaic_i32, 2, 1);
    maps[r].dst_rows = tensor(rank.rows.data(), moesaic_i32, 2, 1);
    maps[r].offs = tensor(&rank.offs, moesaic_i32, 1, 0);
    maps[r].workspace = workspace(rank);
    put[r].input = tensor(rank.x.data(), moesaic_f32, 2, kWidth);
    put[r].out = tensor(static_cast<float*>(rank.buffer), moesaic_f32, 4, kWidth);
    put[r].dst_ranks = maps[r].dst_ranks;
    put[r].dst_rows = maps[r].dst_rows;
    put[r].workspace = maps[r].workspace;
    get[r].expert_out = put[r].out;
    get[r].out = tensor(rank.y.data(), moesaic_f32, 2, kWidth);
    get[r].src_ranks = maps[r].dst_ranks;
    get[r].src_rows = maps[r].dst_rows;
    get[r].workspace = maps[r].workspace;
  }
  EXPECT_EQ(moesaic_ep_max_rows(plan_), 4);
  ASSERT_EQ(moesaic_ep_route_maps(plan_, maps.data(), 2, nullptr), moesaic_ok)
      << moesaic_last_error();
  EXPECT_EQ(ranks_[0].offs, 1);
  EXPECT_EQ(ranks_[1].offs, 3);
  EXPECT_EQ(ranks_[1].rows, (std::array<std::int32_t, 2>{1, 2}));
  ASSERT_EQ(moesaic_ep_dispatch_put(plan_, put.data(), 2, nullptr, nullptr), moesaic_ok)
      << moesaic_last_error();
  EXPECT_EQ(static_cast<float*>(ranks_[0].buffer)[0], 2.0F);
  EXPECT_EQ(static_cast<float*>(ranks_[1].buffer)[2 * kWidth], 102.0F);
  const moesaic_ep_options options{0, 1, 1};
  ASSERT_EQ(moesaic_ep_combine_get_fused(plan_, get.data(), 2, &options, nullptr), moesaic_ok)
      << moesaic_last_error();
  for (const Rank& rank : ranks_) EXPECT_EQ(rank.y, rank.x);
  EXPECT_EQ(moesaic_ep_group_barriers(group_), 4);  // maps, behind put, around get

  ranks_[1].rows[1] = 9;  // past the buffer
  ASSERT_EQ(moesaic_ep_dispatch_put(plan_, put.data(), 2, nullptr, nullptr), moesaic_ok);
  moesaic_ep_route_fault fault{};
  const moesaic_workspace bad = workspace(ranks_[1]);
  ASSERT_EQ(moesaic_ep_read_fault(plan_, &bad, nullptr, &fault), moesaic_ok);
  EXPECT_EQ(fault.kind, 3);
  EXPECT_EQ(fault.token, 1);
  EXPECT_EQ(fault.slot, 0);
  EXPECT_EQ(fault.value, 9);
  std::int64_t dropped = -1;
  ASSERT_EQ(moesaic_ep_read_dropped_routes(plan_, &bad, nullptr, &dropped), moesaic_ok);
  EXPECT_EQ(dropped, 0);
}

TEST_F(Exchange, ArgumentsAreRefusedByRankAndName) {
  std::vector<moesaic_ep_route_maps_args> maps(2);
  EXPECT_EQ(moesaic_ep_route_maps(plan_, maps.data(), 2, nullptr), moesaic_invalid_argument);
  EXPECT_EQ(std::string(moesaic_last_error()).rfind("ranks[0].expert_ids", 0), 0U)
      << moesaic_last_error();
  EXPECT_EQ(moesaic_ep_route_maps(plan_, maps.data(), 1, nullptr), moesaic_invalid_argument);
  EXPECT_NE(std::string(moesaic_last_error()).find("2 local ranks"), std::string::npos)
      << moesaic_last_error();
  maps[1].offs.rank = 9;
  EXPECT_EQ(moesaic_ep_route_maps(plan_, maps.data(), 2, nullptr), moesaic_invalid_argument);
  EXPECT_EQ(std::string(moesaic_last_error()).rfind("ranks[1].offs", 0), 0U)
      << moesaic_last_error();
  EXPECT_EQ(moesaic_ep_route_maps(nullptr, maps.data(), 2, nullptr), moesaic_invalid_argument);
  std::vector<moesaic_ep_dispatch_put_args> put(2);
  const moesaic_ep_options options{0, 2, 0};
  EXPECT_EQ(moesaic_ep_dispatch_put(plan_, put.data(), 2, &options, nullptr),
            moesaic_invalid_argument);
  EXPECT_NE(std::string(moesaic_last_error()).find("barrier"), std::string::npos);
}

TEST_F(Exchange, TheProblemIsChecked) {
  moesaic_ep_exchange* plan = nullptr;
  moesaic_ep_problem problem = problem_;
  problem.dispatch = 3;
  EXPECT_EQ(moesaic_ep_create(&problem, group_, &plan), moesaic_invalid_argument);
  EXPECT_EQ(std::string(moesaic_last_error()), "dispatch: expected 0 to 2, got 3");
  problem = problem_;
  problem.num_experts = 3;
  EXPECT_EQ(moesaic_ep_create(&problem, group_, &plan), moesaic_invalid_argument);
  EXPECT_EQ(std::string(moesaic_last_error()).rfind("num_experts", 0), 0U);
  EXPECT_EQ(plan, nullptr);
}

TEST_F(Exchange, TheFormOfDispatchIsPassedOn) {
  // No tokens: all that is to be seen are the barriers.
  std::vector<moesaic_ep_dispatch_put_args> put(2);
  for (std::size_t r = 0; r < 2; ++r) {
    Rank& rank = ranks_[r];
    put[r].input = tensor(rank.x.data(), moesaic_f32, 0, kWidth);
    put[r].out = tensor(static_cast<float*>(rank.buffer), moesaic_f32, 4, kWidth);
    put[r].dst_ranks = tensor(rank.ranks.data(), moesaic_i32, 0, 1);
    put[r].dst_rows = tensor(rank.rows.data(), moesaic_i32, 0, 1);
    put[r].workspace = workspace(rank);
  }
  ASSERT_EQ(moesaic_ep_dispatch_put(plan_, put.data(), 2, nullptr, nullptr), moesaic_ok)
      << moesaic_last_error();
  EXPECT_EQ(moesaic_ep_group_barriers(group_), 1);
  moesaic_ep_problem problem = problem_;
  problem.dispatch = moesaic_dispatch_fan_out;
  moesaic_ep_exchange* plan = nullptr;
  ASSERT_EQ(moesaic_ep_create(&problem, group_, &plan), moesaic_ok) << moesaic_last_error();
  EXPECT_EQ(moesaic_ep_dispatch_put(plan, put.data(), 2, nullptr, nullptr), moesaic_ok)
      << moesaic_last_error();
  EXPECT_EQ(moesaic_ep_group_barriers(group_), 3);
  EXPECT_EQ(moesaic_ep_dispatch_form(plan), moesaic_dispatch_fan_out);
  moesaic_ep_destroy(plan);
}

TEST_F(Exchange, AZeroedProblemLeavesTheFormToThePlan) {
  EXPECT_EQ(problem_.dispatch, moesaic_dispatch_automatic);
  EXPECT_EQ(moesaic_ep_dispatch_form(plan_), moesaic_dispatch_direct);
  EXPECT_EQ(moesaic_ep_dispatch_form(nullptr), 0);
  moesaic_ep_problem problem = problem_;
  problem.num_experts = 4;
  problem.topk = 4;
  problem.max_tokens = 1 << 20;
  for (const auto& [asked, taken] :
       {std::pair{moesaic_dispatch_automatic, moesaic_dispatch_fan_out},
        std::pair{moesaic_dispatch_direct, moesaic_dispatch_direct}}) {
    problem.dispatch = asked;
    moesaic_ep_exchange* plan = nullptr;
    ASSERT_EQ(moesaic_ep_create(&problem, group_, &plan), moesaic_ok) << moesaic_last_error();
    EXPECT_EQ(moesaic_ep_dispatch_form(plan), taken);
    moesaic_ep_destroy(plan);
  }
}

TEST_F(Exchange, ALeaseIsReleasedOnce) {
  moesaic_ep_pool_usage usage{};
  ASSERT_EQ(moesaic_ep_group_pool_usage(group_, &usage), moesaic_ok);
  EXPECT_EQ(usage.leases, 1);
  EXPECT_EQ(moesaic_ep_group_release(group_, lease_), moesaic_ok);
  EXPECT_EQ(moesaic_ep_group_release(group_, lease_), moesaic_invalid_argument);
  EXPECT_NE(std::string(moesaic_last_error()).find("released before"), std::string::npos);
  EXPECT_EQ(moesaic_ep_group_release(group_, 17), moesaic_invalid_argument);
  ASSERT_EQ(moesaic_ep_group_pool_usage(group_, &usage), moesaic_ok);
  EXPECT_EQ(usage.leases, 0);
  EXPECT_EQ(usage.high_water_bytes, 4 * kWidth * sizeof(float));
}

TEST(ExchangeGroup, AFailingRendezvousIsAnError) {
  moesaic_ep_group_options options{};
  options.num_ranks = 2;
  options.device.kind = moesaic_cuda;
  moesaic_ep_group* group = nullptr;
  EXPECT_EQ(moesaic_ep_group_nvshmem(&options, &group), moesaic_invalid_argument);
  EXPECT_EQ(std::string(moesaic_last_error()).rfind("rendezvous.set", 0), 0U);
  options.rendezvous.set = [](void*, const char*, const char*, std::size_t) { return 7; };
  options.rendezvous.get = [](void*, const char*, std::int64_t, char*, std::size_t, std::size_t*) {
    return 7;
  };
  EXPECT_NE(moesaic_ep_group_nvshmem(&options, &group), moesaic_ok);
  EXPECT_EQ(group, nullptr);
}

}  // namespace
