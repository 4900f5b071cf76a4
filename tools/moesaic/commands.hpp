// SPDX-License-Identifier: Apache-2.0
// The verbs. Each reads all its input before it writes a byte to stdout, so that a refusal leaves
// stdout empty, and throws moesaic::Error for what main.cpp turns into an exit code.
#pragma once

#include "exit_code.hpp"
#include "options.hpp"

namespace moesaic::cli {

ExitCode cmd_help(const Options& options);
ExitCode cmd_version();
ExitCode cmd_info(const Options& options);
ExitCode cmd_plan(const Options& options);
ExitCode cmd_run(const Options& options);
ExitCode cmd_verify(const Options& options);
ExitCode cmd_bench(const Options& options);
ExitCode cmd_bench_ep(const Options& options);
ExitCode cmd_experiment(const Options& options);
ExitCode cmd_report(const Options& options);

}  // namespace moesaic::cli
