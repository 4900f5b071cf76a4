// SPDX-License-Identifier: Apache-2.0
// Router hook logs: JSON lines, one token of one layer each.
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "routing/id_counter.hpp"
#include "routing/json_events.hpp"
#include "routing/readers.hpp"

namespace moesaic::routing {
namespace {

/// The keys of one line that matter; others are passed over.
class LineReader final : public JsonHandler {
 public:
  explicit LineReader(std::string place) : place_(std::move(place)) {}

  std::string type;
  std::optional<std::int64_t> layer, top_k, num_experts;
  std::optional<std::vector<std::int64_t>> ids;

  void start_object() override { ++depth_; }
  void end_object() override { --depth_; }
  void start_array() override {
    if (depth_ == 0) fail(place_, ": expected an object, came a list");
    if (in_ids() && depth_ == 1) ids.emplace();
    if (in_ids() && depth_ == 2)
      fail(place_, ": topk_ids: expected one token's list of ids, came a nested list");
    ++depth_;
  }
  void end_array() override { --depth_; }
  void key(std::string_view name) override {
    if (depth_ == 1) key_ = name;
  }
  void number(const JsonNumber& value) override {
    if (depth_ == 1 && key_ == "layer") layer = to_count(value, place_ + ": layer");
    if (depth_ == 1 && key_ == "top_k") top_k = to_count(value, place_ + ": top_k");
    if (depth_ == 1 && key_ == "num_experts") {
      num_experts = to_count(value, place_ + ": num_experts");
    }
    if (in_ids() && depth_ == 2) ids->push_back(to_integer(value, place_ + ": topk_ids"));
  }
  void string(std::string_view value) override {
    if (depth_ == 1 && key_ == "type") type = value;
    if (in_ids() && depth_ == 2) fail(place_, ": topk_ids: expected whole numbers, came a string");
  }
  void word(std::string_view value) override {
    if (in_ids() && depth_ == 2) fail(place_, ": topk_ids: expected whole numbers, came ", value);
  }

 private:
  [[nodiscard]] bool in_ids() const { return key_ == "topk_ids"; }
  std::string place_;
  std::string key_;
  int depth_ = 0;
};

struct Layer {
  explicit Layer(std::int64_t experts) : counts(experts) {}
  IdCounts counts;
  RunFinder runs;
  std::int64_t tokens = 0, top_k = 0;
};

class HookLog {
 public:
  explicit HookLog(Collector& collector)
      : collector_(collector), experts_(collector.options().num_experts.value_or(0)) {}

  void line(const LineReader& line, const std::string& place) {
    if (line.type == "meta") {
      meta(line, place);
    } else if (line.type == "route") {
      route(line, place);
    } else {
      collector_.warn("lines of type \"", printable(line.type), "\" are ignored");
    }
  }

  void finish() {
    if (counter_) counter_->finish();
    for (auto& [number, layer] : layers_) {
      layer.runs.finish(collector_, concat(" of layer ", number));
      Record record;
      record.layer = number;
      record.tokens = layer.tokens;
      record.top_k = layer.top_k;
      record.id_space = IdSpace::logical;
      record.counts = std::move(layer.counts.counts);
      record.invalid_slots = layer.counts.invalid_slots;
      record.label = concat("all ", layer.tokens, " tokens of the log as one batch");
      collector_.describe(Aggregation::unstated, IdSpace::logical, layer.top_k);
      collector_.emit(std::move(record));
    }
  }

 private:
  /// The number of experts is --experts or what a meta line says first; the two must agree.
  void meta(const LineReader& line, const std::string& place) {
    if (line.top_k) meta_top_k_ = *line.top_k;
    if (!line.num_experts) return;
    const std::int64_t number = *line.num_experts;
    if (number < 1 || number > kMaxExperts) {
      fail(place, ": num_experts is ", number, ", expected 1 to ", kMaxExperts);
    }
    if (experts_ > 0 && number != experts_) {
      fail(place, ": num_experts is ", number, ", expected ", experts_,
           collector_.options().num_experts ? " as --experts says" : " as in the meta line before");
    }
    experts_ = number;
  }
  void route(const LineReader& line, const std::string& place) {
    if (!line.layer) fail(place, ": a route line without \"layer\"");
    if (!line.ids || line.ids->empty()) fail(place, ": a route line without \"topk_ids\"");
    if (experts_ == 0) {
      fail(place, ": ids do not say how many experts the model has, and no meta line before has ",
           "\"num_experts\": give --experts N");
    }
    if (!counter_) counter_.emplace(collector_, experts_);
    auto [it, fresh] = layers_.try_emplace(*line.layer, experts_);
    Layer& layer = it->second;
    const auto size = static_cast<std::int64_t>(line.ids->size());
    if (fresh) {
      layer.top_k = meta_top_k_ > 0 ? meta_top_k_ : size;
      if (static_cast<std::int64_t>(layers_.size()) > kMaxLayersTimesExperts / experts_) {
        fail(place, ": more than ", kMaxLayersTimesExperts / experts_, " layers of ", experts_,
             " experts");
      }
    }
    if (size != layer.top_k) {
      fail(place, ": layer ", *line.layer, " has ", size, " ids, expected ", layer.top_k,
           meta_top_k_ > 0 ? " as the meta line says" : " as in the first line");
    }
    counter_->add(*line.ids, layer.counts, [&] {
      return concat(place.substr(place.rfind("line ")), ", layer ", *line.layer);
    });
    layer.runs.add(*line.ids);
    ++layer.tokens;
  }

  Collector& collector_;
  std::int64_t experts_;  // 0 while it is not known
  std::optional<IdCounter> counter_;
  std::map<std::int64_t, Layer> layers_;
  std::int64_t meta_top_k_ = 0;
};

}  // namespace

bool is_hook_log_line(std::string_view line) {
  LineReader reader("");
  try {
    parse_json(line, "", reader);
  } catch (const Error&) {
    return false;
  }
  return reader.type == "meta" || reader.type == "route";
}

void read_hook_log(Input& input, Collector& collector) {
  collector.begin("router hook log JSONL", Form::ids);
  HookLog log(collector);
  std::string text;
  for (std::int64_t number = 1; input.read_line(text); ++number) {
    if (text.find_first_not_of(" \t") == std::string::npos) continue;
    const std::string place = concat(collector.source(), ": line ", number);
    LineReader line(place);
    parse_json(text, place, line);
    log.line(line, place);
  }
  log.finish();
}

}  // namespace moesaic::routing
