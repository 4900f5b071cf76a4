// SPDX-License-Identifier: Apache-2.0
// See process.hpp.

#include "process/process.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>

namespace moesaic::bench {
namespace {

constexpr int kCannotStart = 127;

[[noreturn]] void fail(const std::string& call) {
  throw Error(ErrorCode::device_failure, call + ": " + std::generic_category().message(errno));
}

std::int64_t own_resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total_pages = 0;
  std::int64_t resident_pages = 0;
  file >> total_pages >> resident_pages;
  return resident_pages * ::sysconf(_SC_PAGESIZE);
}

class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) {
      fail("pipe2");
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    ::close(ends_[0]);
    close_write();
  }
  [[nodiscard]] int read_end() const noexcept { return ends_[0]; }
  [[nodiscard]] int write_end() const noexcept { return ends_[1]; }
  void close_write() {
    if (ends_[1] >= 0) {
      ::close(ends_[1]);
      ends_[1] = -1;
    }
  }

 private:
  std::array<int, 2> ends_{};
};

/// The child's side of a fork: only calls that are safe there.
[[noreturn]] void become(char* const* words, int output) {
  const int nowhere = ::open("/dev/null", O_RDWR);
  ::dup2(nowhere, STDIN_FILENO);
  ::dup2(output >= 0 ? output : nowhere, STDOUT_FILENO);
  ::dup2(nowhere, STDERR_FILENO);
  ::execv(words[0], words);
  ::_exit(kCannotStart);
}

void drain(int file, const OutputSink& sink) {
  std::vector<char> buffer(std::size_t{1} << 16);
  for (;;) {
    const ssize_t got = ::read(file, buffer.data(), buffer.size());
    if (got > 0) {
      sink({buffer.data(), static_cast<std::size_t>(got)});
    } else if (got == 0) {
      return;
    } else if (errno != EINTR) {
      fail("read");
    }
  }
}

Finished wait_for(pid_t child, std::int64_t floor_bytes) {
  int status = 0;
  rusage usage{};
  while (::wait4(child, &status, 0, &usage) < 0) {
    if (errno != EINTR) {
      fail("wait4");
    }
  }
  Finished finished;
  finished.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  finished.memory = {usage.ru_maxrss * 1024, floor_bytes};  // Linux counts in KiB
  return finished;
}

}  // namespace

Finished run_process(const std::vector<std::string>& words, const OutputSink& sink) {
  std::vector<std::string> copies = words;
  std::vector<char*> pointers;
  for (std::string& word : copies) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  Pipe pipe;
  const std::int64_t floor_bytes = own_resident_bytes();
  const pid_t child = ::fork();
  if (child < 0) {
    fail("fork");
  }
  if (child == 0) {
    become(pointers.data(), sink ? pipe.write_end() : -1);
  }
  pipe.close_write();
  if (sink) {
    drain(pipe.read_end(), sink);
  }
  const Finished finished = wait_for(child, floor_bytes);
  if (finished.exit_code == kCannotStart) {
    throw Error(ErrorCode::device_failure, words[0] + ": cannot be started");
  }
  return finished;
}

}  // namespace moesaic::bench
