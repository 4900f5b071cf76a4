// SPDX-License-Identifier: Apache-2.0
// Files that were cut into parts, put together again.
#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>

#include "report/data.hpp"
#include "text.hpp"

namespace moesaic::cli::report {
namespace {

/// What a name says of a part.
struct PartName {
  std::string whole;  ///< "DIR/NAME.part*.jsonl"
  std::int64_t number = 0;
};

std::optional<PartName> part_name(const std::string& path) {
  static constexpr std::string_view kEnd = ".jsonl", kWord = ".part";
  if (!path.ends_with(kEnd)) return std::nullopt;
  const std::string stem = path.substr(0, path.size() - kEnd.size());
  const std::size_t word = stem.rfind(kWord);
  if (word == std::string::npos) return std::nullopt;
  const std::string digits = stem.substr(word + kWord.size());
  PartName name{stem.substr(0, word) + ".part*.jsonl"};
  const char* end = digits.data() + digits.size();
  const auto [read, error] = std::from_chars(digits.data(), end, name.number);
  if (error != std::errc() || read != end || name.number < 1) return std::nullopt;
  return name;
}

void append(ResultFile& whole, ResultFile&& part) {
  whole.bytes += part.bytes;
  whole.unchecked += part.unchecked;
  std::move(part.rows.begin(), part.rows.end(), std::back_inserter(whole.rows));
  std::move(part.warnings.begin(), part.warnings.end(), std::back_inserter(whole.warnings));
}

/// Parts by their numbers, as one file.
ResultFile join_one(const std::string& name, std::map<std::int64_t, ResultFile>&& parts) {
  ResultFile whole;
  whole.name = name;
  std::vector<std::string> missing;
  std::int64_t next = 1;
  for (auto& [number, part] : parts) {
    for (; next < number && missing.size() < 10; ++next) missing.push_back(std::to_string(next));
    next = number + 1;
    append(whole, std::move(part));
  }
  if (!missing.empty()) {
    whole.warnings.push_back(name + ": expected all parts up to " +
                             std::to_string(parts.rbegin()->first) + ", got none of number " +
                             cli::join(missing, ", "));
  }
  return whole;
}

}  // namespace

std::vector<ResultFile> join_parts(std::vector<ResultFile> files) {
  struct Whole {
    std::size_t place = 0;
    std::map<std::int64_t, ResultFile> parts;
  };
  std::map<std::string, Whole> wholes;
  std::vector<ResultFile> joined;
  for (ResultFile& file : files) {
    const std::optional<PartName> name = part_name(file.name);
    if (!name) {
      joined.push_back(std::move(file));
      continue;
    }
    const auto [found, fresh] = wholes.try_emplace(name->whole);
    if (fresh) {
      found->second.place = joined.size();
      joined.emplace_back();
    }
    const std::string path = file.name;
    if (!found->second.parts.emplace(name->number, std::move(file)).second) {
      refuse(path, "each part once", "number " + std::to_string(name->number) + " again");
    }
  }
  for (auto& [name, whole] : wholes) joined[whole.place] = join_one(name, std::move(whole.parts));
  return joined;
}

}  // namespace moesaic::cli::report
