// SPDX-License-Identifier: Apache-2.0
// How `bench` shows its cases to people.
#include <algorithm>

#include "arguments.hpp"
#include "bench.hpp"
#include "table.hpp"
#include "text.hpp"

namespace moesaic::cli {
namespace {

std::string clock_words(const TelemetrySummary& clocks) {
  if (clocks.samples == 0) return "-";
  return format("%.0f", clocks.sm_mhz_median) + (clocks.throttled() ? " throttled" : "");
}

/// "12: 64x128, 4: 128x256"; which tile how many experts took.
std::string regime_words(const BenchCase& one) {
  std::vector<std::string> words;
  words.reserve(one.regimes.size());
  for (const auto& [regime, experts] : one.regimes) {
    words.push_back(std::to_string(experts) + ": " + regime);
  }
  return words.empty() ? "-" : join(words, ", ");
}

std::string pass_words(const RunCase& run) {
  std::string pass(name(run.pass));
  if (run.pass != RunPass::mlp) return pass;
  const std::string mode = pass + " " + std::string(name(run.activations));
  return run.x_rows == XRows::in_order ? mode : mode + " " + std::string(name(run.x_rows));
}

/// The layer has d and h where a product has N and K.
std::string width_words(const BenchCase& one) {
  const bool layer = one.run.pass == RunPass::mlp;
  return format("%lld x %lld", static_cast<long long>(layer ? one.run.d : one.problem.n),
                static_cast<long long>(layer ? one.run.h : one.problem.k));
}

/// "forward + backward", medians of their own.
std::string halves_words(const RunCase& run) {
  return run.pass == RunPass::mlp
             ? duration(run.forward_seconds) + " + " + duration(run.backward_seconds)
             : "-";
}

bool differ(const std::vector<BenchCase>& cases, std::int64_t RunCase::*member) {
  return std::any_of(cases.begin(), cases.end(), [&](const BenchCase& one) {
    return one.run.*member != cases.front().run.*member;
  });
}

}  // namespace

std::string wrong_words(const RunCase& one) {
  const Mismatch first = one.check.first.value_or(Mismatch{});
  return format(
      "%s: %lld of %lld elements wrong, not timed; first %s (expert %lld, row %lld, column %lld, "
      "got %s, want %s)",
      one.implementation.c_str(), static_cast<long long>(one.check.mismatches),
      static_cast<long long>(one.check.elements), first.tensor.c_str(),
      static_cast<long long>(first.expert), static_cast<long long>(first.row),
      static_cast<long long>(first.column), element_text(first.got).c_str(),
      element_text(first.want).c_str());
}

std::string bench_text(const std::vector<BenchCase>& cases, const DeviceInfo& device) {
  const bool compares = std::any_of(cases.begin(), cases.end(),
                                    [](const BenchCase& one) { return one.base_seconds > 0; });
  const bool has_regimes = std::any_of(cases.begin(), cases.end(),
                                       [](const BenchCase& one) { return !one.regimes.empty(); });
  const bool has_layers = std::any_of(cases.begin(), cases.end(), [](const BenchCase& one) {
    return one.run.pass == RunPass::mlp;
  });
  std::vector<Column> columns = {{"routing", Align::left},
                                 {"layer"},
                                 {"experts"},
                                 {"rows"},
                                 {"pass", Align::left},
                                 {has_layers ? "N x K, d x h" : "N x K"},
                                 {"strategy", Align::left},
                                 {"median"},
                                 {"p05"},
                                 {"p95"},
                                 {"/ grouped"},
                                 {"useful TFLOP/s"},
                                 {"physical TFLOP/s"},
                                 {"roofline"},
                                 {"SM MHz"},
                                 {"check", Align::left},
                                 {"implementation", Align::left}};
  // Where all rows are of one step and rank, as those of a SPEC, nothing is said of them.
  const bool steps = differ(cases, &RunCase::step), ranks = differ(cases, &RunCase::rank);
  if (ranks) columns.insert(columns.begin() + 2, {"rank"});
  if (steps) columns.insert(columns.begin() + 2, {"step"});
  if (has_regimes) columns.push_back({"experts by tile", Align::left});
  if (has_layers) {
    columns.insert(columns.end(), {{"forward + backward"}, {"activations"}});
  }
  if (compares) columns.push_back({"/ base"});
  Table table(columns);
  for (const BenchCase& one : cases) {
    const double grouped = one.run.grouped_seconds;
    const double roofline = roofline_fraction(one, device);
    std::vector<std::string> words = {
        one.run.source,
        std::to_string(one.run.layer),
        std::to_string(one.run.experts),
        grouped_digits(one.run.rows),
        pass_words(one.run),
        width_words(one),
        std::string(name(one.problem.strategy)),
        duration(one.run.seconds),
        duration(one.run.p05_seconds),
        spread_words(one.run),
        grouped > 0 ? format("%.2f", one.run.seconds / grouped) : "-",
        format("%.4g", one.run.useful_tflops()),
        format("%.4g", one.run.physical_tflops()),
        roofline > 0 ? percent(roofline) : "-",
        clock_words(one.clocks),
        grouped_digits(one.run.check.elements) + format(" ok, worst %.2f", one.run.check.worst),
        one.run.implementation};
    if (ranks) {
      words.insert(words.begin() + 2, one.run.rank < 0 ? "-" : std::to_string(one.run.rank));
    }
    if (steps) words.insert(words.begin() + 2, std::to_string(one.run.step));
    if (has_regimes) words.push_back(regime_words(one));
    if (has_layers) {
      words.push_back(halves_words(one.run));
      words.push_back(one.run.pass == RunPass::mlp
                          ? byte_count(static_cast<double>(one.run.memory.peak_bytes()))
                          : "-");
    }
    if (compares) words.push_back(one.base_seconds > 0 ? format("%.3f", one.ratio_to_base()) : "-");
    table.add(std::move(words));
  }
  const bool sustained = std::any_of(
      cases.begin(), cases.end(), [](const BenchCase& one) { return one.sustained.has_value(); });
  return table.text() + "\nMedian of " +
         (sustained ? "sustained work, each case alone, to and fro"
                    : "a short burst after warm-ups") +
         ". Useful counts rows that carry a route; "
         "physical "
         "counts every row that was multiplied.\n";
}

}  // namespace moesaic::cli
