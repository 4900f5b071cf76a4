// SPDX-License-Identifier: Apache-2.0
// nlohmann's SAX parser turned into JsonHandler events and moesaic errors; nothing else includes
// it.
#include "routing/json_events.hpp"

#include <algorithm>
#include <cmath>
#include <istream>
#include <limits>
#include <nlohmann/json.hpp>

#include "routing/fail.hpp"

namespace moesaic::routing {
namespace {

using Json = nlohmann::json;
constexpr int kMaxDepth = 64;

/// The parser wants bool-returning callbacks with nlohmann's types; this forwards them.
class SaxBridge {
 public:
  SaxBridge(Input& input, JsonHandler& handler) : input_(input), handler_(handler) {}

  bool null() { return literal("null"); }
  bool boolean(bool value) { return literal(value ? "true" : "false"); }
  bool number_integer(Json::number_integer_t value) {
    number_.kind = JsonNumber::Kind::integer;
    number_.fits = true;
    number_.integer = value;
    return integer_done(std::to_string(value));
  }
  bool number_unsigned(Json::number_unsigned_t value) {
    number_.kind = JsonNumber::Kind::integer;
    number_.fits = value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    number_.integer = number_.fits ? static_cast<std::int64_t>(value) : 0;
    return integer_done(number_.fits ? std::string() : std::to_string(value));
  }
  bool number_float(Json::number_float_t value, const std::string& text) {
    number_.kind = JsonNumber::Kind::floating;
    number_.floating = value;
    number_.text = text;
    input_.progress();
    handler_.number(number_);
    return true;
  }
  bool string(std::string& value) {
    input_.progress();
    handler_.string(value);
    return true;
  }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(std::size_t) {
    deeper();
    handler_.start_object();
    return true;
  }
  bool key(std::string& name) {
    input_.progress();
    handler_.key(name);
    return true;
  }
  bool end_object() {
    shallower();
    handler_.end_object();
    return true;
  }
  bool start_array(std::size_t) {
    deeper();
    handler_.start_array();
    return true;
  }
  bool end_array() {
    shallower();
    handler_.end_array();
    return true;
  }

  bool parse_error(std::size_t position, const std::string& text, const Json::exception& error) {
    const std::string& name = input_.name();
    const std::string token = printable(last_word(text));
    if (error.id == kNumberOverflow) {
      fail(name, ": byte ", position, ": ", token, " is too large a number");
    }
    if (token.starts_with('N') || token.starts_with('I') || token.starts_with("-I") ||
        token.starts_with("na")) {
      fail(name, ": byte ", position, ": NaN or Infinity (", token,
           "...) came where a number was expected; JSON knows neither, and a count is finite");
    }
    const std::string_view what = error.what();
    if (what.ends_with("; expected end of input")) {
      fail(name, ": broken JSON: the document ends before byte ", position,
           ", and more follows: a bracket too many, or a second document");
    }
    // At the end of the text a token may be cut, but one that is whole and wrong is no truncation.
    const std::string_view kind = what.substr(std::min(what.find(" - "), what.size()));
    const bool wrong =
        kind.starts_with(" - unexpected ") && !kind.starts_with(" - unexpected end of input");
    if (input_.at_end() && !wrong) {
      fail(name, ": truncated or broken JSON: the text ends at byte ", input_.offset(),
           token.empty() ? "" : " after '" + token + "'");
    }
    fail(name, ": broken JSON at byte ", position, token.empty() ? "" : " near '" + token + "'",
         ": ", reason(error));
  }

 private:
  static constexpr int kNumberOverflow = 406;  // nlohmann's exception id

  bool literal(std::string_view value) {
    input_.progress();
    handler_.word(value);
    return true;
  }
  // Small counts are the bulk of every dump: their text is made only when a message needs it.
  bool integer_done(std::string text) {
    number_.text = std::move(text);
    input_.progress();
    handler_.number(number_);
    return true;
  }
  void deeper() {
    input_.progress();
    if (++depth_ > kMaxDepth) {
      fail(input_.name(), ": byte ", input_.offset(), ": JSON nested deeper than ", kMaxDepth,
           " levels");
    }
  }
  void shallower() {
    input_.progress();
    --depth_;
  }
  // The parser reports all that it read since the last number or string.
  static std::string_view last_word(std::string_view text) {
    const std::size_t before = text.find_last_of(" \t\r\n,:[{");
    return before == std::string_view::npos ? text : text.substr(before + 1);
  }
  // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..." -> the
  // end.
  static std::string reason(const Json::exception& error) {
    const std::string_view what = error.what();
    const std::size_t colon = what.find(": ");
    return printable(colon == std::string_view::npos ? what : what.substr(colon + 2), 200);
  }

  Input& input_;
  JsonHandler& handler_;
  JsonNumber number_;
  int depth_ = 0;
};

std::string text_of(const JsonNumber& value) {
  return value.text.empty() ? std::to_string(value.integer) : printable(value.text);
}

}  // namespace

void parse_json(Input& input, JsonHandler& handler) {
  SaxBridge bridge(input, handler);
  std::istream stream(&input);
  try {
    Json::sax_parse(stream, &bridge, Json::input_format_t::json, /*strict=*/true);
  } catch (const Json::exception& error) {
    fail(input.name(), ": broken JSON near byte ", input.offset(), ": ",
         printable(error.what(), 200));
  }
}

void parse_json(std::string_view text, const std::string& place, JsonHandler& handler) {
  Input input(open_memory(std::span(text.data(), text.size())), place);
  parse_json(input, handler);
}

std::int64_t to_integer(const JsonNumber& value, std::string_view place) {
  if (value.kind == JsonNumber::Kind::integer) {
    if (!value.fits) fail(place, " is ", text_of(value), ", past 2^63 - 1");
    return value.integer;
  }
  if (std::isnan(value.floating)) fail(place, " is NaN, expected a whole number");
  constexpr double kTwoTo63 = 9223372036854775808.0;
  if (!(value.floating >= -kTwoTo63 && value.floating < kTwoTo63)) {
    fail(place, " is ", text_of(value), ", past 2^63 - 1");
  }
  if (value.floating != std::floor(value.floating)) {
    fail(place, " is ", text_of(value), ", expected a whole number");
  }
  return static_cast<std::int64_t>(value.floating);
}

std::int64_t to_count(const JsonNumber& value, std::string_view place) {
  const std::int64_t count = to_integer(value, place);
  if (count < 0) fail(place, " is ", text_of(value), ", expected a whole number of 0 or more");
  return count;
}

std::int64_t to_row_count(const JsonNumber& value, std::string_view place) {
  const std::int64_t count = to_integer(value, place);
  if (count < 0) {
    fail(place, " is ", text_of(value),
         ", expected a count of 0 or more (a 32-bit counter that wrapped?)");
  }
  return count;
}

}  // namespace moesaic::routing
