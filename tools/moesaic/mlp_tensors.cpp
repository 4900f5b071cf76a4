// SPDX-License-Identifier: Apache-2.0
// The tensors of one SwiGLU layer.
#include "mlp_tensors.hpp"

#include <algorithm>
#include <span>

namespace moesaic::cli {
namespace {

/// A matrix of one column as a vector; what is empty stays so.
TensorView as_vector(const TensorView& column) {
  if (column.rank == 0) return column;
  return {column.data, column.dtype, column.device, 1, {column.shape[0], 0, 0}, {1, 0, 0}};
}

}  // namespace

std::size_t workspace_bytes(const ExpertMlp& mlp) {
  return std::max(mlp.forward_workspace_bytes(), mlp.backward_workspace_bytes());
}

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
  const auto& [x, dy, w_up_gate, w_down, row_weights, y, u, dx, dw_up_gate, dw_down, drow_weights] =
      views.tensors;
  return {.x = x,
          .w_up_gate = w_up_gate,
          .w_down = w_down,
          .offs = views.offs,
          .y = y,
          .u = u,
          .row_weights = as_vector(row_weights),
          .x_rows = views.x_rows};
}

ExpertMlpBackwardArgs MlpTensors::backward_of(const Views& views) {
  const auto& [x, dy, w_up_gate, w_down, row_weights, y, u, dx, dw_up_gate, dw_down, drow_weights] =
      views.tensors;
  return {.dy = dy,
          .x = x,
          .w_up_gate = w_up_gate,
          .w_down = w_down,
          .offs = views.offs,
          .u = u,
          .dx = dx,
          .dw_up_gate = dw_up_gate,
          .dw_down = dw_down,
          .row_weights = as_vector(row_weights),
          .drow_weights = as_vector(drow_weights),
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
  const std::array<HostTensor*, kTensors - kFirstOutput> outputs = {
      &y, &u, &dx, &dw_up_gate, &dw_down, &drow_weights};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    there_[kFirstOutput + i].download(*outputs[i], site);
  }
}

void MlpTensors::fetch_x(const Site& site) {
  synchronize(site.stream());
  there_[0].download(x, site);
}

}  // namespace moesaic::cli
