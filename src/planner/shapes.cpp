// SPDX-License-Identifier: Apache-2.0
// Layer widths: the report's Table 42 by name, or "d=2048,h=2560", and the products they give.
#include <array>
#include <charconv>
#include <string>

#include "moesaic/planner.hpp"
#include "planner/text.hpp"

namespace moesaic::planner {
namespace {

constexpr std::int64_t kK = 1024;  // the report's "K", as in 8K tokens and 96K rows
// Widths past this are a slip of the keyboard, and 2h must stay far from int64.
constexpr std::int64_t kMaxWidth = std::int64_t{1} << 30;
constexpr std::int64_t kWidthMultiple = 8;  // 16 bytes of BF16: the contract's row granule

constexpr TrainingShape row(std::string_view name, std::int64_t microbatch, std::int64_t length,
                            std::int64_t top_k, std::int64_t ranks, std::int64_t experts,
                            std::int64_t d, std::int64_t h) {
  return {.name = name,
          .microbatch = microbatch,
          .sequence_length = length,
          .top_k = top_k,
          .expert_ranks = ranks,
          .experts = experts,
          .d = d,
          .h = h};
}

constexpr std::array<TrainingShape, 6> kTable42 = {
    row("small-2", 3, 8 * kK, 4, 8, 64, 2048, 2560),
    row("small-3", 4, 4 * kK, 8, 8, 64, 2048, 2560),
    row("small-4", 3, 8 * kK, 8, 8, 128, 1536, 1536),
    row("medium-2", 3, 8 * kK, 4, 8, 128, 3584, 4096),
    row("large-2", 1, 8 * kK, 4, 8, 128, 6144, 8192),
    row("ultra-2", 2, 8 * kK, 4, 32, 128, 8192, 10240)};

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

std::string known_shapes() {
  std::string known;
  for (const TrainingShape& shape : kTable42) {
    known += (known.empty() ? "" : ", ") + std::string(shape.name);
  }
  return known;
}

std::int64_t parse_width(std::string_view key, std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (text.empty() || result.ec != std::errc{} || result.ptr != end || value < 1 ||
      value > kMaxWidth || value % kWidthMultiple != 0) {
    refuse("--shape: " + std::string(key) + ": expected a positive multiple of 8, at most " +
           grouped(kMaxWidth) + ", got " + quoted(text));
  }
  return value;
}

}  // namespace

std::span<const TrainingShape> training_shapes() { return kTable42; }

LayerShape parse_shape(std::string_view text) {
  for (const TrainingShape& shape : kTable42) {
    if (shape.name == text) return {.d = shape.d, .h = shape.h, .training = &shape};
  }
  if (text.find('=') == std::string_view::npos) {
    refuse("--shape: expected one of " + known_shapes() + ", or d=WIDTH,h=WIDTH, got " +
           quoted(text));
  }
  LayerShape shape;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    const std::size_t equals = item.find('=');
    const std::string_view key = item.substr(0, equals);
    if (equals == std::string_view::npos || (key != "d" && key != "h")) {
      refuse("--shape: expected the keys d and h, each KEY=WIDTH, got " + quoted(item) + " in " +
             quoted(text));
    }
    std::int64_t& width = key == "d" ? shape.d : shape.h;
    if (width != 0) {
      refuse("--shape: " + std::string(key) + ": expected once, came twice in " + quoted(text));
    }
    width = parse_width(key, item.substr(equals + 1));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (shape.d == 0 || shape.h == 0) {
    refuse(std::string("--shape: ") + (shape.d == 0 ? "d" : "h") + ": expected, but missing in " +
           quoted(text));
  }
  return shape;
}

std::string_view name(Projection projection) noexcept {
  switch (projection) {
    case Projection::up_gate:
      return "up_gate";
    case Projection::down:
      return "down";
    case Projection::square:
      return "square";
  }
  return "unknown";
}

Projection parse_projection(std::string_view text) {
  for (const Projection projection : {Projection::up_gate, Projection::down, Projection::square}) {
    if (name(projection) == text) return projection;
  }
  refuse("--proj: expected up_gate, down or square, got " + quoted(text));
}

ProductShape product_shape(const LayerShape& shape, Projection projection) {
  switch (projection) {
    case Projection::up_gate:
      return {.n = 2 * shape.h, .k = shape.d};
    case Projection::down:
      return {.n = shape.d, .k = shape.h};
    case Projection::square:
      return {.n = shape.d, .k = shape.d};
  }
  refuse("projection: expected up_gate, down or square");
}

}  // namespace moesaic::planner
