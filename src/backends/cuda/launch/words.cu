// SPDX-License-Identifier: Apache-2.0
// See words.hpp.

#include <cuda_runtime_api.h>

#include "backends/cuda/kernels/word_kernels.cuh"
#include "backends/cuda/launch/cuda_error.hpp"
#include "backends/cuda/launch/kernel_launch.hpp"
#include "backends/cuda/launch/memory.hpp"
#include "backends/cuda/launch/words.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

constexpr unsigned kThreadsPerCta = 256;
constexpr int kCtasPerSm = 8;

LaunchGrid whole_device(int device) {
  int num_sms = 0;
  check_cuda(cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, device),
             "cudaDeviceGetAttribute(multiprocessors)");
  return {static_cast<unsigned>(num_sms * kCtasPerSm), kThreadsPerCta};
}

/// Device memory for what is counted.
class Tally {
 public:
  explicit Tally(const Stream& stream)
      : stream_(stream),
        data_(static_cast<WordTally*>(allocate(sizeof(WordTally), stream.device()))) {}
  Tally(const Tally&) = delete;
  Tally& operator=(const Tally&) = delete;
  ~Tally() { release(data_, stream_.device()); }

  [[nodiscard]] WordTally* get() const { return data_; }
  void clear() const {
    const WordTally none{0, ~0ULL};
    copy_from_host(data_, &none, sizeof(none), stream_);
  }
  [[nodiscard]] WordCount read() const {
    WordTally found{};
    copy_to_host(&found, data_, sizeof(found), stream_);
    if (found.count == 0) return {};
    return {static_cast<std::int64_t>(found.count), static_cast<std::int64_t>(found.first)};
  }

 private:
  Stream stream_;
  WordTally* data_;
};

template <class T>
void launch_count(const void* data, std::size_t size_bytes, std::uint32_t word, WordTally* tally,
                  const Stream& stream) {
  launch_kernel("count_words_kernel", count_words_kernel<T>, whole_device(stream.device().index),
                static_cast<cudaStream_t>(stream.native()), static_cast<const T*>(data),
                static_cast<std::int64_t>(size_bytes / sizeof(T)), static_cast<T>(word), tally);
}

}  // namespace

void fill_words(void* target, std::uint32_t word, std::size_t size_bytes, const Stream& stream) {
  const DeviceScope scope(stream.device().index);
  const auto native = static_cast<cudaStream_t>(stream.native());
  launch_kernel("fill_words_kernel", fill_words_kernel, whole_device(stream.device().index), native,
                static_cast<std::uint32_t*>(target),
                static_cast<std::int64_t>(size_bytes / sizeof(word)), word);
  check_cuda(cudaStreamSynchronize(native), "cudaStreamSynchronize");
}

WordCount count_words(const void* data, std::size_t size_bytes, const Word& word,
                      const Stream& stream) {
  const DeviceScope scope(stream.device().index);
  const Tally tally(stream);
  tally.clear();
  if (word.size_bytes == sizeof(std::uint16_t)) {
    launch_count<std::uint16_t>(data, size_bytes, word.value, tally.get(), stream);
  } else {
    launch_count<std::uint32_t>(data, size_bytes, word.value, tally.get(), stream);
  }
  return tally.read();
}

}  // namespace moesaic::backends::cuda::launch
