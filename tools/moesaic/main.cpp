// SPDX-License-Identifier: Apache-2.0
// Entry of the command: picks the verb, turns exceptions into exit codes.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "commands.hpp"
#include "exit_code.hpp"
#include "moesaic/error.hpp"
#include "options.hpp"

namespace {

using moesaic::cli::ExitCode;

ExitCode dispatch(const moesaic::cli::Options& options) {
  using moesaic::cli::Verb;
  switch (options.verb) {
    case Verb::help:
      return moesaic::cli::cmd_help(options);
    case Verb::version:
      return moesaic::cli::cmd_version();
    case Verb::info:
      return moesaic::cli::cmd_info(options);
    case Verb::plan:
      return moesaic::cli::cmd_plan(options);
    case Verb::run:
      return moesaic::cli::cmd_run(options);
    case Verb::verify:
      return moesaic::cli::cmd_verify(options);
    case Verb::bench:
      return moesaic::cli::cmd_bench(options);
    case Verb::bench_ep:
      return moesaic::cli::cmd_bench_ep(options);
    case Verb::experiment:
      return moesaic::cli::cmd_experiment(options);
    case Verb::report:
      return moesaic::cli::cmd_report(options);
  }
  return ExitCode::bad_input;
}

ExitCode code_of(const moesaic::Error& error) {
  switch (error.code()) {
    case moesaic::ErrorCode::unsupported:
    case moesaic::ErrorCode::device_failure:
      return ExitCode::no_device;
    case moesaic::ErrorCode::invalid_argument:
    case moesaic::ErrorCode::workspace_too_small:
      break;
  }
  return ExitCode::bad_input;
}

int fail(const std::string& verb, const char* what, ExitCode code) {
  std::fprintf(stderr, "moesaic%s%s: %s\n", verb.empty() ? "" : " ", verb.c_str(), what);
  return static_cast<int>(code);
}

/// A file opened later would take the number of a closed stream and receive what is printed there.
/// False when it is standard output that is closed: nothing could be delivered.
bool open_standard_streams() {
  const auto closed = [](int descriptor) { return fcntl(descriptor, F_GETFD) == -1; };
  if (closed(STDIN_FILENO) && open("/dev/null", O_RDONLY) == -1) return false;
  if (closed(STDOUT_FILENO)) return false;
  return !closed(STDERR_FILENO) || open("/dev/null", O_WRONLY) != -1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string verb =
      !words.empty() && moesaic::cli::is_verb(words.front()) ? words.front() : "";
  if (!open_standard_streams()) {
    return fail(verb, "standard output: expected to be open, but it is closed",
                ExitCode::bad_input);
  }
  try {
    const moesaic::cli::Options options = moesaic::cli::parse_command_line(words);
    const ExitCode code = dispatch(options);
    // A text larger than the buffer fails before the flush, which then has nothing left to write.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      return fail(verb, "standard output: expected to be writable, but writing failed",
                  ExitCode::bad_input);
    }
    return static_cast<int>(code);
  } catch (const moesaic::Error& error) {
    return fail(verb, error.what(), code_of(error));
  } catch (const std::bad_alloc&) {
    return fail(verb, "out of memory; for run, fewer rows need less: --rows", ExitCode::bad_input);
  } catch (const std::exception& error) {
    return fail(verb, (std::string("internal error: ") + error.what()).c_str(),
                ExitCode::bad_input);
  }
}
