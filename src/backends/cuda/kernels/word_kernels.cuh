// SPDX-License-Identifier: Apache-2.0
// Words written to all of a buffer, and words of one value counted where they lie, 16 bytes a load.
#pragma once

#include <cstdint>

namespace moesaic::backends::cuda {

__device__ __forceinline__ std::int64_t thread_of_grid() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ std::int64_t threads_of_grid() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

/// `words` is 16-byte aligned.
__global__ void fill_words_kernel(std::uint32_t* words, std::int64_t count, std::uint32_t word) {
  const std::int64_t stores = count / 4;
  const uint4 four{word, word, word, word};
  for (std::int64_t i = thread_of_grid(); i < stores; i += threads_of_grid()) {
    reinterpret_cast<uint4*>(words)[i] = four;
  }
  for (std::int64_t i = stores * 4 + thread_of_grid(); i < count; i += threads_of_grid()) {
    words[i] = word;
  }
}

/// What all threads have found together.
struct WordTally {
  unsigned long long count;
  unsigned long long first;  ///< All bits set before any was found.
};

/// `words` is 16-byte aligned. Few words are found where all is well, so atomics cost nothing.
template <class Word>
__global__ void count_words_kernel(const Word* words, std::int64_t count, Word word,
                                   WordTally* tally) {
  constexpr int kPerPart = sizeof(std::uint32_t) / sizeof(Word);
  constexpr int kPerLoad = 4 * kPerPart;
  unsigned long long found = 0, first = ~0ULL;
  const auto look = [&](Word value, std::int64_t index) {
    if (value != word) return;
    ++found;
    first = min(first, static_cast<unsigned long long>(index));
  };
  const std::int64_t loads = count / kPerLoad;
  for (std::int64_t i = thread_of_grid(); i < loads; i += threads_of_grid()) {
    const uint4 load = reinterpret_cast<const uint4*>(words)[i];
    const std::uint32_t parts[] = {load.x, load.y, load.z, load.w};
#pragma unroll
    for (int part = 0; part < 4; ++part) {
#pragma unroll
      for (int half = 0; half < kPerPart; ++half) {
        look(static_cast<Word>(parts[part] >> (16 * half)), i * kPerLoad + part * kPerPart + half);
      }
    }
  }
  for (std::int64_t i = loads * kPerLoad + thread_of_grid(); i < count; i += threads_of_grid()) {
    look(words[i], i);
  }
  if (found == 0) return;
  atomicAdd(&tally->count, found);
  atomicMin(&tally->first, first);
}

}  // namespace moesaic::backends::cuda
