// SPDX-License-Identifier: Apache-2.0
// What a backend offers: rows of the candidate list, and its own account of why it can or cannot
// work here. Backends are siblings: none includes another.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "core/grouped_gemm_impl.hpp"
#include "core/workspace_header.hpp"
#include "moesaic/build_info.hpp"
#include "moesaic/expert_mlp.hpp"
#include "moesaic/grouped_gemm.hpp"

namespace moesaic::backends {

struct PlanRequest {
  const GroupedGemmProblem& problem;
  const DeviceInfo& device;
  const PlanOptions& options;
};

/// One implementation of the grouped product: a row of the candidate list.
class GroupedGemmImplementation {
 public:
  virtual ~GroupedGemmImplementation() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// The problem is well formed and the device is of this backend's kind. Never throws.
  [[nodiscard]] virtual Support supports(const PlanRequest& request) const = 0;
  /// Called after `supports` said yes.
  [[nodiscard]] virtual std::shared_ptr<const detail::GroupedGemmImpl> make(
      const PlanRequest& request) const = 0;
};

/// The element-wise middle of the expert MLP. Matrices are dense views [M, 2h] or [M, h] of the
/// format's type; only rows of valid segments are read or written.
struct ActivationArgs {
  ConstTensorView u, offs;
  ConstTensorView dh{};  ///< Backward only.
  TensorView h{}, du{};  ///< h may be empty in backward; du is empty in forward.
  UpGateOrder order;
  int threads = 1;  ///< CPU threads to use.
};

class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual BackendStatus status() const = 0;
  [[nodiscard]] virtual DeviceKind device_kind() const noexcept = 0;
  /// Best first.
  [[nodiscard]] virtual std::span<const GroupedGemmImplementation* const> grouped_gemms() const = 0;
  /// The first backend of a device kind that has one serves all of that kind.
  [[nodiscard]] virtual bool has_activation() const noexcept { return false; }
  virtual void swiglu(const ActivationArgs& args, const Stream& stream) const;
  virtual void dswiglu(const ActivationArgs& args, const Stream& stream) const;
  /// Copies the workspace's header to the host. Synchronizes.
  virtual core::WorkspaceHeader read_header(const Workspace& workspace, const Stream& stream) const;
  virtual void write_header(const core::WorkspaceHeader& header, const Workspace& workspace,
                            const Stream& stream) const;
};

}  // namespace moesaic::backends
