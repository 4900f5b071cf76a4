// SPDX-License-Identifier: Apache-2.0
// Devices, mirrors and times of what runs there.
#include "staging.hpp"

#include <span>

#include "moesaic/device_timer.hpp"
#include "stats.hpp"

namespace moesaic::cli {
namespace {

/// Grown when needed, never shrunk: one fixture is staged many times.
void reserve(DeviceBuffer& buffer, std::size_t size_bytes, Device device) {
  if (buffer.size_bytes() < size_bytes || buffer.device() != device) {
    buffer = DeviceBuffer();
    buffer = DeviceBuffer(size_bytes, device);
  }
}

}  // namespace

SiteWorkspace::SiteWorkspace(std::size_t size_bytes, Stream stream)
    : buffer_(size_bytes, stream.device()) {
  buffer_.fill(std::byte{0}, stream);
}

TensorView Mirror::upload(const HostTensor& host, const Site& site) {
  TensorView view = host.view();
  if (site.on_host() || host.size_bytes() == 0) return view;
  reserve(buffer_, host.size_bytes(), site.device());
  buffer_.copy_from_host(host.bytes(), 0, site.stream());
  view.data = buffer_.data() + (static_cast<std::byte*>(view.data) - host.bytes().data());
  view.device = site.device();
  return view;
}

void Mirror::download(HostTensor& host, const Site& site) const {
  if (site.on_host() || host.size_bytes() == 0) return;
  buffer_.copy_to_host(host.bytes(), 0, site.stream());
}

ConstTensorView OffsetsMirror::upload(const std::vector<std::int32_t>& offs, const Site& site) {
  const std::span<const std::int32_t> values(offs);
  ConstTensorView view = moesaic::view(values, {static_cast<std::int64_t>(offs.size())});
  if (site.on_host() || offs.empty()) return view;
  reserve(buffer_, values.size_bytes(), site.device());
  buffer_.copy_from_host(std::as_bytes(values), 0, site.stream());
  view.data = buffer_.data();
  view.device = site.device();
  return view;
}

GroupedGemmArgs GemmTensors::args() const {
  return {
      .a = {a.view(), {}},
      .b = {b.view(), {}},
      .offs = view(std::span<const std::int32_t>(offs), {static_cast<std::int64_t>(offs.size())}),
      .d = d.view()};
}

GroupedGemmArgs GemmTensors::stage(const Site& site) {
  staged_.a.qdata = a_there_.upload(a, site);
  staged_.b.qdata = b_there_.upload(b, site);
  staged_.offs = offs_there_.upload(offs, site);
  return stage_output(site);
}

GroupedGemmArgs GemmTensors::stage_output(const Site& site) {
  staged_.d = d_there_.upload(d, site);
  return staged_;
}

void GemmTensors::fetch(const Site& site) {
  synchronize(site.stream());
  d_there_.download(d, site);
}

bool waits_for_device(Strategy strategy) noexcept { return strategy == Strategy::host_loop; }

std::vector<std::vector<double>> time_steps(const Site& site, Strategy strategy,
                                            const std::vector<std::function<void()>>& steps) {
  std::vector<std::vector<double>> samples(steps.size());
  if (site.on_host()) {
    time_samples([&] {
      for (std::size_t i = 0; i < steps.size(); ++i) samples[i].push_back(time_once(steps[i]));
    });
    return samples;
  }
  std::vector<std::function<void()>> pieces;
  for (std::int64_t round = 0; round < kGpuWarmUps + kGpuSamples; ++round) {
    pieces.insert(pieces.end(), steps.begin(), steps.end());
  }
  const TimerGate gate = waits_for_device(strategy) ? TimerGate::open : TimerGate::closed;
  const std::vector<double> seconds = DeviceTimer(site.stream()).time(pieces, gate);
  for (std::size_t i = static_cast<std::size_t>(kGpuWarmUps) * steps.size(); i < seconds.size();
       ++i) {
    samples[i % steps.size()].push_back(seconds[i]);
  }
  return samples;
}

}  // namespace moesaic::cli
