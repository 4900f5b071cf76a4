// SPDX-License-Identifier: Apache-2.0
// What the command tells its caller by its exit status. Which failure becomes which code is
// main.cpp's.
#pragma once

namespace moesaic::cli {

enum class ExitCode : int {
  fine = 0,
  check_failed = 1,  ///< A result missed its bound, or a threshold was missed.
  bad_input = 2,     ///< Bad usage, or input that cannot be read.
  no_device = 3,     ///< No device or implementation can do what was asked.
  skipped = 4,       ///< Under --strict: finished, but cases were skipped, throttled or unsteady.
};

}  // namespace moesaic::cli
