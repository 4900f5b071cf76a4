// SPDX-License-Identifier: Apache-2.0
// `moesaic plan` as a user starts it: seconds and peak memory of the whole process.
#pragma once

#include <functional>
#include <string>

#include "harness/comparison.hpp"
#include "process/plan_files.hpp"

namespace moesaic::bench {

/// Arms `text` and `json` of `moesaic plan FILE` over the file that `write` makes in a folder of
/// its own. Their checks read what the command prints, record by record.
Comparison plan_process(std::string name, std::string moesaic,
                        std::function<PlanFile(const std::filesystem::path&)> write);

}  // namespace moesaic::bench
