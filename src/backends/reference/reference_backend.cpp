// SPDX-License-Identifier: Apache-2.0
// The reference backend's grouped products. Both loops run along contiguous memory: dot products
// where the contraction is contiguous in b, row updates where the output is.

#include "backends/reference/reference_backend.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/host_rows.hpp"
#include "backends/reference/activation.hpp"
#include "backends/reference/row_exchange.hpp"
#include "core/exact.hpp"
#include "core/parallel.hpp"

namespace moesaic::backends::reference {
namespace {

using core::dot;
using core::load;
using core::store;

template <class T>
void add_scaled(double* sums, double factor, const T* b, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    sums[i] += factor * load(b[i]);
  }
}

struct RowScratch {
  std::vector<double> a, sums;
};

/// One output row of forward or dgrad.
template <class T, class Out>
void multiply_row(const T* a, const ConstTensorView& b, bool dot_form, std::int64_t contracted,
                  std::span<Out> out, RowScratch& scratch) {
  const auto* weights = static_cast<const T*>(b.data);
  const auto width = static_cast<std::int64_t>(out.size());
  scratch.a.resize(static_cast<std::size_t>(contracted));
  for (std::int64_t i = 0; i < contracted; ++i) {
    scratch.a[static_cast<std::size_t>(i)] = load(a[i]);
  }
  if (dot_form) {
    for (std::int64_t j = 0; j < width; ++j) {
      store(dot(scratch.a.data(), weights + j * b.stride[0], contracted),
            out[static_cast<std::size_t>(j)]);
    }
    return;
  }
  scratch.sums.assign(out.size(), 0.0);
  for (std::int64_t i = 0; i < contracted; ++i) {
    add_scaled(scratch.sums.data(), scratch.a[static_cast<std::size_t>(i)],
               weights + i * b.stride[0], width);
  }
  for (std::size_t j = 0; j < out.size(); ++j) {
    store(scratch.sums[j], out[j]);
  }
}

class ReferenceGemm final : public detail::GroupedGemmImpl {
 public:
  ReferenceGemm(std::string_view name, const PlanRequest& request)
      : GroupedGemmImpl(request.problem, request.device), name_(name) {}

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::size_t workspace_bytes() const noexcept override {
    return core::kWorkspaceHeaderBytes;
  }

  void execute(const GroupedGemmArgs& args, const Workspace& workspace,
               const Stream& /*stream*/) const override {
    const HostSegments segments(args.offs, problem().max_rows);
    record_fault(workspace, segments.fault_word);
    if (problem().format == Format::f32) {
      run<float, float>(args, segments);
    } else if (problem().d_dtype == DType::f32) {
      run<BFloat16, float>(args, segments);
    } else {
      run<BFloat16, BFloat16>(args, segments);
    }
  }

 private:
  template <class T, class Out>
  void run(const GroupedGemmArgs& args, const HostSegments& segments) const {
    const auto experts = static_cast<std::int64_t>(segments.experts.size());
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      const math::RowRange rows = segments.experts[static_cast<std::size_t>(expert)];
      if (problem().pass == Pass::wgrad) {
        weight_gradient<T, Out>(args, expert, rows);
      } else if (!rows.empty()) {
        row_products<T, Out>(args, expert, rows);
      }
    }
    if (problem().pass != Pass::wgrad && problem().tail == Tail::zero) {
      zero_rows(args.d, segments.tail_begin, problem().max_rows);
    }
  }

  template <class T, class Out>
  void row_products(const GroupedGemmArgs& args, std::int64_t expert, math::RowRange rows) const {
    const ConstTensorView& a = args.a.qdata;
    const ConstTensorView b = expert_matrix(args.b.qdata, expert);
    const bool dot_form =
        (problem().pass == Pass::forward) == (problem().weights == WeightStorage::enk);
    const auto width = static_cast<std::size_t>(args.d.shape[1]);
    core::parallel_for_with<RowScratch>(
        rows.rows(), device().num_sms, [&](RowScratch& scratch, std::int64_t i) {
          multiply_row(row<T>(a, rows.begin + i), b, dot_form, a.shape[1],
                       std::span<Out>(row<Out>(args.d, rows.begin + i), width), scratch);
        });
  }

  /// Row i of dw[e]: sum over the segment's rows of left[row][i] * right[row][:].
  template <class T, class Out>
  void weight_gradient(const GroupedGemmArgs& args, std::int64_t expert,
                       math::RowRange rows) const {
    if (rows.empty() && problem().accumulate) {
      return;
    }
    const bool enk = problem().weights == WeightStorage::enk;
    const ConstTensorView& left = enk ? args.a.qdata : args.b.qdata;
    const ConstTensorView& right = enk ? args.b.qdata : args.a.qdata;
    const TensorView d = expert_matrix(args.d, expert);
    const auto width = static_cast<std::size_t>(d.shape[1]);
    using Sums = std::vector<double>;
    core::parallel_for_with<Sums>(d.shape[0], device().num_sms, [&](Sums& sums, std::int64_t i) {
      sums.assign(width, 0.0);
      for (std::int64_t at_row = rows.begin; at_row < rows.end; ++at_row) {
        add_scaled(sums.data(), load(row<T>(left, at_row)[i]), row<T>(right, at_row),
                   static_cast<std::int64_t>(width));
      }
      Out* out = row<Out>(d, i);
      for (std::size_t j = 0; j < width; ++j) {
        store(problem().accumulate ? load(out[j]) + sums[j] : sums[j], out[j]);
      }
    });
  }

  std::string_view name_;
};

class ReferenceGrouped final : public GroupedGemmImplementation {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "cpu/reference/grouped"; }
  [[nodiscard]] Support supports(const PlanRequest& request) const override {
    if (request.problem.strategy != Strategy::grouped) {
      return {false, "the oracle computes the grouped product only, not " +
                         std::string(moesaic::name(request.problem.strategy))};
    }
    return {true, {}};
  }
  [[nodiscard]] std::shared_ptr<const detail::GroupedGemmImpl> make(
      const PlanRequest& request) const override {
    return std::make_shared<ReferenceGemm>(name(), request);
  }
};

class ReferenceBackend final : public Backend {
 public:
  [[nodiscard]] BackendStatus status() const override {
    return {"reference", true, "double-precision sums, the oracle; slow by design"};
  }
  [[nodiscard]] DeviceKind device_kind() const noexcept override { return DeviceKind::cpu; }
  [[nodiscard]] std::span<const GroupedGemmImplementation* const> grouped_gemms() const override {
    static const ReferenceGrouped grouped;
    static const std::array<const GroupedGemmImplementation*, 1> all = {&grouped};
    return all;
  }
  [[nodiscard]] const ExpertParallelImplementation* expert_parallel() const noexcept override {
    return &simulated_exchange();
  }
  [[nodiscard]] bool has_activation() const noexcept override { return true; }
  void swiglu(const ActivationArgs& args, const Stream& /*stream*/) const override {
    activation_forward(args);
  }
  void dswiglu(const ActivationArgs& args, const Stream& /*stream*/) const override {
    activation_backward(args);
  }
  void scale_rows(const ScaleRowsArgs& args, const Stream& /*stream*/) const override {
    backends::reference::scale_rows(args);
  }
  void take_rows(const TakeRowsArgs& args, const Stream& /*stream*/) const override {
    backends::reference::take_rows(args);
  }
};

}  // namespace

const Backend& backend() {
  static const ReferenceBackend instance;
  return instance;
}

}  // namespace moesaic::backends::reference
