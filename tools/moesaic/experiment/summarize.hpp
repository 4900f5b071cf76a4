// SPDX-License-Identifier: Apache-2.0
// experiment --summarize: what the rows of files say, without a run.
#pragma once

#include "exit_code.hpp"
#include "options.hpp"

namespace moesaic::cli::experiment {

/// Prints the summary of every set of rows, as text or JSON. Warnings go to stderr.
/// @throws Error{invalid_argument} naming --summarize for a file that cannot be read or has no row
/// of the experiment.
ExitCode summarize(const Options& options);

}  // namespace moesaic::cli::experiment
