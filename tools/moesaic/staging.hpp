// SPDX-License-Identifier: Apache-2.0
// Where products run: a device, a queue of its own, a workspace; and host tensors mirrored there
// whole, guards and gaps included. On the CPU a mirror is the host tensor itself.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "host_tensor.hpp"
#include "moesaic/device_memory.hpp"
#include "moesaic/grouped_gemm.hpp"

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

class Site {
 public:
  explicit Site(Device device) : stream_(device) {}
  [[nodiscard]] Stream stream() const { return stream_.get(); }
  [[nodiscard]] Device device() const { return stream().device(); }
  [[nodiscard]] bool on_host() const { return device().kind == DeviceKind::cpu; }

 private:
  DeviceStream stream_;
};

/// A tensor's memory at a site. Empty tensors have empty mirrors.
class Mirror {
 public:
  /// The view of `host` there, after copying its whole allocation.
  TensorView upload(const HostTensor& host, const Site& site);
  /// The whole allocation back. `host` is the tensor that was uploaded.
  void download(HostTensor& host, const Site& site) const;

 private:
  DeviceBuffer buffer_;
};

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
  /// The same when d alone has changed since stage().
  GroupedGemmArgs stage_output(const Site& site);
  /// What stage() and stage_output() returned last.
  [[nodiscard]] const GroupedGemmArgs& staged() const { return staged_; }
  /// d back from the site, once all work there is done.
  void fetch(const Site& site);

 private:
  Mirror a_there_, b_there_, d_there_;
  OffsetsMirror offs_there_;
  GroupedGemmArgs staged_;
};

/// Warm-ups and samples on a GPU: a short burst, all of it behind one gate.
inline constexpr std::int64_t kGpuWarmUps = 10, kGpuSamples = 20;

/// True for a strategy whose execute waits for the device, so that no gate may hold it.
bool waits_for_device(Strategy strategy) noexcept;

/// Seconds of `steps`, called in turn, again and again: samples[i] belongs to steps[i]. On a GPU by
/// events after warm-ups; on the CPU by the clock, as often as time_samples() says.
std::vector<std::vector<double>> time_steps(const Site& site, Strategy strategy,
                                            const std::vector<std::function<void()>>& steps);

}  // namespace moesaic::cli
