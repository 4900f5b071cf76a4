// SPDX-License-Identifier: Apache-2.0
#include "math/route_fault.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace moesaic::math {
namespace {

constexpr RouteFault kLow{RouteFaultKind::expert_out_of_range, 3, 9};
static_assert(encode_route_fault({}) == 0 && !decode_route_fault(0));
static_assert(decode_route_fault(encode_route_fault(kLow)) == kLow);

TEST(RouteFault, EveryFieldSurvivesTheWord) {
  for (const RouteFaultKind kind :
       {RouteFaultKind::expert_out_of_range, RouteFaultKind::rank_out_of_range,
        RouteFaultKind::row_out_of_range}) {
    for (const std::int32_t route : {0, 1, 31, 65'535, kMaxRoute - 1, kMaxRoute}) {
      for (const std::int32_t value : {0, 1, 4096, kMaxOf<std::int32_t>}) {
        const RouteFault fault{kind, route, value};
        EXPECT_NE(encode_route_fault(fault), 0u);
        EXPECT_EQ(decode_route_fault(encode_route_fault(fault)), fault);
      }
    }
  }
}

TEST(RouteFault, TheLowestRouteStaysInAnyOrder) {
  std::vector<RouteFault> faults = {{RouteFaultKind::row_out_of_range, 7, kMaxOf<std::int32_t>},
                                    {RouteFaultKind::expert_out_of_range, 2, 5},
                                    {RouteFaultKind::rank_out_of_range, 30, 0},
                                    {}};
  std::sort(faults.begin(), faults.end(),
            [](const auto& a, const auto& b) { return a.route < b.route; });
  do {
    std::uint64_t word = 0;
    for (const RouteFault& fault : faults) {
      word = combine_route_faults(word, encode_route_fault(fault));
    }
    EXPECT_EQ(decode_route_fault(word), (RouteFault{RouteFaultKind::expert_out_of_range, 2, 5}));
  } while (std::next_permutation(faults.begin(), faults.end(),
                                 [](const auto& a, const auto& b) { return a.route < b.route; }));
}

TEST(RouteFault, OfIds) {
  EXPECT_FALSE(expert_id_fault(-1, 8, 0));
  EXPECT_FALSE(expert_id_fault(-100, 8, 0));
  EXPECT_FALSE(expert_id_fault(7, 8, 0));
  EXPECT_EQ(expert_id_fault(8, 8, 5), (RouteFault{RouteFaultKind::expert_out_of_range, 5, 8}));
  EXPECT_EQ(expert_id_fault(std::int64_t{1} << 40, 8, 5),
            (RouteFault{RouteFaultKind::expert_out_of_range, 5, kMaxOf<std::int32_t>}));
  EXPECT_FALSE(expert_id_fault(std::int64_t{-1} << 40, 8, 5));
}

TEST(RouteFault, OfMaps) {
  const auto fault = [](std::int32_t rank, std::int32_t row, Transfer transfer) {
    return map_fault(rank, row, 2, 10, 4, transfer);
  };
  for (const Transfer transfer : {Transfer::put, Transfer::get}) {
    EXPECT_FALSE(fault(1, 9, transfer));
    EXPECT_FALSE(fault(-1, 99, transfer)) << "negative in either map is no route";
    EXPECT_FALSE(fault(99, -1, transfer));
    EXPECT_EQ(fault(2, 0, transfer), (RouteFault{RouteFaultKind::rank_out_of_range, 4, 2}));
    EXPECT_EQ(fault(2, 10, transfer), (RouteFault{RouteFaultKind::rank_out_of_range, 4, 2}));
  }
  EXPECT_EQ(fault(1, 10, Transfer::put), (RouteFault{RouteFaultKind::row_out_of_range, 4, 10}));
  EXPECT_FALSE(fault(1, 10, Transfer::get)) << "masked";
}

/// An entry is moved exactly when it is a route without a fault, and for GET not masked.
TEST(RouteFault, WhatMovesIsInsideTheBuffers) {
  for (std::int32_t rank = -2; rank <= 3; ++rank) {
    for (std::int32_t row = -2; row <= 6; ++row) {
      const bool inside = rank >= 0 && rank < 2 && row >= 0 && row < 4;
      EXPECT_EQ(moves_row(rank, row, 2, 4), inside) << rank << ", " << row;
      EXPECT_FALSE(inside && map_fault(rank, row, 2, 4, 0, Transfer::put));
    }
  }
}

}  // namespace
}  // namespace moesaic::math
