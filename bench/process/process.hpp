// SPDX-License-Identifier: Apache-2.0
// One run of another program, with its exit code and peak memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/comparison.hpp"

namespace moesaic::bench {

/// What a finished process left behind.
struct Finished {
  int exit_code = 0;  ///< 128 + the signal for a process that was killed, as a shell says it.
  PeakMemory memory;  ///< The floor is this process's own resident memory: a fork begins with it.
};

/// Receives what the process writes to its standard output, piece by piece.
using OutputSink = std::function<void(std::string_view)>;

/// Runs `words` (a program's path and its arguments) and waits. Standard output goes to `sink`, or
/// to /dev/null without one; standard error to /dev/null.
/// @throws Error{device_failure} when the process cannot be started or waited for.
Finished run_process(const std::vector<std::string>& words, const OutputSink& sink = {});

}  // namespace moesaic::bench
