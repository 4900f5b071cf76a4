// SPDX-License-Identifier: Apache-2.0
// Long CSV, one expert of one layer a line, in any order; groups are held packed until the end.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "routing/json_events.hpp"
#include "routing/readers.hpp"
#include "routing/varint.hpp"

namespace moesaic::routing {
namespace {

enum class Column { layer, expert, count, step, rank, other };
constexpr std::array<std::pair<std::string_view, Column>, 7> kColumns = {
    {{"layer", Column::layer},
     {"layer_id", Column::layer},
     {"expert", Column::expert},
     {"expert_id", Column::expert},
     {"count", Column::count},
     {"step", Column::step},
     {"rank", Column::rank}}};

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
    text = text.substr(1, text.size() - 2);
  return text;
}

void split(std::string_view line, std::vector<std::string_view>& cells) {
  cells.clear();
  for (std::size_t at = 0;;) {
    const std::size_t comma = std::min(line.find(',', at), line.size());
    cells.push_back(trim(line.substr(at, comma - at)));
    if (comma == line.size()) return;
    at = comma + 1;
  }
}

class CsvReader {
 public:
  CsvReader(Input& input, Collector& collector) : input_(input), collector_(collector) {}

  void read() {
    std::string line;
    bool header = false;
    while (input_.read_line(line)) {
      ++line_number_;
      if (trim(line).empty()) continue;
      split(line, cells_);
      if (header) {
        read_row();
      } else {
        read_header();
        header = true;
      }
    }
    emit_groups();
  }

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // step, layer, rank

  [[nodiscard]] std::string place(std::string_view column) const {
    return concat(collector_.source(), ": line ", line_number_, ": ", column);
  }

  void read_header() {
    std::string seen;
    for (const std::string_view cell : cells_) {
      std::string name(cell);
      std::transform(name.begin(), name.end(), name.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      });
      const auto* known = std::find_if(kColumns.begin(), kColumns.end(),
                                       [&](const auto& column) { return column.first == name; });
      const Column column = known == kColumns.end() ? Column::other : known->second;
      if (column == Column::other && other_separator() == nullptr) {
        collector_.warn("CSV column \"", printable(name), "\" is ignored");
      } else if (column != Column::other &&
                 std::find(columns_.begin(), columns_.end(), column) != columns_.end()) {
        collector_.refuse("CSV column \"", name, "\" comes twice");
      }
      columns_.push_back(column);
      if (seen.size() < 200) seen += concat(seen.empty() ? "" : ",", printable(name));
    }
    if (const char* found = other_separator(); found != nullptr) {
      collector_.refuse("CSV separated by ", found, ": the first line is \"", seen,
                        "\", expected commas as in layer,expert,count");
    }
    require(Column::layer, "layer", seen, ": counts pooled over layers cannot be used");
    require(Column::expert, "expert", seen, "");
    require(Column::count, "count", seen, "");
  }

  /// The separator that a header of one cell has in place of commas, in words.
  [[nodiscard]] const char* other_separator() const {
    if (cells_.size() != 1) return nullptr;
    if (cells_[0].find(';') != std::string_view::npos) return "semicolons";
    if (cells_[0].find('\t') != std::string_view::npos) return "tabs";
    return nullptr;
  }

  void require(Column column, std::string_view name, const std::string& seen,
               std::string_view why) const {
    if (std::find(columns_.begin(), columns_.end(), column) != columns_.end()) return;
    collector_.refuse("CSV without a \"", name, "\" column", why, "; the first line is \"", seen,
                      "\", expected layer,expert,count (optionally step, rank)");
  }

  [[nodiscard]] std::int64_t cell_value(std::size_t i, std::string_view name) const {
    const std::string_view text = cells_[i];
    std::int64_t value = 0;
    const char* const stop = text.data() + text.size();
    if (const auto [end, error] = std::from_chars(text.data(), stop, value);
        error == std::errc() && end == stop && value >= 0) {
      return value;
    }
    JsonNumber number;
    number.kind = JsonNumber::Kind::floating;
    number.text = text;
    const auto [end, error] = std::from_chars(text.data(), stop, number.floating);
    if (text.empty() || error != std::errc() || end != stop) {
      fail(place(name), " is \"", printable(text), "\", expected a whole number of 0 or more");
    }
    return name == "count" ? to_row_count(number, place(name)) : to_count(number, place(name));
  }

  void read_row() {
    if (cells_.size() != columns_.size()) {
      fail(place(""), cells_.size(), " fields, expected ", columns_.size(),
           " as in the first line");
    }
    std::int64_t layer = 0, expert = 0, count = 0, step = 0, rank = -1;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      switch (columns_[i]) {
        case Column::layer:
          layer = cell_value(i, "layer");
          break;
        case Column::expert:
          expert = cell_value(i, "expert");
          break;
        case Column::count:
          count = cell_value(i, "count");
          break;
        case Column::step:
          step = cell_value(i, "step");
          break;
        case Column::rank:
          rank = cell_value(i, "rank");
          break;
        case Column::other:
          break;
      }
    }
    const std::int64_t limit = collector_.options().num_experts.value_or(kMaxExperts);
    if (expert >= limit) {
      fail(place("expert"), " id ", expert, ", expected 0 to ", limit - 1,
           expert == limit ? "; are the ids 1-based?" : "");
    }
    experts_ = std::max(experts_, expert + 1);
    const Key key{step, layer, rank};
    if (group_ == nullptr || key != group_key_) {
      group_ = &groups_[key];
      group_key_ = key;
    }
    put_varint(group_->packed, static_cast<std::uint64_t>(expert));
    put_varint(group_->packed, static_cast<std::uint64_t>(count));
    // The distance from the row before takes a byte where the whole number would take three.
    put_varint(group_->packed, static_cast<std::uint64_t>(line_number_ - group_->last_line));
    group_->last_line = line_number_;
  }

  void emit_groups() {
    const std::int64_t experts = collector_.options().num_experts.value_or(experts_);
    std::vector<std::int64_t> counts;
    bool gaps = false;
    for (auto& [key, group] : groups_) {
      Record record;
      std::tie(record.step, record.layer, record.rank) = key;
      counts.assign(static_cast<std::size_t>(experts), -1);
      std::uint64_t line = 0;
      for (std::string_view rest = group.packed; !rest.empty();) {
        const std::uint64_t expert = take_varint(rest);
        std::int64_t& count = counts[static_cast<std::size_t>(expert)];
        const auto value = static_cast<std::int64_t>(take_varint(rest));
        line += take_varint(rest);
        if (count >= 0) {
          collector_.refuse("line ", line, ": ", place_of(record), ", expert ", expert,
                            " comes twice");
        }
        count = value;
      }
      gaps = gaps || std::find(counts.begin(), counts.end(), -1) != counts.end();
      std::replace(counts.begin(), counts.end(), std::int64_t{-1}, std::int64_t{0});
      record.counts = counts;
      group.packed = {};
      collector_.emit(std::move(record));
    }
    warn_experts(experts, gaps);
  }

  void warn_experts(std::int64_t experts, bool gaps) {
    if (!collector_.options().num_experts) {
      if (!gaps) return;
      collector_.warn("not every expert has a line: ", experts,
                      " experts are taken from the largest id, ", experts - 1,
                      ", and the missing ones have no rows; --experts N says how many there are");
    } else if (experts > experts_ && experts_ > 0) {
      collector_.warn("the largest id is ", experts_ - 1, ": experts ", experts_, " to ",
                      experts - 1, " of --experts ", experts, " have no line and no rows");
    }
  }

  Input& input_;
  Collector& collector_;
  std::int64_t line_number_ = 0;
  std::vector<Column> columns_;
  std::vector<std::string_view> cells_;
  struct Group {
    std::string packed;  // expert, count and distance in lines, again and again
    std::int64_t last_line = 0;
  };
  std::map<Key, Group> groups_;
  Group* group_ = nullptr;
  Key group_key_;
  std::int64_t experts_ = 0;
};

}  // namespace

void read_csv(Input& input, Collector& collector) {
  collector.begin("long CSV", Form::counts);
  CsvReader(input, collector).read();
}

}  // namespace moesaic::routing
