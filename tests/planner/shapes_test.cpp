// SPDX-License-Identifier: Apache-2.0
// Table 42 with Eq. 88, and the two ways to write a shape.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "moesaic/error.hpp"
#include "moesaic/planner.hpp"

namespace moesaic::planner {
namespace {

std::string refusal(std::string_view text) {
  try {
    parse_shape(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "accepted";
}

TEST(TrainingShapes, EveryPrintedCellOfTable42) {
  constexpr std::int64_t kK = 1024;
  // name, B_mu, L, K, M_E, N, N_local, d, h, M_rank, mean: the printed numbers, not Eq. 88's.
  struct Row {
    std::string_view name;
    std::array<std::int64_t, 10> cells;
  };
  const std::array<Row, 6> table = {
      Row{"small-2", {3, 8 * kK, 4, 8, 64, 8, 2048, 2560, 96 * kK, 12 * kK}},
      Row{"small-3", {4, 4 * kK, 8, 8, 64, 8, 2048, 2560, 128 * kK, 16 * kK}},
      Row{"small-4", {3, 8 * kK, 8, 8, 128, 16, 1536, 1536, 192 * kK, 12 * kK}},
      Row{"medium-2", {3, 8 * kK, 4, 8, 128, 16, 3584, 4096, 96 * kK, 6 * kK}},
      Row{"large-2", {1, 8 * kK, 4, 8, 128, 16, 6144, 8192, 32 * kK, 2 * kK}},
      Row{"ultra-2", {2, 8 * kK, 4, 32, 128, 4, 8192, 10240, 64 * kK, 16 * kK}}};
  ASSERT_EQ(training_shapes().size(), table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    const TrainingShape& shape = training_shapes()[i];
    EXPECT_EQ(shape.name, table[i].name);
    const std::array<std::int64_t, 10> cells = {
        shape.microbatch,  shape.sequence_length, shape.top_k, shape.expert_ranks,
        shape.experts,     shape.local_experts(), shape.d,     shape.h,
        shape.rank_rows(), shape.mean_rows()};
    EXPECT_EQ(cells, table[i].cells) << shape.name;
    EXPECT_EQ(shape.rank_rows() % shape.local_experts(), 0) << shape.name;
  }
}

TEST(ParseShape, NamesAndWidths) {
  const LayerShape named = parse_shape("ultra-2");
  EXPECT_EQ(named.d, 8192);
  EXPECT_EQ(named.h, 10240);
  ASSERT_NE(named.training, nullptr);
  EXPECT_EQ(named.training->local_experts(), 4);
  for (const char* text : {"d=2048,h=2560", "h=2560,d=2048"}) {
    const LayerShape widths = parse_shape(text);
    EXPECT_EQ(widths.d, 2048);
    EXPECT_EQ(widths.h, 2560);
    EXPECT_EQ(widths.training, nullptr);
  }
}

TEST(ParseShape, RefusalsSayWhatIsWrong) {
  const std::array<std::array<std::string_view, 2>, 14> cases = {{
      {"small-9", "small-2"},
      {"", "d=WIDTH"},
      {"d=2048", "h: expected, but missing"},
      {"h=2048", "d: expected, but missing"},
      {"d=2048,h=2560,x=8", "\"x=8\""},
      {"d=2048,,h=8", "\"\""},
      {"d=2048,h=8,", "\"\""},
      {"d=8,d=16,h=8", "twice"},
      {"d=2049,h=2560", "multiple of 8"},
      {"d=0,h=8", "multiple of 8"},
      {"d=-8,h=8", "\"-8\""},
      {"d=8,h=", "\"\""},
      {"d= 8,h=8", "\" 8\""},
      {"d=9999999999999999999999,h=8", "1,073,741,824"},
  }};
  for (const auto& [text, word] : cases) {
    const std::string message = refusal(text);
    EXPECT_NE(message.find("--shape"), std::string::npos) << text << ": " << message;
    EXPECT_NE(message.find(word), std::string::npos) << text << ": " << message;
  }
}

TEST(Projection, ShapesAndNames) {
  const LayerShape shape = parse_shape("d=2048,h=2560");
  EXPECT_EQ(product_shape(shape, Projection::up_gate).n, 5120);
  EXPECT_EQ(product_shape(shape, Projection::up_gate).k, 2048);
  EXPECT_EQ(product_shape(shape, Projection::down).n, 2048);
  EXPECT_EQ(product_shape(shape, Projection::down).k, 2560);
  EXPECT_EQ(product_shape(shape, Projection::square).n, 2048);
  EXPECT_EQ(product_shape(shape, Projection::square).k, 2048);
  for (const Projection projection : {Projection::up_gate, Projection::down, Projection::square}) {
    EXPECT_EQ(parse_projection(name(projection)), projection);
  }
  EXPECT_THROW(parse_projection("up"), Error);
}

}  // namespace
}  // namespace moesaic::planner
