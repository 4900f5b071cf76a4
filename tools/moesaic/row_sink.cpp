// SPDX-License-Identifier: Apache-2.0
// Where result rows go.
#include "row_sink.hpp"

#include <fstream>
#include <utility>

#include "moesaic/error.hpp"
#include "text.hpp"

namespace moesaic::cli {
namespace {

/// An interrupted run may have left a part of a row, to which nothing may be joined.
bool ends_within_a_line(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file.seekg(-1, std::ios::end)) return false;
  return file.get() != '\n';
}

}  // namespace

RowSink::RowSink(const std::string& path, std::string flag)
    : flag_(std::move(flag)), to_stdout_(path == "-") {
  if (path.empty() || to_stdout_) return;
  const bool torn = ends_within_a_line(path);
  file_.reset(std::fopen(path.c_str(), "a"));
  if (file_ == nullptr) refuse(flag_, "a file that can be written", path);
  if (torn) std::fputc('\n', file_.get());
}

void RowSink::write(const std::string& row) {
  std::FILE* target = to_stdout_ ? stdout : file_.get();
  if (target == nullptr) return;
  if (std::fputs((row + "\n").c_str(), target) < 0 || std::fflush(target) != 0) {
    throw Error(ErrorCode::invalid_argument,
                flag_ + ": expected rows to be written, but writing failed");
  }
}

}  // namespace moesaic::cli
