// SPDX-License-Identifier: Apache-2.0
// Output held back in a temporary file.
#include "spool.hpp"

#include <vector>

#include "moesaic/error.hpp"

namespace moesaic::cli {
namespace {

[[noreturn]] void fail(const char* what) {
  throw Error(ErrorCode::invalid_argument,
              std::string("temporary file: expected room for the output, but ") + what);
}

}  // namespace

Spool::Spool() : file_(std::tmpfile()) {
  if (!file_) fail("none could be created (TMPDIR or /tmp)");
}

void Spool::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) {
    fail("writing failed (disk full?)");
  }
}

void Spool::release() {
  if (std::fflush(file_.get()) != 0) fail("writing failed (disk full?)");
  if (std::fseek(file_.get(), 0, SEEK_SET) != 0) fail("seeking failed");
  std::vector<char> block(1 << 16);
  for (std::size_t got = 0; (got = std::fread(block.data(), 1, block.size(), file_.get())) > 0;) {
    if (std::fwrite(block.data(), 1, got, stdout) != got) {
      throw Error(ErrorCode::invalid_argument,
                  "standard output: expected to be writable, but writing failed");
    }
  }
  if (std::ferror(file_.get()) != 0) fail("reading it back failed");
}

}  // namespace moesaic::cli
