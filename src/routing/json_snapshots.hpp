// SPDX-License-Identifier: Apache-2.0
// The "snapshots" list of vLLM's expert-load dumps: physical loads, mapped to logical experts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "routing/collector.hpp"
#include "routing/json_events.hpp"
#include "routing/json_tensor.hpp"

namespace moesaic::routing {

/// Handles the value of "snapshots". `num_logical` may be filled in later by the header.
class JsonSnapshots final : public JsonHandler {
 public:
  JsonSnapshots(Collector& collector, const std::optional<std::int64_t>& num_logical);

  void start_object() override;
  void end_object() override;
  void key(std::string_view name) override;
  void start_array() override;
  void end_array() override;
  void number(const JsonNumber& value) override;
  void string(std::string_view value) override;
  void word(std::string_view value) override;

  /// After the document's end: checks what the header said late.
  void finish();

 private:
  using Matrix = std::vector<std::vector<std::int64_t>>;
  enum class Key { step, window, latest, map, other };
  struct Snapshot {
    std::optional<std::int64_t> step;
    Matrix window, latest, map;
  };

  [[nodiscard]] std::string place() const;
  void close_snapshot();
  [[nodiscard]] std::vector<std::int64_t> to_logical(const std::vector<std::int64_t>& physical,
                                                     const std::vector<std::int64_t>& map,
                                                     std::int64_t layer, Record& record);
  [[nodiscard]] static std::int64_t logical_experts(const Matrix& map);

  Collector& collector_;
  const std::optional<std::int64_t>& num_logical_;
  int depth_ = 0;        // 1 in the list, 2 in a snapshot
  int value_depth_ = 0;  // inside the value of a key
  Key key_ = Key::other;
  std::int64_t index_ = 0;
  std::int64_t experts_ = 0;
  bool mapped_ = false;
  Snapshot snapshot_;
  std::unique_ptr<JsonTensor> tensor_;
};

}  // namespace moesaic::routing
