// SPDX-License-Identifier: Apache-2.0
// Where work is enqueued. A CUDA stream is wrapped in interop/cuda.hpp.
#pragma once

#include "moesaic/device.hpp"

namespace moesaic {

/// A queue of one device. On the CPU a call returns when its work is done.
class Stream {
 public:
  static Stream cpu() noexcept { return {Device{}, nullptr}; }
  /// `native` is the device's own handle (a cudaStream_t); moesaic does not own it.
  static Stream from_native(Device device, void* native) noexcept { return {device, native}; }

  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] void* native() const noexcept { return native_; }

 private:
  Stream(Device device, void* native) : device_(device), native_(native) {}
  Device device_{};
  void* native_ = nullptr;
};

}  // namespace moesaic
