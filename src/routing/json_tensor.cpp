// SPDX-License-Identifier: Apache-2.0
// Bodies of JsonTensor.
#include "routing/json_tensor.hpp"

#include <utility>

#include "routing/fail.hpp"

namespace moesaic::routing {

JsonTensor::JsonTensor(std::string place, int max_rank, Values values, RowSink sink)
    : place_(std::move(place)), max_rank_(max_rank), kind_(values), sink_(std::move(sink)) {}

std::string JsonTensor::element() const {
  std::string out = place_;
  for (int d = 0; d < depth_; ++d) out += concat("[", index_[static_cast<std::size_t>(d)], "]");
  return out;
}

void JsonTensor::refuse(std::string_view what) const {
  fail(element(), ": expected ", depth_ == 0 ? "a list of lists of numbers" : "a number or a list",
       ", came ", what);
}

void JsonTensor::start_array() {
  if (depth_ == (rank_ != 0 ? rank_ : max_rank_)) {
    fail(element(), ": lists nested deeper than ",
         depth_ == rank_ ? "in the rows before" : "expected");
  }
  index_[static_cast<std::size_t>(depth_++)] = 0;
}

void JsonTensor::end_array() {
  const auto level = static_cast<std::size_t>(--depth_);
  const std::int64_t size = index_[level];
  if (size == 0) fail(element(), ": an empty list");
  if (length_[level] < 0) length_[level] = size;
  if (length_[level] != size) {
    fail(element(), ": ", size, " entries, expected ", length_[level],
         " as in the first list: unequal lengths");
  }
  if (rank_ != 0 && depth_ == rank_ - 1) {
    Row row;
    row.rank = rank_;
    row.step = rank_ == 3 ? index_[0] : 0;
    row.layer = rank_ == 3 ? index_[1] : index_[0];
    row.values = std::exchange(row_, {});
    sink_(std::move(row));
  }
  if (depth_ > 0) ++index_[level - 1];
}

void JsonTensor::number(const JsonNumber& value) {
  if (rank_ == 0 && depth_ >= 2) rank_ = depth_;
  if (depth_ != rank_ || depth_ == 0) {
    fail(element(), ": a number where a list was expected (lists of rows: [layers][experts]",
         max_rank_ == 3 ? " or [steps][layers][experts]" : "", ")");
  }
  const auto where = [this] { return element(); };
  row_.push_back(kind_ == Values::counts ? to_count_at(value, where) : to_integer(value, where()));
  ++index_[static_cast<std::size_t>(depth_ - 1)];
}

}  // namespace moesaic::routing
