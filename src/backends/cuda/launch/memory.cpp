// SPDX-License-Identifier: Apache-2.0
// See memory.hpp.

#include "backends/cuda/launch/memory.hpp"

#include <cuda_runtime_api.h>

#include <string>

#include "backends/cuda/launch/cuda_error.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

void copy(void* target, const void* source, std::size_t size_bytes, cudaMemcpyKind kind,
          const Stream& stream) {
  const DeviceScope scope(stream.device().index);
  const auto native = static_cast<cudaStream_t>(stream.native());
  check_cuda(cudaMemcpyAsync(target, source, size_bytes, kind, native), "cudaMemcpyAsync");
  check_cuda(cudaStreamSynchronize(native), "cudaStreamSynchronize");
}

}  // namespace

void* allocate(std::size_t size_bytes, Device device) {
  const DeviceScope scope(device.index);
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, size_bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // an allocation that failed leaves the device sound
    std::size_t free_bytes = 0, total_bytes = 0;
    check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    throw Error(ErrorCode::device_failure,
                "size_bytes: expected at most the " + std::to_string(free_bytes) +
                    " bytes free on " + to_string(device) + ", got " + std::to_string(size_bytes));
  }
  check_cuda(error, "cudaMalloc");
  return data;
}

void release(void* data, Device device) noexcept {
  quietly_on_device(device.index, [&] { cudaFree(data); });
}

void copy_from_host(void* target, const void* source, std::size_t size_bytes,
                    const Stream& stream) {
  copy(target, source, size_bytes, cudaMemcpyHostToDevice, stream);
}

void copy_to_host(void* target, const void* source, std::size_t size_bytes, const Stream& stream) {
  copy(target, source, size_bytes, cudaMemcpyDeviceToHost, stream);
}

void copy_within(void* target, const void* source, std::size_t size_bytes, const Stream& stream) {
  copy(target, source, size_bytes, cudaMemcpyDeviceToDevice, stream);
}

void fill(void* target, std::byte value, std::size_t size_bytes, const Stream& stream) {
  const DeviceScope scope(stream.device().index);
  const auto native = static_cast<cudaStream_t>(stream.native());
  check_cuda(cudaMemsetAsync(target, std::to_integer<int>(value), size_bytes, native),
             "cudaMemsetAsync");
  check_cuda(cudaStreamSynchronize(native), "cudaStreamSynchronize");
}

void* make_stream(Device device) {
  const DeviceScope scope(device.index);
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return stream;
}

void destroy_stream(void* native, Device device) noexcept {
  quietly_on_device(device.index, [&] { cudaStreamDestroy(static_cast<cudaStream_t>(native)); });
}

void synchronize(const Stream& stream) {
  const DeviceScope scope(stream.device().index);
  check_cuda(cudaStreamSynchronize(static_cast<cudaStream_t>(stream.native())),
             "cudaStreamSynchronize");
}

}  // namespace moesaic::backends::cuda::launch
