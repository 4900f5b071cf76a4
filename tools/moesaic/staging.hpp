// SPDX-License-Identifier: Apache-2.0
// Where products run: a device, a queue of its own, a workspace; and host tensors mirrored there
// whole, guards and gaps included. On the CPU a mirror is the host tensor itself.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "host_tensor.hpp"
#include "moesaic/check.hpp"
#include "moesaic/device_memory.hpp"
#include "moesaic/grouped_gemm.hpp"
#include "regime.hpp"

namespace moesaic::cli {

/// A zeroed workspace on a device.
class SiteWorkspace {
 public:
  SiteWorkspace() = default;
  SiteWorkspace(std::size_t size_bytes, Stream stream);
  [[nodiscard]] Workspace get() const noexcept {
    return {{buffer_.data(), buffer_.size_bytes()}, buffer_.device()};
  }

 private:
  DeviceBuffer buffer_;
};

/// Whether the CPU works on host tensors themselves, or on mirrors of them as a device does: so
/// that tests reach without a device what happens there.
enum class CpuMemory : std::uint8_t { shared, apart };

class Site {
 public:
  explicit Site(Device device, CpuMemory memory = CpuMemory::shared)
      : stream_(device), memory_(memory) {}
  [[nodiscard]] Stream stream() const { return stream_.get(); }
  [[nodiscard]] Device device() const { return stream().device(); }
  /// True where a mirror is the host tensor.
  [[nodiscard]] bool on_host() const {
    return device().kind == DeviceKind::cpu && memory_ == CpuMemory::shared;
  }

 private:
  DeviceStream stream_;
  CpuMemory memory_;
};

/// A tensor's memory at a site. Empty tensors have empty mirrors. `host` is always the tensor that
/// room was made for; on the CPU what is done to a mirror is done to it.
class Mirror {
 public:
  /// The view of `host` there. Its content is undefined until something is copied or filled in.
  TensorView reserve(const HostTensor& host, const Site& site);
  /// The same after copying its whole allocation.
  TensorView upload(const HostTensor& host, const Site& site);
  /// The whole allocation back.
  void download(HostTensor& host, const Site& site) const;
  /// A part of the allocation, to the site and back.
  void upload(const HostTensor& host, ByteRange range, const Site& site);
  void download(HostTensor& host, ByteRange range, const Site& site) const;
  /// The part of another allocation, or another part of this one, to `offset_bytes` on. Not for the
  /// CPU, where host tensors are copied.
  void copy_from(const Mirror& source, ByteRange range, std::size_t offset_bytes, const Site& site);
  /// Zero or kPoison into every byte.
  void clear(HostTensor& host, const Site& site);
  void poison(HostTensor& host, const Site& site);
  /// Elements of the first `rows` rows that nobody has written since, counted where they lie. Not
  /// for the CPU. @throws Error{invalid_argument} when rows have gaps.
  [[nodiscard]] WordCount count_poison(const HostTensor& host, std::int64_t rows,
                                       const Site& site) const;

 private:
  DeviceBuffer buffer_;
};

/// Elements of a result that nobody has written since Mirror::poison(), as compare.hpp has it. The
/// result stays where it is.
CheckResult find_unwritten(const std::string& name, const HostTensor& result, const Mirror& there,
                           std::span<const std::int32_t> offs, const Site& site);

/// Those rows of a result to the host, `width` elements each, counted from the first element on in
/// a tensor without gaps.
void download_rows(HostTensor& host, const Mirror& there, std::int64_t width,
                   std::span<const std::int64_t> rows, const Site& site);

/// The same for offsets, which never come back.
class OffsetsMirror {
 public:
  ConstTensorView upload(const std::vector<std::int32_t>& offs, const Site& site);

 private:
  DeviceBuffer buffer_;
};

/// The tensors of one grouped product, on the host and where it runs.
struct GemmTensors {
  HostTensor a, b, d;
  std::vector<std::int32_t> offs;

  /// The host's own memory.
  [[nodiscard]] GroupedGemmArgs args() const;
  /// All of it copied to the site; the args to execute with there.
  GroupedGemmArgs stage(const Site& site);
  /// The same with room alone for d.
  GroupedGemmArgs stage_inputs(const Site& site);
  /// What they returned last.
  [[nodiscard]] const GroupedGemmArgs& staged() const { return staged_; }
  /// kPoison into all of d there, then what of it nobody has written.
  void poison_output(const Site& site) { d_there_.poison(d, site); }
  [[nodiscard]] CheckResult find_unwritten_output(const std::string& name, const Site& site) const;
  /// d back from the site, or these rows of it alone, once all work there is done.
  void fetch(const Site& site);
  void fetch_rows(std::span<const std::int64_t> rows, const Site& site);

 private:
  Mirror a_there_, b_there_, d_there_;
  OffsetsMirror offs_there_;
  GroupedGemmArgs staged_;
};

/// After kGpuWarmUps: a short burst, all of it behind one gate.
inline constexpr std::int64_t kGpuSamples = 20;

/// True for a strategy whose execute waits for the device, so that no gate may hold it.
bool waits_for_device(Strategy strategy) noexcept;

/// Seconds of `steps`, called in turn, again and again: samples[i] belongs to steps[i]. On a GPU by
/// events after warm-ups; on the CPU by the clock, as often as time_samples() says.
std::vector<std::vector<double>> time_steps(const Site& site, Strategy strategy,
                                            const std::vector<std::function<void()>>& steps);

}  // namespace moesaic::cli
