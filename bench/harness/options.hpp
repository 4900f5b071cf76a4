// SPDX-License-Identifier: Apache-2.0
// The flags that every benchmark program takes beside those of Google Benchmark.
#pragma once

#include <cstdint>
#include <string>

namespace moesaic::bench {

/// What the programs share; a program ignores what it has no use for, so that scripts/bench.sh can
/// hand the same words to all of them.
struct Options {
  std::string results;        ///< --results FILE: JSON lines are appended there; empty: none.
  std::string moesaic;        ///< --moesaic FILE: the command to measure; empty: not measured.
  std::int64_t samples = 21;  ///< --samples N: timed runs of every arm, at least kLeastSamples.
  std::string command;        ///< The command line as it was typed, for the result rows.
};

inline constexpr std::int64_t kLeastSamples = 15;

/// Takes the flags above out of argc and argv and leaves the rest to Google Benchmark. `--help`
/// stays, after their description has been printed.
/// @throws Error{invalid_argument} naming the flag, what was expected and what came.
Options take_options(int& argc, char** argv);

}  // namespace moesaic::bench
