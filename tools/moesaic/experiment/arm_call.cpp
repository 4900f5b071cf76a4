// SPDX-License-Identifier: Apache-2.0
// Arms of a case: strategies of the grouped product, and regular products by the device's library.
#include "experiment/arm_call.hpp"

#include <memory>
#include <span>
#include <utility>

#include "moesaic/batched_gemm.hpp"
#include "moesaic/capacity.hpp"
#include "text.hpp"

namespace moesaic::cli::experiment {
namespace {

RunFlags flags_of(const Case& one) {
  RunFlags flags;
  flags.shape = one.shape;
  flags.projection = one.projection;
  return flags;
}

/// One execute over poison; `offs` are the rows that it must have written.
CheckResult execute_poisoned(const std::function<void()>& execute, StagedMatrix& output,
                             const Site& site, std::span<const std::int32_t> offs) {
  output.poison(site);
  execute();
  return output.find_unwritten("y", offs, site);
}

BenchCase describe(const Case& one, const Workbench& bench, const GroupedGemmProblem& problem) {
  BenchCase result;
  result.problem = problem;
  result.counts = one.record.counts;
  result.seed = bench.seed();
  result.run = describe_case(one.record, flags_of(one), bench.device(), problem.strategy);
  const std::int64_t flops_per_row = 2 * problem.n * problem.k;
  result.run.useful_flops = result.run.rows * flops_per_row;
  result.run.executed_flops = executed_rows(one.record, flags_of(one), result.run) * flops_per_row;
  result.min_bytes = min_bytes(problem, result.counts);
  return result;
}

GroupedGemmProblem problem_of(const Case& one, Strategy strategy) {
  GroupedGemmProblem problem = gemm_problem(flags_of(one), one.experts(), one.record.rows());
  problem.strategy = strategy;
  return problem;
}

ArmCall strategy_call(Arm arm, Strategy strategy, const Case& one, Workbench& bench) {
  const GroupedGemm gemm = GroupedGemm::plan(problem_of(one, strategy), bench.device());
  const GroupedGemmProblem& problem = gemm.problem();
  const Site& site = bench.site();
  const auto workspace = std::make_shared<SiteWorkspace>(gemm.workspace_bytes(), site.stream());
  ArmCall call;
  call.arm = arm;
  call.waits = !site.on_host() && waits_for_device(strategy);
  call.result = describe(one, bench, problem);
  call.result.run.implementation = gemm.implementation();
  for (const std::int64_t rows : one.record.counts) {
    const std::string_view regime = gemm.regime(rows);
    if (!regime.empty()) ++call.result.regimes[std::string(regime)];
  }
  call.execute = [gemm, workspace, &bench] {
    const GroupedGemmProblem& p = gemm.problem();
    gemm.execute({.a = {bench.x.site_view({p.max_rows, p.k}), {}},
                  .b = {bench.w.site_view({p.num_experts, p.n, p.k}), {}},
                  .offs = bench.site_offs(),
                  .d = bench.y.site_view({p.max_rows, p.n})},
                 workspace->get(), bench.site().stream());
  };
  call.check = [execute = call.execute, problem, &bench] {
    const CheckOptions options{.seed = bench.seed()};
    CheckResult check = execute_poisoned(execute, bench.y, bench.site(), bench.offs());
    const std::vector<std::int64_t> rows = checked_rows(problem, bench.offs(), options);
    bench.show_x_rows(rows);
    bench.y.fetch_rows(problem.n, rows, bench.site());
    const GroupedGemmArgs host = {
        .a = {bench.x.host_view({problem.max_rows, problem.k}), {}},
        .b = {bench.w.host_view({problem.num_experts, problem.n, problem.k}), {}},
        .offs = view(std::span<const std::int32_t>(bench.offs()), {problem.num_experts}),
        .d = bench.y.host_view({problem.max_rows, problem.n})};
    check.merge(check_grouped_gemm(problem, host, options));
    return check;
  };
  return call;
}

/// What a regular product reads and writes, and how the host comes by rows of the former.
struct RegularOperands {
  StagedMatrix *a, *d;
  void (Workbench::*show_rows)(std::span<const std::int64_t>);
};

ArmCall regular_call(Arm arm, const Case& one, const RegularShape& shape,
                     const RegularOperands& operands, Workbench& bench) {
  const BatchedGemm gemm = BatchedGemm::plan(
      {.batch = shape.batch, .m = shape.m, .n = shape.n, .k = shape.k}, bench.device());
  const Site& site = bench.site();
  const auto workspace = std::make_shared<SiteWorkspace>(gemm.workspace_bytes(), site.stream());
  ArmCall call;
  call.arm = arm;
  call.regular = shape;
  call.result = describe(one, bench, problem_of(one, Strategy::grouped));
  call.result.run.implementation = gemm.implementation();
  call.execute = [gemm, workspace, shape, operands, &bench] {
    gemm.execute({.a = operands.a->site_view({shape.batch, shape.m, shape.k}),
                  .w = bench.w.site_view({shape.batch, shape.n, shape.k}),
                  .d = operands.d->site_view({shape.batch, shape.m, shape.n})},
                 workspace->get(), bench.site().stream());
  };
  call.check = [execute = call.execute, shape, operands, &bench] {
    // Elements lie as those of a grouped product with equal rows, which is checked in their place.
    const std::int64_t written = shape.batch * shape.m * shape.n / operands.d->host().width();
    const std::vector<std::int32_t> whole = {static_cast<std::int32_t>(written)};
    CheckResult check = execute_poisoned(execute, *operands.d, bench.site(), whole);
    std::vector<std::int32_t> offs;
    for (std::int64_t i = 1; i <= shape.batch; ++i) {
      offs.push_back(static_cast<std::int32_t>(i * shape.m));
    }
    GroupedGemmProblem problem;
    problem.num_experts = static_cast<int>(shape.batch);
    problem.max_rows = shape.batch * shape.m;
    problem.n = shape.n;
    problem.k = shape.k;
    const CheckOptions options{.seed = bench.seed()};
    const std::vector<std::int64_t> rows = checked_rows(problem, offs, options);
    (bench.*operands.show_rows)(rows);
    operands.d->fetch_rows(shape.n, rows, bench.site());
    const GroupedGemmArgs host = {.a = {operands.a->host_view({problem.max_rows, shape.k}), {}},
                                  .b = {bench.w.host_view({shape.batch, shape.n, shape.k}), {}},
                                  .offs = view(std::span<const std::int32_t>(offs), {shape.batch}),
                                  .d = operands.d->host_view({problem.max_rows, shape.n})};
    check.merge(check_grouped_gemm(problem, host, options));
    return check;
  };
  return call;
}

ArmCall prefilled_call(const Case& one, Workbench& bench) {
  const planner::ProductShape size = one.product();
  const std::int64_t rows = one.record.rows(), experts = one.experts();
  const std::int64_t capacity = capacity_rows(Capacity{}, rows, experts);
  for (const std::int64_t count : one.record.counts) {
    if (count > capacity) refuse("case", "rows that fit a prefilled batch", one.key);
  }
  bench.prepare_batch(one, capacity);
  ArmCall call = regular_call(Arm::padded_bmm, one, {experts, capacity, size.n, size.k},
                              {&bench.batch_x, &bench.batch_y, &Workbench::show_batch_rows}, bench);
  BenchCase& result = call.result;
  result.problem.strategy = result.run.strategy = Strategy::padded_bmm;
  result.run.executed_flops = 2 * experts * capacity * size.n * size.k;
  result.run.padding_fraction =
      1 - static_cast<double>(rows) / static_cast<double>(experts * capacity);
  return call;
}

ArmCall dense_call(const Case& one, Workbench& bench) {
  const planner::ProductShape size = one.product();
  const bool joined = one.dense == DenseControl::joined;
  const RegularShape shape =
      joined ? RegularShape{1, one.record.counts.front(), one.experts() * size.n, size.k}
             : RegularShape{1, one.record.rows(), size.n, size.k};
  ArmCall call =
      regular_call(Arm::dense, one, shape, {&bench.x, &bench.y, &Workbench::show_x_rows}, bench);
  // The product's own operands once; the grouped one's would be other rows or weights.
  call.result.min_bytes = 2 * (shape.m * shape.k + shape.n * shape.k + shape.m * shape.n);
  return call;
}

}  // namespace

ArmCall make_call(Arm arm, const Case& one, Workbench& bench) {
  switch (arm) {
    case Arm::grouped:
      return strategy_call(arm, Strategy::grouped, one, bench);
    case Arm::padded_bmm:
      return one.padded == PaddedBatch::prefilled
                 ? prefilled_call(one, bench)
                 : strategy_call(arm, Strategy::padded_bmm, one, bench);
    case Arm::host_loop:
      return strategy_call(arm, Strategy::host_loop, one, bench);
    case Arm::dense:
      return dense_call(one, bench);
    case Arm::torch:
      break;
  }
  refuse("arm", "one that this command runs", name(arm));
}

}  // namespace moesaic::cli::experiment
