// SPDX-License-Identifier: Apache-2.0
// What the command needs of the machine: threads for filling memory, memory that is free, a device.
#pragma once

#include <cstdint>
#include <functional>

#include "moesaic/device.hpp"
#include "moesaic/grouped_gemm.hpp"
#include "options.hpp"

namespace moesaic::cli {

/// Calls work(begin, end) on pieces of [0, count) in parallel; the pieces cover it once. `work` may
/// not throw.
void parallel_pieces(std::int64_t count,
                     const std::function<void(std::int64_t, std::int64_t)>& work);

/// Bytes that can still be allocated without swapping: of the machine, or of this process's control
/// group where that is less. 0 when neither is known.
double available_memory_bytes();

/// @throws Error{invalid_argument} naming --rows when `bytes` exceeds what is available.
void require_memory(double bytes);

/// The device for --backend: auto is a CUDA device where one exists and has an implementation for
/// `problem`, else the CPU. @throws Error{device_failure} with the reason when there is none.
DeviceInfo choose_device(BackendChoice choice, const GroupedGemmProblem& problem);

}  // namespace moesaic::cli
