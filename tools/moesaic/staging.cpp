// SPDX-License-Identifier: Apache-2.0
// Devices, mirrors and times of what runs there.
#include "staging.hpp"

#include <cstring>
#include <span>

#include "compare.hpp"
#include "moesaic/device_timer.hpp"
#include "stats.hpp"
#include "text.hpp"

namespace moesaic::cli {
namespace {

/// Grown when needed, never shrunk: one fixture is staged many times.
void make_room(DeviceBuffer& buffer, std::size_t size_bytes, Device device) {
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

TensorView Mirror::reserve(const HostTensor& host, const Site& site) {
  TensorView view = host.view();
  if (site.on_host() || host.size_bytes() == 0) return view;
  make_room(buffer_, host.size_bytes(), site.device());
  view.data = buffer_.data() + (static_cast<std::byte*>(view.data) - host.bytes().data());
  view.device = site.device();
  return view;
}

TensorView Mirror::upload(const HostTensor& host, const Site& site) {
  const TensorView view = reserve(host, site);
  upload(host, {0, host.size_bytes()}, site);
  return view;
}

void Mirror::download(HostTensor& host, const Site& site) const {
  download(host, {0, host.size_bytes()}, site);
}

void Mirror::upload(const HostTensor& host, ByteRange range, const Site& site) {
  if (site.on_host() || range.size_bytes == 0) return;
  buffer_.copy_from_host(host.bytes().subspan(range.offset_bytes, range.size_bytes),
                         range.offset_bytes, site.stream());
}

void Mirror::download(HostTensor& host, ByteRange range, const Site& site) const {
  if (site.on_host() || range.size_bytes == 0) return;
  buffer_.copy_to_host(host.bytes().subspan(range.offset_bytes, range.size_bytes),
                       range.offset_bytes, site.stream());
}

void Mirror::copy_from(const Mirror& source, ByteRange range, std::size_t offset_bytes,
                       const Site& site) {
  if (range.size_bytes == 0) return;
  buffer_.copy_from(source.buffer_, range, offset_bytes, site.stream());
}

void Mirror::clear(HostTensor& host, const Site& site) {
  if (site.on_host()) {
    std::memset(host.bytes().data(), 0, host.size_bytes());
  } else if (host.size_bytes() > 0) {
    buffer_.fill(std::byte{0}, site.stream());
  }
}

void Mirror::poison(HostTensor& host, const Site& site) {
  static constexpr std::uint32_t kTwice = 0x10001U * kPoison;
  if (site.on_host()) {
    host.poison();
  } else if (host.size_bytes() > 0) {
    buffer_.fill_words(kTwice, site.stream());
  }
}

WordCount Mirror::count_poison(const HostTensor& host, std::int64_t rows, const Site& site) const {
  static constexpr std::uint32_t kTwice = 0x10001U * kPoison;
  if (rows == 0) return {};
  if (host.row_stride() != host.width()) {
    refuse("result", "one whose rows lie without gaps",
           "rows of " + std::to_string(host.width()) + " elements at a distance of " +
               std::to_string(host.row_stride()));
  }
  const ByteRange range = host.row_range(0, rows);
  return size_bytes(host.dtype()) == sizeof(kPoison)
             ? buffer_.count_words(kPoison, range, site.stream())
             : buffer_.count_words(kTwice, range, site.stream());
}

CheckResult find_unwritten(const std::string& name, const HostTensor& result, const Mirror& there,
                           std::span<const std::int32_t> offs, const Site& site) {
  if (site.on_host()) return find_unwritten(name, result, offs);
  return unwritten(name, result, offs,
                   there.count_poison(result, rows_to_write(result, offs), site));
}

void download_rows(HostTensor& host, const Mirror& there, std::int64_t width,
                   std::span<const std::int64_t> rows, const Site& site) {
  const auto row_bytes = static_cast<std::size_t>(width * size_bytes(host.dtype()));
  const std::size_t first_byte = host.row_range(0, 0).offset_bytes;
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin + 1;  // rows that follow one another come in one piece
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    there.download(
        host,
        {first_byte + static_cast<std::size_t>(rows[begin]) * row_bytes, (end - begin) * row_bytes},
        site);
    begin = end;
  }
}

ConstTensorView OffsetsMirror::upload(const std::vector<std::int32_t>& offs, const Site& site) {
  const std::span<const std::int32_t> values(offs);
  ConstTensorView view = moesaic::view(values, {static_cast<std::int64_t>(offs.size())});
  if (site.on_host() || offs.empty()) return view;
  make_room(buffer_, values.size_bytes(), site.device());
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
  stage_inputs(site);
  staged_.d = d_there_.upload(d, site);
  return staged_;
}

GroupedGemmArgs GemmTensors::stage_inputs(const Site& site) {
  staged_.a.qdata = a_there_.upload(a, site);
  staged_.b.qdata = b_there_.upload(b, site);
  staged_.offs = offs_there_.upload(offs, site);
  staged_.d = d_there_.reserve(d, site);
  return staged_;
}

CheckResult GemmTensors::find_unwritten_output(const std::string& name, const Site& site) const {
  return find_unwritten(name, d, d_there_, offs, site);
}

void GemmTensors::fetch(const Site& site) {
  synchronize(site.stream());
  d_there_.download(d, site);
}

void GemmTensors::fetch_rows(std::span<const std::int64_t> rows, const Site& site) {
  synchronize(site.stream());
  download_rows(d, d_there_, d.width(), rows, site);
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
