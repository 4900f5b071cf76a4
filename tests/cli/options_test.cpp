// SPDX-License-Identifier: Apache-2.0
// From words to options: defaults, every value, refusals as moesaic::Error.
#include "tools/moesaic/options.hpp"

#include <gtest/gtest.h>

#include "moesaic/error.hpp"
#include "tools/moesaic/arguments.hpp"
#include "tools/moesaic/machine.hpp"
#include "tools/moesaic/run.hpp"

namespace moesaic::cli {
namespace {

Options parse(std::vector<std::string> words) { return parse_command_line(words); }

TEST(Options, DefaultsOfRunAreTheDocumentedOnes) {
  const Options options = parse({"run", "a.json", "--shape", "small-2"});
  EXPECT_EQ(options.verb, Verb::run);
  EXPECT_EQ(options.input.inputs, std::vector<std::string>{"a.json"});
  EXPECT_EQ(options.input.seed, 1U);
  EXPECT_EQ(options.run.pass, RunPass::forward);
  EXPECT_EQ(options.run.projection, planner::Projection::up_gate);
  EXPECT_EQ(options.run.order, UpGateOrder::up_gate);
  EXPECT_EQ(options.run.format, Format::bf16);
  EXPECT_EQ(options.run.backend, BackendChoice::automatic);
  EXPECT_EQ(options.run.strategies.size(), 3U);
  EXPECT_TRUE(options.run.all_strategies);
  EXPECT_EQ(options.run.capacity, Capacity{});
  EXPECT_FALSE(options.run.recompute);
  EXPECT_EQ(options.run.shape.d, 2048);
  EXPECT_EQ(options.run.shape.h, 2560);
}

TEST(Options, ReadsEveryFlagOfRun) {
  const Options options = parse({"run",
                                 "-",
                                 "--shape",
                                 "d=64,h=96",
                                 "--pass",
                                 "mlp",
                                 "--order",
                                 "interleaved",
                                 "--recompute",
                                 "--dtype",
                                 "fp32",
                                 "--backend",
                                 "cpu",
                                 "--strategy",
                                 "host_loop",
                                 "--capacity",
                                 "1.5:eight_row:4",
                                 "--experts",
                                 "8",
                                 "--rows",
                                 "99",
                                 "--layer",
                                 "3",
                                 "--step",
                                 "2",
                                 "--ep",
                                 "4",
                                 "--rank",
                                 "1",
                                 "--form",
                                 "offsets",
                                 "--seed",
                                 "18446744073709551615",
                                 "--csv",
                                 "--strict"});
  EXPECT_EQ(options.run.pass, RunPass::mlp);
  EXPECT_EQ(options.run.order, UpGateOrder::interleaved);
  EXPECT_TRUE(options.run.recompute);
  EXPECT_EQ(options.run.format, Format::f32);
  EXPECT_EQ(options.run.strategies, std::vector<Strategy>{Strategy::host_loop});
  EXPECT_FALSE(options.run.all_strategies);
  EXPECT_EQ(options.run.capacity, (Capacity{CapacityRule::eight_row, 1'500'000, 4}));
  EXPECT_EQ(options.input.experts, 8);
  EXPECT_EQ(options.input.rows, 99);
  EXPECT_EQ(options.input.layer, 3);
  EXPECT_EQ(options.input.step, 2);
  EXPECT_EQ(options.input.ep, 4);
  EXPECT_EQ(options.input.rank, 1);
  EXPECT_EQ(options.input.form, routing::Form::offsets);
  EXPECT_EQ(options.input.seed, UINT64_MAX);
  EXPECT_TRUE(options.output.csv && options.output.strict && !options.output.json);
}

TEST(Options, BenchGoesThroughLists) {
  const Options defaults = parse({"bench", "--shape", "small-2"});
  EXPECT_EQ(defaults.verb, Verb::bench);
  EXPECT_EQ(defaults.input.inputs, std::vector<std::string>{"uniform"});
  EXPECT_FALSE(defaults.bench.samples.has_value());
  EXPECT_FALSE(defaults.bench.threshold);
  EXPECT_EQ(defaults.bench.passes, std::vector<RunPass>{RunPass::forward});
  EXPECT_TRUE(defaults.bench.rows.empty());
  EXPECT_EQ(defaults.run.strategies.size(), 3U);
  const Options all =
      parse({"bench",       "a b.json",    "--shape",    "d=64,h=32",   "--shape",   "small-2",
             "--pass",      "wgrad,dgrad", "--proj",     "square,down", "--rows",    "8,4",
             "--samples",   "7",           "--json",     "-",           "--compare", "base",
             "--threshold", "0.5",         "--strategy", "grouped",     "--strict"});
  ASSERT_EQ(all.bench.shapes.size(), 2U);
  EXPECT_EQ(all.bench.shapes[0].d, 64);
  EXPECT_EQ(all.bench.shapes[1].h, 2560);
  EXPECT_EQ(all.bench.passes, (std::vector<RunPass>{RunPass::wgrad, RunPass::dgrad}));
  EXPECT_EQ(all.bench.projections, (std::vector<planner::Projection>{planner::Projection::square,
                                                                     planner::Projection::down}));
  EXPECT_EQ(all.bench.rows, (std::vector<std::int64_t>{8, 4}));
  EXPECT_EQ(all.bench.samples, 7);
  EXPECT_EQ(all.bench.json_path, "-");
  EXPECT_EQ(all.bench.compare_path, "base");
  EXPECT_EQ(all.bench.threshold, 0.5);
  EXPECT_FALSE(all.run.all_strategies);
  EXPECT_TRUE(all.output.strict);
  EXPECT_FALSE(all.output.json);
  EXPECT_TRUE(all.command.starts_with("moesaic bench 'a b.json' --shape d=64,h=32"));
}

TEST(Options, ARefusedCapacityNamesItsRange) {
  for (const char* verb : {"plan", "run", "bench"}) {
    for (const char* bad : {"0", "1e300", "1000001", "1.25:eight_row:0", "1.0000001"}) {
      SCOPED_TRACE(bad);
      std::string message;
      try {
        parse({verb, "uniform", "--shape", "small-2", "--capacity", bad});
      } catch (const Error& error) {
        message = error.what();
      }
      EXPECT_NE(message.find("--capacity: expected FACTOR"), std::string::npos) << message;
      EXPECT_NE(message.find("FACTOR from 0.000001 to 1000000 "), std::string::npos) << message;
      EXPECT_NE(message.find("S a whole number from 1 to 1000000"), std::string::npos) << message;
    }
  }
}

TEST(Options, AllLayersForRunOnly) {
  EXPECT_TRUE(parse({"run", "x", "--shape", "small-2", "--layer", "all"}).input.all_layers);
  EXPECT_THROW(parse({"plan", "x", "--layer", "all"}), Error);
}

TEST(Options, TilesInTheirOrder) {
  EXPECT_EQ(parse_tiles("64,8"), (std::vector<std::int64_t>{64, 8}));
  for (const char* bad : {"", "0", "-8", "8,", "8;16", "9999999999999999999", "8,8"}) {
    EXPECT_THROW(parse_tiles(bad), Error) << bad;
  }
}

TEST(Options, IntegersAreWholeAndInRange) {
  EXPECT_EQ(parse_integer("--rows", "7", 0, 9), 7);
  for (const char* bad : {"", " 7", "7 ", "+7", "7.0", "10", "-1", "0x7", "99999999999999999999"}) {
    EXPECT_THROW(parse_integer("--rows", bad, 0, 9), Error) << bad;
  }
}

TEST(Options, FlagsThatCannotApplyAreRefused) {
  const auto with = [](std::vector<std::string> more) {
    std::vector<std::string> words = {"run", "x", "--shape", "small-2"};
    words.insert(words.end(), more.begin(), more.end());
    return parse(words);
  };
  EXPECT_EQ(with({"--proj", "down"}).run.projection, planner::Projection::down);
  EXPECT_THROW(with({"--pass", "mlp", "--proj", "up_gate"}), Error);
  EXPECT_THROW(with({"--proj", "up_gate", "--pass", "mlp"}), Error);
  EXPECT_THROW(with({"--order", "up_gate"}), Error);
  EXPECT_THROW(with({"--pass", "dgrad", "--recompute"}), Error);
  EXPECT_NO_THROW(with({"--order", "up_gate", "--recompute", "--pass", "mlp"}));
}

TEST(Options, HelpHasHelp) {
  EXPECT_EQ(parse({"help", "help"}).help_text, parse({"help"}).help_text);
}

TEST(OwnReasons, KeepTheStrategysImplementationsAlone) {
  const std::string refusal =
      "no implementation on cpu takes this problem; cpu/onednn/grouped: it computes strategy "
      "grouped, not padded_bmm; cpu/onednn/padded_bmm: it needs AVX2; cpu/reference/grouped: no";
  EXPECT_EQ(own_reasons(refusal, Strategy::padded_bmm), "cpu/onednn/padded_bmm: it needs AVX2");
  EXPECT_EQ(own_reasons(refusal, Strategy::host_loop), refusal);
  EXPECT_EQ(own_reasons("no device", Strategy::grouped), "no device");
}

TEST(Machine, ReasonsAreThoseOfTheStrategyAskedFor) {
  const std::vector<Candidate> candidates = {
      {"cuda/sm90/bf16_rows", {false, "it multiplies bf16, not f32"}},
      {"cuda/cublas/host_loop", {false, "it computes strategy host_loop, not grouped"}}};
  EXPECT_EQ(reasons_against(candidates, Strategy::grouped),
            "cuda/sm90/bf16_rows: it multiplies bf16, not f32");
  EXPECT_EQ(reasons_against({{"cpu/a", {true, ""}}}, Strategy::grouped), "");
}

TEST(Machine, MemoryRefusalNamesTheFlagThatHelps) {
  const auto refusal = [](MemoryNeed need) -> std::string {
    try {
      require_memory(need);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_EQ(refusal({1, 1}), "");
  EXPECT_EQ(refusal({1e18, 1}).substr(0, 8), "--shape:");
  EXPECT_EQ(refusal({1, 1e18}).substr(0, 7), "--rows:");
}

TEST(ReproduceLine, NamesOneCaseCompletely) {
  Options options = parse({"run", "my file.json", "--shape", "d=64,h=96", "--pass", "mlp",
                           "--recompute", "--rows", "100", "--ep", "2"});
  RunCase one;
  one.source = "my file.json";
  one.layer = 4;
  one.step = 1;
  one.rank = 1;
  one.backend = "cpu";
  one.strategy = Strategy::padded_bmm;
  EXPECT_EQ(reproduce_line(options, one),
            "moesaic run 'my file.json' --rows 100 --layer 4 --step 1 --ep 2 --rank 1 --shape "
            "d=64,h=96 --pass mlp --order up_gate --recompute --dtype bf16 --backend cpu "
            "--strategy padded_bmm --capacity 1.25:ceil_mean --seed 1");
  // The line is itself a command line.
  const Options again = parse({"run", "my file.json", "--rows", "100", "--layer", "4", "--step",
                               "1", "--ep", "2", "--rank", "1", "--shape", "d=64,h=96"});
  EXPECT_EQ(again.input.layer, 4);
}

}  // namespace
}  // namespace moesaic::cli
