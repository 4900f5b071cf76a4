// SPDX-License-Identifier: Apache-2.0
// How `run` shows its cases: a table, and the command that repeats one.
#include <algorithm>
#include <utility>

#include "arguments.hpp"
#include "run.hpp"
#include "table.hpp"
#include "text.hpp"

namespace moesaic::cli {

namespace {

std::string place_words(std::int64_t layer, std::int64_t step, std::int64_t rank,
                        const std::string& source) {
  std::string place = "layer " + std::to_string(layer) + " step " + std::to_string(step);
  if (rank >= 0) place += " rank " + std::to_string(rank);
  return place + " of " + source;
}

}  // namespace

std::string place_of(const routing::Record& record) {
  return place_words(record.layer, record.step, record.rank, record.source);
}

namespace {

std::string product_words(const RunFlags& flags) {
  if (flags.pass == RunPass::mlp) {
    return format("mlp (forward and backward), order %s, activations %s",
                  std::string(name(flags.order)).c_str(), flags.recompute ? "recompute" : "save");
  }
  const planner::ProductShape product = planner::product_shape(flags.shape, flags.projection);
  return format("%s, %s: N = %lld, K = %lld", std::string(name(flags.pass)).c_str(),
                std::string(name(flags.projection)).c_str(), static_cast<long long>(product.n),
                static_cast<long long>(product.k));
}

std::string check_words(const CheckResult& check) {
  if (check.mismatches == 0 && check.elements == 0) return "-";
  return check.mismatches == 0
             ? format("%s ok, worst %.2f", grouped_digits(check.elements).c_str(), check.worst)
             : format("%s WRONG of %s", grouped_digits(check.mismatches).c_str(),
                      grouped_digits(check.elements).c_str());
}

bool many_sources(const std::vector<RunCase>& cases) {
  return std::any_of(cases.begin(), cases.end(),
                     [&](const RunCase& one) { return one.source != cases.front().source; });
}

/// One line per record whose rows are not the source's own, or that has none.
std::string record_notes(const std::vector<RunCase>& cases) {
  std::string text, last;
  for (const RunCase& one : cases) {
    const std::string place = place_words(one.layer, one.step, one.rank, one.source);
    std::string lines;
    if (one.rows == 0) lines += place + ": nothing to run: no rows\n";
    if (one.label.find("rescaled") != std::string::npos) lines += place + ": " + one.label + "\n";
    if (lines != last) text += lines;
    last = std::move(lines);
  }
  return text;
}

/// What the activations of a layer take; the same line once.
std::string memory_notes(const std::vector<RunCase>& cases) {
  std::string text;
  for (const RunCase& one : cases) {
    if (one.pass != RunPass::mlp || one.rows == 0) continue;
    const std::string line =
        format("%s, %s: keeps %s from forward to backward, scratch %s forward and %s backward\n",
               std::string(name(one.strategy)).c_str(), std::string(name(one.activations)).c_str(),
               byte_count(static_cast<double>(one.memory.saved_bytes)).c_str(),
               byte_count(static_cast<double>(one.memory.forward_scratch_bytes)).c_str(),
               byte_count(static_cast<double>(one.memory.backward_scratch_bytes)).c_str());
    if (text.find(line) == std::string::npos) text += line;
  }
  return text.empty() ? text : "\nMemory of activations\n" + text;
}

std::vector<std::string> table_row(const RunCase& one) {
  const bool timed = one.samples > 0;
  return {
      std::to_string(one.layer),
      std::to_string(one.step),
      one.rank < 0 ? "-" : std::to_string(one.rank),
      std::to_string(one.experts),
      grouped_digits(one.rows),
      std::string(name(one.strategy)),
      timed ? duration(one.seconds) : "-",
      timed ? duration(one.p05_seconds) : "-",
      timed ? spread_words(one) : "-",
      timed && one.grouped_seconds > 0 ? format("%.2f", one.seconds / one.grouped_seconds) : "-",
      timed ? format("%.4g", one.useful_tflops()) : "-",
      timed ? format("%.4g", one.physical_tflops()) : "-",
      one.rows > 0 ? percent(one.padding_fraction) : "-",
      grouped_digits(one.overflow_rows),
      check_words(one.check),
      one.implementation};
}

}  // namespace

std::string run_text(const RunFlags& flags, const std::vector<RunCase>& cases) {
  std::string text =
      format("%s; d = %lld, h = %lld; %s; capacity %s\n\n", product_words(flags).c_str(),
             static_cast<long long>(flags.shape.d), static_cast<long long>(flags.shape.h),
             std::string(dtype_word(flags.format)).c_str(), to_string(flags.capacity).c_str());
  std::vector<Column> columns = {{"layer"},
                                 {"step"},
                                 {"rank"},
                                 {"experts"},
                                 {"rows"},
                                 {"strategy", Align::left},
                                 {"time"},
                                 {"p05"},
                                 {"p95"},
                                 {"/ grouped"},
                                 {"useful TFLOP/s"},
                                 {"physical TFLOP/s"},
                                 {"padding"},
                                 {"overflow rows"},
                                 {"check", Align::left},
                                 {"implementation", Align::left}};
  const bool sources = many_sources(cases);
  if (sources) columns.insert(columns.begin(), {"source", Align::left});
  Table table(std::move(columns));
  for (const RunCase& one : cases) {
    std::vector<std::string> row = table_row(one);
    if (sources) row.insert(row.begin(), one.source);
    table.add(std::move(row));
  }
  text += table.text();
  const std::string notes = record_notes(cases);
  if (!notes.empty()) text += "\n" + notes;
  text += memory_notes(cases);
  return text +
         "\nUseful counts rows that carry a route; physical counts every row that was "
         "multiplied.\n";
}

std::string reproduce_line(const Options& options, const RunCase& result) {
  const InputOptions& input = options.input;
  const RunFlags& flags = options.run;
  const bool whole_rank = result.rank >= 0 && !input.ep && !input.rank;
  std::string line = "moesaic run " + shell_quote(result.source);
  const auto add = [&line](const std::string& flag, const std::string& value) {
    line += " " + flag + " " + shell_quote(value);
  };
  if (input.experts) add("--experts", std::to_string(*input.experts));
  if (input.rows) add("--rows", std::to_string(*input.rows));
  if (input.form) add("--form", std::string(routing::to_string(*input.form)));
  add("--layer", std::to_string(result.layer));
  add("--step", std::to_string(result.step));
  if (input.ep) add("--ep", std::to_string(*input.ep));
  if (result.rank >= 0 && !whole_rank) add("--rank", std::to_string(result.rank));
  add("--shape", flags.shape_text);
  add("--pass", std::string(name(flags.pass)));
  if (flags.pass == RunPass::mlp) {
    add("--order", std::string(name(flags.order)));
    if (flags.recompute) line += " --recompute";
  } else {
    add("--proj", std::string(name(flags.projection)));
  }
  add("--dtype", std::string(dtype_word(flags.format)));
  add("--backend", result.backend);
  add("--strategy", std::string(name(result.strategy)));
  add("--capacity", to_string(flags.capacity));
  add("--seed", std::to_string(input.seed));
  return line;
}

}  // namespace moesaic::cli
