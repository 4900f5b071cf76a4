// SPDX-License-Identifier: Apache-2.0
// Flags that several verbs share, declared once.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "options.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace moesaic::cli {

inline constexpr std::int64_t kMaxCount = std::numeric_limits<std::int64_t>::max();

/// For the foot of a verb's help: SPECs, and shapes by name.
extern const char* const kSpecs;

/// Adds a flag with a value that `read` turns into its meaning; `read` refuses by name.
void add(CLI::App& app, const std::string& flag, const std::string& value, const std::string& help,
         const std::function<void(const std::string&)>& read);
void add_integer(CLI::App& app, const std::string& flag, const std::string& help,
                 std::optional<std::int64_t>& target, std::int64_t low,
                 std::int64_t high = kMaxCount);
/// A capacity; the refusal names the ranges beside the forms. @throws Error{invalid_argument}.
Capacity read_capacity(const std::string& text);

/// Inputs and what is read of them: all but --rows, which is a list for bench.
void declare_source(CLI::App& app, InputOptions& input);
void declare_input(CLI::App& app, InputOptions& input);
void declare_layer(CLI::App& app, InputOptions& input, bool all_allowed);
void declare_output(CLI::App& app, OutputOptions& output, bool csv);
void declare_strict(CLI::App& app, OutputOptions& output);
/// How a product is computed, whatever it is.
void declare_execution(CLI::App& app, RunFlags& run);

}  // namespace moesaic::cli
