// SPDX-License-Identifier: Apache-2.0
// Bit-for-bit comparison of a result with what its whole allocation must hold: values, rows left
// alone, gaps and guards. Bounds on rounded sums are moesaic/check.hpp's.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "host_tensor.hpp"
#include "moesaic/check.hpp"

namespace moesaic::cli {

/// Whose row a row of the buffer is, for messages: the first expert whose segment holds it, -1 for
/// none. Offsets may be wrong; segments as in the contract.
std::int64_t expert_of_row(std::span<const std::int32_t> offs, std::int64_t max_rows,
                           std::int64_t row);

/// Compares every byte of two allocations of one layout. Elements compare by bits, except that 0
/// equals -0. A difference in a gap has a column past the width; one in a guard has row -1. For a
/// tensor of rank 3 the expert is its first index and the row counts within it; else `offs` tells.
CheckResult compare_exactly(const std::string& name, const HostTensor& got, const HostTensor& want,
                            std::span<const std::int32_t> offs);

/// How many rows of a result must have been written: those before the last end, and all of a tensor
/// of rank 3.
std::int64_t rows_to_write(const HostTensor& result, std::span<const std::int32_t> offs);

/// What poisoned elements in these rows mean, counted row by row without gaps: nobody wrote them.
/// They are mismatches and no elements.
CheckResult unwritten(const std::string& name, const HostTensor& result,
                      std::span<const std::int32_t> offs, WordCount poison);

/// The same of a result that lies on the host.
CheckResult find_unwritten(const std::string& name, const HostTensor& got,
                           std::span<const std::int32_t> offs);

}  // namespace moesaic::cli
