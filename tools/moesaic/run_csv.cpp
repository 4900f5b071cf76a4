// SPDX-License-Identifier: Apache-2.0
// The cases of `run` as CSV.
#include "arguments.hpp"
#include "run.hpp"
#include "table.hpp"

namespace moesaic::cli {

std::string run_csv(const std::vector<RunCase>& cases) {
  const std::vector<std::string> titles = {"source",
                                           "layer",
                                           "step",
                                           "experts",
                                           "rows",
                                           "pass",
                                           "proj",
                                           "strategy",
                                           "backend",
                                           "dtype",
                                           "d",
                                           "h",
                                           "useful_flops",
                                           "executed_flops",
                                           "padding_fraction",
                                           "overflow_rows",
                                           "seconds",
                                           "useful_tflops",
                                           "elements",
                                           "mismatches",
                                           "worst",
                                           "rank",
                                           "implementation",
                                           "samples",
                                           "physical_tflops",
                                           "p05_seconds",
                                           "p95_seconds",
                                           "unsteady"};
  std::string text = csv_line(titles);
  for (const RunCase& one : cases) {
    const std::vector<std::string> words = {one.source,
                                            std::to_string(one.layer),
                                            std::to_string(one.step),
                                            std::to_string(one.experts),
                                            std::to_string(one.rows),
                                            std::string(name(one.pass)),
                                            std::string(name(one.projection)),
                                            std::string(name(one.strategy)),
                                            one.backend,
                                            std::string(dtype_word(one.format)),
                                            std::to_string(one.d),
                                            std::to_string(one.h),
                                            std::to_string(one.useful_flops),
                                            std::to_string(one.executed_flops),
                                            csv_number(one.padding_fraction),
                                            std::to_string(one.overflow_rows),
                                            csv_number(one.seconds),
                                            csv_number(one.useful_tflops()),
                                            std::to_string(one.check.elements),
                                            std::to_string(one.check.mismatches),
                                            csv_number(one.check.worst),
                                            one.rank < 0 ? "" : std::to_string(one.rank),
                                            one.implementation,
                                            std::to_string(one.samples),
                                            csv_number(one.physical_tflops()),
                                            csv_number(one.p05_seconds),
                                            csv_number(one.p95_seconds),
                                            one.unsteady() ? "1" : "0"};
    text += csv_line(words);
  }
  return text;
}

}  // namespace moesaic::cli
