// SPDX-License-Identifier: Apache-2.0
// fig38, fig71: exact rows against a batch padded to 1.25 times the mean, over the routed rows.
// table44: one projection split into experts, over the rows. fig73: large products for seconds.
#include <array>

#include "experiment/design_parts.hpp"
#include "experiment/draw.hpp"
#include "text.hpp"

namespace moesaic::cli::experiment {
namespace {

const std::vector<Arm> kAllArms = {Arm::grouped, Arm::padded_bmm, Arm::host_loop, Arm::dense,
                                   Arm::torch};

std::string number(std::int64_t value) { return std::to_string(value); }

Design sweep(const Outline& outline, const DesignOptions& options, std::int64_t width,
             const std::vector<std::int64_t>& rows) {
  Start start = start_design(outline, options);
  Design& design = start.design;
  design.title += ", d = h = " + number(width);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Case one;
    one.key = one.group = "rows=" + number(rows[i]);
    one.factors = {{"rows", rows[i]}};
    one.shape = {.d = width, .h = width};
    one.record = even_record(rows[i], kExperts);
    one.arms = rotated(start.arms, static_cast<std::int64_t>(i));
    design.cases.push_back(std::move(one));
  }
  return std::move(design);
}

/// As the report has it; hundredths of its seconds when reduced.
Timing sustained(Protocol protocol) {
  const double conditioning_seconds = protocol == Protocol::full ? 8 : 0.08;
  return {.regime = Regime::sustained,
          .warm_ups = protocol == Protocol::full ? 10 : 2,
          .samples = 0,
          .regions = sustained_regions(conditioning_seconds)};
}

}  // namespace

Design make_fig38(const DesignOptions& options) {
  const Outline outline = {"fig38", "exact rows against a padded batch", kAllArms, kAllArms};
  if (options.protocol == Protocol::reduced) {
    return sweep(outline, options, 256, {64, 256, 1024, 2048});
  }
  return sweep(outline, options, 4096,
               {64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 24576, 32768, 49152, 65536, 98304,
                131072});
}

Design make_fig71(const DesignOptions& options) {
  const Outline outline = {"fig71", "exact rows against a padded batch", kAllArms, kAllArms};
  if (options.protocol == Protocol::reduced) {
    return sweep(outline, options, 128, {256, 1024, 4096});
  }
  return sweep(outline, options, 2048,
               {4096, 8192, 16384, 32768, 65536, 98304, 131072, 196608, 262144});
}

Design make_table44(const DesignOptions& options) {
  static constexpr std::array<std::int64_t, 2> kPartitions = {4, 8};
  Start start = start_design({"table44",
                              "one projection split into four or eight experts",
                              {Arm::grouped, Arm::dense},
                              {Arm::grouped, Arm::dense, Arm::torch},
                              8,
                              2},
                             options);
  Design& design = start.design;
  const bool full = options.protocol == Protocol::full;
  design.timing = sustained(options.protocol);
  const std::int64_t k = full ? 8192 : 512, n = full ? 81920 : 5120;
  std::vector<std::int64_t> tokens;
  for (std::int64_t t = 1; t <= (full ? 65536 : 64); t *= full ? 2 : 8) tokens.push_back(t);
  for (std::int64_t trial = 0; trial < start.trials; ++trial) {
    std::vector<std::int64_t> order = tokens;
    Draw(options.seed + static_cast<std::uint64_t>(trial)).shuffle(order);
    for (const std::int64_t t : order) {
      for (std::size_t i = 0; i < kPartitions.size(); ++i) {
        // Partitions change places with every trial, arms with every second: all four orders occur
        // equally often in four trials.
        const bool swapped = trial % 2 == 1;
        const std::int64_t partition = kPartitions[swapped ? kPartitions.size() - 1 - i : i];
        Case one;
        one.key = format("tokens=%lld partition=%lld trial=%lld", static_cast<long long>(t),
                         static_cast<long long>(partition), static_cast<long long>(trial));
        one.group = "tokens=" + number(t);
        one.factors = {{"tokens", t}, {"partition", partition}, {"trial", trial}};
        one.shape = {.d = k, .h = n / partition / 2};
        one.projection = planner::Projection::up_gate;
        one.record = even_record(t * partition, partition);
        one.arms = rotated(start.arms, trial / 2);
        one.dense = DenseControl::joined;
        one.expert_rows = ExpertRows::repeated;
        design.cases.push_back(std::move(one));
      }
    }
  }
  return std::move(design);
}

Design make_fig73(const DesignOptions& options) {
  Start start = start_design({"fig73",
                              "large products for seconds, with clocks and power",
                              {Arm::grouped, Arm::dense, Arm::padded_bmm},
                              {Arm::grouped, Arm::dense, Arm::padded_bmm, Arm::torch},
                              8,
                              2},
                             options);
  Design& design = start.design;
  const bool full = options.protocol == Protocol::full;
  design.timing = sustained(options.protocol);
  const std::int64_t width = full ? 4096 : 128;
  const std::vector<std::int64_t> sizes = full ? std::vector<std::int64_t>{4096, 8192, 16384, 32768}
                                               : std::vector<std::int64_t>{32, 64};
  for (std::int64_t trial = 0; trial < start.trials; ++trial) {
    std::vector<std::int64_t> order = sizes;
    Draw(options.seed + static_cast<std::uint64_t>(trial)).shuffle(order);
    for (const std::int64_t rows : order) {
      Case one;
      one.group = "rows_per_expert=" + number(rows);
      one.key = one.group + " trial=" + number(trial);
      one.factors = {{"rows_per_expert", rows}, {"trial", trial}};
      one.shape = {.d = width, .h = width};
      one.record = even_record(rows * kExperts, kExperts);
      one.arms = rotated(start.arms, trial);
      design.cases.push_back(std::move(one));
    }
  }
  return std::move(design);
}

}  // namespace moesaic::cli::experiment
