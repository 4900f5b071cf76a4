// SPDX-License-Identifier: Apache-2.0
// One case of `run`: a record executed by one strategy, checked and timed. Which records and
// strategies are chosen is cmd_run.cpp's; how results are printed run_output.cpp's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cpu_load.hpp"
#include "moesaic/check.hpp"
#include "moesaic/device.hpp"
#include "moesaic/routing.hpp"
#include "options.hpp"

namespace moesaic::cli {

/// What a layer's activations and intermediates take, beside its operands, results and gradients.
struct MlpMemory {
  std::int64_t saved_bytes = 0;  ///< U [M, 2h], from forward to backward; 0 with recompute.
  std::int64_t forward_scratch_bytes = 0, backward_scratch_bytes = 0;  ///< While a call runs.
  /// Most at any time.
  [[nodiscard]] std::int64_t peak_bytes() const {
    return saved_bytes + std::max(forward_scratch_bytes, backward_scratch_bytes);
  }
};

/// A finished case. FLOPs are of one execute; for mlp of forward and backward together.
struct RunCase {
  std::string source, label;
  std::int64_t layer = 0, step = 0, rank = -1;
  std::int64_t experts = 0, rows = 0, d = 0, h = 0;
  RunPass pass = RunPass::forward;
  planner::Projection projection = planner::Projection::up_gate;
  Strategy strategy = Strategy::grouped;
  Format format = Format::bf16;
  std::string backend, implementation;
  bool named = false;  ///< Asked for by its implementation, beside the strategies.
  std::int64_t useful_flops = 0, executed_flops = 0;
  double padding_fraction = 0;  ///< Executed rows that carry no route / executed rows.
  std::int64_t overflow_rows = 0;
  double seconds = 0;                                ///< Median of `samples`; 0 without samples.
  double p05_seconds = 0, p95_seconds = 0;           ///< Their 5th and 95th percentile.
  double forward_seconds = 0, backward_seconds = 0;  ///< mlp only.
  std::int64_t samples = 0;    ///< 0 for a record without rows: nothing that could be timed.
  CpuLoad load;                ///< While the samples ran; on a CPU only.
  double grouped_seconds = 0;  ///< Of grouped on the same operands; 0 if it was not timed.
  UpGateOrder order = UpGateOrder::up_gate;
  Activations activations = Activations::save;
  XRows x_rows = XRows::in_order;
  std::int64_t tokens = 0;  ///< Rows of x, unless it is in order.
  MlpMemory memory;         ///< mlp only.
  CheckResult check;

  [[nodiscard]] double useful_tflops() const {
    return seconds > 0 ? static_cast<double>(useful_flops) / seconds * 1e-12 : 0;
  }
  [[nodiscard]] double physical_tflops() const {
    return seconds > 0 ? static_cast<double>(executed_flops) / seconds * 1e-12 : 0;
  }
  /// True for times on a CPU that say little: they vary wildly, or others took the CPUs.
  [[nodiscard]] bool unsteady() const;
};

/// A strategy that could not run, with every reason.
struct SkippedCase {
  std::string where, reason;
};

struct RunResults {
  std::vector<RunCase> cases;
  std::vector<SkippedCase> skipped;
};

/// Told how much of a strategy's case is done, 0 to 1.
using CaseProgress = std::function<void(Strategy, double)>;
inline constexpr double kCheckedShare = 0.5;

/// The grouped product that a record and the flags describe.
GroupedGemmProblem gemm_problem(const RunFlags& flags, std::int64_t experts, std::int64_t rows);
/// The SwiGLU layer that a record and the flags describe.
ExpertMlpProblem mlp_problem(const RunFlags& flags, std::int64_t experts, std::int64_t rows);

/// Rows of x that `rows` rows of the layer are, with --x-rows.
std::int64_t num_tokens(const RunFlags& flags, std::int64_t rows);

/// Runs every strategy of `flags` on one record and appends to `results`. Operands are made once.
/// @throws Error{invalid_argument} when the operands do not fit into memory, Error{unsupported}
/// when a strategy that was asked for by name cannot run.
void run_gemm(const routing::Record& record, const RunFlags& flags, const DeviceInfo& device,
              std::uint64_t seed, const CaseProgress& progress, RunResults& results);
void run_mlp(const routing::Record& record, const RunFlags& flags, const DeviceInfo& device,
             std::uint64_t seed, const CaseProgress& progress, RunResults& results);

/// Why no strategy of `flags` can run this record on `device`, in the words for the first of them;
/// empty when one can.
std::string why_not_on(const DeviceInfo& device, const RunFlags& flags,
                       const routing::Record& record);

/// What the two share: everything of a case that does not come from executing it.
RunCase describe_case(const routing::Record& record, const RunFlags& flags,
                      const DeviceInfo& device, Strategy strategy);
/// Median and spread of the samples, and who used the CPUs meanwhile.
void set_times(RunCase& result, const std::vector<double>& samples_seconds, const CpuLoad& load);
/// Tells cases that ran on the same operands the time of grouped among them, as a plan chose it.
void set_grouped(const std::vector<RunCase*>& same);
/// "31 ms", or "31 ms unsteady": the 95th percentile in a table.
std::string spread_words(const RunCase& one);
/// One line that names the strategies with unsteady cases, and what helps; empty without any.
std::string unsteady_warning(const std::vector<RunCase>& cases);
/// Rows that `strategy` multiplies on these counts; fills padding_fraction and overflow_rows.
std::int64_t executed_rows(const routing::Record& record, const RunFlags& flags, RunCase& result);
/// Throws for a strategy asked for by name; else notes it as skipped.
void skip_or_throw(const routing::Record& record, const RunFlags& flags, Strategy strategy,
                   const Error& error, RunResults& results);

/// "layer 3 step 0 rank 2 of routing.json".
std::string place_of(const routing::Record& record);

/// The part of a refusal that is about implementations of `strategy`; all of it when none is.
std::string own_reasons(std::string_view refusal, Strategy strategy);

/// The table of cases, grouped beside the other strategies; records without rows have no ratios,
/// and rescaled ones a note.
std::string run_text(const RunFlags& flags, const std::vector<RunCase>& cases);
std::string run_csv(const std::vector<RunCase>& cases);
/// The command line that runs this case alone.
std::string reproduce_line(const Options& options, const RunCase& result);

}  // namespace moesaic::cli
