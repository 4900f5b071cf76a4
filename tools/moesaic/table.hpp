// SPDX-License-Identifier: Apache-2.0
// Aligned text tables and CSV lines. What stands in the columns is the verbs'.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moesaic::cli {

enum class Align : std::uint8_t { left, right };

struct Column {
  std::string title;
  Align align = Align::right;
};

/// Rows of words under titles, each column as wide as its widest word. Widths count code points.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// One word per column. @throws Error{invalid_argument} for another number of words.
  void add(std::vector<std::string> words);
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::size_t rows() const noexcept { return rows_.size(); }

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// One CSV line with its newline; words are quoted where RFC 4180 asks for it.
std::string csv_line(std::span<const std::string> words);

/// The shortest decimal that reads back as `value`; empty for NaN and infinities.
std::string csv_number(double value);

}  // namespace moesaic::cli
