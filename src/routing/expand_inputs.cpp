// SPDX-License-Identifier: Apache-2.0
// Which command-line words are files, patterns or SPECs.
#include <glob.h>
#include <sys/stat.h>

#include "moesaic/routing.hpp"
#include "routing/fail.hpp"

namespace moesaic::routing {
namespace {

bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

void expand_pattern(const std::string& pattern, std::vector<std::string>& out) {
  glob_t found{};
  const int status = ::glob(pattern.c_str(), 0, nullptr, &found);
  for (std::size_t i = 0; status == 0 && i < found.gl_pathc; ++i)
    out.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  if (status != 0) fail(pattern, ": no file matches this pattern");
}

}  // namespace

std::vector<std::string> expand_inputs(const std::vector<std::string>& inputs) {
  std::vector<std::string> out;
  for (const std::string& input : inputs) {
    const bool pattern = input.find_first_of("*?[") != std::string::npos;
    if (!pattern || input == "-" || exists(input) || looks_like_spec(input)) {
      out.push_back(input);
    } else {
      expand_pattern(input, out);
    }
  }
  return out;
}

}  // namespace moesaic::routing
