// SPDX-License-Identifier: Apache-2.0
// One JSON document: its top-level keys say which of the known formats it is and who handles what.
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <utility>

#include "routing/json_events.hpp"
#include "routing/json_records.hpp"
#include "routing/json_snapshots.hpp"
#include "routing/json_tensor.hpp"
#include "routing/readers.hpp"

namespace moesaic::routing {
namespace {

constexpr std::string_view kKnownContent =
    "\"schema\" + \"records\" (moesaic.routing/1), \"logical_count\" (SGLang), \"weight\" (EPLB), "
    "\"snapshots\" (vLLM)";
constexpr std::array<std::string_view, 4> kPlacementKeys = {
    "physical_to_logical_map", "phy2log", "layer_list", "initial_global_assignments"};

/// Takes any value and forgets it.
class SkipValue final : public JsonHandler {
  void start_object() override {}
  void end_object() override {}
  void key(std::string_view) override {}
  void start_array() override {}
  void end_array() override {}
  void number(const JsonNumber&) override {}
  void string(std::string_view) override {}
  void word(std::string_view) override {}
};

/// A number or a string; null counts as absent, anything else is refused.
class ScalarValue final : public JsonHandler {
 public:
  using OnNumber = std::function<void(const JsonNumber&, const std::string& place)>;
  using OnString = std::function<void(std::string_view, const std::string& place)>;
  ScalarValue(std::string place, OnNumber on_number, OnString on_string)
      : place_(std::move(place)),
        on_number_(std::move(on_number)),
        on_string_(std::move(on_string)) {}

  void start_object() override { refuse("an object"); }
  void end_object() override {}
  void key(std::string_view) override {}
  void start_array() override { refuse("a list"); }
  void end_array() override {}
  void number(const JsonNumber& value) override {
    if (!on_number_) refuse("a number");
    on_number_(value, place_);
  }
  void string(std::string_view value) override {
    if (!on_string_) refuse("a string");
    on_string_(value, place_);
  }
  void word(std::string_view value) override {
    if (value != "null") refuse(value);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail(place_, ": expected ", on_number_ ? "a number" : "a string", ", came ", what);
  }
  std::string place_;
  OnNumber on_number_;
  OnString on_string_;
};

/// SGLang's logical_count: 2-D is summed over the recording, 3-D is one histogram per pass.
class LogicalCount {
 public:
  explicit LogicalCount(Collector& collector) : collector_(collector) {}

  void row(JsonTensor::Row&& row) {
    const bool steps = row.rank == 3;
    if (!begun_) {
      collector_.begin("SGLang logical_count JSON", Form::counts);
      collector_.describe(steps ? Aggregation::per_step : Aggregation::summed, IdSpace::logical, 0);
      begun_ = true;
    }
    Record record;
    record.layer = row.layer;
    record.step = row.step;
    record.aggregation = steps ? Aggregation::per_step : Aggregation::summed;
    record.id_space = IdSpace::logical;
    record.counts = std::move(row.values);
    if (!steps) {
      collector_.emit(std::move(record));
      return;
    }
    if (!step_.empty() && step_.front().step != record.step) flush();
    step_.push_back(std::move(record));
  }

  void finish() {
    flush();
    if (zero_steps_ > 0) {
      collector_.warn("all-zero steps skipped: ", zero_steps_,
                      " (the recorder's buffer was not full)");
    }
    if (zero_steps_ > 0 && !any_) collector_.refuse("every step is zero: nothing was recorded");
  }

 private:
  void flush() {
    if (step_.empty()) return;
    const bool zero =
        std::all_of(step_.begin(), step_.end(), [](const Record& r) { return r.dense(); });
    if (zero) ++zero_steps_;
    if (!zero) {
      any_ = true;
      for (Record& record : step_) collector_.emit(std::move(record));
    }
    step_.clear();
  }

  Collector& collector_;
  std::vector<Record> step_;
  std::int64_t zero_steps_ = 0;
  bool begun_ = false, any_ = false;
};

/// The document: finds the handler of every top-level key and forwards the value's events to it.
class Document final : public JsonHandler {
 public:
  explicit Document(Collector& collector)
      : collector_(collector), records_(collector, header_), logical_count_(collector) {}

  void start_object() override {
    if (depth_++ > 0) value_->start_object();
  }
  void end_object() override {
    if (--depth_ > 0) value_->end_object();
  }
  void key(std::string_view name) override {
    if (depth_ > 1) {
      value_->key(name);
    } else {
      choose(std::string(name));
    }
  }
  void start_array() override {
    if (depth_++ == 0) {
      collector_.refuse("is a bare list; expected an object with ", kKnownContent);
    }
    value_->start_array();
  }
  void end_array() override {
    --depth_;
    value_->end_array();
  }
  void number(const JsonNumber& value) override { inner("a number").number(value); }
  void string(std::string_view value) override { inner("a string").string(value); }
  void word(std::string_view value) override { inner(value).word(value); }

  void finish();

 private:
  JsonHandler& inner(std::string_view what) {
    if (depth_ == 0)
      collector_.refuse("is ", what, " alone; expected an object with ", kKnownContent);
    return *value_;
  }
  void choose(const std::string& name);
  bool choose_header(const std::string& name);
  bool choose_content(const std::string& name);
  void claim(const std::string& name);
  void check_schema(std::string_view schema) const;
  void finish_records();

  Collector& collector_;
  RoutingHeader header_;
  std::optional<std::int64_t> num_logical_;
  JsonRecords records_;
  LogicalCount logical_count_;
  std::unique_ptr<JsonSnapshots> snapshots_;
  SkipValue skip_;
  std::unique_ptr<JsonHandler> owned_;
  JsonHandler* value_ = &skip_;
  int depth_ = 0;
  std::string content_;    // the key that carries the numbers
  std::string placement_;  // a key that carries a placement
  std::vector<std::string> others_;
};

void Document::check_schema(std::string_view schema) const {
  if (schema == kRoutingSchema) return;
  collector_.refuse("schema \"", printable(schema), "\" is not known, expected \"", kRoutingSchema,
                    "\"");
}

bool Document::choose_header(const std::string& name) {
  const std::string place = concat(collector_.source(), ": ", name);
  const auto number_into = [&](std::optional<std::int64_t>& target, std::int64_t high) {
    owned_ = std::make_unique<ScalarValue>(
        place,
        [&target, high](const JsonNumber& value, const std::string& where) {
          const std::int64_t number = to_count(value, where);
          if (number < 1 || number > high) fail(where, " is ", number, ", expected 1 to ", high);
          target = number;
        },
        nullptr);
  };
  const auto string_to = [&](ScalarValue::OnString on_string) {
    owned_ = std::make_unique<ScalarValue>(place, nullptr, std::move(on_string));
  };
  if (name == "schema") {
    string_to([this](std::string_view value, const std::string&) {
      check_schema(value);
      header_.schema = value;
    });
  } else if (name == "num_experts") {
    number_into(header_.num_experts, kMaxExperts);
  } else if (name == "num_logical_experts") {
    number_into(num_logical_, kMaxExperts);
  } else if (name == "top_k") {
    number_into(header_.top_k, kMaxExperts);
  } else if (name == "id_space") {
    string_to([this](std::string_view value, const std::string& where) {
      if (value != "logical" && value != "physical") {
        fail(where, " is \"", printable(value), "\", expected \"logical\" or \"physical\"");
      }
      header_.id_space = value == "logical" ? IdSpace::logical : IdSpace::physical;
    });
  } else if (name == "aggregation") {
    string_to([this](std::string_view value, const std::string& where) {
      if (value != "per_step" && value != "summed") {
        fail(where, " is \"", printable(value), "\", expected \"per_step\" or \"summed\"");
      }
      header_.aggregation = value == "per_step" ? Aggregation::per_step : Aggregation::summed;
    });
  } else {
    return false;
  }
  value_ = owned_.get();
  return true;
}

void Document::claim(const std::string& name) {
  if (!content_.empty())
    collector_.refuse("holds both \"", content_, "\" and \"", name, "\": which one counts?");
  content_ = name;
}

bool Document::choose_content(const std::string& name) {
  const std::string place = concat(collector_.source(), ": ", name);
  if (name == "records") {
    claim(name);
    collector_.begin("moesaic.routing/1 JSON", Form::counts);
    value_ = &records_;
  } else if (name == "logical_count") {
    claim(name);
    owned_ = std::make_unique<JsonTensor>(
        place, 3, JsonTensor::Values::counts,
        [this](JsonTensor::Row&& row) { logical_count_.row(std::move(row)); });
    value_ = owned_.get();
  } else if (name == "weight") {
    claim(name);
    collector_.begin("EPLB weight JSON", Form::weights);
    collector_.describe(Aggregation::summed, IdSpace::logical, 0);
    owned_ = std::make_unique<JsonTensor>(place, 2, JsonTensor::Values::counts,
                                          [this](JsonTensor::Row&& row) {
                                            Record record;
                                            record.layer = row.layer;
                                            record.aggregation = Aggregation::summed;
                                            record.id_space = IdSpace::logical;
                                            record.counts = std::move(row.values);
                                            collector_.emit(std::move(record));
                                          });
    value_ = owned_.get();
  } else if (name == "snapshots") {
    claim(name);
    snapshots_ = std::make_unique<JsonSnapshots>(collector_, num_logical_);
    value_ = snapshots_.get();
  } else {
    return false;
  }
  return true;
}

void Document::choose(const std::string& name) {
  value_ = &skip_;
  if (choose_header(name) || choose_content(name)) return;
  if (std::find(kPlacementKeys.begin(), kPlacementKeys.end(), name) != kPlacementKeys.end()) {
    placement_ = name;
    return;
  }
  constexpr std::size_t kMaxNamed = 8;
  if (others_.size() < kMaxNamed) others_.push_back(printable(name));
}

void Document::finish_records() {
  if (!header_.schema) {
    collector_.refuse("has \"records\" but no \"schema\"; expected \"schema\": \"", kRoutingSchema,
                      "\"");
  }
  if (!header_.num_experts) collector_.refuse("has no \"num_experts\"");
  for (const std::string& name : others_) collector_.warn("unknown key \"", name, "\" is ignored");
  collector_.describe(header_.aggregation.value_or(Aggregation::unstated),
                      header_.id_space.value_or(IdSpace::unstated), header_.top_k.value_or(0));
  records_.finish();
}

void Document::finish() {
  if (content_ == "records") {
    finish_records();
  } else if (content_ == "logical_count") {
    logical_count_.finish();
  } else if (content_ == "snapshots") {
    snapshots_->finish();
  } else if (content_.empty() && header_.schema) {
    collector_.refuse("has no \"records\"");
  } else if (content_.empty() && !placement_.empty()) {
    collector_.refuse("\"", placement_,
                      "\" is a placement of experts, not counts of rows; expected ", kKnownContent);
  } else if (content_.empty()) {
    std::string keys;
    for (const std::string& name : others_)
      keys += concat(keys.empty() ? "" : ", ", "\"", name, "\"");
    collector_.refuse("no known routing format: its keys are ", keys.empty() ? "none" : keys,
                      "; expected ", kKnownContent);
  }
}

}  // namespace

void read_json(Input& input, Collector& collector) {
  Document document(collector);
  parse_json(input, document);
  document.finish();
}

}  // namespace moesaic::routing
