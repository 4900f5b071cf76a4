// SPDX-License-Identifier: Apache-2.0
// A layer of route maps, dispatch, SwiGLU experts and combine, and its backward: on several ranks
// it has the bits that it has on one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "moesaic/expert_mlp.hpp"
#include "support/exchange_run.hpp"
#include "support/implementations.hpp"
#include "support/mlp_run.hpp"

namespace moesaic::testing {
namespace {

constexpr int kExperts = 4, kTopk = 2;
constexpr std::int64_t kTokens = 24, kD = 16, kH = 8;

/// What does not depend on the number of ranks: routing, tokens, weights and the gradient of y.
struct Inputs {
  std::vector<std::int32_t> ids = std::vector<std::int32_t>(kTokens * kTopk);
  std::vector<float> probs = std::vector<float>(kTokens * kTopk);
  HostTensor x{DType::f32, 0, kTokens, kD}, dy{DType::f32, 0, kTokens, kD};
  HostTensor up_gate{DType::f32, kExperts, 2 * kH, kD}, down{DType::f32, kExperts, kD, kH};

  explicit Inputs(std::uint32_t seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> value(-1.0F, 1.0F);
    std::uniform_int_distribution<std::int32_t> id(-1, kExperts - 1);
    for (std::int32_t& v : ids) v = id(random);
    for (float& v : probs) v = value(random);
    for (HostTensor* tensor : {&x, &dy, &up_gate, &down}) {
      for (std::int64_t e = 0; e < std::max<std::int64_t>(1, tensor->experts()); ++e) {
        for (std::int64_t row = 0; row < tensor->rows(); ++row) {
          for (std::int64_t j = 0; j < tensor->columns(); ++j)
            tensor->set(e, row, j, value(random));
        }
      }
    }
  }
};

/// Rows [first, first + count) of a matrix, or experts of weights.
template <class View>
View part(View view, std::int64_t first, std::int64_t count) {
  view.data = static_cast<float*>(const_cast<void*>(static_cast<const void*>(view.data))) +
              first * view.stride[0];
  view.shape[0] = count;
  return view;
}

class Layer {
 public:
  Layer(int ranks, const Inputs& inputs)
      : inputs_(inputs),
        tokens_(kTokens / ranks),
        run_(problem(ranks), ids(ranks, inputs)),
        local_(run_.exchange.local_experts()),
        mlp_(plan_mlp(run_.exchange)),
        workspace_(std::max(mlp_.forward_workspace_bytes(), mlp_.backward_workspace_bytes())) {
    const auto rows = run_.exchange.max_rows();
    for (int rank = 0; rank < ranks; ++rank) {
      for (std::int64_t i = 0; i < tokens_ * kTopk; ++i) {
        run_.ranks[static_cast<std::size_t>(rank)].probs[static_cast<std::size_t>(i)] =
            inputs.probs[static_cast<std::size_t>(rank * tokens_ * kTopk + i)];
      }
      u_.emplace_back(DType::f32, 0, rows, 2 * kH);
      expert_out_.emplace_back(DType::f32, 0, rows, kD);
    }
  }

  void forward() {
    run_.route_maps();
    auto put = run_.put_args(false);
    for (std::size_t rank = 0; rank < put.size(); ++rank) put[rank].input = of(rank, inputs_.x);
    run_.exchange.dispatch_put(put, Stream::cpu());
    for (std::size_t rank = 0; rank < put.size(); ++rank) {
      ExpertMlpForwardArgs args;
      args.x = put[rank].out;
      args.w_up_gate = weights(rank, inputs_.up_gate);
      args.w_down = weights(rank, inputs_.down);
      args.offs = ExchangeRun::dense(run_.ranks[rank].offs);
      args.y = expert_out_[rank].view();
      args.u = u_[rank].view();
      mlp_.forward(args, workspace_.get(), Stream::cpu());
    }
    auto get = run_.get_args(true);
    for (std::size_t rank = 0; rank < get.size(); ++rank) {
      get[rank].expert_out = expert_out_[rank].view();
      get[rank].out = part(y.view(), first_token(rank), tokens_);
    }
    run_.exchange.combine_get(get, Stream::cpu());
  }

  void backward() {
    auto grad = run_.probs_grad_args();
    for (std::size_t rank = 0; rank < grad.size(); ++rank) grad[rank].dout = of(rank, inputs_.dy);
    run_.exchange.probs_grad(grad, Stream::cpu());
    auto put = run_.put_args(true);
    for (std::size_t rank = 0; rank < put.size(); ++rank) {
      put[rank].input = of(rank, inputs_.dy);
      put[rank].out = expert_out_[rank].view();  // its gradient, in the same memory
    }
    run_.exchange.dispatch_put(put, Stream::cpu());
    for (std::size_t rank = 0; rank < put.size(); ++rank) {
      ExpertMlpBackwardArgs args;
      args.dy = expert_out_[rank].view();
      args.x = args.dx = run_.ranks[rank].buffer.view();
      args.w_up_gate = weights(rank, inputs_.up_gate);
      args.w_down = weights(rank, inputs_.down);
      args.offs = ExchangeRun::dense(run_.ranks[rank].offs);
      args.u = u_[rank].view();
      args.dw_up_gate = part(dw_up_gate.view(), first_expert(rank), local_);
      args.dw_down = part(dw_down.view(), first_expert(rank), local_);
      mlp_.backward(args, workspace_.get(), Stream::cpu());
      dprobs.insert(dprobs.end(), run_.ranks[rank].dprobs.begin(), run_.ranks[rank].dprobs.end());
    }
    auto get = run_.get_args(false);
    for (std::size_t rank = 0; rank < get.size(); ++rank) {
      get[rank].out = part(dx.view(), first_token(rank), tokens_);
      get[rank].gathered = {};
    }
    run_.exchange.combine_get_fused(get, Stream::cpu());
  }

  // Of all tokens and experts, in their global order.
  HostTensor y{DType::f32, 0, kTokens, kD}, dx{DType::f32, 0, kTokens, kD};
  HostTensor dw_up_gate{DType::f32, kExperts, 2 * kH, kD}, dw_down{DType::f32, kExperts, kD, kH};
  std::vector<float> dprobs;

 private:
  static ExpertParallelProblem problem(int ranks) {
    ExpertParallelProblem result =
        exchange_problem(kExperts, kTopk, kTokens / ranks, kD, Format::f32);
    result.capacity_factor_millionths = std::int64_t{1'000'000} * ranks;  // nothing is dropped
    return result;
  }
  static RankIds ids(int ranks, const Inputs& inputs) {
    RankIds result;
    const std::int64_t share = kTokens * kTopk / ranks;
    for (int rank = 0; rank < ranks; ++rank) {
      result.emplace_back(inputs.ids.begin() + rank * share,
                          inputs.ids.begin() + (rank + 1) * share);
    }
    return result;
  }
  static ExpertMlp plan_mlp(const ExpertParallel& exchange) {
    ExpertMlpProblem mlp = make_mlp(UpGateOrder::up_gate, Format::f32, exchange.local_experts(),
                                    exchange.max_rows(), kD, kH);
    PlanOptions options;
    options.implementation = "cpu/reference/grouped";
    return ExpertMlp::plan(mlp, cpu(), options);
  }
  [[nodiscard]] std::int64_t first_token(std::size_t rank) const {
    return static_cast<std::int64_t>(rank) * tokens_;
  }
  [[nodiscard]] std::int64_t first_expert(std::size_t rank) const {
    return static_cast<std::int64_t>(rank) * local_;
  }
  [[nodiscard]] ConstTensorView of(std::size_t rank, const HostTensor& all_tokens) const {
    return part(all_tokens.view(), first_token(rank), tokens_);
  }
  [[nodiscard]] ConstTensorView weights(std::size_t rank, const HostTensor& all_experts) const {
    return part(all_experts.view(), first_expert(rank), local_);
  }

  const Inputs& inputs_;
  std::int64_t tokens_;
  ExchangeRun run_;
  std::int64_t local_;
  ExpertMlp mlp_;
  HostWorkspace workspace_;
  std::vector<HostTensor> u_, expert_out_;
};

TEST(ExchangeLayer, OnSeveralRanksHasTheBitsOfOne) {
  const Inputs inputs(41);
  Layer one(1, inputs);
  one.forward();
  one.backward();
  for (const int ranks : {2, 4}) {
    Layer several(ranks, inputs);
    several.forward();
    several.backward();
    EXPECT_EQ(bit_difference(several.y, one.y), "") << ranks << " ranks";
    EXPECT_EQ(bit_difference(several.dx, one.dx), "") << ranks << " ranks";
    EXPECT_EQ(bit_difference(several.dw_up_gate, one.dw_up_gate), "") << ranks << " ranks";
    EXPECT_EQ(bit_difference(several.dw_down, one.dw_down), "") << ranks << " ranks";
    EXPECT_EQ(several.dprobs, one.dprobs) << ranks << " ranks";
  }
}

/// One rank against the formula, in double: y[t] = sum over k of probs * W_down (up * silu(gate)).
TEST(ExchangeLayer, HasTheValuesOfItsFormula) {
  const Inputs inputs(42);
  Layer one(1, inputs);
  one.forward();
  for (std::int64_t token = 0; token < kTokens; ++token) {
    std::vector<double> y(kD, 0.0);
    for (int slot = 0; slot < kTopk; ++slot) {
      const auto route = static_cast<std::size_t>(token * kTopk + slot);
      const std::int32_t expert = inputs.ids[route];
      if (expert < 0) continue;
      for (std::int64_t i = 0; i < kH; ++i) {
        double up = 0, gate = 0;
        for (std::int64_t j = 0; j < kD; ++j) {
          up += inputs.up_gate.get(expert, i, j) * inputs.x.get(0, token, j);
          gate += inputs.up_gate.get(expert, kH + i, j) * inputs.x.get(0, token, j);
        }
        const double h = inputs.probs[route] * up * gate / (1 + std::exp(-gate));
        for (std::int64_t j = 0; j < kD; ++j) {
          y[static_cast<std::size_t>(j)] += h * inputs.down.get(expert, j, i);
        }
      }
    }
    for (std::int64_t j = 0; j < kD; ++j) {
      ASSERT_NEAR(one.y.get(0, token, j), y[static_cast<std::size_t>(j)], 1e-5) << token;
    }
  }
}

}  // namespace
}  // namespace moesaic::testing
