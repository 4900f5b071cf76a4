// SPDX-License-Identifier: Apache-2.0
// The flags of bench ep.
#include <CLI/CLI.hpp>

#include "arguments.hpp"
#include "option_flags.hpp"
#include "option_verbs.hpp"

namespace moesaic::cli {
namespace {

constexpr std::int64_t kMostBlocks = 65'535, kMostRanks = 1024, kMostSamples = 80;

/// A flag with a number from `low` to `high`.
template <class T>
void add_number(CLI::App& app, const std::string& flag, const std::string& help, T& target,
                std::int64_t low, std::int64_t high = kMaxCount) {
  add(app, flag, "N", help, [&target, flag, low, high](const std::string& text) {
    target = static_cast<T>(parse_integer(flag, text, low, high));
  });
}

}  // namespace

void declare_bench_ep(CLI::App& app, Options& options) {
  EpBenchFlags& bench = options.ep_bench;
  add_number(app, "--tokens", "Tokens of every rank (8192)", bench.tokens, 1, 1 << 24);
  add_number(app, "--topk", "Experts of a token (8)", bench.topk, 1, 256);
  add_number(app, "--experts", "Experts of all ranks, a multiple of their number (64)",
             bench.experts, 1, 65'536);
  add_number(app, "--d", "Elements of a row, a multiple of 8 (4096)", bench.d, 8, 1 << 20);
  add(app, "--routing", "uniform|zipf:S,...", "How often experts are chosen (uniform,zipf:1)",
      [&bench](const std::string& text) {
        bench.routings.clear();
        for (const std::string& word : parse_list<std::string>(
                 "--routing", text, [](std::string_view one) { return std::string(one); })) {
          bench.routings.push_back(parse_ep_routing(word));
        }
      });
  add(app, "--dtype", "DTYPE", "bf16 (default) or fp32",
      [&bench](const std::string& text) { bench.format = parse_dtype(text); });
  add(app, "--capacity", "F", "Rows of a rank's buffer over tokens times topk (1.25)",
      [&bench](const std::string& text) {
        const Capacity capacity = read_capacity(text);
        if (capacity.rule != CapacityRule::ceil_mean) refuse("--capacity", "a factor alone", text);
        bench.capacity_factor_millionths = capacity.factor_millionths;
      });
  add(app, "--nblocks", "N,N,...", "Thread blocks of a transfer; 0: the transport's own number (0)",
      [&bench](const std::string& text) {
        bench.nblocks = parse_list<int>("--nblocks", text, [](std::string_view one) {
          return static_cast<int>(parse_integer("--nblocks", one, 0, kMostBlocks));
        });
      });
  add_number(app, "--samples", "Timed runs of every operation, 5 to 80 (20)", bench.samples, 5,
             kMostSamples);
  add(app, "--seed", "N", "Seed of the routing (1)",
      [&bench](const std::string& text) { bench.seed = parse_seed("--seed", text); });
  add_number(app, "--simulated", "That many ranks in this process, on the CPU", bench.simulated, 1,
             kMostRanks);
  add(app, "--json", "FILE", "Append one JSON line per case; -: to standard output, without table",
      [&bench](const std::string& text) { bench.json_path = text; });
  app.footer(
      "One process per GPU; RANK, WORLD_SIZE, LOCAL_RANK and MOESAIC_RENDEZVOUS (a folder that "
      "they\n"
      "share, new for every run) say who is who. Rates are of the remote rows of the busiest "
      "direction\n"
      "of any rank, times of the slowest rank. Every figure is checked first.\n\n"
      "Examples:\n"
      "  scripts/run_ranks.sh 2 moesaic bench ep --nblocks 0,32,64,132,264 --json ep.jsonl\n"
      "  moesaic bench ep --simulated 2 --tokens 64 --d 64 --experts 8 --topk 2");
}

}  // namespace moesaic::cli
