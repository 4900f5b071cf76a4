// SPDX-License-Identifier: Apache-2.0
// What the cases of `run` share: problems, work, and what happens to a strategy that cannot run.
#include <algorithm>
#include <limits>

#include "arguments.hpp"
#include "machine.hpp"
#include "run.hpp"
#include "text.hpp"

namespace moesaic::cli {

GroupedGemmProblem gemm_problem(const RunFlags& flags, std::int64_t experts, std::int64_t rows) {
  const planner::ProductShape product = planner::product_shape(flags.shape, flags.projection);
  GroupedGemmProblem problem;
  // mlp asks only which backend can take its products; its forward product speaks for them.
  problem.pass = flags.pass == RunPass::dgrad   ? Pass::dgrad
                 : flags.pass == RunPass::wgrad ? Pass::wgrad
                                                : Pass::forward;
  problem.format = flags.format;
  problem.d_dtype = flags.format == Format::bf16 ? DType::bf16 : DType::f32;
  problem.num_experts = static_cast<int>(experts);
  problem.max_rows = rows;
  problem.n = product.n;
  problem.k = product.k;
  problem.capacity = flags.capacity;
  return problem;
}

ExpertMlpProblem mlp_problem(const RunFlags& flags, std::int64_t experts, std::int64_t rows) {
  return {.format = flags.format,
          .num_experts = static_cast<int>(experts),
          .max_rows = rows,
          .d = flags.shape.d,
          .h = flags.shape.h,
          .order = flags.order,
          .activations = flags.recompute ? Activations::recompute : Activations::save,
          .tail = Tail::leave,
          .wgrad_dtype = flags.format == Format::bf16 ? DType::bf16 : DType::f32,
          .accumulate_wgrad = false,
          .x_rows = flags.x_rows,
          .strategy = Strategy::grouped,
          .capacity = flags.capacity};
}

std::int64_t num_tokens(const RunFlags& flags, std::int64_t rows) {
  return (rows + flags.rows_per_token - 1) / flags.rows_per_token;
}

namespace {

std::string why_not_mlp(const ExpertMlpProblem& problem, const DeviceInfo& device) {
  try {
    ExpertMlp::plan(problem, device);
    return {};
  } catch (const Error& error) {
    // A malformed problem is refused by its flag's name where it is planned in earnest.
    return error.code() == ErrorCode::unsupported ? error.what() : "";
  }
}

}  // namespace

std::string why_not_on(const DeviceInfo& device, const RunFlags& flags,
                       const routing::Record& record) {
  // Rows past int32 are refused by their flag's name, not as a reason against a device.
  if (record.rows() > std::numeric_limits<std::int32_t>::max()) return {};
  const auto experts = static_cast<std::int64_t>(record.counts.size());
  std::string first;
  for (const Strategy strategy : flags.strategies) {
    ExpertMlpProblem layer = mlp_problem(flags, experts, record.rows());
    GroupedGemmProblem product = gemm_problem(flags, experts, record.rows());
    layer.strategy = product.strategy = strategy;
    const std::string why =
        flags.pass == RunPass::mlp
            ? why_not_mlp(layer, device)
            : reasons_against(GroupedGemm::candidates(product, device), strategy);
    if (why.empty()) return {};
    if (first.empty()) first = why;
  }
  return first;
}

RunCase describe_case(const routing::Record& record, const RunFlags& flags,
                      const DeviceInfo& device, Strategy strategy) {
  RunCase result;
  result.source = record.source;
  result.label = record.label;
  result.layer = record.layer;
  result.step = record.step;
  result.rank = record.rank;
  result.experts = static_cast<std::int64_t>(record.counts.size());
  result.rows = record.rows();
  result.d = flags.shape.d;
  result.h = flags.shape.h;
  result.pass = flags.pass;
  result.projection = flags.projection;
  result.strategy = strategy;
  result.format = flags.format;
  result.backend = device.device.kind == DeviceKind::cuda ? "cuda" : "cpu";
  result.order = flags.order;
  result.activations = flags.recompute ? Activations::recompute : Activations::save;
  result.x_rows = flags.x_rows;
  if (flags.x_rows != XRows::in_order) result.tokens = num_tokens(flags, result.rows);
  return result;
}

std::int64_t executed_rows(const routing::Record& record, const RunFlags& flags, RunCase& result) {
  if (result.strategy != Strategy::padded_bmm) return result.rows;
  const planner::CapacityLedger ledger = planner::capacity_ledger(record.counts, flags.capacity);
  // Rows beyond the capacity are computed exactly, one product per overfull expert.
  const std::int64_t executed = ledger.executed_rows + ledger.overflow_rows;
  result.overflow_rows = ledger.overflow_rows;
  if (executed > 0) {
    result.padding_fraction = static_cast<double>(ledger.idle_rows) / static_cast<double>(executed);
  }
  return executed;
}

std::string own_reasons(std::string_view refusal, Strategy strategy) {
  std::string own;
  for (std::size_t at = 0; at < refusal.size();) {
    const std::size_t end = std::min(refusal.find("; ", at), refusal.size());
    const std::string_view part = refusal.substr(at, end - at);
    const std::string_view implementation = part.substr(0, part.find(": "));
    if (implementation.find('/') != std::string_view::npos &&
        implementation.find(' ') == std::string_view::npos &&
        strategy_of(implementation) == strategy) {
      own.append(own.empty() ? "" : "; ").append(part);
    }
    at = end + 2;
  }
  return own.empty() ? std::string(refusal) : own;
}

void skip_or_throw(const routing::Record& record, const RunFlags& flags, Strategy strategy,
                   const Error& error, RunResults& results) {
  if (error.code() != ErrorCode::unsupported || !flags.all_strategies) throw error;
  results.skipped.push_back(
      {place_of(record) + ", " + std::string(name(strategy)), own_reasons(error.what(), strategy)});
}

}  // namespace moesaic::cli
