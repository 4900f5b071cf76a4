// SPDX-License-Identifier: Apache-2.0
// Parser of SPECs; what they make is generate.cpp's.
#include "routing/spec.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <string>

#include "moesaic/routing.hpp"
#include "routing/fail.hpp"

namespace moesaic::routing {
namespace {

struct Grammar {
  std::string_view name;
  Spec::Kind kind;
  std::array<std::string_view, 2> keys;  // in positional order; empty: no further one
  std::size_t required;
};
constexpr std::array<Grammar, 5> kGrammars = {
    {{"uniform", Spec::Kind::uniform, {}, 0},
     {"zipf", Spec::Kind::zipf, {"s", ""}, 1},
     {"dirichlet", Spec::Kind::dirichlet, {"alpha", ""}, 1},
     {"hotspot", Spec::Kind::hotspot, {"share", "count"}, 1},
     {"one-hot", Spec::Kind::one_hot, {}, 0}}};
constexpr std::string_view kCounts = "counts";

constexpr std::int64_t kMaxCount = std::numeric_limits<std::int64_t>::max();
constexpr double kMaxZipf = 1000, kMinAlpha = 1e-6, kMaxAlpha = 1e6;

const Grammar* find_grammar(std::string_view name) {
  const auto* it = std::find_if(kGrammars.begin(), kGrammars.end(),
                                [&](const Grammar& grammar) { return grammar.name == name; });
  return it == kGrammars.end() ? nullptr : it;
}

/// Cuts the text up to the next comma off `rest`.
std::string_view take_part(std::string_view& rest) {
  const std::size_t comma = std::min(rest.find(','), rest.size());
  const std::string_view part = rest.substr(0, comma);
  rest.remove_prefix(std::min(comma + 1, rest.size()));
  return part;
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

class Parser {
 public:
  Parser(std::string_view text, const Grammar& grammar) : text_(text), grammar_(grammar) {}

  Spec parse(std::string_view rest, bool colon) {
    spec_.kind = grammar_.kind;
    while (colon && (!rest.empty() || given_ == 0)) {
      if (grammar_.keys[0].empty()) refuse("takes no parameter, '", printable(rest), "' came");
      parameter(take_part(rest));
    }
    if (text_.ends_with(',')) refuse("ends with a comma");
    for (std::size_t i = 0; i < grammar_.required; ++i) {
      if (!set_[i])
        refuse("needs ", grammar_.keys[i], ", e.g. ", grammar_.name, ":", grammar_.keys[i], "=0.9");
    }
    return spec_;
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail("SPEC '", printable(text_), "': ", grammar_.name, " ", parts...);
  }

  void parameter(std::string_view part) {
    const std::size_t equals = part.find('=');
    std::size_t index = given_++;
    if (equals != std::string_view::npos) {
      index = key_index(part.substr(0, equals));
      part.remove_prefix(equals + 1);
      named_ = true;
    } else if (named_) {
      refuse("has '", printable(part), "' without a name after named parameters");
    } else if (index >= grammar_.keys.size() || grammar_.keys[index].empty()) {
      refuse("has one parameter too many: '", printable(part), "'");
    }
    if (set_[index]) refuse("has ", grammar_.keys[index], " twice");
    set_[index] = true;
    assign(grammar_.keys[index], part);
  }

  [[nodiscard]] std::size_t key_index(std::string_view key) const {
    for (std::size_t i = 0; i < grammar_.keys.size(); ++i) {
      if (!key.empty() && grammar_.keys[i] == key) return i;
    }
    refuse("has no key '", printable(key), "'; its keys are ", grammar_.keys[0],
           grammar_.keys[1].empty() ? "" : ", ", grammar_.keys[1]);
  }

  void assign(std::string_view key, std::string_view text) {
    if (key == "count") {
      const auto value = parse_number<std::int64_t>(text);
      if (!value || *value < 1)
        refuse("count is '", printable(text), "', expected a whole number from 1 to ", kMaxCount);
      spec_.hot_experts = *value;
    } else if (key == "s") {
      spec_.s = real(key, text, 0, kMaxZipf);
    } else if (key == "alpha") {
      spec_.alpha = real(key, text, kMinAlpha, kMaxAlpha);
    } else {
      spec_.share = real(key, text, 0, 1);
    }
  }

  [[nodiscard]] double real(std::string_view key, std::string_view text, double low,
                            double high) const {
    const auto value = parse_number<double>(text);
    if (!value || !(*value >= low && *value <= high)) {
      refuse(key, " is '", printable(text), "', expected a number from ", low, " to ", high);
    }
    return *value;
  }

  std::string_view text_;
  const Grammar& grammar_;
  Spec spec_;
  std::size_t given_ = 0;
  std::array<bool, 2> set_{};
  bool named_ = false;
};

Spec parse_counts(std::string_view text, std::string_view rest) {
  Spec spec;
  spec.kind = Spec::Kind::counts;
  std::int64_t sum = 0;
  const std::string start = printable(text);  // ends in ... where it is cut
  for (bool more = true; more;) {
    more = rest.find(',') != std::string_view::npos;
    const std::string_view part = take_part(rest);
    const auto value = parse_number<std::int64_t>(part);
    if (!value || *value < 0) {
      fail("SPEC '", start, "': count of expert ", spec.counts.size(), " is '", printable(part),
           "', expected a whole number from 0 to ", kMaxCount);
    }
    if (__builtin_add_overflow(sum, *value, &sum)) {
      fail("SPEC '", start, "': the sum of the counts is past 2^63 - 1");
    }
    spec.counts.push_back(*value);
    if (static_cast<std::int64_t>(spec.counts.size()) > kMaxExperts) {
      fail("SPEC '", start, "': more than ", kMaxExperts, " counts");
    }
  }
  return spec;
}

}  // namespace

Spec parse_spec(std::string_view text) {
  const std::size_t colon = text.find(':');
  const bool has_colon = colon != std::string_view::npos;
  const std::string_view name = text.substr(0, colon);
  const std::string_view rest = has_colon ? text.substr(colon + 1) : std::string_view();
  if (name == kCounts) return parse_counts(text, rest);
  const Grammar* grammar = find_grammar(name);
  if (grammar == nullptr) {
    fail("SPEC '", printable(text), "': '", printable(name),
         "' is not known; known SPECs: ", kKnownSpecs);
  }
  return Parser(text, *grammar).parse(rest, has_colon);
}

bool looks_like_spec(std::string_view text) noexcept {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  if (name == kCounts || find_grammar(name) != nullptr) return true;
  if (colon == std::string_view::npos || name.empty()) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

}  // namespace moesaic::routing
