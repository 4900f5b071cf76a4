// SPDX-License-Identifier: Apache-2.0
// The grouped GEMM through the C ABI on the CPU: results, statuses, messages, handles.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <thread>

#include "c_api/host_memory.hpp"
#include "moesaic/c_api.h"

namespace moesaic::testing {
namespace {

moesaic_gemm_problem f32_problem(std::int32_t pass = moesaic_forward) {
  moesaic_gemm_problem problem{};
  problem.pass = pass;
  problem.format = moesaic_format_f32;
  problem.d_dtype = moesaic_f32;
  problem.num_experts = 3;
  problem.max_rows = 10;
  problem.n = 16;
  problem.k = 24;
  return problem;
}

moesaic_gemm_args gemm_args(const Array<float>& a, const Array<float>& b,
                            const Array<std::int32_t>& offs, const Array<float>& d) {
  moesaic_gemm_args args{};
  args.a.qdata = a.view();
  args.b.qdata = b.view();
  args.offs = offs.view();
  args.d = d.view();
  return args;
}

/// A plan of the CPU's own choice, null where it was refused.
class Plan {
 public:
  explicit Plan(const moesaic_gemm_problem& problem) {
    EXPECT_EQ(moesaic_gemm_create(&problem, kCpu, nullptr, &plan_), moesaic_ok)
        << moesaic_last_error();
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() { moesaic_gemm_destroy(plan_); }
  [[nodiscard]] moesaic_gemm* get() const { return plan_; }

 private:
  moesaic_gemm* plan_ = nullptr;
};

/// A forward product of three experts over ten rows, two of them tail.
class Forward : public ::testing::Test {
 protected:
  void SetUp() override {
    x_.fill_small_integers(1);
    w_.fill_small_integers(2);
    offs_.set({3, 3, 8});
    args_ = gemm_args(x_, w_, offs_, y_);
    ASSERT_NE(plan_, nullptr);
  }

  float want(std::int64_t row, std::int64_t column) {
    const std::int64_t expert = row < offs_[0] ? 0 : 2;
    float sum = 0;
    for (std::int64_t i = 0; i < 24; ++i) {
      sum += x_[row * 24 + i] * w_[(expert * 16 + column) * 24 + i];
    }
    return sum;
  }
  void expect_result() {
    for (std::int64_t row = 0; row < 10; ++row) {
      for (std::int64_t column = 0; column < 16; ++column) {
        const float expected = row < 8 ? want(row, column) : 77.0F;  // the tail is left
        ASSERT_EQ(y_[row * 16 + column], expected) << "row " << row << " column " << column;
      }
    }
  }

  Array<float> x_{{10, 24}}, w_{{3, 16, 24}}, y_{{10, 16}, 77.0F};
  Array<std::int32_t> offs_{std::initializer_list<std::int64_t>{3}};
  moesaic_gemm_args args_{};
  moesaic_gemm_problem problem_ = f32_problem();
  const Plan owner_{problem_};
  moesaic_gemm* const plan_ = owner_.get();
};

TEST_F(Forward, Executes) {
  const Scratch scratch(moesaic_gemm_workspace_bytes(plan_));
  ASSERT_EQ(moesaic_gemm_execute(plan_, &args_, scratch.get(), nullptr), moesaic_ok)
      << moesaic_last_error();
  expect_result();
  EXPECT_EQ(std::string(moesaic_gemm_implementation(plan_)).find("cpu/"), 0U);
}

TEST_F(Forward, ExecutesWithAddressesApart) {
  const Scratch scratch(moesaic_gemm_workspace_bytes(plan_));
  moesaic_gemm_args layout = args_;
  layout.a.qdata.data = layout.b.qdata.data = layout.offs.data = layout.d.data = nullptr;
  ASSERT_EQ(moesaic_gemm_execute_at(plan_, &layout, args_.a.qdata.data, args_.b.qdata.data,
                                    args_.offs.data, args_.d.data, scratch.get()->data,
                                    scratch.get()->size_bytes, nullptr),
            moesaic_ok)
      << moesaic_last_error();
  expect_result();
}

TEST_F(Forward, ReportsWrongOffsetsOnce) {
  const Scratch scratch(moesaic_gemm_workspace_bytes(plan_));
  offs_[1] = 11;
  ASSERT_EQ(moesaic_gemm_execute(plan_, &args_, scratch.get(), nullptr), moesaic_ok);
  moesaic_fault fault{};
  ASSERT_EQ(moesaic_read_fault(scratch.get(), kCpu, nullptr, &fault), moesaic_ok);
  EXPECT_EQ(fault.kind, 2);
  EXPECT_EQ(fault.expert, 1);
  EXPECT_EQ(fault.value, 11);
  ASSERT_EQ(moesaic_read_fault(scratch.get(), kCpu, nullptr, &fault), moesaic_ok);
  EXPECT_EQ(fault.kind, 0);
  EXPECT_EQ(fault.expert, -1);
}

TEST_F(Forward, RefusesByName) {
  const Scratch scratch(moesaic_gemm_workspace_bytes(plan_));
  args_.a.qdata.shape[1] = 16;
  EXPECT_EQ(moesaic_gemm_execute(plan_, &args_, scratch.get(), nullptr), moesaic_invalid_argument);
  EXPECT_EQ(std::string(moesaic_last_error()).find("a: expected"), 0U) << moesaic_last_error();
  args_.a.qdata = x_.view();
  args_.d.rank = 9;
  EXPECT_EQ(moesaic_gemm_execute(plan_, &args_, scratch.get(), nullptr), moesaic_invalid_argument);
  EXPECT_EQ(std::string(moesaic_last_error()), "d.rank: expected 0 to 3, got 9");
  args_.d = y_.view();
  const moesaic_workspace none{nullptr, 1U << 20};
  EXPECT_EQ(moesaic_gemm_execute(plan_, &args_, &none, nullptr), moesaic_workspace_too_small);
  EXPECT_EQ(y_[0], 77.0F) << "a refused call wrote";
}

TEST_F(Forward, RefusesNullPointers) {
  const Scratch scratch(moesaic_gemm_workspace_bytes(plan_));
  EXPECT_EQ(moesaic_gemm_execute(nullptr, &args_, scratch.get(), nullptr),
            moesaic_invalid_argument);
  EXPECT_EQ(std::string(moesaic_last_error()), "plan: expected a pointer, got null");
  EXPECT_EQ(moesaic_gemm_execute(plan_, nullptr, scratch.get(), nullptr), moesaic_invalid_argument);
  EXPECT_EQ(std::string(moesaic_last_error()), "args: expected a pointer, got null");
  EXPECT_EQ(moesaic_gemm_execute(plan_, &args_, nullptr, nullptr), moesaic_invalid_argument);
  EXPECT_EQ(std::string(moesaic_last_error()), "workspace: expected a pointer, got null");
  moesaic_gemm* plan = nullptr;
  EXPECT_EQ(moesaic_gemm_create(nullptr, kCpu, nullptr, &plan), moesaic_invalid_argument);
  EXPECT_EQ(moesaic_gemm_create(&problem_, kCpu, nullptr, nullptr), moesaic_invalid_argument);
  EXPECT_EQ(plan, nullptr);
  moesaic_gemm_destroy(nullptr);
  EXPECT_EQ(moesaic_gemm_workspace_bytes(nullptr), 0U);
}

TEST_F(Forward, MultipliesPackedWeightsOrSaysWhyNot) {
  moesaic_packed_weights* packed = nullptr;
  const moesaic_operand w = args_.b;
  const int status = moesaic_gemm_pack_weights(plan_, &w, nullptr, &packed);
  if (status == moesaic_unsupported) {
    EXPECT_NE(std::string(moesaic_last_error()), "");
    return;
  }
  ASSERT_EQ(status, moesaic_ok) << moesaic_last_error();
  EXPECT_GT(moesaic_packed_weights_size_bytes(packed), 0);
  args_.b = {};
  args_.packed_b = packed;
  const Scratch scratch(moesaic_gemm_workspace_bytes(plan_));
  EXPECT_EQ(moesaic_gemm_execute(plan_, &args_, scratch.get(), nullptr), moesaic_ok)
      << moesaic_last_error();
  expect_result();
  moesaic_packed_weights_destroy(packed);
}

TEST_F(Forward, MessagesBelongToTheirThread) {
  EXPECT_EQ(moesaic_gemm_execute(nullptr, &args_, nullptr, nullptr), moesaic_invalid_argument);
  const std::string mine = moesaic_last_error();
  std::string before, after;
  std::thread([&] {
    before = moesaic_last_error();
    moesaic_gemm* plan = nullptr;
    moesaic_gemm_problem problem = f32_problem();
    problem.n = 7;
    moesaic_gemm_create(&problem, kCpu, nullptr, &plan);
    after = moesaic_last_error();
  }).join();
  EXPECT_EQ(before, "");
  EXPECT_EQ(after.find("n: expected"), 0U) << after;
  EXPECT_EQ(moesaic_last_error(), mine);
}

TEST(GroupedGemm, RefusesNumbersThatAreNoEnumerator) {
  struct Case {
    std::int32_t moesaic_gemm_problem::*field;
    const char* name;
  };
  for (const Case& test : {Case{&moesaic_gemm_problem::pass, "pass"},
                           {&moesaic_gemm_problem::format, "format"},
                           {&moesaic_gemm_problem::d_dtype, "d_dtype"},
                           {&moesaic_gemm_problem::weights, "weights"},
                           {&moesaic_gemm_problem::tail, "tail"},
                           {&moesaic_gemm_problem::strategy, "strategy"},
                           {&moesaic_gemm_problem::accumulate, "accumulate"},
                           {&moesaic_gemm_problem::capacity_rule, "capacity_rule"},
                           {&moesaic_gemm_problem::reserved, "reserved"}}) {
    for (const std::int32_t wrong : {-1, 99}) {
      moesaic_gemm_problem problem = f32_problem();
      problem.*test.field = wrong;
      moesaic_gemm* plan = nullptr;
      EXPECT_EQ(moesaic_gemm_create(&problem, kCpu, nullptr, &plan), moesaic_invalid_argument);
      const std::string message = moesaic_last_error();
      EXPECT_EQ(message.find(std::string(test.name) + ": expected"), 0U) << message;
      EXPECT_NE(message.find(std::to_string(wrong)), std::string::npos) << message;
    }
  }
}

TEST(GroupedGemm, ListsCandidatesWithReasons) {
  const moesaic_gemm_problem problem = f32_problem();
  moesaic_candidate_list* list = nullptr;
  ASSERT_EQ(moesaic_gemm_candidates(&problem, kCpu, nullptr, &list), moesaic_ok);
  const std::size_t count = moesaic_candidate_count(list);
  ASSERT_GT(count, 1U);
  bool any_fits = false;
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_NE(std::string(moesaic_candidate_name(list, i)), "");
    any_fits = any_fits || std::string(moesaic_candidate_reason(list, i)).empty();
  }
  EXPECT_TRUE(any_fits);
  EXPECT_EQ(moesaic_candidate_name(list, count), nullptr);
  EXPECT_EQ(moesaic_candidate_reason(list, count), nullptr);
  moesaic_candidate_list_destroy(list);
}

TEST(GroupedGemm, PlansExactlyTheImplementationAskedFor) {
  const moesaic_gemm_problem problem = f32_problem();
  moesaic_plan_options options{};
  options.implementation = "cpu/reference/grouped";
  moesaic_gemm* plan = nullptr;
  ASSERT_EQ(moesaic_gemm_create(&problem, kCpu, &options, &plan), moesaic_ok)
      << moesaic_last_error();
  EXPECT_STREQ(moesaic_gemm_implementation(plan), "cpu/reference/grouped");
  moesaic_gemm_destroy(plan);
  options.implementation = "cpu/none";
  EXPECT_EQ(moesaic_gemm_create(&problem, kCpu, &options, &plan), moesaic_invalid_argument);
  EXPECT_NE(std::string(moesaic_last_error()).find("cpu/none"), std::string::npos);
}

TEST(GroupedGemm, CountsOverflowRowsOfPaddedBmm) {
  moesaic_gemm_problem problem = f32_problem();
  problem.strategy = moesaic_padded_bmm;
  problem.capacity_factor_millionths = 1'000'000;  // C = ceil(10 / 3) = 4
  const Plan plan(problem);
  const Array<float> x({10, 24}), w({3, 16, 24}), y({10, 16});
  Array<std::int32_t> offs({3});
  offs.set({7, 9, 10});
  const moesaic_gemm_args args = gemm_args(x, w, offs, y);
  const Scratch scratch(moesaic_gemm_workspace_bytes(plan.get()));
  ASSERT_EQ(moesaic_gemm_execute(plan.get(), &args, scratch.get(), nullptr), moesaic_ok)
      << moesaic_last_error();
  std::int64_t rows = -1;
  ASSERT_EQ(moesaic_read_overflow_rows(scratch.get(), kCpu, nullptr, &rows), moesaic_ok);
  EXPECT_EQ(rows, 3);
}

TEST(GroupedGemm, AccumulatesWeightGradients) {
  moesaic_gemm_problem problem = f32_problem(moesaic_wgrad);
  problem.accumulate = 1;
  const Plan plan(problem);
  const Array<float> dy({10, 16}, 1.0F), x({10, 24}, 2.0F);
  Array<float> dw({3, 16, 24}, 5.0F);
  Array<std::int32_t> offs({3});
  offs.set({4, 4, 10});
  const moesaic_gemm_args args = gemm_args(dy, x, offs, dw);
  const Scratch scratch(moesaic_gemm_workspace_bytes(plan.get()));
  ASSERT_EQ(moesaic_gemm_execute(plan.get(), &args, scratch.get(), nullptr), moesaic_ok)
      << moesaic_last_error();
  const std::array<float, 3> want = {5 + 4 * 2, 5, 5 + 6 * 2};
  for (std::int64_t i = 0; i < std::int64_t{3} * 16 * 24; ++i) {
    ASSERT_EQ(dw[i], want[static_cast<std::size_t>(i / (16 * 24))]) << i;
  }
}

}  // namespace
}  // namespace moesaic::testing
