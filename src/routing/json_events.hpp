// SPDX-License-Identifier: Apache-2.0
// JSON as a stream of events. The parser behind it is named in json_events.cpp alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "routing/input.hpp"

namespace moesaic::routing {

/// A number as written: `text` is the source's own spelling.
struct JsonNumber {
  enum class Kind { integer, floating } kind = Kind::integer;
  bool fits = true;  ///< integer: whether it fits std::int64_t.
  std::int64_t integer = 0;
  double floating = 0;
  std::string text;
};

/// Receives the events of one document, in order. Whatever it throws passes through the parser.
class JsonHandler {
 public:
  JsonHandler() = default;
  JsonHandler(const JsonHandler&) = delete;
  JsonHandler& operator=(const JsonHandler&) = delete;
  virtual ~JsonHandler() = default;

  virtual void start_object() = 0;
  virtual void end_object() = 0;
  virtual void key(std::string_view name) = 0;
  virtual void start_array() = 0;
  virtual void end_array() = 0;
  virtual void number(const JsonNumber& value) = 0;
  virtual void string(std::string_view value) = 0;
  /// "true", "false" or "null".
  virtual void word(std::string_view value) = 0;
};

/// Parses the one document that `input` holds to its end. Refuses nesting deeper than 64.
void parse_json(Input& input, JsonHandler& handler);

/// Parses a document in memory; `place` ("log.jsonl: line 7") begins the error messages.
void parse_json(std::string_view text, const std::string& place, JsonHandler& handler);

/// A whole number of std::int64_t. `place` begins the message of a refusal.
[[nodiscard]] std::int64_t to_integer(const JsonNumber& value, std::string_view place);
/// Whole, 0 to 2^63 - 1; JSON floats that are whole are fine.
[[nodiscard]] std::int64_t to_count(const JsonNumber& value, std::string_view place);
/// The same for rows of an expert: a negative one may be a 32-bit counter that wrapped.
[[nodiscard]] std::int64_t to_row_count(const JsonNumber& value, std::string_view place);

/// to_row_count for the inner loop: `place()` is called, and its string made, only for odd values.
template <class Place>
[[nodiscard]] std::int64_t to_count_at(const JsonNumber& value, const Place& place) {
  const bool plain = value.kind == JsonNumber::Kind::integer && value.fits && value.integer >= 0;
  return plain ? value.integer : to_row_count(value, place());
}

}  // namespace moesaic::routing
