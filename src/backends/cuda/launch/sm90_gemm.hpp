// SPDX-License-Identifier: Apache-2.0
// The grouped product on one Hopper device: arguments to tensor maps and parameters, one launch.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "backends/backend.hpp"
#include "backends/cuda/block/kernel_config.hpp"
#include "backends/cuda/block/tensor_maps.hpp"
#include "backends/cuda/launch/choose.hpp"
#include "backends/cuda/launch/instances.hpp"

namespace moesaic::backends::cuda::launch {

class Sm90Gemm final : public detail::GroupedGemmImpl {
 public:
  Sm90Gemm(const PlanRequest& request, const Instance& instance);

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::size_t workspace_bytes() const noexcept override {
    return core::kWorkspaceHeaderBytes;
  }
  [[nodiscard]] std::string_view regime(std::int64_t rows) const noexcept override {
    return regime_of(instance_.config, rows);
  }
  void execute(const GroupedGemmArgs& args, const Workspace& workspace,
               const Stream& stream) const override {
    enqueue(args, workspace, stream, 0);
  }
  /// The part that a padded batch of `done_rows` rows per expert leaves: in forward and dgrad the
  /// rows behind the first `done_rows` of each expert, in wgrad the experts with more rows than
  /// that, whole.
  void enqueue(const GroupedGemmArgs& args, const Workspace& workspace, const Stream& stream,
               std::int64_t done_rows) const;

 private:
  [[nodiscard]] TensorMaps describe_rows(const GroupedGemmArgs& args, const Workspace& workspace,
                                         KernelParams& params) const;
  [[nodiscard]] TensorMaps describe_wgrad(const GroupedGemmArgs& args, const Workspace& workspace,
                                          KernelParams& params) const;

  const Instance& instance_;
  std::string name_;
};

/// Copies the header of a device workspace to the host.
core::WorkspaceHeader read_device_header(const Workspace& workspace, const Stream& stream);
void clear_device_fault(const Workspace& workspace, const Stream& stream);

}  // namespace moesaic::backends::cuda::launch
