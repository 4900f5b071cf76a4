// SPDX-License-Identifier: Apache-2.0
// The public handles of the grouped product: choose an implementation, check arguments, pass on.

#include "moesaic/grouped_gemm.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "core/message.hpp"
#include "core/validate.hpp"
#include "dispatch/backend_list.hpp"

namespace moesaic {
namespace {

struct Row {
  const backends::GroupedGemmImplementation* implementation;
  Support support;
};

Support judge(const backends::GroupedGemmImplementation& implementation,
              const backends::PlanRequest& request) {
  const auto& wanted = request.options.implementation;
  if (wanted && *wanted != implementation.name()) {
    return {false, "the plan asks for " + *wanted};
  }
  return implementation.supports(request);
}

/// The device as the plan may use it: `num_sms` of the options is a limit.
DeviceInfo limited(DeviceInfo device, const PlanOptions& options) {
  if (options.num_sms < 0) {
    core::refuse("num_sms", "0 for all, or a positive limit", std::to_string(options.num_sms));
  }
  device.num_sms = std::max(1, device.num_sms);
  if (options.num_sms > 0) {
    device.num_sms = std::min(device.num_sms, options.num_sms);
  }
  return device;
}

/// All implementations for a kind of device, best first, each with what `support_of` says of it.
template <class SupportOf>
std::vector<Row> list_rows(DeviceKind kind, const SupportOf& support_of) {
  std::vector<Row> rows;
  for (const backends::Backend* backend : dispatch::all_backends()) {
    if (backend->device_kind() != kind) {
      continue;
    }
    for (const backends::GroupedGemmImplementation* implementation : backend->grouped_gemms()) {
      rows.push_back({implementation, support_of(*implementation)});
    }
  }
  return rows;
}

/// The problem is well formed, which supports() counts on.
std::vector<Row> judge_all(const backends::PlanRequest& request) {
  return list_rows(request.device.device.kind,
                   [&](const auto& implementation) { return judge(implementation, request); });
}

/// The same for any problem: a malformed one is refused in every implementation's name and reaches
/// none.
std::vector<Row> judge_any(const GroupedGemmProblem& problem, const DeviceInfo& device,
                           const PlanOptions& options) {
  try {
    core::check_problem(problem);
    const DeviceInfo usable = limited(device, options);
    return judge_all({problem, usable, options});
  } catch (const Error& error) {
    return list_rows(device.device.kind, [&](const auto& /*implementation*/) {
      return Support{false, error.what()};
    });
  }
}

std::string reasons(const std::vector<Row>& rows, const DeviceInfo& device) {
  std::string text = "no implementation on " + to_string(device.device) + " takes this problem";
  for (const Row& row : rows) {
    text += "; " + std::string(row.implementation->name()) + ": " + row.support.reason;
  }
  if (rows.empty()) {
    text += ": this build has none for that kind of device";
  }
  return text;
}

}  // namespace

GroupedGemm::GroupedGemm(std::shared_ptr<const detail::GroupedGemmImpl> impl)
    : impl_(std::move(impl)) {}

GroupedGemm GroupedGemm::plan(const GroupedGemmProblem& problem, const DeviceInfo& device,
                              const PlanOptions& options) {
  core::check_problem(problem);
  const DeviceInfo usable = limited(device, options);
  const backends::PlanRequest request{problem, usable, options};
  const std::vector<Row> rows = judge_all(request);
  for (const Row& row : rows) {
    if (row.support) {
      return GroupedGemm(row.implementation->make(request));
    }
  }
  const auto named = [&](const Row& row) {
    return row.implementation->name() == *options.implementation;
  };
  if (options.implementation && std::none_of(rows.begin(), rows.end(), named)) {
    std::string known;
    for (const Row& row : rows) {
      known += (known.empty() ? "" : ", ") + std::string(row.implementation->name());
    }
    core::refuse("implementation",
                 known.empty() ? "one for this device; it has none" : "one of " + known,
                 *options.implementation);
  }
  throw Error(ErrorCode::unsupported, reasons(rows, usable));
}

std::vector<Candidate> GroupedGemm::candidates(const GroupedGemmProblem& problem,
                                               const DeviceInfo& device,
                                               const PlanOptions& options) {
  std::vector<Candidate> list;
  for (Row& row : judge_any(problem, device, options)) {
    list.push_back({std::string(row.implementation->name()), std::move(row.support)});
  }
  return list;
}

const GroupedGemmProblem& GroupedGemm::problem() const noexcept { return impl_->problem(); }
std::string_view GroupedGemm::implementation() const noexcept { return impl_->name(); }
std::size_t GroupedGemm::workspace_bytes() const noexcept { return impl_->workspace_bytes(); }
std::string_view GroupedGemm::regime(std::int64_t rows) const noexcept {
  return impl_->regime(rows);
}

PackedWeights GroupedGemm::pack_weights(const Operand& w, Stream stream) const {
  const Device device = impl_->device().device;
  if (problem().pass == Pass::wgrad) {
    core::refuse("w", "a forward or dgrad plan, which reads weights", "a wgrad plan");
  }
  const core::OperandShapes shapes = core::operand_shapes(problem());
  core::check_matrix("w", w.qdata,
                     {core::operand_dtype(problem().format), device, shapes.b_experts,
                      shapes.b_rows, shapes.b_columns, false});
  core::check_stream(stream, device);
  return impl_->pack_weights(w, stream);
}

void GroupedGemm::execute(const GroupedGemmArgs& args, Workspace workspace, Stream stream) const {
  const Device device = impl_->device().device;
  core::check_args(problem(), args, device);
  if (args.packed_b != nullptr) {
    core::check_packed("packed_b", *args.packed_b, implementation(), problem());
  }
  core::check_workspace(workspace, workspace_bytes(), device);
  core::check_stream(stream, device);
  impl_->execute(args, workspace, stream);
}

}  // namespace moesaic
