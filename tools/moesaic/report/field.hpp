// SPDX-License-Identifier: Apache-2.0
// Fields of a row by their dotted path.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace moesaic::cli::report {

/// Bytes that are no UTF-8 are replaced, not thrown at.
inline constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;

/// The value at "timing.mean_s", or null when any part of the path is missing.
inline const nlohmann::ordered_json* field(const nlohmann::ordered_json& row,
                                           std::string_view path) {
  const nlohmann::ordered_json* value = &row;
  while (!path.empty()) {
    const std::size_t dot = path.find('.');
    const std::string_view name = path.substr(0, dot);
    if (!value->is_object()) return nullptr;
    const auto found = value->find(std::string(name));
    if (found == value->end()) return nullptr;
    value = &*found;
    path.remove_prefix(dot == std::string_view::npos ? path.size() : dot + 1);
  }
  return value;
}

/// The number at `path`; NaN when there is none.
inline double number(const nlohmann::ordered_json& row, std::string_view path) {
  const nlohmann::ordered_json* value = field(row, path);
  return value != nullptr && value->is_number() ? value->get<double>()
                                                : std::numeric_limits<double>::quiet_NaN();
}

/// The text at `path`; empty when there is none.
inline std::string text(const nlohmann::ordered_json& row, std::string_view path) {
  const nlohmann::ordered_json* value = field(row, path);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

/// A row's own check looked at something and found nothing wrong.
inline bool has_clean_check(const nlohmann::ordered_json& row) {
  return number(row, "check.elements") > 0 && number(row, "check.mismatches") == 0;
}

}  // namespace moesaic::cli::report
