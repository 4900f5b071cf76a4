// SPDX-License-Identifier: Apache-2.0
// Words of the command line into values.
#include "arguments.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "text.hpp"

namespace moesaic::cli {
namespace {

template <class T>
using Words = std::span<const std::pair<std::string_view, T>>;

template <class T>
T parse_word(std::string_view flag, std::string_view text, Words<T> words) {
  std::string known;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].first == text) return words[i].second;
    known += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
    known += words[i].first;
  }
  refuse(flag, known, text);
}

template <class T>
std::string_view word_of(T value, Words<T> words) {
  for (const auto& [word, meaning] : words) {
    if (meaning == value) return word;
  }
  return "unknown";
}

using std::pair;
constexpr std::array kPasses = {pair{std::string_view("forward"), RunPass::forward},
                                pair{std::string_view("dgrad"), RunPass::dgrad},
                                pair{std::string_view("wgrad"), RunPass::wgrad},
                                pair{std::string_view("mlp"), RunPass::mlp}};
constexpr std::array kDtypes = {pair{std::string_view("bf16"), Format::bf16},
                                pair{std::string_view("fp32"), Format::f32}};
constexpr std::array kBackends = {pair{std::string_view("auto"), BackendChoice::automatic},
                                  pair{std::string_view("cpu"), BackendChoice::cpu},
                                  pair{std::string_view("cuda"), BackendChoice::cuda}};
constexpr std::array kOrders = {pair{std::string_view("up_gate"), UpGateOrder::up_gate},
                                pair{std::string_view("gate_up"), UpGateOrder::gate_up},
                                pair{std::string_view("interleaved"), UpGateOrder::interleaved}};
constexpr std::array kViews = {pair{std::string_view("record"), ViewBy::record},
                               pair{std::string_view("layer"), ViewBy::layer},
                               pair{std::string_view("step"), ViewBy::step},
                               pair{std::string_view("rank"), ViewBy::rank}};
constexpr std::array kForms = {pair{std::string_view("counts"), routing::Form::counts},
                               pair{std::string_view("offsets"), routing::Form::offsets},
                               pair{std::string_view("ids"), routing::Form::ids},
                               pair{std::string_view("weights"), routing::Form::weights}};

}  // namespace

std::int64_t parse_integer(std::string_view flag, std::string_view text, std::int64_t low,
                           std::int64_t high) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || text.empty() || value < low || value > high) {
    refuse(flag, "a whole number from " + std::to_string(low) + " to " + std::to_string(high),
           text);
  }
  return value;
}

std::uint64_t parse_seed(std::string_view flag, std::string_view text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || text.empty()) {
    refuse(flag, "a whole number from 0 to 18446744073709551615", text);
  }
  return value;
}

std::vector<std::int64_t> parse_tiles(std::string_view text) {
  static constexpr std::int64_t kMaxTile = 1 << 20;
  return parse_list<std::int64_t>("--tiles", text, [](std::string_view word) {
    return parse_integer("--tiles", word, 1, kMaxTile);
  });
}

std::vector<std::int64_t> parse_row_counts(std::string_view text) {
  static constexpr std::int64_t kMaxRows = 2147483647;  // offsets are int32
  return parse_list<std::int64_t>("--rows", text, [](std::string_view word) {
    return parse_integer("--rows", word, 0, kMaxRows);
  });
}

double parse_threshold(std::string_view text) {
  static constexpr double kMost = 100;
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || text.empty() || !(value >= 0 && value <= kMost)) {
    refuse("--threshold", "a fraction from 0 to 100, such as 0.03", text);
  }
  return value;
}

double parse_seconds(std::string_view flag, std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  const double scale = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (error != std::errc{} || !(value * scale > 0) || !std::isfinite(value)) {
    refuse(flag, "a time above 0 with its unit, such as 90s, 30m or 1.5h", text);
  }
  return value * scale;
}

std::string read_device(std::string_view flag, std::string_view text) {
  try {
    return planner::device_preset(text).name;
  } catch (const Error& error) {
    // The library names its argument "device".
    const std::string what = error.what();
    throw Error(error.code(), std::string(flag) + what.substr(what.find(':')));
  }
}

RunPass parse_pass(std::string_view text) { return parse_word<RunPass>("--pass", text, kPasses); }
Format parse_dtype(std::string_view text) { return parse_word<Format>("--dtype", text, kDtypes); }
BackendChoice parse_backend(std::string_view text) {
  return parse_word<BackendChoice>("--backend", text, kBackends);
}
UpGateOrder parse_order(std::string_view text) {
  return parse_word<UpGateOrder>("--order", text, kOrders);
}
ViewBy parse_by(std::string_view text) { return parse_word<ViewBy>("--by", text, kViews); }
routing::Form parse_form_word(std::string_view text) {
  return parse_word<routing::Form>("--form", text, kForms);
}

std::vector<Strategy> parse_strategy(std::string_view text) {
  static constexpr std::array kAll = {Strategy::grouped, Strategy::padded_bmm, Strategy::host_loop};
  for (const Strategy strategy : kAll) {
    if (name(strategy) == text) return {strategy};
  }
  if (text != "all") refuse("--strategy", "grouped, padded_bmm, host_loop or all", text);
  return {kAll.begin(), kAll.end()};
}

void refuse_usage(const std::string& verb, const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message + " (moesaic help " + verb + ")");
}

namespace {

/// --order, --recompute and --x-rows are the layer's.
void refuse_layer_flags(const std::string& verb, const RunFlags& run, const std::string& pass) {
  for (const auto& [flag, given] :
       {std::pair{"--order", run.order_given}, std::pair{"--recompute", run.recompute},
        std::pair{"--x-rows", run.rows_per_token > 0}}) {
    if (given) {
      refuse_usage(verb, std::string(flag) + ": expected with --pass mlp, got it with " + pass);
    }
  }
}

/// And --proj is a product's.
void check_applicable(const RunFlags& run) {
  const std::string pass = "--pass " + std::string(name(run.pass));
  if (run.pass == RunPass::mlp && run.projection_given) {
    refuse_usage("run",
                 "--proj: expected with --pass forward, dgrad or wgrad, got it with " + pass);
  }
  if (run.pass != RunPass::mlp) refuse_layer_flags("run", run, pass);
}

/// What `bench` does with products, it does not do with the layer.
void check_passes(const BenchFlags& bench, const RunFlags& run) {
  const bool layer =
      std::find(bench.passes.begin(), bench.passes.end(), RunPass::mlp) != bench.passes.end();
  if (!layer) {
    refuse_layer_flags("bench", run, "no mlp in --pass");
    return;
  }
  for (const auto& [flag, given] : {std::pair{"--profile", bench.profile},
                                    std::pair{"--sustained", bench.sustained_seconds.has_value()},
                                    std::pair{"--implementation", !run.implementations.empty()}}) {
    if (given) {
      refuse_usage("bench", std::string(flag) +
                                ": expected --pass forward, dgrad or wgrad, got it with mlp");
    }
  }
}

void check_bench(const BenchFlags& bench, const RunFlags& run) {
  if (bench.threshold && bench.compare_path.empty()) {
    refuse_usage("bench", "--threshold: expected with --compare FILE, got it alone");
  }
  if (bench.profile && (!bench.json_path.empty() || !bench.compare_path.empty())) {
    refuse_usage("bench", "--profile: expected without --json and --compare, got it with one");
  }
  if (bench.profile && run.backend == BackendChoice::cpu) {
    refuse_usage("bench", "--profile: expected a CUDA device, got --backend cpu");
  }
  if (bench.sustained_seconds && bench.samples) {
    refuse_usage("bench", "--samples: expected without --sustained, got both");
  }
  if (bench.sustained_seconds && bench.profile) {
    refuse_usage("bench", "--profile: expected without --sustained, got both");
  }
  check_passes(bench, run);
}

/// Ranks of the environment are asked for their number later.
void check_bench_ep(const EpBenchFlags& bench) {
  if (bench.topk > bench.experts) {
    refuse("--topk", "at most --experts " + std::to_string(bench.experts),
           std::to_string(bench.topk));
  }
  if (bench.d % 8 != 0) refuse("--d", "a multiple of 8", std::to_string(bench.d));
  if (bench.simulated > 0 && bench.experts % bench.simulated != 0) {
    refuse("--experts", "a multiple of --simulated " + std::to_string(bench.simulated),
           std::to_string(bench.experts));
  }
}

}  // namespace

void check_together(const Options& options) {
  const InputOptions& input = options.input;
  const bool bench = options.verb == Verb::bench;
  const bool reads = options.verb == Verb::plan || options.verb == Verb::run || bench;
  const std::string verb = options.verb == Verb::plan ? "plan" : bench ? "bench" : "run";
  if (options.output.json && options.output.csv) {
    refuse_usage(verb, "--csv: expected one of --json and --csv, got both");
  }
  if (reads && input.inputs.empty()) {
    refuse_usage(verb, "FILE or SPEC: expected at least one, got none");
  }
  if (reads && std::count(input.inputs.begin(), input.inputs.end(), "-") > 1) {
    refuse_usage(verb, "-: expected standard input once, got it more than once");
  }
  if (input.ep && input.rank && *input.rank >= *input.ep) {
    refuse("--rank", "below --ep " + std::to_string(*input.ep), std::to_string(*input.rank));
  }
  const bool shapeless = options.verb == Verb::run ? options.run.shape_text.empty()
                                                   : bench && options.bench.shapes.empty();
  if (shapeless) {
    refuse_usage(verb, "--shape: expected a name or d=D,h=H, got none");
  }
  if (bench) check_bench(options.bench, options.run);
  if (options.verb == Verb::bench_ep) check_bench_ep(options.ep_bench);
  if (options.verb == Verb::run) check_applicable(options.run);
}

std::string_view name(RunPass pass) noexcept { return word_of<RunPass>(pass, kPasses); }
std::string_view name(BackendChoice choice) noexcept {
  return word_of<BackendChoice>(choice, kBackends);
}
std::string_view dtype_word(Format format) noexcept { return word_of<Format>(format, kDtypes); }

}  // namespace moesaic::cli
