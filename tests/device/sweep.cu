// SPDX-License-Identifier: Apache-2.0
// Times every compiled kernel that takes a problem, alternating in one queue: to compare rows that
// are added to sm90_instances.def. Run by hand: moesaic_device_sweep.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "device/case.hpp"

namespace moesaic::device_tests {
namespace {

constexpr int kRounds = 16;
constexpr int kWarmUp = 4;

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  [[nodiscard]] double microseconds_until(const Event& later) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, event_, later.event_), "cudaEventElapsedTime");
    return milliseconds * 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

struct Problem {
  int experts;
  std::int64_t rows_each, n, k;
  Pass pass;
  WeightStorage weights;
};

Case balanced(const Problem& problem) {
  Case c;
  for (int e = 1; e <= problem.experts; ++e) {
    c.offs.push_back(static_cast<std::int32_t>(e * problem.rows_each));
  }
  c.rows = problem.experts * problem.rows_each;
  c.n = problem.n;
  c.k = problem.k;
  c.pass = problem.pass;
  c.weights = problem.weights;
  return c;
}

void sweep(const Problem& problem) {
  CaseOnDevice on(balanced(problem), Operands::random);
  std::vector<GroupedGemm> plans;
  for (const std::string& name : on.implementations()) plans.push_back(on.plan(name));
  const GroupedGemm chosen = on.plan();
  const Queue queue;
  std::vector<Event> events(plans.size() * 2 * kRounds);
  for (int round = 0; round < kWarmUp; ++round) {
    for (const GroupedGemm& plan : plans) on.execute(plan, queue.get());
  }
  spin(40'000'000, queue.get());  // until all is enqueued
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::size_t turn = 0; turn < plans.size(); ++turn) {
      const std::size_t i = (turn + round) % plans.size();
      events[2 * (i * kRounds + round)].record(queue.get());
      on.execute(plans[i], queue.get());
      events[2 * (i * kRounds + round) + 1].record(queue.get());
    }
  }
  queue.wait();
  const Case& c = on.description();
  std::printf("E %d M %lld n %lld k %lld %s %s\n", problem.experts, static_cast<long long>(c.rows),
              static_cast<long long>(c.n), static_cast<long long>(c.k), name(c.pass).data(),
              name(c.weights).data());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    std::vector<double> times;
    for (std::size_t round = 0; round < kRounds; ++round) {
      const std::size_t at = 2 * (i * kRounds + round);
      times.push_back(events[at].microseconds_until(events[at + 1]));
    }
    std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
    const double median = times[kRounds / 2];
    const double flops = 2.0 * static_cast<double>(c.rows) * static_cast<double>(c.n * c.k);
    std::printf("  %c %9.1f us %7.1f TFLOP/s  %s\n",
                plans[i].implementation() == chosen.implementation() ? '*' : ' ', median,
                flops / median * 1e-6, plans[i].implementation().data());
  }
}

int run() {
  if (!device_here().why_none.empty()) {
    std::fprintf(stderr, "sweep: %s\n", device_here().why_none.c_str());
    return 3;
  }
  std::printf("%s, %d SMs; * is what a plan takes\n", device_here().info.name.c_str(),
              device_here().info.num_sms);
  for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad}) {
    for (const WeightStorage weights : {WeightStorage::enk, WeightStorage::ekn}) {
      for (const std::int64_t rows : {16, 64, 256, 512, 1024, 4096}) {
        sweep({16, rows, 4096, 4096, pass, weights});
      }
      sweep({8, 12288, 5120, 2048, pass, weights});
    }
  }
  sweep({8, 1024, 10240, 8192, Pass::forward, WeightStorage::enk});
  sweep({12, 2304, 3840, 4096, Pass::forward, WeightStorage::enk});
  return 0;
}

}  // namespace
}  // namespace moesaic::device_tests

int main() {
  try {
    return moesaic::device_tests::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sweep: %s\n", error.what());
    return 1;
  }
}
