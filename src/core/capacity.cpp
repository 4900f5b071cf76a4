// SPDX-License-Identifier: Apache-2.0
// Reading and printing capacity factors; the arithmetic is math/padding.hpp's.

#include "moesaic/capacity.hpp"

#include <charconv>
#include <limits>
#include <string>

#include "core/message.hpp"
#include "math/padding.hpp"

namespace moesaic {
namespace {

using math::kMillion;

constexpr std::string_view kForm =
    "FACTOR, FACTOR:ceil_mean or FACTOR:eight_row:S, such as 1.25 or 1.25:eight_row:8";

[[noreturn]] void refuse_text(std::string_view argument, std::string_view text) {
  core::refuse(argument, kForm, "\"" + std::string(text) + "\"");
}

bool parse_digits(std::string_view text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 && text[0] != '-';
}

/// A decimal with at most six places, as millionths.
bool parse_millionths(std::string_view text, std::int64_t& millionths) {
  const std::size_t dot = text.find('.');
  const std::string_view whole = text.substr(0, dot);
  std::int64_t units = 0;
  if (whole.empty() || !parse_digits(whole, units) || units > 1'000'000) {
    return false;
  }
  std::int64_t fraction = 0;
  if (dot != std::string_view::npos) {
    std::string places(text.substr(dot + 1));
    if (places.empty() || places.size() > 6) {
      return false;
    }
    places.resize(6, '0');
    if (!parse_digits(places, fraction)) {
      return false;
    }
  }
  millionths = units * kMillion + fraction;
  return millionths > 0;
}

}  // namespace

Capacity parse_capacity(std::string_view text, std::string_view argument) {
  Capacity capacity;
  const std::size_t colon = text.find(':');
  if (!parse_millionths(text.substr(0, colon), capacity.factor_millionths)) {
    refuse_text(argument, text);
  }
  if (colon == std::string_view::npos || text.substr(colon) == ":ceil_mean") {
    return capacity;
  }
  constexpr std::string_view kEightRow = ":eight_row:";
  if (!text.substr(colon).starts_with(kEightRow)) {
    refuse_text(argument, text);
  }
  capacity.rule = CapacityRule::eight_row;
  const std::string_view ranks = text.substr(colon + kEightRow.size());
  if (ranks.empty() || !parse_digits(ranks, capacity.source_ranks) || capacity.source_ranks < 1 ||
      capacity.source_ranks > 1'000'000) {
    refuse_text(argument, text);
  }
  return capacity;
}

std::string to_string(const Capacity& capacity) {
  std::string fraction = std::to_string(kMillion + capacity.factor_millionths % kMillion).substr(1);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  std::string text = std::to_string(capacity.factor_millionths / kMillion);
  if (!fraction.empty()) {
    text += "." + fraction;
  }
  text += ":" + std::string(name(capacity.rule));
  if (capacity.rule == CapacityRule::eight_row) {
    text += ":" + std::to_string(capacity.source_ranks);
  }
  return text;
}

std::int64_t capacity_rows(const Capacity& capacity, std::int64_t rows, std::int64_t num_experts) {
  if (rows < 0 || num_experts < 1) {
    core::refuse("capacity", "rows >= 0 and at least one expert",
                 std::to_string(rows) + " rows, " + std::to_string(num_experts) + " experts");
  }
  if (capacity.factor_millionths <= 0 || capacity.source_ranks < 1) {
    core::refuse("capacity", "a positive factor and at least one source rank",
                 std::to_string(capacity.factor_millionths) + " millionths, " +
                     std::to_string(capacity.source_ranks) + " ranks");
  }
  const std::int64_t result =
      capacity.rule == CapacityRule::ceil_mean
          ? math::ceil_mean_capacity(capacity.factor_millionths, rows, num_experts)
          : math::eight_row_capacity(capacity.factor_millionths, rows, num_experts,
                                     capacity.source_ranks);
  if (result == std::numeric_limits<std::int64_t>::max()) {
    core::refuse("capacity", "a capacity below 2^63 rows", to_string(capacity));
  }
  return result;
}

}  // namespace moesaic
