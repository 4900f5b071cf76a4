// SPDX-License-Identifier: Apache-2.0
// What a backend implements behind the public handles GroupedGemm and PackedWeights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "moesaic/grouped_gemm.hpp"

namespace moesaic::detail {

class PackedWeightsImpl {
 public:
  virtual ~PackedWeightsImpl() = default;
  [[nodiscard]] virtual std::string_view implementation() const noexcept = 0;
  [[nodiscard]] virtual std::int64_t size_bytes() const noexcept = 0;
  /// @throws Error{invalid_argument} naming `argument` unless `implementation` can read these
  /// weights in `problem`.
  virtual void check_fits(std::string_view argument, std::string_view implementation,
                          const GroupedGemmProblem& problem) const = 0;
};

/// A planned product. Arguments, workspace and stream have been checked when a member is called.
class GroupedGemmImpl {
 public:
  GroupedGemmImpl(const GroupedGemmProblem& problem, const DeviceInfo& device)
      : problem_(problem), device_(device) {}
  GroupedGemmImpl(const GroupedGemmImpl&) = delete;
  GroupedGemmImpl& operator=(const GroupedGemmImpl&) = delete;
  virtual ~GroupedGemmImpl() = default;

  [[nodiscard]] const GroupedGemmProblem& problem() const noexcept { return problem_; }
  [[nodiscard]] const DeviceInfo& device() const noexcept { return device_; }
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Header included; see core/workspace_header.hpp.
  [[nodiscard]] virtual std::size_t workspace_bytes() const noexcept = 0;
  /// See GroupedGemm::regime.
  [[nodiscard]] virtual std::string_view regime(std::int64_t /*rows*/) const noexcept { return {}; }
  virtual void execute(const GroupedGemmArgs& args, const Workspace& workspace,
                       const Stream& stream) const = 0;
  /// `w` has been checked. The default refuses.
  [[nodiscard]] virtual PackedWeights pack_weights(const Operand& w, const Stream& stream) const;

 private:
  GroupedGemmProblem problem_;
  DeviceInfo device_;
};

}  // namespace moesaic::detail
