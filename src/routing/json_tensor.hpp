// SPDX-License-Identifier: Apache-2.0
// A JSON list of lists of whole numbers, handed on row by row with its shape checked.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "routing/json_events.hpp"

namespace moesaic::routing {

/// Handles one JSON value: rank 2 ([layers][experts]) or rank 3 ([steps][layers][experts]).
class JsonTensor final : public JsonHandler {
 public:
  enum class Values { counts, integers };
  struct Row {
    int rank = 0;  ///< Of the whole tensor.
    std::int64_t step = 0, layer = 0;
    std::vector<std::int64_t> values;
  };
  using RowSink = std::function<void(Row&&)>;

  /// `place` ("x.json: logical_count") begins every message.
  JsonTensor(std::string place, int max_rank, Values values, RowSink sink);

  void start_object() override { refuse("an object"); }
  void end_object() override {}
  void key(std::string_view) override {}
  void start_array() override;
  void end_array() override;
  void number(const JsonNumber& value) override;
  void string(std::string_view) override { refuse("a string"); }
  void word(std::string_view value) override { refuse(value); }

 private:
  static constexpr int kMaxRank = 3;

  [[noreturn]] void refuse(std::string_view what) const;
  [[nodiscard]] std::string element() const;

  std::string place_;
  int max_rank_;
  Values kind_;
  RowSink sink_;
  int depth_ = 0;
  int rank_ = 0;                                           // 0 until the first number
  std::array<std::int64_t, kMaxRank> index_{};             // elements seen at every depth
  std::array<std::int64_t, kMaxRank> length_{-1, -1, -1};  // of the first list at every depth
  std::vector<std::int64_t> row_;
};

}  // namespace moesaic::routing
