// SPDX-License-Identifier: Apache-2.0
// The words of the enumerations, and the small members of Record.
#include <algorithm>
#include <array>
#include <numeric>

#include "moesaic/routing.hpp"

namespace moesaic::routing {
namespace {
constexpr std::array<std::string_view, 5> kForms = {"counts", "offsets", "ids", "weights",
                                                    "generated"};
constexpr std::array<std::string_view, 3> kIdSpaces = {"logical", "physical", "unstated"};
constexpr std::array<std::string_view, 3> kAggregations = {"per_step", "summed", "unstated"};
}  // namespace

std::string_view to_string(IdSpace value) noexcept {
  return kIdSpaces[static_cast<std::size_t>(value)];
}
std::string_view to_string(Aggregation value) noexcept {
  return kAggregations[static_cast<std::size_t>(value)];
}
std::string_view to_string(Form value) noexcept { return kForms[static_cast<std::size_t>(value)]; }

std::optional<Form> parse_form(std::string_view word) noexcept {
  for (std::size_t i = 0; i < kForms.size(); ++i) {
    const auto form = static_cast<Form>(i);
    if (word == kForms[i] && form != Form::generated) return form;
  }
  return std::nullopt;
}

std::int64_t Record::rows() const noexcept {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

bool Record::dense() const noexcept {
  return std::all_of(counts.begin(), counts.end(), [](std::int64_t count) { return count == 0; });
}

}  // namespace moesaic::routing
