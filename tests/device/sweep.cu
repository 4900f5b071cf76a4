// SPDX-License-Identifier: Apache-2.0
// Times every compiled kernel that takes a problem, whatever a plan would choose: to compare rows
// that are added to sm90_instances.def. Run by hand:
//   moesaic_device_sweep            short runs, alternating in one queue, of all passes and
//   storages moesaic_device_sweep tall       the same of what tall tiles are for
//   moesaic_device_sweep sustained  each kernel alone until clock and power are steady, in the
//   order
//                                   A B B A

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "device/case.hpp"

namespace moesaic::device_tests {
namespace {

constexpr int kRounds = 16;
constexpr int kWarmUp = 4;
constexpr double kConditioningUs = 2e6, kMeasuredUs = 1.5e6;  // NB-0009 had 2 s and 1 s

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

/// A problem on the device and the plans of all kernels that take it.
struct Arms {
  explicit Arms(const Problem& problem) : on(balanced(problem), Operands::random) {
    for (const std::string& name : on.implementations()) plans.push_back(on.plan(name));
    chosen = on.plan().implementation();
    const Case& c = on.description();
    flops = 2.0 * static_cast<double>(c.rows) * static_cast<double>(c.n * c.k);
    std::printf("E %d M %lld n %lld k %lld %s %s\n", problem.experts,
                static_cast<long long>(c.rows), static_cast<long long>(c.n),
                static_cast<long long>(c.k), name(c.pass).data(), name(c.weights).data());
  }

  void print(const GroupedGemm& plan, double us) const {
    std::printf("  %c %9.1f us %7.1f TFLOP/s  %s\n", plan.implementation() == chosen ? '*' : ' ',
                us, flops / us * 1e-6, plan.implementation().data());
    std::fflush(stdout);
  }

  CaseOnDevice on;
  std::vector<GroupedGemm> plans;
  std::string chosen;
  double flops = 0;
};

void sweep(const Problem& problem) {
  Arms arms(problem);
  CaseOnDevice& on = arms.on;
  const std::vector<GroupedGemm>& plans = arms.plans;
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
  for (std::size_t i = 0; i < plans.size(); ++i) {
    std::vector<double> times;
    for (std::size_t round = 0; round < kRounds; ++round) {
      const std::size_t at = 2 * (i * kRounds + round);
      times.push_back(events[at].microseconds_until(events[at + 1]));
    }
    std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
    arms.print(plans[i], times[kRounds / 2]);
  }
}

/// Microseconds of `calls` launches in a row.
double time_calls(CaseOnDevice& on, const GroupedGemm& plan, const Queue& queue,
                  std::int64_t calls) {
  Event begin, end;
  begin.record(queue.get());
  for (std::int64_t i = 0; i < calls; ++i) on.execute(plan, queue.get());
  end.record(queue.get());
  queue.wait();
  return begin.microseconds_until(end);
}

/// Microseconds of a launch, after a while of nothing else.
double sustained(CaseOnDevice& on, const GroupedGemm& plan, const Queue& queue) {
  double one = time_calls(on, plan, queue, 4) / 4;
  for (double done = 0; done < kConditioningUs;) {
    const auto calls = static_cast<std::int64_t>(std::max(kConditioningUs / 8 / one, 1.0));
    const double us = time_calls(on, plan, queue, calls);
    one = us / static_cast<double>(calls);
    done += us;
  }
  const auto calls = static_cast<std::int64_t>(std::max(kMeasuredUs / one, 1.0));
  return time_calls(on, plan, queue, calls) / static_cast<double>(calls);
}

void sweep_sustained(const Problem& problem) {
  Arms arms(problem);
  const Queue queue;
  std::vector<double> us(arms.plans.size());
  for (std::size_t i = 0; i < 2 * us.size(); ++i) {
    const std::size_t arm = i < us.size() ? i : 2 * us.size() - 1 - i;
    us[arm] += sustained(arms.on, arms.plans[arm], queue) / 2;
  }
  for (std::size_t i = 0; i < us.size(); ++i) arms.print(arms.plans[i], us[i]);
}

constexpr WeightStorage kEnk = WeightStorage::enk;

void sweep_all() {
  for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad}) {
    for (const WeightStorage weights : {WeightStorage::enk, WeightStorage::ekn}) {
      for (const std::int64_t rows : {16, 64, 256, 512, 1024, 4096}) {
        sweep({16, rows, 4096, 4096, pass, weights});
      }
      sweep({8, 12288, 5120, 2048, pass, weights});
    }
  }
  sweep({8, 1024, 10240, 8192, Pass::forward, kEnk});
  sweep({12, 2304, 3840, 4096, Pass::forward, kEnk});
}

void sweep_tall() {
  for (const std::int64_t rows : {512, 1024, 2048, 4096, 8192}) {
    sweep({16, rows, 4096, 4096, Pass::forward, kEnk});
  }
  for (const std::int64_t rows : {4096, 16384}) {
    sweep({16, rows, 2048, 2048, Pass::forward, kEnk});
  }
  sweep({12, 2304, 3840, 4096, Pass::forward, kEnk});
  sweep({4, 16384, 20480, 8192, Pass::forward, kEnk});
  sweep({16, 1024, 4096, 4096, Pass::dgrad, kEnk});
  sweep({16, 4096, 4096, 4096, Pass::dgrad, kEnk});
  sweep({8, 12288, 2048, 5120, Pass::dgrad, kEnk});
}

void sweep_steady() {
  for (const std::int64_t rows : {512, 2048, 8192}) {
    sweep_sustained({16, rows, 4096, 4096, Pass::forward, kEnk});
  }
  sweep_sustained({4, 16384, 20480, 8192, Pass::forward, kEnk});
  sweep_sustained({12, 2304, 3840, 4096, Pass::forward, kEnk});
}

int run(const std::string& mode) {
  if (!device_here().why_none.empty()) {
    std::fprintf(stderr, "sweep: %s\n", device_here().why_none.c_str());
    return 3;
  }
  if (mode != "" && mode != "tall" && mode != "sustained") {
    std::fprintf(stderr, "sweep: expected nothing, tall or sustained, got %s\n", mode.c_str());
    return 2;
  }
  std::printf("%s, %d SMs; * is what a plan takes\n", device_here().info.name.c_str(),
              device_here().info.num_sms);
  if (mode == "tall") {
    sweep_tall();
  } else if (mode == "sustained") {
    sweep_steady();
  } else {
    sweep_all();
  }
  return 0;
}

}  // namespace
}  // namespace moesaic::device_tests

int main(int argc, char** argv) {
  try {
    return moesaic::device_tests::run(argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sweep: %s\n", error.what());
    return 1;
  }
}
