// SPDX-License-Identifier: Apache-2.0
// Looks at a device from a thread of its own, and what the looks say together. Where clocks are
// read is the backend's.

#include "moesaic/device_telemetry.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include "dispatch/backend_list.hpp"

namespace moesaic {
namespace {

constexpr std::chrono::milliseconds kPeriod(5);

/// A bit of nvmlDeviceGetCurrentClocksEventReasons and its word.
struct Reason {
  std::uint64_t bit;
  const char* word;
  bool throttles;
};
constexpr std::uint64_t kIdleBit = 0x1;
constexpr std::array kReasons = {
    Reason{0x2, "application_clocks", false},  Reason{0x4, "sw_power_cap", true},
    Reason{0x8, "hw_slowdown", true},          Reason{0x10, "sync_boost", false},
    Reason{0x20, "sw_thermal_slowdown", true}, Reason{0x40, "hw_thermal_slowdown", true},
    Reason{0x80, "hw_power_brake", true},      Reason{0x100, "display_clocks", false}};

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<double> column(const std::vector<TelemetrySample>& samples,
                           double TelemetrySample::*figure) {
  std::vector<double> values;
  values.reserve(samples.size());
  for (const TelemetrySample& sample : samples) values.push_back(sample.*figure);
  return values;
}

}  // namespace

bool TelemetrySummary::throttled() const noexcept {
  return std::any_of(kReasons.begin(), kReasons.end(), [this](const Reason& reason) {
    return reason.throttles && (reasons & reason.bit) != 0;
  });
}

std::vector<std::string> throttle_reasons(std::uint64_t reasons) {
  std::vector<std::string> words;
  reasons &= ~kIdleBit;
  for (const Reason& reason : kReasons) {
    if ((reasons & reason.bit) != 0) words.emplace_back(reason.word);
    reasons &= ~reason.bit;
  }
  for (std::uint64_t bit = 1; bit != 0; bit <<= 1) {
    if ((reasons & bit) == 0) continue;
    std::array<char, 24> text{};
    std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(bit));
    words.emplace_back(text.data());
  }
  return words;
}

TelemetrySummary summarize(const std::vector<TelemetrySample>& samples,
                           const std::string& why_none) {
  TelemetrySummary summary;
  if (samples.empty()) {
    summary.why_none = why_none;
    return summary;
  }
  const std::vector<double> sm = column(samples, &TelemetrySample::sm_mhz);
  const std::vector<double> power = column(samples, &TelemetrySample::power_w);
  const std::vector<double> temperature = column(samples, &TelemetrySample::temp_c);
  summary.samples = static_cast<std::int64_t>(samples.size());
  summary.sm_mhz_min = *std::min_element(sm.begin(), sm.end());
  summary.sm_mhz_median = median_of(sm);
  summary.mem_mhz = median_of(column(samples, &TelemetrySample::mem_mhz));
  summary.power_w = *std::max_element(power.begin(), power.end());
  summary.temp_c = *std::max_element(temperature.begin(), temperature.end());
  for (const TelemetrySample& sample : samples) summary.reasons |= sample.reasons;
  return summary;
}

DeviceCircumstances device_circumstances(Device device) {
  return dispatch::device_backend(device).circumstances(device);
}

struct DeviceTelemetry::Impl {
  explicit Impl(Device device)
      : source(dispatch::device_backend(device).telemetry(device, why_none)) {
    if (source != nullptr) thread = std::jthread([this] { look(); });
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { finish(); }

  void look() {
    std::unique_lock lock(mutex);
    while (!stopping) {
      lock.unlock();
      const TelemetrySample sample = take();
      lock.lock();
      samples.push_back(sample);
      wake.wait_for(lock, kPeriod, [this] { return stopping; });
    }
  }
  [[nodiscard]] TelemetrySample take() const {
    TelemetrySample sample = source->read();
    sample.at_seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return sample;
  }
  void finish() {
    if (!thread.joinable()) return;
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    wake.notify_all();
    thread.join();
  }

  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  std::string why_none;
  std::unique_ptr<backends::TelemetrySource> source;
  std::mutex mutex;
  std::condition_variable wake;
  bool stopping = false;
  std::vector<TelemetrySample> samples;
  std::jthread thread;
};

DeviceTelemetry::DeviceTelemetry(Device device) {
  query_device(device);  // refuses one that is not there
  impl_ = std::make_unique<Impl>(device);
}
DeviceTelemetry::~DeviceTelemetry() = default;
DeviceTelemetry::DeviceTelemetry(DeviceTelemetry&&) noexcept = default;
DeviceTelemetry& DeviceTelemetry::operator=(DeviceTelemetry&&) noexcept = default;

TelemetrySummary DeviceTelemetry::stop() {
  const bool running = impl_->thread.joinable();
  impl_->finish();
  if (running) impl_->samples.push_back(impl_->take());
  return summarize(impl_->samples, impl_->why_none);
}

std::vector<TelemetrySample> DeviceTelemetry::looks() const {
  if (impl_->thread.joinable()) return {};
  return impl_->samples;
}

const std::string& DeviceTelemetry::why_none() const { return impl_->why_none; }

}  // namespace moesaic
