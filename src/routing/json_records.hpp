// SPDX-License-Identifier: Apache-2.0
// The "records" list of moesaic.routing/1. Records go out as they come; only those that stand
// before the end of the header are held back, packed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "routing/collector.hpp"
#include "routing/json_events.hpp"

namespace moesaic::routing {

inline constexpr std::string_view kRoutingSchema = "moesaic.routing/1";

/// The top-level keys beside "records", which may come before or after it.
struct RoutingHeader {
  std::optional<std::string> schema;
  std::optional<std::int64_t> num_experts, top_k;
  std::optional<IdSpace> id_space;
  std::optional<Aggregation> aggregation;

  [[nodiscard]] bool complete() const {
    return schema && num_experts && top_k && id_space && aggregation;
  }
};

/// Handles the value of "records".
class JsonRecords final : public JsonHandler {
 public:
  JsonRecords(Collector& collector, const RoutingHeader& header);

  void start_object() override;
  void end_object() override;
  void key(std::string_view name) override;
  void start_array() override;
  void end_array() override;
  void number(const JsonNumber& value) override;
  void string(std::string_view value) override;
  void word(std::string_view value) override;

  /// After the document's end: emits what was held back.
  void finish();

 private:
  struct Partial {
    Record record;
    bool has_layer = false, has_counts = false, has_offsets = false;
    std::string stranger;  ///< A key that looks like a misspelt one.
  };

  [[nodiscard]] std::string place() const;
  [[noreturn]] void refuse_value(std::string_view what) const;
  [[nodiscard]] bool skipping() const noexcept { return skip_depth_ > 0 || known_ == nullptr; }
  void close_record();
  void hold_back(const Partial& partial);
  void release();
  void emit(Partial&& partial, const std::string& where);

  Collector& collector_;
  const RoutingHeader& header_;
  int depth_ = 0;       // 1 in the list, 2 in a record, 3 in its counts
  int skip_depth_ = 0;  // inside the value of an unknown key
  const char* known_ = nullptr;
  std::int64_t index_ = 0;
  Partial partial_;
  std::string held_;
  std::int64_t held_first_ = 0;
};

}  // namespace moesaic::routing
