// SPDX-License-Identifier: Apache-2.0
// moesaic help and moesaic --version.
#include <cstdio>

#include "commands.hpp"
#include "moesaic/build_info.hpp"

namespace moesaic::cli {

ExitCode cmd_help(const Options& options) {
  std::fputs(options.help_text.c_str(), stdout);
  return ExitCode::fine;
}

ExitCode cmd_version() {
  const BuildInfo build = build_info();
  std::printf("moesaic %s (%s%s)\n", build.version.c_str(), build.git_sha.c_str(),
              build.git_dirty ? ", modified" : "");
  return ExitCode::fine;
}

}  // namespace moesaic::cli
