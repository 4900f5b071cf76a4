// SPDX-License-Identifier: Apache-2.0
// The contract of the grouped product as named cases in groups. A case compares elements and
// reports the first one that is wrong, or in words what else is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "moesaic/check.hpp"
#include "moesaic/device.hpp"
#include "moesaic/expert_mlp.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "staging.hpp"

namespace moesaic::cli {

/// What one case found.
struct CaseOutcome {
  CheckResult check;
  std::string
      failure;  ///< What is wrong beside elements: a fault record, a refusal. Empty: nothing.
  [[nodiscard]] bool ok() const { return check.mismatches == 0 && failure.empty(); }
};

/// "no fault", "offs_not_monotonic at expert 2, value 7"
std::string fault_words(const DeviceFault& fault);

struct FailedCase {
  std::string name;
  CaseOutcome outcome;
};
struct GroupReport {
  std::string name, what;
  std::int64_t cases = 0, failed_cases = 0, elements = 0, mismatches = 0;
  double worst = 0;  ///< Of the cases with a bound.
};
struct VerifyReport {
  std::string device;  ///< "cuda:0 (NVIDIA H200)"
  std::uint64_t seed = 1;
  std::vector<GroupReport> groups;
  std::vector<FailedCase> failures;
  std::vector<std::string>
      skipped;  ///< Implementations and cases that could not run, with reasons.
  [[nodiscard]] bool ok() const { return failures.empty(); }
  /// The command that runs one case again.
  [[nodiscard]] std::string reproduce(const std::string& case_name) const;
};

/// Runs cases and keeps the score.
class Verifier {
 public:
  Verifier(const Options& options, const DeviceInfo& device);

  [[nodiscard]] const DeviceInfo& device() const { return device_; }
  [[nodiscard]] const Site& site() const { return site_; }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  [[nodiscard]] bool quick() const { return flags_.quick; }
  [[nodiscard]] bool wants(Pass pass, Format format) const;
  [[nodiscard]] bool wants_mlp(Format format) const;

  /// Starts a group; cases count for it until the next.
  void group(const std::string& name, const std::string& what);
  /// True when --case leaves some case of the current group with this beginning to run.
  [[nodiscard]] bool selected(const std::string& name) const;
  /// Runs `work` if the case is selected. An exception is a failure. `name` is without the group.
  void run(const std::string& name, const std::function<CaseOutcome()>& work);
  void skip(const std::string& reason);

  /// Every implementation of every strategy that takes `problem` with `options`; without options, a
  /// strategy that nobody takes is noted as skipped.
  struct Choice {
    Strategy strategy;
    std::string implementation;
  };
  std::vector<Choice> choices(const GroupedGemmProblem& problem,
                              const PlanOptions* options = nullptr);

  [[nodiscard]] VerifyReport finish();

 private:
  const VerifyFlags flags_;
  const std::uint64_t seed_;
  const DeviceInfo device_;
  const Site site_;
  VerifyReport report_;
  Progress progress_;
};

/// What can run a layer: its products by their names, and what is chosen where none is named if
/// that is another, since an expert with fused products has no name to ask for. Those that cannot
/// are noted as skipped.
struct MlpChoice {
  std::string name;
  std::function<ExpertMlp()> plan;
};
std::vector<MlpChoice> mlp_choices(Verifier& verifier, const ExpertMlpProblem& problem);

void verify_exact(Verifier& verifier);       ///< Integers: equal bits on every histogram.
void verify_random(Verifier& verifier);      ///< Normal operands within the bound, every element.
void verify_accumulate(Verifier& verifier);  ///< wgrad into a buffer of the caller.
void verify_repeat(Verifier& verifier);      ///< The same bits twice, whatever neighbours hold.
void verify_options(Verifier& verifier);     ///< Plans with limits, packed weights.
void verify_faults(Verifier& verifier);      ///< Wrong offsets.
void verify_overflow(Verifier& verifier);    ///< Rows beyond the capacity of a padded batch.
void verify_refusals(Verifier& verifier);    ///< What execute must refuse, by the argument's name.
void verify_wide_strides(Verifier& verifier);  ///< Addresses past 2^31 elements.
void verify_mlp(Verifier& verifier);           ///< The SwiGLU layer, forward and backward.
void verify_mlp_rows(Verifier& verifier);      ///< The same with x_rows and row_weights.

}  // namespace moesaic::cli
