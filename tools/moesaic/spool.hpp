// SPDX-License-Identifier: Apache-2.0
// Output held back in a temporary file until all input has been read, so that a refusal found late
// leaves stdout empty and memory does not grow with the output.
#pragma once

#include <cstdio>
#include <memory>
#include <string_view>

namespace moesaic::cli {

class Spool {
 public:
  /// @throws Error{device_failure} when no temporary file can be made.
  Spool();
  void write(std::string_view text);
  /// Copies all that was written to stdout.
  void release();

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace moesaic::cli
