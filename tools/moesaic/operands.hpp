// SPDX-License-Identifier: Apache-2.0
// Seeded contents of operands: normal numbers and small integers. A row's values depend on the
// seed, the tensor's stream and the row alone, so neither thread count nor strides change them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "host_tensor.hpp"

namespace moesaic::cli {

/// One stream of random numbers per tensor.
enum class OperandStream : std::uint64_t {
  x = 1,
  dy,
  weights,
  down_weights,
  old_gradient,
  row_weights
};

inline constexpr double kActivationScale = 1.0;
inline constexpr double kWeightScale = 0.02;

/// N(0, scale^2) into every element, in parallel; or into the first `rows` rows alone.
void fill_normal(HostTensor& tensor, double scale, std::uint64_t seed, OperandStream stream);
void fill_normal(HostTensor& tensor, double scale, std::uint64_t seed, OperandStream stream,
                 std::int64_t rows);

/// -1, 0 or 1: every sum of up to 2^24 products is exact in f32, in any order.
void fill_integers(HostTensor& tensor, std::uint64_t seed, OperandStream stream);

/// NaN into rows [begin, end).
void fill_nan_rows(HostTensor& tensor, std::int64_t begin, std::int64_t end);

/// End rows of the experts. @throws Error{invalid_argument} naming the counts past 2^31 - 1 rows.
std::vector<std::int32_t> end_offsets(std::span<const std::int64_t> counts);

}  // namespace moesaic::cli
