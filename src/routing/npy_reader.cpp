// SPDX-License-Identifier: Apache-2.0
// Top-k ids [tokens, layers, top_k] and, when the caller says so, matrices [layers, experts].
#include <algorithm>
#include <vector>

#include "routing/id_counter.hpp"
#include "routing/npy_header.hpp"
#include "routing/readers.hpp"

namespace moesaic::routing {
namespace {

struct IdShape {
  std::int64_t tokens = 0, layers = 1, top_k = 0;
};

/// Hands the tokens on one by one as [layers * top_k] in C order.
class TokenRows {
 public:
  TokenRows(Input& input, const NpyHeader& header, IdShape shape)
      : integers_(input, header, "expert ids"),
        shape_(shape),
        row_(static_cast<std::size_t>(shape.layers * shape.top_k)) {
    if (header.fortran_order) load_fortran();
  }

  std::span<const std::int64_t> next() {
    if (whole_.empty()) {
      integers_.read(row_);
    } else {
      for (std::size_t i = 0; i < row_.size(); ++i) row_[i] = fortran_element(i);
    }
    ++token_;
    return row_;
  }

 private:
  // In Fortran order a token's ids lie far apart, so the array is held; it grows as data arrives.
  void load_fortran() {
    constexpr std::int64_t kStep = 1 << 16;
    std::int64_t left = shape_.tokens * static_cast<std::int64_t>(row_.size());
    while (left > 0) {
      const auto count = static_cast<std::size_t>(std::min(left, kStep));
      whole_.resize(whole_.size() + count);
      integers_.read(std::span(whole_).last(count));
      left -= static_cast<std::int64_t>(count);
    }
  }
  [[nodiscard]] std::int64_t fortran_element(std::size_t i) const {
    const std::size_t layer = i / static_cast<std::size_t>(shape_.top_k);
    const std::size_t slot = i % static_cast<std::size_t>(shape_.top_k);
    const std::size_t plane = slot * static_cast<std::size_t>(shape_.layers) + layer;
    return whole_[plane * static_cast<std::size_t>(shape_.tokens) +
                  static_cast<std::size_t>(token_)];
  }

  NpyIntegers integers_;
  IdShape shape_;
  std::vector<std::int64_t> row_, whole_;
  std::int64_t token_ = 0;
};

void check_shape(const IdShape& shape, std::int64_t experts, const NpyHeader& header,
                 const Collector& collector) {
  if (shape.tokens == 0 || shape.layers == 0 || shape.top_k == 0) {
    collector.refuse("an empty array of shape ", header.shape_text());
  }
  if (shape.top_k > kMaxTopK) {
    collector.refuse("shape ", header.shape_text(), " means top-", shape.top_k,
                     ", expected at most ", kMaxTopK);
  }
  if (shape.layers > kMaxLayersTimesExperts / std::max(experts, shape.top_k)) {
    collector.refuse("shape ", header.shape_text(), " means ", shape.layers, " layers of ", experts,
                     " experts, more than ", kMaxLayersTimesExperts, " counts in all");
  }
}

void read_ids(Input& input, const NpyHeader& header, IdShape shape, Collector& collector) {
  collector.begin("top-k ids .npy", Form::ids);
  const std::int64_t experts = collector.required_experts("ids");
  check_shape(shape, experts, header, collector);
  collector.describe(Aggregation::unstated, IdSpace::unstated, shape.top_k);
  TokenRows rows(input, header, shape);
  std::vector<IdCounts> layers(static_cast<std::size_t>(shape.layers), IdCounts(experts));
  IdCounter counter(collector, experts);
  RunFinder runs;
  const auto top_k = static_cast<std::size_t>(shape.top_k);
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    const auto row = rows.next();
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      counter.add(row.subspan(layer * top_k, top_k), layers[layer],
                  [&] { return concat("token ", token, ", layer ", layer); });
    }
    runs.add(row);
  }
  if (!input.at_end()) collector.refuse("more data than shape ", header.shape_text(), " has");
  counter.finish();
  runs.finish(collector, "");
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    Record record;
    record.layer = static_cast<std::int64_t>(layer);
    record.tokens = shape.tokens;
    record.top_k = shape.top_k;
    record.counts = std::move(layers[layer].counts);
    record.invalid_slots = layers[layer].invalid_slots;
    record.label = concat("all ", shape.tokens, " tokens of the file as one batch");
    collector.emit(std::move(record));
  }
}

/// A matrix in Fortran order. A row's elements lie far apart, so it is held; it grows as data
/// arrives.
class Columns {
 public:
  Columns() = default;
  Columns(NpyIntegers& integers, std::int64_t rows, std::int64_t columns)
      : rows_(static_cast<std::size_t>(rows)) {
    for (std::int64_t column = 0; column < columns; ++column) {
      constexpr std::size_t kStep = 1 << 16;
      for (std::size_t left = rows_; left > 0;) {
        const std::size_t count = std::min(left, kStep);
        values_.resize(values_.size() + count);
        integers.read(std::span(values_).last(count));
        left -= count;
      }
    }
  }
  void row(std::int64_t index, std::span<std::int64_t> to) const {
    for (std::size_t column = 0; column < to.size(); ++column) {
      to[column] = values_[column * rows_ + static_cast<std::size_t>(index)];
    }
  }

 private:
  std::vector<std::int64_t> values_;
  std::size_t rows_ = 0;
};

void read_matrix(Input& input, const NpyHeader& header, Collector& collector) {
  const Form form = *collector.options().form;
  collector.begin(form == Form::weights ? "EPLB weight .npy" : "counts matrix .npy", Form::counts);
  collector.describe(Aggregation::unstated, IdSpace::unstated, 0);
  // One dimension is one layer.
  const std::int64_t layers = header.shape.size() == 1 ? 1 : header.shape[0];
  const std::int64_t experts = header.shape.back();
  if (layers == 0 || experts == 0 || experts > kMaxExperts + 1) {
    collector.refuse("shape ", header.shape_text(), ", expected [layers, experts] with 1 to ",
                     kMaxExperts, " experts");
  }
  const auto floats =
      form == Form::offsets ? NpyIntegers::Floats::refuse : NpyIntegers::Floats::whole;
  NpyIntegers integers(input, header, to_string(form), floats);
  const bool by_columns = header.fortran_order && layers > 1;
  const Columns columns = by_columns ? Columns(integers, layers, experts) : Columns();
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    Record record;
    record.layer = layer;
    record.counts.resize(static_cast<std::size_t>(experts));
    if (by_columns) {
      columns.row(layer, record.counts);
    } else {
      integers.read(record.counts);
    }
    collector.emit(std::move(record));
  }
  if (!input.at_end()) collector.refuse("more data than shape ", header.shape_text(), " has");
}

}  // namespace

void read_npy(Input& input, Collector& collector) {
  const NpyHeader header = read_npy_header(input);
  const auto form = collector.options().form;
  const bool rows = form && *form != Form::ids && *form != Form::generated;
  const bool one_or_two = header.shape.size() == 1 || header.shape.size() == 2;
  if (rows && !one_or_two) {
    collector.refuse("shape ", header.shape_text(),
                     ", expected [layers, experts] or [experts] with --form ", to_string(*form));
  }
  const bool whole_floats = rows && *form != Form::offsets && header.kind == 'f';
  if (!header.integer() && !whole_floats) {
    NpyIntegers refused(input, header, "expert ids or counts");  // throws, naming the dtype
  }
  if (rows) {
    read_matrix(input, header, collector);
  } else if (header.shape.size() == 1) {
    collector.refuse("shape ", header.shape_text(),
                     ", expected ids [tokens, layers, top_k]; for the rows of one layer's experts "
                     "say --form counts, --form offsets or --form weights");
  } else if (!header.integer()) {
    NpyIntegers refused(input, header, "expert ids");  // throws, naming the dtype
  } else if (header.shape.size() == 3) {
    read_ids(input, header, {header.shape[0], header.shape[1], header.shape[2]}, collector);
  } else if (header.shape.size() != 2) {
    collector.refuse("shape ", header.shape_text(), ", expected ids [tokens, layers, top_k]");
  } else if (form == Form::ids) {
    read_ids(input, header, {header.shape[0], 1, header.shape[1]}, collector);
  } else {
    collector.refuse(
        "ambiguous: a matrix ", header.shape_text(),
        " may hold ids [tokens, top_k], counts, offsets or weights [layers, experts]; say which "
        "with --form ids, --form counts, --form offsets or --form weights");
  }
}

}  // namespace moesaic::routing
