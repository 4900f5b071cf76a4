// SPDX-License-Identifier: Apache-2.0
// Where result rows go: a file that is appended to, standard output, or nowhere.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

namespace moesaic::cli {

class RowSink {
 public:
  /// `path` as `flag` has it: "-" is standard output, empty is nowhere. A row that an interrupted
  /// run left unfinished gets its newline, so that nothing is joined to it.
  /// @throws Error{invalid_argument} naming the flag when the file cannot be written.
  explicit RowSink(const std::string& path, std::string flag = "--json");
  /// One row, without a newline, delivered before it returns: a later failure costs no row.
  /// @throws Error{invalid_argument} when writing fails.
  void write(const std::string& row);
  [[nodiscard]] bool takes_stdout() const { return to_stdout_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  std::string flag_;
  bool to_stdout_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace moesaic::cli
