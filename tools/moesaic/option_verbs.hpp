// SPDX-License-Identifier: Apache-2.0
// Declares the flags of each verb.
#pragma once

#include "options.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace moesaic::cli {

void declare_plan(CLI::App& app, Options& options);
void declare_run(CLI::App& app, Options& options);
void declare_verify(CLI::App& app, Options& options);
void declare_bench(CLI::App& app, Options& options);
void declare_bench_ep(CLI::App& app, Options& options);
void declare_experiment(CLI::App& app, Options& options);
/// What one flag of `experiment` alone cannot tell. @throws Error{invalid_argument}.
void check_experiment(const Options& options);
void declare_report(CLI::App& app, Options& options);
/// What one flag of `report` alone cannot tell. @throws Error{invalid_argument}.
void check_report(const Options& options);
void declare_info(CLI::App& app, Options& options);

}  // namespace moesaic::cli
