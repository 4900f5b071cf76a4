// SPDX-License-Identifier: Apache-2.0
// Refusals of a row's fields, by file, line and name.
#pragma once

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>

#include "report/data.hpp"
#include "report/field.hpp"
#include "text.hpp"

namespace moesaic::cli::report {

/// One row and where it stands, for refusals.
class RowCheck {
 public:
  RowCheck(const Json& row, std::string place) : row_(row), place_(std::move(place)) {}

  [[noreturn]] void refuse_field(const std::string& path, const std::string& expected) const {
    const Json* value = field(row_, path);
    refuse(place_ + ": " + path, expected,
           value == nullptr ? "none" : value->dump(-1, ' ', false, kReplace).substr(0, 60));
  }
  void text(const std::string& path) const {
    const Json* value = field(row_, path);
    if (value == nullptr || !value->is_string()) refuse_field(path, "a text");
  }
  void one_of(const std::string& path, std::span<const char* const> words) const {
    const Json* value = field(row_, path);
    for (const char* word : words) {
      if (value != nullptr && *value == word) return;
    }
    std::string expected;
    for (const char* word : words) expected += (expected.empty() ? "" : ", ") + std::string(word);
    refuse_field(path, "one of " + expected);
  }
  void positive(const std::string& path) const {
    const double value = number(row_, path);
    if (!(value > 0) || !std::isfinite(value)) refuse_field(path, "a number above 0");
  }
  void not_negative(const std::string& path) const {
    const double value = number(row_, path);
    if (!(value >= 0) || !std::isfinite(value)) refuse_field(path, "a number from 0 on");
  }
  void whole(const std::string& path, int low) const {
    const Json* value = field(row_, path);
    const double whole = number(row_, path);
    if (value == nullptr || !value->is_number_integer() || whole < low || whole > 0x1p53) {
      refuse_field(path, "a whole number from " + std::to_string(low) + " to 2^53");
    }
  }
  /// At least one, as each process says its own.
  void list_of_positive(const std::string& path) const {
    const Json* value = field(row_, path);
    const auto fits = [](const Json& one) { return one.is_number() && one.get<double>() > 0; };
    if (value == nullptr || !value->is_array() || value->empty() ||
        !std::all_of(value->begin(), value->end(), fits)) {
      refuse_field(path, "a list of numbers above 0");
    }
  }
  void object(const std::string& path) const {
    const Json* value = field(row_, path);
    if (value == nullptr || !value->is_object()) refuse_field(path, "an object");
  }
  /// End rows of experts: whole, not negative, not decreasing.
  void offsets(const std::string& path) const {
    const Json* value = field(row_, path);
    if (value == nullptr || value->is_null()) return;
    if (!value->is_array()) refuse_field(path, "a list of end rows");
    double last = 0;
    for (const Json& end : *value) {
      if (!end.is_number_integer() || end.get<double>() < last) {
        refuse_field(path, "end rows that do not decrease");
      }
      last = end.get<double>();
    }
  }

 private:
  const Json& row_;
  std::string place_;
};

}  // namespace moesaic::cli::report
