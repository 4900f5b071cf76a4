// SPDX-License-Identifier: Apache-2.0
// Cases in a fresh process of this program: what one process leaves behind, such as where its
// memory lies, does not reach the next.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "experiment/course.hpp"
#include "moesaic/error.hpp"
#include "text.hpp"

namespace moesaic::cli::experiment {
namespace {

volatile std::sig_atomic_t child_id = 0;

/// A terminal sends its interrupt to the child as well; one that came from a process did not reach
/// it. kill() alone: nothing else may be called here.
void pass_on(int signal, siginfo_t* info, void* /*context*/) {
  if (info->si_code <= 0 && child_id > 0) kill(child_id, signal);
}

/// While one lives, interrupts are the child's to obey.
class PassOn {
 public:
  PassOn() {
    struct sigaction action {};
    action.sa_sigaction = pass_on;
    action.sa_flags = SA_SIGINFO;
    if (sigaction(SIGINT, nullptr, &previous_) != 0 || previous_.sa_handler == SIG_IGN) return;
    handles_ = sigaction(SIGINT, &action, nullptr) == 0;
  }
  ~PassOn() {
    child_id = 0;
    if (handles_) sigaction(SIGINT, &previous_, nullptr);
  }
  PassOn(const PassOn&) = delete;
  PassOn& operator=(const PassOn&) = delete;

 private:
  struct sigaction previous_ {};
  bool handles_ = false;
};

/// Holds interrupts back while it lives, so that none comes before the child is known.
class Hold {
 public:
  Hold() {
    sigset_t interrupts;
    sigemptyset(&interrupts);
    sigaddset(&interrupts, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupts, &previous_);
  }
  ~Hold() { release(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  void release() const { sigprocmask(SIG_SETMASK, &previous_, nullptr); }

 private:
  sigset_t previous_{};
};

[[noreturn]] void become(const std::vector<char*>& arguments, pid_t parent) {
  // The child ends with its parent, also when that is killed.
  if (prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() == parent) {
    execv("/proc/self/exe", arguments.data());
  }
  static constexpr int kCannotRun = 127;
  _exit(kCannotRun);
}

}  // namespace

std::vector<std::string> words_for_process(const std::vector<std::string>& words,
                                           std::int64_t process,
                                           std::optional<double> budget_seconds) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--budget") {
      ++i;  // its value
    } else if (!words[i].starts_with("--budget=")) {
      result.push_back(words[i]);
    }
  }
  result.insert(result.end(), {"--process", std::to_string(process)});
  if (budget_seconds) result.insert(result.end(), {"--budget", format("%.3fs", *budget_seconds)});
  return result;
}

ChildEnd run_fresh_process(const std::vector<std::string>& words) {
  std::vector<std::string> all = {"moesaic", "experiment"};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  arguments.reserve(all.size() + 1);
  for (std::string& word : all) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::fflush(stdout);  // else the child would print it again
  const PassOn pass_on_interrupts;
  const pid_t parent = getpid();
  const Hold hold;
  const pid_t child = fork();
  if (child == -1) {
    throw Error(ErrorCode::device_failure,
                std::string("process: expected to be started, got ") + std::strerror(errno));
  }
  if (child == 0) {
    hold.release();
    become(arguments, parent);
  }
  child_id = child;
  hold.release();
  int status = 0;
  while (waitpid(child, &status, 0) == -1 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) return {0, WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

}  // namespace moesaic::cli::experiment
