// SPDX-License-Identifier: Apache-2.0
// The CUDA backend's account of itself and its candidate list.

#include "backends/cuda/cuda_backend.hpp"

#include <algorithm>
#include <array>

#include "backends/cuda/launch/baselines.hpp"
#include "backends/cuda/launch/choose.hpp"
#include "backends/cuda/launch/device_query.hpp"
#include "backends/cuda/launch/sm90_gemm.hpp"

namespace moesaic::backends::cuda {
namespace {

class Sm90Grouped final : public GroupedGemmImplementation {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "cuda/sm90/grouped"; }
  [[nodiscard]] Support supports(const PlanRequest& request) const override {
    return launch::supports_grouped(request, Strategy::grouped);
  }
  [[nodiscard]] std::shared_ptr<const detail::GroupedGemmImpl> make(
      const PlanRequest& request) const override {
    return std::make_shared<launch::Sm90Gemm>(request);
  }
};

class CublasPaddedBmm final : public GroupedGemmImplementation {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "cuda/cublas/padded_bmm"; }
  [[nodiscard]] Support supports(const PlanRequest& request) const override {
    // The grouped kernel computes what overflows.
    const Support grouped = launch::supports_grouped(request, Strategy::padded_bmm);
    return grouped ? launch::supports_baseline(request, Strategy::padded_bmm) : grouped;
  }
  [[nodiscard]] std::shared_ptr<const detail::GroupedGemmImpl> make(
      const PlanRequest& request) const override {
    return launch::make_padded_bmm(request);
  }
};

class CublasHostLoop final : public GroupedGemmImplementation {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "cuda/cublas/host_loop"; }
  [[nodiscard]] Support supports(const PlanRequest& request) const override {
    return launch::supports_baseline(request, Strategy::host_loop);
  }
  [[nodiscard]] std::shared_ptr<const detail::GroupedGemmImpl> make(
      const PlanRequest& request) const override {
    return launch::make_host_loop(request);
  }
};

class CudaBackend final : public Backend {
 public:
  [[nodiscard]] BackendStatus status() const override {
    std::string why_none;
    const std::vector<DeviceInfo> found = devices(why_none);
    if (found.empty()) {
      return {"cuda", false, why_none};
    }
    const bool hopper = std::any_of(found.begin(), found.end(), [](const DeviceInfo& device) {
      return device.compute_capability == 90;
    });
    return {
        "cuda", hopper,
        std::to_string(found.size()) + " device(s)" +
            (hopper ? "" : ", none of compute capability 9.0, for which the kernels are compiled")};
  }
  [[nodiscard]] DeviceKind device_kind() const noexcept override { return DeviceKind::cuda; }
  [[nodiscard]] std::span<const GroupedGemmImplementation* const> grouped_gemms() const override {
    static const Sm90Grouped grouped;
    static const CublasPaddedBmm padded;
    static const CublasHostLoop loop;
    static const std::array<const GroupedGemmImplementation*, 3> all = {&grouped, &padded, &loop};
    return all;
  }
  core::WorkspaceHeader read_header(const Workspace& workspace,
                                    const Stream& stream) const override {
    return launch::read_device_header(workspace, stream);
  }
  void write_header(const core::WorkspaceHeader& header, const Workspace& workspace,
                    const Stream& stream) const override {
    launch::write_device_header(header, workspace, stream);
  }
};

}  // namespace

const Backend& backend() {
  static const CudaBackend instance;
  return instance;
}

std::vector<DeviceInfo> devices(std::string& why_none) { return launch::query_devices(why_none); }

}  // namespace moesaic::backends::cuda
