// SPDX-License-Identifier: Apache-2.0
// Aligned text tables and CSV lines.
#include "table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "text.hpp"

namespace moesaic::cli {
namespace {

/// Code points, so that a UTF-8 file name does not shift its row.
std::size_t width_of(std::string_view word) {
  return static_cast<std::size_t>(std::count_if(word.begin(), word.end(), [](char letter) {
    return (static_cast<unsigned char>(letter) & 0xC0U) != 0x80U;
  }));
}

void append_line(std::string& text, std::span<const std::string> words,
                 std::span<const std::size_t> widths, std::span<const Column> columns) {
  std::string line;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string fill(widths[i] - width_of(words[i]), ' ');
    if (i > 0) line += "  ";
    line += columns[i].align == Align::left ? words[i] + fill : fill + words[i];
  }
  line.erase(line.find_last_not_of(' ') + 1);
  text += line + '\n';
}

}  // namespace

void Table::add(std::vector<std::string> words) {
  if (words.size() != columns_.size()) {
    refuse("table row", std::to_string(columns_.size()) + " words", std::to_string(words.size()));
  }
  rows_.push_back(std::move(words));
}

std::string Table::text() const {
  std::vector<std::string> titles;
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) {
    titles.push_back(column.title);
    widths.push_back(width_of(column.title));
  }
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  append_line(text, titles, widths, columns_);
  for (const auto& row : rows_) append_line(text, row, widths, columns_);
  return text;
}

std::string csv_line(std::span<const std::string> words) {
  std::string line;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) line += ',';
    if (words[i].find_first_of(",\"\r\n") == std::string::npos) {
      line += words[i];
      continue;
    }
    line += '"';
    for (const char letter : words[i]) {
      if (letter == '"') line += '"';
      line += letter;
    }
    line += '"';
  }
  return line + '\n';
}

std::string csv_number(double value) {
  if (!std::isfinite(value)) return {};
  std::array<char, 64> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc{} ? std::string(digits.data(), end) : std::string();
}

}  // namespace moesaic::cli
