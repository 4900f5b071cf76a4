// SPDX-License-Identifier: Apache-2.0
// The tensors of one SwiGLU layer.
#include "mlp_tensors.hpp"

#include <span>

namespace moesaic::cli {

MlpTensors::Views MlpTensors::host_views() const {
  Views views;
  for (std::size_t i = 0; i < kTensors; ++i) views.tensors[i] = all()[i]->view();
  const auto vector = [](std::span<const std::int32_t> values) {
    return moesaic::view(values, {static_cast<std::int64_t>(values.size())});
  };
  views.offs = vector(offs);
  if (!x_rows.empty()) views.x_rows = vector(x_rows);
  return views;
}

ExpertMlpForwardArgs MlpTensors::forward_of(const Views& views) {
  const auto& [x, dy, w_up_gate, w_down, y, u, dx, dw_up_gate, dw_down] = views.tensors;
  return {.x = x,
          .w_up_gate = w_up_gate,
          .w_down = w_down,
          .offs = views.offs,
          .y = y,
          .u = u,
          .x_rows = views.x_rows};
}

ExpertMlpBackwardArgs MlpTensors::backward_of(const Views& views) {
  const auto& [x, dy, w_up_gate, w_down, y, u, dx, dw_up_gate, dw_down] = views.tensors;
  return {.dy = dy,
          .x = x,
          .w_up_gate = w_up_gate,
          .w_down = w_down,
          .offs = views.offs,
          .u = u,
          .dx = dx,
          .dw_up_gate = dw_up_gate,
          .dw_down = dw_down,
          .x_rows = views.x_rows};
}

void MlpTensors::stage(const Site& site) {
  for (std::size_t i = 0; i < kTensors; ++i) {
    staged_.tensors[i] = there_[i].upload(*all()[i], site);
  }
  staged_.offs = offs_there_.upload(offs, site);
  if (!x_rows.empty()) staged_.x_rows = x_rows_there_.upload(x_rows, site);
}

void MlpTensors::fetch(const Site& site) {
  synchronize(site.stream());
  const std::array<HostTensor*, kTensors> targets = {&x, &dy, &w_up_gate,  &w_down, &y,
                                                     &u, &dx, &dw_up_gate, &dw_down};
  for (std::size_t i = kFirstOutput; i < kTensors; ++i) there_[i].download(*targets[i], site);
}

void MlpTensors::fetch_x(const Site& site) {
  synchronize(site.stream());
  there_[0].download(x, site);
}

}  // namespace moesaic::cli
