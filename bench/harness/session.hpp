// SPDX-License-Identifier: Apache-2.0
// Hands comparisons to Google Benchmark and writes the rows of what it ran.
#pragma once

#include <vector>

#include "harness/comparison.hpp"
#include "harness/options.hpp"

namespace moesaic::bench {

/// The main() of a benchmark program. Every arm is one benchmark, `<comparison>/<arm>`, with manual
/// time. The first arm of a comparison that Google Benchmark asks for makes all of its arms
/// measured, in turn; each then shows its own samples, so a filter selects rows, never what runs
/// beside what.
/// Returns the exit code: 0, 1 when a check failed or an arm threw, 2 for a bad command line.
int run_benchmarks(const Options& options, std::vector<Comparison> comparisons, int argc,
                   char** argv);

/// Runs `body` and turns an Error that it throws into one line on stderr and exit code 2.
int guarded_main(int (*body)(int, char**), int argc, char** argv);

}  // namespace moesaic::bench
