// SPDX-License-Identifier: Apache-2.0
// See options.hpp.

#include "harness/options.hpp"

#include <charconv>
#include <cstdio>
#include <string_view>
#include <vector>

#include "moesaic/error.hpp"

namespace moesaic::bench {
namespace {

constexpr const char* kHelp =
    "--results FILE   append one JSON line per arm (schema moesaic.bench/1)\n"
    "--samples N      timed runs per arm, at least 15 (default 21)\n"
    "--moesaic FILE   the command `moesaic`, for whole-process measurements\n"
    "and those of Google Benchmark:\n";

std::int64_t parse_samples(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < kLeastSamples) {
    throw Error(ErrorCode::invalid_argument, "--samples: expected a number of at least " +
                                                 std::to_string(kLeastSamples) + ", got \"" +
                                                 std::string(text) + "\"");
  }
  return value;
}

/// Reads "--flag VALUE" and "--flag=VALUE" from one list of words.
class Words {
 public:
  Words(int argc, char** argv) : words_(argv, argv + argc) {}

  [[nodiscard]] bool done() const { return next_ >= words_.size(); }
  char* take() { return words_[next_++]; }
  /// True, with the value, when the next word is `flag`.
  bool take_value(std::string_view flag, std::string& value) {
    const std::string_view word = words_[next_];
    if (word == flag) {
      if (next_ + 1 >= words_.size()) {
        throw Error(ErrorCode::invalid_argument,
                    std::string(flag) + ": expected a value after it, got the end of the line");
      }
      value = words_[next_ + 1];
      next_ += 2;
      return true;
    }
    if (word.starts_with(flag) && word.size() > flag.size() && word[flag.size()] == '=') {
      value = word.substr(flag.size() + 1);
      ++next_;
      return true;
    }
    return false;
  }

 private:
  std::vector<char*> words_;
  std::size_t next_ = 0;
};

}  // namespace

Options take_options(int& argc, char** argv) {
  Options options;
  for (int i = 0; i < argc; ++i) {
    options.command += (i > 0 ? " " : "") + std::string(argv[i]);
    if (std::string_view(argv[i]) == "--help") {
      std::fputs(kHelp, stdout);
    }
  }
  Words words(argc, argv);
  int kept = 0;
  std::string samples;
  while (!words.done()) {
    if (words.take_value("--samples", samples)) {
      options.samples = parse_samples(samples);
    } else if (!words.take_value("--results", options.results) &&
               !words.take_value("--moesaic", options.moesaic)) {
      argv[kept++] = words.take();
    }
  }
  argc = kept;
  return options;
}

}  // namespace moesaic::bench
