// SPDX-License-Identifier: Apache-2.0
// Bodies of JsonSnapshots.
#include "routing/json_snapshots.hpp"

#include <algorithm>
#include <utility>

#include "routing/fail.hpp"

namespace moesaic::routing {

JsonSnapshots::JsonSnapshots(Collector& collector, const std::optional<std::int64_t>& num_logical)
    : collector_(collector), num_logical_(num_logical) {
  collector_.begin("vLLM expert-load JSON", Form::counts);
}

std::string JsonSnapshots::place() const {
  return concat(collector_.source(), ": snapshots[", index_, "]");
}

void JsonSnapshots::start_object() {
  if (depth_ == 1) {
    depth_ = 2;
    snapshot_ = Snapshot{};
  } else if (depth_ == 2) {
    if (key_ == Key::step) fail(place(), ".step: expected a whole number, came an object");
    if (tensor_) tensor_->start_object();
    ++value_depth_;
  } else {
    fail(collector_.source(), ": snapshots: expected a list, came an object");
  }
}

void JsonSnapshots::end_object() {
  if (value_depth_ > 0) {
    --value_depth_;
    return;
  }
  depth_ = 1;
  close_snapshot();
  ++index_;
}

void JsonSnapshots::key(std::string_view name) {
  if (value_depth_ > 0) return;
  key_ = name == "step"                      ? Key::step
         : name == "window_expert_load"      ? Key::window
         : name == "latest_expert_load"      ? Key::latest
         : name == "physical_to_logical_map" ? Key::map
                                             : Key::other;
  tensor_.reset();
  if (key_ == Key::step || key_ == Key::other) return;
  Matrix& matrix = key_ == Key::window   ? snapshot_.window
                   : key_ == Key::latest ? snapshot_.latest
                                         : snapshot_.map;
  matrix.clear();
  const auto values = key_ == Key::map ? JsonTensor::Values::integers : JsonTensor::Values::counts;
  tensor_ = std::make_unique<JsonTensor>(
      concat(place(), ".", name), 2, values,
      [&matrix](JsonTensor::Row&& row) { matrix.push_back(std::move(row.values)); });
}

void JsonSnapshots::start_array() {
  if (depth_ == 0) {
    depth_ = 1;
    return;
  }
  if (depth_ == 1) fail(place(), ": expected an object, came a list");
  if (key_ == Key::step) fail(place(), ".step: expected a whole number, came a list");
  if (tensor_) tensor_->start_array();
  ++value_depth_;
}

void JsonSnapshots::end_array() {
  if (value_depth_ == 0) {
    depth_ = 0;
    return;
  }
  if (tensor_) tensor_->end_array();
  --value_depth_;
}

void JsonSnapshots::number(const JsonNumber& value) {
  if (depth_ < 2) fail(place(), ": expected an object, came a number");
  if (tensor_) {
    tensor_->number(value);
  } else if (key_ == Key::step && value_depth_ == 0) {
    snapshot_.step = to_count(value, place() + ".step");
  }
}

void JsonSnapshots::string(std::string_view value) {
  if (depth_ < 2) fail(place(), ": expected an object, came a string");
  if (key_ == Key::step && value_depth_ == 0)
    fail(place(), ".step: expected a whole number, came a string");
  if (tensor_) tensor_->string(value);
}

void JsonSnapshots::word(std::string_view value) {
  if (depth_ < 2) fail(place(), ": expected an object, came ", value);
  if (tensor_ && !(value == "null" && value_depth_ == 0)) tensor_->word(value);
}

std::int64_t JsonSnapshots::logical_experts(const Matrix& map) {
  std::int64_t highest = -1;
  for (const auto& layer : map)
    highest = std::max(highest, *std::max_element(layer.begin(), layer.end()));
  return highest < kMaxExperts ? highest + 1 : kMaxExperts + 1;
}

std::vector<std::int64_t> JsonSnapshots::to_logical(const std::vector<std::int64_t>& physical,
                                                    const std::vector<std::int64_t>& map,
                                                    std::int64_t layer, Record& record) {
  std::vector<std::int64_t> logical(static_cast<std::size_t>(experts_), 0);
  for (std::size_t slot = 0; slot < physical.size(); ++slot) {
    const std::int64_t expert = map[slot];
    std::int64_t& target =
        expert < 0 ? record.invalid_slots : logical[static_cast<std::size_t>(expert)];
    if (__builtin_add_overflow(target, physical[slot], &target)) {
      fail(place(), ": layer ", layer, ": the replicas' counts add up past 2^63 - 1");
    }
  }
  return logical;
}

void JsonSnapshots::close_snapshot() {
  tensor_.reset();
  const bool window = !snapshot_.window.empty();
  const Matrix& load = window ? snapshot_.window : snapshot_.latest;
  if (load.empty()) fail(place(), ": has neither window_expert_load nor latest_expert_load");
  const Matrix& map = snapshot_.map;
  const bool mapped = !map.empty();
  if (mapped && (map.size() != load.size() || map[0].size() != load[0].size())) {
    fail(place(), ": physical_to_logical_map is [", map.size(), "][", map[0].size(),
         "], the load is [", load.size(), "][", load[0].size(), "]");
  }
  if (mapped) {
    experts_ = std::max({experts_, logical_experts(map), num_logical_.value_or(0)});
    if (experts_ < 1 || experts_ > kMaxExperts) {
      fail(place(), ": physical_to_logical_map has no expert of 0 to ", kMaxExperts - 1);
    }
  }
  mapped_ = mapped_ || mapped;
  const auto aggregation = window ? Aggregation::summed : Aggregation::per_step;
  const auto id_space = mapped ? IdSpace::logical : IdSpace::physical;
  collector_.describe(aggregation, id_space, 0);
  for (std::size_t layer = 0; layer < load.size(); ++layer) {
    Record record;
    record.layer = static_cast<std::int64_t>(layer);
    record.step = snapshot_.step.value_or(index_);
    record.aggregation = aggregation;
    record.id_space = id_space;
    record.label = window ? "load window" : "latest load";
    record.counts =
        mapped ? to_logical(load[layer], map[layer], record.layer, record) : load[layer];
    collector_.emit(std::move(record));
  }
  snapshot_ = Snapshot{};
}

void JsonSnapshots::finish() {
  if (mapped_ && num_logical_ && *num_logical_ != experts_) {
    fail(collector_.source(), ": num_logical_experts is ", *num_logical_,
         ", but physical_to_logical_map names ", experts_, " experts");
  }
}

}  // namespace moesaic::routing
