// SPDX-License-Identifier: Apache-2.0
// The device, its memory and queues as the tests use them, and the fixture that skips where there
// is no device for the kernels.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "moesaic/device.hpp"
#include "moesaic/error.hpp"

namespace moesaic::device_tests {

inline constexpr Device kDevice{DeviceKind::cuda, 0};

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
  }
}

/// Exactly so many bytes of the device, so that a checker sees what lies outside of them.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::int64_t bytes) {
    if (bytes > 0) check(cudaMalloc(&data_, static_cast<std::size_t>(bytes)), "cudaMalloc");
  }
  DeviceMemory(DeviceMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~DeviceMemory() { cudaFree(data_); }

  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }
  [[nodiscard]] std::byte* bytes() const { return as<std::byte>(); }

 private:
  void* data_ = nullptr;
};

/// A stream that the default stream does not wait for.
class Queue {
 public:
  Queue() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  ~Queue() { cudaStreamDestroy(stream_); }

  [[nodiscard]] cudaStream_t get() const { return stream_; }
  void wait() const { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A captured sequence of launches, ready to be replayed.
class Graph {
 public:
  template <class Enqueue>
  Graph(const Queue& queue, const Enqueue& enqueue) {
    check(cudaStreamBeginCapture(queue.get(), cudaStreamCaptureModeGlobal), "begin of a capture");
    enqueue();
    check(cudaStreamEndCapture(queue.get(), &graph_), "end of a capture");
    check(cudaGraphInstantiate(&exec_, graph_, 0), "cudaGraphInstantiate");
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    cudaGraphExecDestroy(exec_);
    cudaGraphDestroy(graph_);
  }

  void replay(const Queue& queue) const {
    check(cudaGraphLaunch(exec_, queue.get()), "cudaGraphLaunch");
  }
  /// Gives the same launches the arguments that `other` captured.
  void update(const Graph& other) {
    cudaGraphExecUpdateResultInfo why{};
    check(cudaGraphExecUpdate(exec_, other.graph_, &why), "cudaGraphExecUpdate");
  }
  [[nodiscard]] std::size_t num_nodes() const {
    std::size_t count = 0;
    check(cudaGraphGetNodes(graph_, nullptr, &count), "cudaGraphGetNodes");
    return count;
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

/// The device of all tests, or why there is none.
struct DeviceHere {
  DeviceInfo info;
  std::string why_none;
};
const DeviceHere& device_here();

class OnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!device_here().why_none.empty()) GTEST_SKIP() << device_here().why_none;
  }
};

}  // namespace moesaic::device_tests
