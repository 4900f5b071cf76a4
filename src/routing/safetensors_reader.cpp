// SPDX-License-Identifier: Apache-2.0
// TensorRT-LLM expert statistics: safetensors with keys "<iteration>_<layer>", counts [experts] or,
// in the raw files, ids [tokens, top_k].
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "routing/id_counter.hpp"
#include "routing/json_events.hpp"
#include "routing/npy_header.hpp"
#include "routing/readers.hpp"

namespace moesaic::routing {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{1} << 24;

struct Tensor {
  std::string name, dtype;
  std::vector<std::int64_t> shape, offsets;
  std::int64_t step = 0, layer = 0;
};

/// {"0_3": {"dtype": "I32", "shape": [256], "data_offsets": [0, 1024]}, "__metadata__": {…}}
class HeaderReader final : public JsonHandler {
 public:
  explicit HeaderReader(std::string place) : place_(std::move(place)) {}
  std::vector<Tensor> tensors;

  void start_object() override {
    if (depth_ == 1 && !metadata_) tensors.emplace_back().name = name_;
    if (depth_ >= 2 && !metadata_) refuse("an object");
    ++depth_;
  }
  void end_object() override { --depth_; }
  void key(std::string_view name) override {
    if (depth_ == 1) {
      name_ = name;
      metadata_ = name == "__metadata__";
    }
    key_ = name;
  }
  void start_array() override {
    if (!in_list() && !metadata_) refuse("a list");
    if (in_list()) list().clear();
    ++depth_;
  }
  void end_array() override { --depth_; }
  void number(const JsonNumber& value) override {
    if (metadata_) return;
    if (depth_ != 3) refuse("a number");
    list().push_back(to_count(value, concat(place_, ": ", printable(name_), ".", printable(key_))));
  }
  void string(std::string_view value) override {
    if (metadata_) return;
    if (depth_ != 2 || key_ != "dtype") refuse("a string");
    tensors.back().dtype = value;
  }
  void word(std::string_view value) override {
    if (!metadata_) refuse(value);
  }

 private:
  [[nodiscard]] bool in_list() const {
    return !metadata_ && depth_ == 2 && (key_ == "shape" || key_ == "data_offsets");
  }
  std::vector<std::int64_t>& list() {
    return key_ == "shape" ? tensors.back().shape : tensors.back().offsets;
  }
  [[noreturn]] void refuse(std::string_view what) const {
    fail(place_, ": safetensors header: ", printable(name_), ": ", what,
         " came where {\"dtype\", \"shape\", \"data_offsets\"} was expected");
  }
  std::string place_, name_, key_;
  bool metadata_ = false;
  int depth_ = 0;
};

void parse_key(Tensor& tensor, const Collector& collector) {
  const std::string_view name = tensor.name;
  const char* const stop = name.data() + name.size();
  const auto [middle, error] = std::from_chars(name.data(), stop, tensor.step);
  bool good = error == std::errc() && middle != stop && *middle == '_';
  if (good) {
    const auto [end, layer_error] = std::from_chars(middle + 1, stop, tensor.layer);
    good = layer_error == std::errc() && end == stop && tensor.step >= 0 && tensor.layer >= 0;
  }
  if (!good) {
    collector.refuse("tensor \"", printable(name),
                     "\" is not named <iteration>_<layer>; expected the expert "
                     "statistics of TensorRT-LLM, not model weights");
  }
}

/// The element type in NumPy's terms, so that one decoder serves both formats.
NpyHeader element_type(const Tensor& tensor, const Collector& collector) {
  constexpr std::array<std::pair<std::string_view, std::pair<char, int>>, 7> kTypes = {
      {{"I8", {'i', 1}},
       {"U8", {'u', 1}},
       {"I16", {'i', 2}},
       {"I32", {'i', 4}},
       {"U32", {'u', 4}},
       {"I64", {'i', 8}},
       {"U64", {'u', 8}}}};
  for (const auto& [dtype, type] : kTypes) {
    if (tensor.dtype != dtype) continue;
    NpyHeader header;
    header.kind = type.first;
    header.item_bytes = type.second;
    header.dtype = dtype;
    header.shape = tensor.shape;
    return header;
  }
  collector.refuse("tensor ", printable(tensor.name), ": dtype \"", printable(tensor.dtype),
                   "\", expected an integer type");
}

void check_range(const Tensor& tensor, const NpyHeader& type, std::int64_t previous_end,
                 const Collector& collector) {
  if (tensor.offsets.size() != 2)
    collector.refuse("tensor ", tensor.name, ": expected two data_offsets");
  if (tensor.shape.empty() || tensor.shape.size() > 2) {
    collector.refuse("tensor ", tensor.name, ": shape ", type.shape_text(),
                     ", expected [experts] or [tokens, top_k]");
  }
  std::int64_t bytes = type.item_bytes;
  for (const std::int64_t size : tensor.shape) {
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes)) {
      collector.refuse("tensor ", tensor.name, ": shape ", type.shape_text(),
                       " is past 2^63 bytes");
    }
  }
  const std::int64_t begin = tensor.offsets[0], end = tensor.offsets[1];
  if (begin < previous_end || end < begin || end - begin != type.elements() * type.item_bytes) {
    collector.refuse("tensor ", tensor.name, ": data_offsets ", begin, " to ", end,
                     " do not fit shape ", type.shape_text(), " of ", tensor.dtype, " after byte ",
                     previous_end);
  }
}

/// "dir/rank3.safetensors" -> 3; -1 for any other name.
std::int64_t rank_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  std::string_view base = slash == std::string_view::npos ? path : path.substr(slash + 1);
  if (!base.starts_with("rank")) return -1;
  base.remove_prefix(4);
  std::int64_t rank = -1;
  const auto [end, error] = std::from_chars(base.data(), base.data() + base.size(), rank);
  const bool whole = end != base.data() + base.size() && (*end == '.' || *end == '_');
  return error == std::errc() && whole && rank >= 0 ? rank : -1;
}

class StatisticsReader {
 public:
  StatisticsReader(Input& input, Collector& collector)
      : input_(input), collector_(collector), rank_(rank_of(input.name())) {}

  void read() {
    std::vector<Tensor> tensors = header();
    for (Tensor& tensor : tensors) parse_key(tensor, collector_);
    std::stable_sort(tensors.begin(), tensors.end(),
                     [](const Tensor& a, const Tensor& b) { return first(a) < first(b); });
    const bool raw = !tensors.empty() && tensors.front().shape.size() == 2;
    collector_.begin(raw ? "TensorRT-LLM raw routing .safetensors"
                         : "TensorRT-LLM expert statistics .safetensors",
                     raw ? Form::ids : Form::counts);
    if (raw) counter_.emplace(collector_, collector_.required_experts("raw routing files"));
    collector_.describe(Aggregation::per_step, IdSpace::logical, 0);
    std::int64_t end = 0;
    for (const Tensor& tensor : tensors) {
      const NpyHeader type = element_type(tensor, collector_);
      check_range(tensor, type, end, collector_);
      if ((tensor.shape.size() == 2) != raw) {
        collector_.refuse("tensor ", tensor.name,
                          ": counts [experts] and ids [tokens, top_k] in one file");
      }
      const auto have = input_.remaining_bytes();
      if (have && *have < tensor.offsets[1] - end) {
        collector_.refuse("truncated: tensor ", tensor.name, " ends at data byte ",
                          tensor.offsets[1], ", ", end + *have, " bytes are there");
      }
      input_.skip(tensor.offsets[0] - end, "a gap between tensors");
      raw ? read_ids(tensor, type) : read_counts(tensor, type);
      end = tensor.offsets[1];
    }
    if (counter_) counter_->finish();
  }

 private:
  static std::int64_t first(const Tensor& tensor) {
    return tensor.offsets.empty() ? 0 : tensor.offsets[0];
  }

  std::vector<Tensor> header() {
    std::array<char, 8> raw{};
    input_.read_exact(raw, "the safetensors header");
    std::uint64_t bytes = 0;
    for (std::size_t i = raw.size(); i-- > 0;)
      bytes = bytes << 8 | static_cast<unsigned char>(raw[i]);
    const auto have = input_.remaining_bytes();
    if (bytes > kMaxHeaderBytes || (have && bytes > static_cast<std::uint64_t>(*have))) {
      collector_.refuse(
          "safetensors header of ", bytes, " bytes, expected at most ",
          have ? std::min<std::uint64_t>(kMaxHeaderBytes, static_cast<std::uint64_t>(*have))
               : kMaxHeaderBytes);
    }
    std::string text(static_cast<std::size_t>(bytes), '\0');
    input_.read_exact(text, "the safetensors header");
    HeaderReader reader(collector_.source());
    parse_json(text, collector_.source() + ": safetensors header", reader);
    return std::move(reader.tensors);
  }

  [[nodiscard]] Record record_of(const Tensor& tensor) const {
    Record record;
    record.layer = tensor.layer;
    record.step = tensor.step;
    record.rank = rank_;
    record.aggregation = Aggregation::per_step;
    record.id_space = IdSpace::logical;
    return record;
  }

  void read_counts(const Tensor& tensor, const NpyHeader& type) {
    if (tensor.shape[0] < 1 || tensor.shape[0] > kMaxExperts) {
      collector_.refuse("tensor ", tensor.name, ": ", tensor.shape[0], " experts, expected 1 to ",
                        kMaxExperts);
    }
    Record record = record_of(tensor);
    record.counts.resize(static_cast<std::size_t>(tensor.shape[0]));
    NpyIntegers(input_, type, "counts").read(record.counts);
    collector_.emit(std::move(record));
  }

  void read_ids(const Tensor& tensor, const NpyHeader& type) {
    const std::int64_t tokens = tensor.shape[0], top_k = tensor.shape[1];
    if (top_k < 1 || top_k > kMaxTopK) {
      collector_.refuse("tensor ", tensor.name, ": top-", top_k, ", expected 1 to ", kMaxTopK);
    }
    IdCounts counts(*collector_.options().num_experts);
    RunFinder runs;
    std::vector<std::int64_t> row(static_cast<std::size_t>(top_k));
    NpyIntegers integers(input_, type, "expert ids");
    for (std::int64_t token = 0; token < tokens; ++token) {
      integers.read(row);
      counter_->add(row, counts, [&] { return concat("tensor ", tensor.name, ", token ", token); });
      runs.add(row);
    }
    runs.finish(collector_, " of tensor " + tensor.name);
    Record record = record_of(tensor);
    record.tokens = tokens;
    record.top_k = top_k;
    record.counts = std::move(counts.counts);
    record.invalid_slots = counts.invalid_slots;
    collector_.emit(std::move(record));
  }

  Input& input_;
  Collector& collector_;
  std::int64_t rank_;
  std::optional<IdCounter> counter_;
};

}  // namespace

void read_safetensors(Input& input, Collector& collector) {
  StatisticsReader(input, collector).read();
}

}  // namespace moesaic::routing
