// SPDX-License-Identifier: Apache-2.0
// The CUDA backend's account of itself.

#include "backends/cuda/cuda_backend.hpp"

#include "backends/cuda/launch/device_query.hpp"

namespace moesaic::backends::cuda {
namespace {

class CudaBackend final : public Backend {
 public:
  [[nodiscard]] BackendStatus status() const override {
    std::string why_none;
    const std::size_t count = devices(why_none).size();
    if (count == 0) {
      return {"cuda", false, why_none};
    }
    return {"cuda", false,
            std::to_string(count) + " device(s) seen; this version has no CUDA implementation"};
  }
  [[nodiscard]] DeviceKind device_kind() const noexcept override { return DeviceKind::cuda; }
  [[nodiscard]] std::span<const GroupedGemmImplementation* const> grouped_gemms() const override {
    return {};
  }
};

}  // namespace

const Backend& backend() {
  static const CudaBackend instance;
  return instance;
}

std::vector<DeviceInfo> devices(std::string& why_none) { return launch::query_devices(why_none); }

}  // namespace moesaic::backends::cuda
