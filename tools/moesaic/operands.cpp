// SPDX-License-Identifier: Apache-2.0
// Seeded contents of operands.
#include "operands.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "machine.hpp"
#include "text.hpp"

namespace moesaic::cli {
namespace {

/// SplitMix64 (Steele, Lea, Flood 2014): a counter, so any row can be filled by any thread.
class RowRandom {
 public:
  RowRandom(std::uint64_t seed, OperandStream stream, std::int64_t row)
      : state_(mix(mix(seed ^ 0x9E3779B97F4A7C15ULL) + static_cast<std::uint64_t>(stream)) +
               mix(static_cast<std::uint64_t>(row))) {}
  std::uint64_t next() noexcept { return mix(state_ += 0x9E3779B97F4A7C15ULL); }

 private:
  static std::uint64_t mix(std::uint64_t value) noexcept {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31);
  }
  std::uint64_t state_;
};

/// Inverse of the normal distribution function, relative error 1.2e-9. Source: P. J. Acklam's
/// rational approximation (2003).
double normal_quantile(double p) {
  static constexpr std::array a = {-3.969683028665376e+01, 2.209460984245205e+02,
                                   -2.759285104469687e+02, 1.383577518672690e+02,
                                   -3.066479806614716e+01, 2.506628277459239e+00};
  static constexpr std::array b = {-5.447609879822406e+01, 1.615858368580409e+02,
                                   -1.556989798598866e+02, 6.680131188771972e+01,
                                   -1.328068155288572e+01};
  static constexpr std::array c = {-7.784894002430293e-03, -3.223964580411365e-01,
                                   -2.400758277161838e+00, -2.549732539343734e+00,
                                   4.374664141464968e+00,  2.938163982698783e+00};
  static constexpr std::array d = {7.784695709041462e-03, 3.224671290700398e-01,
                                   2.445134137142996e+00, 3.754408661907416e+00};
  static constexpr double kTail = 0.02425;
  if (p < kTail) {
    const double q = std::sqrt(-2 * std::log(p));
    return (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
           ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
  }
  if (p > 1 - kTail) return -normal_quantile(1 - p);
  const double q = p - 0.5;
  const double r = q * q;
  return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
         (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
}

constexpr std::size_t kQuantiles = std::size_t{1} << 16;

/// The middles of 65,536 equally likely pieces of N(0, scale^2): 16 random bits pick one, which is
/// four numbers per draw and finer than BF16 can tell.
template <class T>
std::vector<T> quantile_table(double scale) {
  std::vector<T> table(kQuantiles);
  for (std::size_t i = 0; i < kQuantiles; ++i) {
    const double p = (static_cast<double>(i) + 0.5) / static_cast<double>(kQuantiles);
    table[i] = T(static_cast<float>(scale * normal_quantile(p)));
  }
  return table;
}

template <class T, class Draw>
void fill_rows(HostTensor& tensor, std::int64_t rows, std::uint64_t seed, OperandStream stream,
               const Draw& draw) {
  const std::int64_t width = tensor.width();
  parallel_pieces(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      RowRandom random(seed, stream, row);
      T* values = reinterpret_cast<T*>(tensor.row_data(row));
      for (std::int64_t column = 0; column < width; column += 4) {
        std::uint64_t bits = random.next();
        const std::int64_t stop = std::min(width, column + 4);
        for (std::int64_t i = column; i < stop; ++i, bits >>= 16) {
          values[i] = draw(static_cast<std::uint16_t>(bits));
        }
      }
    }
  });
}

template <class T>
void fill_normal_as(HostTensor& tensor, std::int64_t rows, double scale, std::uint64_t seed,
                    OperandStream stream) {
  const std::vector<T> table = quantile_table<T>(scale);
  fill_rows<T>(tensor, rows, seed, stream, [&table](std::uint16_t bits) { return table[bits]; });
}

template <class T>
void fill_integers_as(HostTensor& tensor, std::uint64_t seed, OperandStream stream) {
  fill_rows<T>(tensor, tensor.rows(), seed, stream,
               [](std::uint16_t bits) { return T(static_cast<float>(bits % 3 - 1)); });
}

}  // namespace

void fill_normal(HostTensor& tensor, double scale, std::uint64_t seed, OperandStream stream) {
  fill_normal(tensor, scale, seed, stream, tensor.rows());
}

void fill_normal(HostTensor& tensor, double scale, std::uint64_t seed, OperandStream stream,
                 std::int64_t rows) {
  if (tensor.dtype() == DType::bf16) {
    fill_normal_as<BFloat16>(tensor, rows, scale, seed, stream);
  } else {
    fill_normal_as<float>(tensor, rows, scale, seed, stream);
  }
}

void fill_integers(HostTensor& tensor, std::uint64_t seed, OperandStream stream) {
  if (tensor.dtype() == DType::bf16) {
    fill_integers_as<BFloat16>(tensor, seed, stream);
  } else {
    fill_integers_as<float>(tensor, seed, stream);
  }
}

void fill_nan_rows(HostTensor& tensor, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    for (std::int64_t column = 0; column < tensor.width(); ++column) {
      tensor.set(row, column, std::numeric_limits<float>::quiet_NaN());
    }
  }
}

std::vector<std::int32_t> end_offsets(std::span<const std::int64_t> counts) {
  static constexpr std::int64_t kMaxRows = std::numeric_limits<std::int32_t>::max();
  static constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int32_t> offs;
  offs.reserve(counts.size());
  std::int64_t end = 0;
  for (const std::int64_t count : counts) {
    end = count > kMost - end ? kMost : end + count;
    offs.push_back(static_cast<std::int32_t>(std::min(end, kMaxRows)));
  }
  if (end > kMaxRows) {
    throw Error(ErrorCode::invalid_argument,
                format("counts: expected at most %lld rows in a record (offsets are int32), got "
                       "%lld; rescale it with --rows",
                       static_cast<long long>(kMaxRows), static_cast<long long>(end)));
  }
  return offs;
}

}  // namespace moesaic::cli
