// SPDX-License-Identifier: Apache-2.0
// The oneDNN backend's candidate list.

#include "backends/onednn/onednn_backend.hpp"

#include <array>
#include <string>

#include "backends/onednn/activation.hpp"
#include "backends/onednn/batched.hpp"
#include "backends/onednn/grouped.hpp"
#include "backends/onednn/matmul.hpp"

namespace moesaic::backends::onednn {
namespace {

const Support& works() {
  static const Support kWorks = supports_f32();
  return kWorks;
}

using Make = std::shared_ptr<const detail::GroupedGemmImpl> (*)(std::string_view,
                                                                const PlanRequest&);

class OnednnImplementation final : public GroupedGemmImplementation {
 public:
  OnednnImplementation(std::string_view name, Strategy strategy, Make factory)
      : name_(name), strategy_(strategy), make_(factory) {}

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] Support supports(const PlanRequest& request) const override {
    if (request.problem.strategy != strategy_) {
      return {false, "it computes strategy " + std::string(moesaic::name(strategy_)) + ", not " +
                         std::string(moesaic::name(request.problem.strategy))};
    }
    if (request.options.batch_invariant) {
      return {false,
              "oneDNN picks its blocking by the number of rows, so it is not batch invariant"};
    }
    return works();
  }
  [[nodiscard]] std::shared_ptr<const detail::GroupedGemmImpl> make(
      const PlanRequest& request) const override {
    return make_(name_, request);
  }

 private:
  std::string_view name_;
  Strategy strategy_;
  Make make_;
};

class OnednnBackend final : public Backend {
 public:
  [[nodiscard]] BackendStatus status() const override {
    if (!works()) {
      return {"onednn", false, works().reason};
    }
    return {"onednn", true,
            "oneDNN " + version() +
                (multiplies_bf16()
                     ? ", f32 and bf16"
                     : ", f32; bf16 is widened to f32 tile by tile, since this CPU or oneDNN "
                       "lacks it (AVX-512)")};
  }
  [[nodiscard]] DeviceKind device_kind() const noexcept override { return DeviceKind::cpu; }
  [[nodiscard]] std::span<const GroupedGemmImplementation* const> grouped_gemms() const override {
    static const OnednnImplementation grouped("cpu/onednn/grouped", Strategy::grouped,
                                              make_grouped);
    static const OnednnImplementation padded("cpu/onednn/padded_bmm", Strategy::padded_bmm,
                                             make_padded);
    static const OnednnImplementation loop("cpu/onednn/host_loop", Strategy::host_loop,
                                           make_host_loop);
    static const std::array<const GroupedGemmImplementation*, 3> all = {&grouped, &padded, &loop};
    return all;
  }
  [[nodiscard]] std::unique_ptr<detail::BatchedGemmImpl> batched_gemm(
      const BatchedGemmProblem& problem, const DeviceInfo& device,
      Support& why_not) const override {
    why_not = works();
    return why_not ? make_batched(problem, device) : nullptr;
  }
  [[nodiscard]] bool has_activation() const noexcept override { return true; }
  void swiglu(const ActivationArgs& args, const Stream& /*stream*/) const override {
    activation_forward(args);
  }
  void dswiglu(const ActivationArgs& args, const Stream& /*stream*/) const override {
    activation_backward(args);
  }
  void scale_rows(const ScaleRowsArgs& args, const Stream& /*stream*/) const override {
    backends::onednn::scale_rows(args);
  }
  void take_rows(const TakeRowsArgs& args, const Stream& /*stream*/) const override {
    backends::onednn::take_rows(args);
  }
};

}  // namespace

const Backend& backend() {
  static const OnednnBackend instance;
  return instance;
}

std::string library_version() { return version(); }

}  // namespace moesaic::backends::onednn
