// SPDX-License-Identifier: Apache-2.0
// Bit-for-bit comparison of results.
#include "compare.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include "machine.hpp"

namespace moesaic::cli {

std::int64_t expert_of_row(std::span<const std::int32_t> offs, std::int64_t max_rows,
                           std::int64_t row) {
  std::int64_t begin = 0;
  for (std::size_t expert = 0; expert < offs.size(); ++expert) {
    const std::int64_t end = offs[expert];
    const bool valid = 0 <= begin && begin <= end && end <= max_rows;
    if (valid && begin <= row && row < end) return static_cast<std::int64_t>(expert);
    begin = end;
  }
  return -1;
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool same(const std::byte* got, const std::byte* want, DType dtype) {
  const auto bytes = static_cast<std::size_t>(size_bytes(dtype));
  if (std::memcmp(got, want, bytes) == 0) return true;
  std::uint32_t bits[2] = {0, 0};
  std::memcpy(&bits[0], got, bytes);
  std::memcpy(&bits[1], want, bytes);
  const std::uint32_t minus_zero = dtype == DType::bf16 ? 0x8000U : 0x80000000U;
  // A computed zero may have either sign; a -0 that had to be kept may not change.
  return bits[1] == 0 && bits[0] == minus_zero;
}

/// (expert, row) of a row counted through all leading extents.
Mismatch place(const std::string& name, const HostTensor& tensor, std::int64_t row,
               std::int64_t column, std::span<const std::int32_t> offs) {
  Mismatch at;
  at.tensor = name;
  at.column = column;
  const TensorView view = tensor.view();
  if (view.rank == 3) {
    at.expert = row / view.shape[1];
    at.row = row % view.shape[1];
  } else {
    at.expert = expert_of_row(offs, view.shape[0], row);
    at.row = row;
  }
  return at;
}

void count_mismatch(CheckResult& result, Mismatch at) {
  ++result.mismatches;
  result.worst = kInfinity;
  if (!result.first) result.first = std::move(at);
}

/// Bytes outside the rows.
void compare_guards(CheckResult& result, const std::string& name, const HostTensor& got,
                    const HostTensor& want) {
  const std::byte* first = got.bytes().data();
  const std::byte* rows_begin = got.row_data(0);
  const std::byte* rows_end = got.row_data(got.rows());
  const auto differs = [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
    return std::memcmp(first + begin, want.bytes().data() + begin,
                       static_cast<std::size_t>(end - begin)) != 0;
  };
  const std::ptrdiff_t size = static_cast<std::ptrdiff_t>(got.size_bytes());
  if (differs(0, rows_begin - first) || differs(rows_end - first, size)) {
    count_mismatch(result, {name + " guard", -1, -1, 0, 0, 0, 0});
  }
}

}  // namespace

CheckResult compare_exactly(const std::string& name, const HostTensor& got, const HostTensor& want,
                            std::span<const std::int32_t> offs) {
  CheckResult result;
  const std::int64_t element = size_bytes(got.dtype());
  const std::int64_t stride = got.row_stride();
  for (std::int64_t row = 0; row < got.rows(); ++row) {
    result.elements += got.width();
    const std::byte* got_row = got.row_data(row);
    const std::byte* want_row = want.row_data(row);
    if (std::memcmp(got_row, want_row, static_cast<std::size_t>(stride * element)) == 0) continue;
    for (std::int64_t column = 0; column < stride; ++column) {
      if (same(got_row + column * element, want_row + column * element, got.dtype())) continue;
      Mismatch at = place(name, got, row, column, offs);
      at.got = got.get(row, column);
      at.want = want.get(row, column);
      count_mismatch(result, std::move(at));
    }
  }
  compare_guards(result, name, got, want);
  return result;
}

std::int64_t rows_to_write(const HostTensor& result, std::span<const std::int32_t> offs) {
  if (result.view().rank == 3) return result.rows();
  return offs.empty() ? 0 : offs.back();
}

CheckResult unwritten(const std::string& name, const HostTensor& result,
                      std::span<const std::int32_t> offs, WordCount poison) {
  CheckResult check;
  if (poison.count == 0) return check;
  Mismatch at =
      place(name, result, poison.first / result.width(), poison.first % result.width(), offs);
  at.got = std::numeric_limits<double>::quiet_NaN();
  at.want = 0;
  at.tensor += " (not written)";
  count_mismatch(check, std::move(at));
  check.mismatches = poison.count;
  return check;
}

CheckResult find_unwritten(const std::string& name, const HostTensor& got,
                           std::span<const std::int32_t> offs) {
  const std::int64_t rows = rows_to_write(got, offs), width = got.width();
  const std::int64_t element = size_bytes(got.dtype());
  // A strategy that forgets a row forgets all of it or a block of columns; looking at every element
  // costs less than one pass over the result in the product itself.
  std::atomic<std::int64_t> first{rows * width}, count{0};
  parallel_pieces(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t here = 0, first_here = 0;
      const std::byte* data = got.row_data(row);
      for (std::int64_t column = width; column-- > 0;) {
        if (!is_poison(data + column * element, got.dtype())) continue;
        ++here;
        first_here = column;
      }
      if (here == 0) continue;
      count += here;
      const std::int64_t place_here = row * width + first_here;
      std::int64_t known = first;
      while (place_here < known && !first.compare_exchange_weak(known, place_here)) {
      }
    }
  });
  return unwritten(name, got, offs, {count, first});
}

}  // namespace moesaic::cli
