// SPDX-License-Identifier: Apache-2.0
// Eqs. 89 to 94 and Table 43 of the report: ceilings under one-read DRAM accounting, not
// predictions. Rereads, launches and communication are cost.cpp's.
#include <algorithm>
#include <string>

#include "moesaic/planner.hpp"
#include "planner/counts.hpp"
#include "planner/text.hpp"

namespace moesaic::planner {
namespace {

constexpr double kElementBytes = 2;  // BF16

struct Work {
  double flops = 0, bytes = 0;
};

/// One product of `rows` rows that reads `weights` matrices of n x k once.
Work product_work(double rows, double weights, const ProductShape& product) {
  const auto n = static_cast<double>(product.n);
  const auto k = static_cast<double>(product.k);
  return {.flops = 2 * rows * n * k,
          .bytes = kElementBytes * (rows * k + weights * n * k + rows * n)};
}

double bound_seconds(const Work& work, const DeviceModel& device) {
  return std::max(work.flops / device.bf16_flops_per_second.value,
                  work.bytes / device.dram_bytes_per_second.value);
}

void require_widths(const ProductShape& product) {
  require_positive(product.n, "product: n");
  require_positive(product.k, "product: k");
}

void require_positive_real(double value, const char* what) {
  if (!(value > 0)) refuse(std::string(what) + ": expected more than 0, got " + fixed(value, 3));
}

}  // namespace

double projection_intensity(double rows, const ProductShape& product) {
  require_widths(product);
  require_positive_real(rows, "rows");
  const Work work = product_work(rows, 1, product);
  return work.flops / work.bytes;
}

double balance_point(const DeviceModel& device) {
  return device.bf16_flops_per_second.value / device.dram_bytes_per_second.value;
}

double balance_rows(const ProductShape& product, const DeviceModel& device) {
  require_widths(product);
  // Eq. 90 solved for the rows: M n k = I (M k + n k + M n).
  const double balance = balance_point(device);
  const auto n = static_cast<double>(product.n);
  const auto k = static_cast<double>(product.k);
  const double room = n * k - balance * (n + k);
  return room > 0 ? balance * n * k / room : 0.0;
}

LayerRoofline layer_roofline(Counts counts, const ProductShape& product,
                             const DeviceModel& device) {
  require_widths(product);
  checked_rows(counts);
  LayerRoofline roofline;
  roofline.balance_rows = balance_rows(product, device);
  Work layer;
  for (const std::int64_t count : counts) {
    if (count == 0) continue;
    const Work expert = product_work(static_cast<double>(count), 1, product);
    layer.flops += expert.flops;
    layer.bytes += expert.bytes;
    roofline.per_expert_bound_s += bound_seconds(expert, device);
    if (expert.flops / expert.bytes < balance_point(device)) ++roofline.experts_below_balance;
  }
  if (layer.flops == 0) return roofline;
  roofline.flops = layer.flops;
  roofline.bytes = layer.bytes;
  roofline.intensity = layer.flops / layer.bytes;
  roofline.bound_s = bound_seconds(layer, device);
  roofline.peak_fraction = layer.flops / roofline.bound_s / device.bf16_flops_per_second.value;
  roofline.dram_bound = roofline.intensity < balance_point(device);
  return roofline;
}

FfnTraffic dense_traffic(double tokens, const FfnPair& pair) {
  return {.weight_bytes = 6 * pair.top_k * pair.d * pair.h,
          .input_bytes = 2 * tokens * pair.d,
          .output_bytes = 2 * tokens * pair.d,
          .hidden_bytes = 6 * tokens * pair.top_k * pair.h};
}

FfnTraffic moe_traffic(double tokens, const FfnPair& pair) {
  return {.weight_bytes = 6 * pair.experts * pair.d * pair.h,
          .input_bytes = 2 * tokens * pair.top_k * pair.d,
          .output_bytes = 2 * tokens * pair.top_k * pair.d,
          .hidden_bytes = 6 * tokens * pair.top_k * pair.h};
}

namespace {

/// Eq. 94: the two products run one after the other, so their bounds add. Of Table 43's rows the up
/// product takes the input, two thirds of the weights and two thirds of the hidden traffic (Eq.
/// 93).
double pair_seconds(const FfnTraffic& traffic, double pair_flops, const DeviceModel& device) {
  const Work up = {
      .flops = pair_flops * 2 / 3,
      .bytes = traffic.input_bytes + (traffic.weight_bytes + traffic.hidden_bytes) * 2 / 3};
  const Work down = {
      .flops = pair_flops / 3,
      .bytes = traffic.output_bytes + (traffic.weight_bytes + traffic.hidden_bytes) / 3};
  return bound_seconds(up, device) + bound_seconds(down, device);
}

}  // namespace

std::vector<RooflinePoint> fig2_curve(const DeviceModel& device, std::span<const double> tokens,
                                      const FfnPair& pair) {
  require_positive_real(pair.experts, "experts");
  require_positive_real(pair.top_k, "top_k");
  require_positive_real(pair.d, "d");
  require_positive_real(pair.h, "h");
  std::vector<RooflinePoint> curve;
  curve.reserve(tokens.size());
  for (const double count : tokens) {
    require_positive_real(count, "tokens");
    RooflinePoint point;
    point.tokens = count;
    point.flops = 6 * count * pair.top_k * pair.d * pair.h;
    point.dense_seconds = pair_seconds(dense_traffic(count, pair), point.flops, device);
    point.moe_seconds = pair_seconds(moe_traffic(count, pair), point.flops, device);
    const double peak = device.bf16_flops_per_second.value;
    point.dense_fraction = point.flops / point.dense_seconds / peak;
    point.moe_fraction = point.flops / point.moe_seconds / peak;
    curve.push_back(point);
  }
  return curve;
}

}  // namespace moesaic::planner
