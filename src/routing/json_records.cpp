// SPDX-License-Identifier: Apache-2.0
// Bodies of JsonRecords.
#include "routing/json_records.hpp"

#include <array>
#include <utility>

#include "routing/fail.hpp"
#include "routing/varint.hpp"

namespace moesaic::routing {
namespace {

constexpr std::array<const char*, 8> kKeys = {"layer",  "step",    "rank",          "tokens",
                                              "counts", "offsets", "invalid_slots", "note"};

/// The key's one spelling in kKeys, so that comparisons are of pointers and skipping is cheap.
const char* known_key(std::string_view name) {
  for (const char* key : kKeys) {
    if (name == key) return key;
  }
  return nullptr;
}

}  // namespace

JsonRecords::JsonRecords(Collector& collector, const RoutingHeader& header)
    : collector_(collector), header_(header) {}

std::string JsonRecords::place() const {
  std::string out = concat(collector_.source(), ": records[", index_, "]");
  if (partial_.has_layer) out += concat(" (", place_of(partial_.record), ")");
  if (depth_ >= 2 && known_ != nullptr) out += concat(".", known_);
  if (depth_ == 3) out += concat("[", partial_.record.counts.size(), "]");
  return out;
}

void JsonRecords::refuse_value(std::string_view what) const {
  const std::string_view key = known_ == nullptr ? "" : known_;
  const std::string_view expected = depth_ == 0                           ? "a list of records"
                                    : depth_ == 1                         ? "a record object"
                                    : depth_ == 3                         ? "a count"
                                    : key == "note"                       ? "a string"
                                    : key == "counts" || key == "offsets" ? "a list of counts"
                                                                          : "a whole number";
  fail(place(), ": expected ", expected, ", came ", what);
}

void JsonRecords::start_object() {
  if (depth_ == 2 && skipping()) {
    ++skip_depth_;
    return;
  }
  if (depth_ != 1) refuse_value("an object");
  depth_ = 2;
  known_ = nullptr;
  partial_ = Partial{};
}

void JsonRecords::end_object() {
  if (skip_depth_ > 0) {
    --skip_depth_;
    return;
  }
  depth_ = 1;
  close_record();
}

void JsonRecords::key(std::string_view name) {
  if (skip_depth_ > 0) return;
  known_ = known_key(name);
  if (known_ != nullptr) return;
  if (name.starts_with("count") || name.starts_with("offset") || name.starts_with("offs")) {
    partial_.stranger = printable(name);
  }
  collector_.warn("unknown key \"", printable(name), "\" in a record is ignored");
}

void JsonRecords::start_array() {
  if (depth_ == 0) {
    depth_ = 1;
    return;
  }
  if (depth_ == 2 && skipping()) {
    ++skip_depth_;
    return;
  }
  const std::string_view key = depth_ == 2 ? known_ : "";
  if (key != "counts" && key != "offsets") refuse_value("a list");
  if (partial_.has_counts || partial_.has_offsets) fail(place(), ": counts or offsets given twice");
  (key == "counts" ? partial_.has_counts : partial_.has_offsets) = true;
  depth_ = 3;
}

void JsonRecords::end_array() {
  if (skip_depth_ > 0) {
    --skip_depth_;
  } else {
    --depth_;
  }
}

void JsonRecords::number(const JsonNumber& value) {
  if (depth_ == 3) {
    partial_.record.counts.push_back(to_count_at(value, [this] { return place(); }));
    return;
  }
  if (depth_ == 2 && skipping()) return;
  const std::string_view key = depth_ == 2 ? known_ : "";
  Record& record = partial_.record;
  if (key == "layer") {
    record.layer = to_count(value, place());
    partial_.has_layer = true;
  } else if (key == "step") {
    record.step = to_count(value, place());
  } else if (key == "rank") {
    record.rank = to_integer(value, place());
    if (record.rank < -1)
      fail(place(), " is ", record.rank, ", expected 0 or more, or -1 for the whole layer");
  } else if (key == "tokens") {
    record.tokens = to_count(value, place());
  } else if (key == "invalid_slots") {
    record.invalid_slots = to_count(value, place());
  } else {
    refuse_value("a number");
  }
}

void JsonRecords::string(std::string_view value) {
  if (depth_ == 2 && skipping()) return;
  if (depth_ != 2 || std::string_view(known_) != "note") refuse_value("a string");
  partial_.record.label = printable(value, 200);
}

void JsonRecords::word(std::string_view value) {
  if (depth_ == 2 && skipping()) return;
  // Writers leave out what they do not know by writing null.
  if (depth_ == 2 && value == "null" && std::string_view(known_) != "counts") return;
  refuse_value(value);
}

void JsonRecords::close_record() {
  known_ = nullptr;
  const std::string where = place();
  if (!partial_.has_layer) fail(where, ": has no \"layer\"");
  if (!partial_.has_counts && !partial_.has_offsets) {
    fail(where, ": has neither \"counts\" nor \"offsets\"",
         partial_.stranger.empty() ? "" : " (it has \"" + partial_.stranger + "\")");
  }
  if (static_cast<std::int64_t>(partial_.record.counts.size()) > kMaxExperts + 1) {
    fail(where, ": more than ", kMaxExperts, " counts");
  }
  if (header_.complete()) {
    release();
    emit(std::move(partial_), where);
  } else {
    hold_back(partial_);
  }
  ++index_;
}

void JsonRecords::hold_back(const Partial& partial) {
  if (held_.empty()) held_first_ = index_;
  const Record& record = partial.record;
  const auto put = [this](std::int64_t value, std::uint64_t bias = 0) {
    put_varint(held_, static_cast<std::uint64_t>(value) + bias);  // -1 ("unknown") becomes 0
  };
  put(partial.has_offsets ? 1 : 0);
  put(record.layer);
  put(record.step);
  put(record.rank, 1);
  put(record.tokens, 1);
  put(record.invalid_slots);
  put(static_cast<std::int64_t>(record.label.size()));
  put(static_cast<std::int64_t>(record.counts.size()));
  held_ += record.label;
  for (const std::int64_t count : record.counts) put(count);
}

void JsonRecords::release() {
  const std::string held = std::exchange(held_, {});
  std::string_view rest = held;
  const auto take = [&rest] { return static_cast<std::int64_t>(take_varint(rest)); };
  for (std::int64_t index = held_first_; !rest.empty(); ++index) {
    Partial partial;
    Record& record = partial.record;
    partial.has_offsets = take() == 1;
    record.layer = take();
    record.step = take();
    record.rank = static_cast<std::int64_t>(take_varint(rest) - 1);
    record.tokens = static_cast<std::int64_t>(take_varint(rest) - 1);
    record.invalid_slots = take();
    const auto label_chars = static_cast<std::size_t>(take());
    record.counts.resize(static_cast<std::size_t>(take()));
    record.label = rest.substr(0, label_chars);
    rest.remove_prefix(label_chars);
    for (std::int64_t& count : record.counts) count = take();
    emit(std::move(partial),
         concat(collector_.source(), ": records[", index, "] (", place_of(record), ")"));
  }
}

void JsonRecords::emit(Partial&& partial, const std::string& where) {
  Record& record = partial.record;
  const std::int64_t experts = header_.num_experts.value_or(0);
  const bool offsets_asked = collector_.offsets_asked();  // then the collector converts
  if (partial.has_offsets && !offsets_asked) {
    offsets_to_counts(record.counts, experts, where + ".offsets");
  }
  auto size = static_cast<std::int64_t>(record.counts.size());
  if (offsets_asked && size == experts + 1 && record.counts.front() == 0) {
    record.counts.erase(record.counts.begin());
    --size;
  }
  if (size != experts) fail(where, ": ", size, " counts, but num_experts is ", experts);
  record.top_k = header_.top_k.value_or(0);
  record.id_space = header_.id_space.value_or(IdSpace::unstated);
  record.aggregation = header_.aggregation.value_or(Aggregation::unstated);
  collector_.emit(std::move(record));
}

void JsonRecords::finish() { release(); }

}  // namespace moesaic::routing
