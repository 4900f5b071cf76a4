// SPDX-License-Identifier: Apache-2.0
// Grouped products on the CPU beside what they are judged by: one dense oneDNN product of the same
// FLOPs, and a loop over the experts. Which arms stand beside which; how they run is in cpu/.

#include <string>
#include <utility>
#include <vector>

#include "cpu/grouped_arms.hpp"
#include "cpu/mlp_arms.hpp"
#include "harness/session.hpp"
#include "moesaic/routing.hpp"

namespace moesaic::bench {
namespace {

constexpr std::int64_t kWidth = 1024;  // d = h
constexpr std::int64_t kExperts = 32;
constexpr std::int64_t kRows = 8192;  // 256 per expert
constexpr std::int64_t kManyExperts = 128;
constexpr std::int64_t kMostFewRows = 8;
constexpr std::uint64_t kSeed = 1;

Routing generated(const std::string& spec) {
  const routing::Record record = routing::generate(spec, {kRows, kExperts, kSeed});
  return {spec, kSeed, record.counts};
}

/// Decode-sized: every expert has 1 to 8 rows.
Routing few_rows() {
  Routing routing{"1 to " + std::to_string(kMostFewRows) + " rows per expert", kSeed, {}};
  for (std::int64_t expert = 0; expert < kManyExperts; ++expert) {
    const std::uint64_t bits = mix(kSeed + static_cast<std::uint64_t>(expert));
    routing.counts.push_back(1 + static_cast<std::int64_t>(bits % kMostFewRows));
  }
  return routing;
}

ProductCase square(Pass pass, Format format = Format::bf16) {
  return {pass, format, kWidth, kWidth};
}

/// A comparison of grouped arms, preceded by dense ones.
Comparison grouped_comparison(std::string name, const ProductCase& product, Routing routing,
                              const std::vector<DenseArm>& dense,
                              const std::vector<GroupedArm>& grouped) {
  Comparison comparison{std::move(name), std::move(routing), {}, {}};
  for (const DenseArm& arm : dense) {
    comparison.arms.push_back(arm.name);
  }
  for (const GroupedArm& arm : grouped) {
    comparison.arms.push_back(arm.name);
  }
  comparison.prepare = [product, routing = comparison.routing, dense, grouped] {
    const auto operands = GroupedOperands::make(product, routing);
    std::vector<Arm> arms;
    for (const DenseArm& arm : dense) {
      arms.push_back(operands->dense(arm));
    }
    for (const GroupedArm& arm : grouped) {
      arms.push_back(operands->grouped(arm));
    }
    return arms;
  };
  return comparison;
}

Comparison mlp_comparison(std::string name, bool forward, Routing routing,
                          const std::vector<MlpArm>& what) {
  Comparison comparison{std::move(name), std::move(routing), {}, {}};
  for (const MlpArm& arm : what) {
    comparison.arms.push_back(arm.name);
  }
  comparison.prepare = [forward, routing = comparison.routing, what] {
    const auto operands = MlpOperands::make(kWidth, kWidth, routing);
    std::vector<Arm> arms;
    for (const MlpArm& arm : what) {
      arms.push_back(forward ? operands->forward(arm) : operands->backward(arm));
    }
    return arms;
  };
  return comparison;
}

const std::vector<DenseArm> kDense = {{"dense", DenseWeights::strided, {}},
                                      {"dense_packed", DenseWeights::packed, {}}};
const std::vector<GroupedArm> kGroupedAgainstDense = {
    {"grouped", Strategy::grouped, false, 0, "dense"},
    {"grouped_packed", Strategy::grouped, true, 0, "dense_packed"}};
const std::vector<GroupedArm> kGroupedAgainstLoop = {
    {"host_loop", Strategy::host_loop, false, 0, {}},
    {"host_loop_packed", Strategy::host_loop, true, 0, {}},
    {"grouped", Strategy::grouped, false, 0, "host_loop"},
    {"grouped_packed", Strategy::grouped, true, 0, "host_loop_packed"}};
const std::vector<GroupedArm> kAllThreadsAgainstOne = {
    {"one_thread", Strategy::grouped, false, 1, {}},
    {"one_thread_packed", Strategy::grouped, true, 1, {}},
    {"all_threads", Strategy::grouped, false, 0, "one_thread"},
    {"all_threads_packed", Strategy::grouped, true, 0, "one_thread_packed"}};

std::vector<Comparison> comparisons() {
  const Routing balanced = generated("uniform");
  const Routing skewed = generated("zipf:1.2");
  const std::vector<GroupedArm> loop_and_grouped = {
      {"host_loop", Strategy::host_loop, false, 0, {}},
      {"grouped", Strategy::grouped, false, 0, "host_loop"}};
  const std::vector<MlpArm> backward = {{"host_loop", Strategy::host_loop, false, {}},
                                        {"grouped", Strategy::grouped, false, "host_loop"}};
  std::vector<MlpArm> forward = backward;
  forward.push_back({"grouped_packed", Strategy::grouped, true, "host_loop"});
  return {
      grouped_comparison("forward_balanced", square(Pass::forward), balanced, kDense,
                         kGroupedAgainstDense),
      grouped_comparison("forward_zipf", square(Pass::forward), skewed, kDense,
                         kGroupedAgainstDense),
      grouped_comparison("forward_few_rows", square(Pass::forward), few_rows(), {},
                         kGroupedAgainstLoop),
      grouped_comparison("threads_few_rows", square(Pass::forward), few_rows(), {},
                         kAllThreadsAgainstOne),
      grouped_comparison("dgrad_balanced", square(Pass::dgrad), balanced, kDense,
                         kGroupedAgainstDense),
      grouped_comparison("wgrad_balanced", square(Pass::wgrad), balanced, {}, loop_and_grouped),
      mlp_comparison("mlp_forward_balanced", true, balanced, forward),
      mlp_comparison("mlp_backward_balanced", false, balanced, backward),
      grouped_comparison("forward_f32_balanced", square(Pass::forward, Format::f32), balanced,
                         kDense, kGroupedAgainstDense),
  };
}

int run(int argc, char** argv) {
  const Options options = take_options(argc, argv);
  return run_benchmarks(options, comparisons(), argc, argv);
}

}  // namespace
}  // namespace moesaic::bench

int main(int argc, char** argv) {
  return moesaic::bench::guarded_main(moesaic::bench::run, argc, argv);
}
