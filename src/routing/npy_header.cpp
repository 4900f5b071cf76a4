// SPDX-License-Identifier: Apache-2.0
// Parses the Python dictionary literal of an .npy header: three keys, no evaluation.
#include "routing/npy_header.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>

#include "routing/fail.hpp"

namespace moesaic::routing {
namespace {

constexpr std::size_t kMaxHeaderBytes = 65536;
constexpr std::size_t kMaxRank = 8;

/// A cursor over {'descr': '<i4', 'fortran_order': False, 'shape': (3, 4), }.
class DictParser {
 public:
  DictParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  NpyHeader parse() {
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr") {
        descr();
      } else if (key == "fortran_order") {
        header_.fortran_order = boolean();
        has_order_ = true;
      } else if (key == "shape") {
        shape();
      } else {
        refuse("unknown key '" + printable(key) + "'");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (header_.dtype.empty() || !has_order_ || !has_shape_) {
      refuse("descr, fortran_order or shape is missing");
    }
    return header_;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    fail(name_, ": broken .npy header: ", why, " in '", printable(text_, 120), "'");
  }
  void spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t'))
      ++at_;
  }
  bool accept(char c) {
    spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) refuse(concat("expected '", c, "' at byte ", at_));
  }
  std::string quoted() {
    spaces();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') refuse(concat("expected a string at byte ", at_));
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) refuse("a string without an end");
    std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }
  bool boolean() {
    spaces();
    for (const auto& [word, value] : {std::pair{"True", true}, std::pair{"False", false}}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += std::string_view(word).size();
        return value;
      }
    }
    refuse("fortran_order is neither True nor False");
  }
  void descr() {
    spaces();
    if (at_ < text_.size() && text_[at_] == '[') {
      fail(name_, ": structured .npy dtype, expected one integer type");
    }
    header_.dtype = quoted();
    std::string_view rest = header_.dtype;
    if (!rest.empty() && std::string_view("<>=|").find(rest.front()) != std::string_view::npos) {
      header_.big_endian = rest.front() == '>';
      rest.remove_prefix(1);
    }
    if (rest.empty()) refuse("an empty dtype");
    header_.kind = rest.front();
    rest.remove_prefix(1);
    if (header_.kind == 'O') {
      fail(name_,
           ": .npy of Python objects (a pickle inside), expected an integer type; convert with "
           "numpy.save(path, array.astype('int32'), allow_pickle=False)");
    }
    const auto [end, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), header_.item_bytes);
    constexpr std::int64_t kMaxItemBytes = 1 << 20;
    if (error != std::errc() || end != rest.data() + rest.size() || header_.item_bytes < 0 ||
        header_.item_bytes > kMaxItemBytes) {
      fail(name_, ": .npy dtype '", printable(header_.dtype), "' is not known");
    }
    if (header_.kind == 'U') header_.item_bytes *= 4;
  }
  void shape() {
    expect('(');
    header_.shape.clear();
    while (!accept(')')) {
      spaces();
      std::int64_t size = 0;
      const auto [end, error] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0)
        refuse("a shape that is not a list of sizes of 0 or more");
      at_ = static_cast<std::size_t>(end - text_.data());
      header_.shape.push_back(size);
      if (header_.shape.size() > kMaxRank) refuse(concat("more than ", kMaxRank, " dimensions"));
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    has_shape_ = true;
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  NpyHeader header_;
  bool has_order_ = false, has_shape_ = false;
};

void check_size(const NpyHeader& header, const Input& input) {
  // Zero-sized dimensions must not hide an overflow of the others: sizes are taken as at least 1.
  std::int64_t bytes = std::max<std::int64_t>(header.item_bytes, 1);
  for (const std::int64_t size : header.shape) {
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes)) {
      fail(input.name(), ": .npy shape ", header.shape_text(), " of ", header.dtype,
           " is past 2^63 bytes");
    }
  }
  const auto have = input.remaining_bytes();
  const std::int64_t need = header.elements() * header.item_bytes;
  if (have && *have < need) {
    fail(input.name(), ": truncated: .npy shape ", header.shape_text(), " of ", header.dtype,
         " needs ", need, " bytes of data, ", *have, " are there");
  }
}

std::uint64_t little_endian(std::span<const char> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

std::int64_t NpyHeader::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

std::string NpyHeader::shape_text() const {
  std::string out = "[";
  for (const std::int64_t size : shape) out += concat(out.size() == 1 ? "" : ", ", size);
  return out + "]";
}

NpyHeader read_npy_header(Input& input) {
  std::array<char, 8> start{};
  input.read_exact(start, "the .npy header");
  if (std::string_view(start.data(), 6) != "\x93NUMPY") fail(input.name(), ": has no .npy magic");
  const int major = static_cast<unsigned char>(start[6]);
  if (major < 1 || major > 3) fail(input.name(), ": .npy version ", major, ", expected 1 to 3");
  std::array<char, 4> length{};
  const auto field = std::span(length).first(major == 1 ? 2 : 4);
  input.read_exact(field, "the .npy header");
  const auto header_bytes = static_cast<std::size_t>(little_endian(field));
  if (header_bytes > kMaxHeaderBytes) {
    fail(input.name(), ": .npy header of ", header_bytes, " bytes, expected at most ",
         kMaxHeaderBytes);
  }
  std::string text(header_bytes, '\0');
  input.read_exact(text, "the .npy header");
  NpyHeader header = DictParser(text, input.name()).parse();
  check_size(header, input);
  return header;
}

NpyIntegers::NpyIntegers(Input& input, const NpyHeader& header, std::string_view what,
                         Floats floats)
    : input_(input),
      width_(static_cast<std::size_t>(header.item_bytes)),
      is_signed_(header.kind == 'i'),
      is_float_(header.kind == 'f'),
      big_endian_(header.big_endian),
      fortran_order_(header.fortran_order),
      shape_(header.shape),
      what_(what) {
  if (is_float_ && floats == Floats::whole && (width_ == 4 || width_ == 8)) return;
  const bool width_known = width_ == 1 || width_ == 2 || width_ == 4 || width_ == 8;
  if (!header.integer() || !width_known) {
    fail(input.name(), ": .npy dtype '", printable(header.dtype), "'",
         header.kind == 'f' ? " (floating point)" : "", ", expected an integer type for ", what);
  }
}

std::int64_t NpyIntegers::decode(const unsigned char* bytes) const {
  std::uint64_t raw = 0;
  for (std::size_t i = 0; i < width_; ++i) {
    raw = raw << 8 | bytes[big_endian_ ? i : width_ - 1 - i];
  }
  if (is_float_) return whole_number(raw);
  const std::uint64_t sign = std::uint64_t{1} << (8 * width_ - 1);
  if (is_signed_) return static_cast<std::int64_t>((raw ^ sign) - sign);
  if (width_ == 8 && raw >= sign) fail(input_.name(), ": value ", raw, ", past 2^63 - 1");
  return static_cast<std::int64_t>(raw);
}

std::int64_t NpyIntegers::whole_number(std::uint64_t raw) const {
  const double value = width_ == 4 ? std::bit_cast<float>(static_cast<std::uint32_t>(raw))
                                   : std::bit_cast<double>(raw);
  constexpr double kTwoTo63 = 9223372036854775808.0;
  if (!(value >= -kTwoTo63 && value < kTwoTo63) || value != std::floor(value)) {
    fail(input_.name(), ": ", place(), " is ", value, ", expected a whole number for ", what_);
  }
  return static_cast<std::int64_t>(value);
}

/// Where the element at hand is; floats come in vectors and matrices only, [layers, experts].
std::string NpyIntegers::place() const {
  const std::int64_t rows = shape_.size() == 2 ? shape_[0] : 1, columns = shape_.back();
  const std::int64_t layer = fortran_order_ ? element_ % rows : element_ / columns;
  const std::int64_t expert = fortran_order_ ? element_ / rows : element_ % columns;
  return concat("layer ", layer, ", expert ", expert);
}

void NpyIntegers::read(std::span<std::int64_t> to) {
  constexpr std::size_t kBatch = 4096;
  while (!to.empty()) {
    const std::size_t count = std::min(kBatch, to.size());
    buffer_.resize(count * width_);
    input_.read_exact(buffer_, "the .npy data");
    const auto* bytes = reinterpret_cast<const unsigned char*>(buffer_.data());
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = decode(bytes + i * width_);
      ++element_;
    }
    to = to.subspan(count);
  }
}

}  // namespace moesaic::routing
