// SPDX-License-Identifier: Apache-2.0
// The SwiGLU expert on the CPU, forward and backward, every element checked against sums in double.
#include "moesaic/expert_mlp.hpp"

#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "moesaic/check.hpp"

namespace {

using Values = std::vector<moesaic::BFloat16>;

/// Values in (-scale, scale) that repeat on every machine.
Values numbers(std::size_t count, float scale, std::uint32_t seed) {
  Values values(count);
  for (moesaic::BFloat16& value : values) {
    seed = seed * 1664525U + 1013904223U;
    value = moesaic::BFloat16(scale * (static_cast<float>(seed >> 8) / 8388608.0F - 1.0F));
  }
  return values;
}

bool report(const char* what, const moesaic::CheckResult& check) {
  std::printf("%s: %lld elements, %lld wrong, worst %.2f of its bound\n", what,
              static_cast<long long>(check.elements), static_cast<long long>(check.mismatches),
              check.worst);
  return check.elements > 0 && check.mismatches == 0;
}

}  // namespace

int main() {
  constexpr std::size_t kExperts = 4, kRows = 32, kWidth = 64, kHidden = 48;
  const Values x = numbers(kRows * kWidth, 1.0F, 1), dy = numbers(kRows * kWidth, 1.0F, 2);
  const Values w_up_gate = numbers(kExperts * 2 * kHidden * kWidth, 0.2F, 3);
  const Values w_down = numbers(kExperts * kWidth * kHidden, 0.2F, 4);
  const std::vector<std::int32_t> offs = {9, 9, 30, 31};
  Values y(kRows * kWidth), u(kRows * 2 * kHidden), dx(kRows * kWidth);
  Values dw_up_gate(w_up_gate.size()), dw_down(w_down.size());

  // [expert_mlp]
  moesaic::ExpertMlpProblem problem{.num_experts = 4,
                                    .max_rows = 32,
                                    .d = 64,
                                    .h = 48,
                                    .order = moesaic::UpGateOrder::up_gate,  // no default
                                    .tail = moesaic::Tail::zero};
  const auto mlp = moesaic::ExpertMlp::plan(problem, moesaic::query_device(moesaic::Device{}));
  const moesaic::HostWorkspace forward_workspace(mlp.forward_workspace_bytes());
  const moesaic::HostWorkspace backward_workspace(mlp.backward_workspace_bytes());

  moesaic::ExpertMlpForwardArgs forward;
  forward.x = moesaic::view(std::span(x), {32, 64});
  forward.w_up_gate = moesaic::view(std::span(w_up_gate), {4, 2 * 48, 64});
  forward.w_down = moesaic::view(std::span(w_down), {4, 64, 48});
  forward.offs = moesaic::view(std::span(offs), {4});
  forward.y = moesaic::view(std::span(y), {32, 64});
  forward.u = moesaic::view(std::span(u), {32, 2 * 48});  // kept for backward
  mlp.forward(forward, forward_workspace.get(), moesaic::Stream::cpu());

  moesaic::ExpertMlpBackwardArgs backward;
  backward.dy = moesaic::view(std::span(dy), {32, 64});
  backward.x = forward.x;
  backward.w_up_gate = forward.w_up_gate;
  backward.w_down = forward.w_down;
  backward.offs = forward.offs;
  backward.u = forward.u;
  backward.dx = moesaic::view(std::span(dx), {32, 64});
  backward.dw_up_gate = moesaic::view(std::span(dw_up_gate), {4, 2 * 48, 64});
  backward.dw_down = moesaic::view(std::span(dw_down), {4, 64, 48});
  mlp.backward(backward, backward_workspace.get(), moesaic::Stream::cpu());
  // [/expert_mlp]

  const moesaic::CheckOptions all{.rows_per_expert = -1, .elements_per_expert = -1};
  const bool forward_good =
      report("forward", moesaic::check_expert_mlp_forward(problem, forward, all));
  const bool backward_good =
      report("backward", moesaic::check_expert_mlp_backward(problem, backward, all));
  bool tail_zero = true;
  for (std::size_t i = 31 * kWidth; i < y.size(); ++i) {
    tail_zero = tail_zero && static_cast<float>(y[i]) == 0.0F && static_cast<float>(dx[i]) == 0.0F;
  }
  if (!tail_zero) std::fprintf(stderr, "expert_mlp: expected zeroed tail rows\n");
  return forward_good && backward_good && tail_zero ? 0 : 1;
}
