// SPDX-License-Identifier: Apache-2.0
// Launches of the word kernels: a result is poisoned and looked through without leaving the device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/backend.hpp"

namespace moesaic::backends::cuda::launch {

/// Both are complete on return; what they ask of their arguments is Backend's.
void fill_words(void* target, std::uint32_t word, std::size_t size_bytes, const Stream& stream);
WordCount count_words(const void* data, std::size_t size_bytes, const Word& word,
                      const Stream& stream);

}  // namespace moesaic::backends::cuda::launch
