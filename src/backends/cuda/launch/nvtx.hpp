// SPDX-License-Identifier: Apache-2.0
// Named ranges for NVIDIA's profilers. Without a profiler they cost a null check.
#pragma once

namespace moesaic::backends::cuda::launch {

/// A range of this thread, nested in those that are open.
void begin_range(const char* name) noexcept;
/// Closes the innermost one.
void end_range() noexcept;

}  // namespace moesaic::backends::cuda::launch
