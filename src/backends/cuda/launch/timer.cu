// SPDX-License-Identifier: Apache-2.0
// See timer.hpp.

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cuda/ptx>
#include <mutex>
#include <string>
#include <thread>

#include "backends/cuda/launch/kernel_launch.hpp"
#include "backends/cuda/launch/timer.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

constexpr unsigned long long kTimeOutNanoseconds = 10'000'000'000ULL;
constexpr std::chrono::seconds kPatience{3};  // more than a call of the host takes, NB-0019

enum GateState : unsigned { gate_closed = 0, gate_open = 1 };

/// Holds its stream until the host writes gate_open; a host that died does not hold it for good.
__global__ void gate_kernel(const volatile unsigned* state, unsigned long long time_out) {
  const unsigned long long start = ::cuda::ptx::get_sreg_globaltimer();
  while (*state == gate_closed && ::cuda::ptx::get_sreg_globaltimer() - start <= time_out) {
    __nanosleep(500);
  }
}

/// Opened when it goes, so that an exception never leaves the stream held.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) {
    void* host = nullptr;
    check_cuda(cudaHostAlloc(&host, sizeof(unsigned), cudaHostAllocMapped), "cudaHostAlloc(gate)");
    state_ = static_cast<unsigned*>(host);
    *state_ = gate_closed;
    void* device = nullptr;
    check_cuda(cudaHostGetDevicePointer(&device, host, 0), "cudaHostGetDevicePointer(gate)");
    launch_kernel("gate_kernel", gate_kernel, {1, 1}, stream, static_cast<unsigned*>(device),
                  kTimeOutNanoseconds);
    stream_ = stream;
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() {
    open();
    cudaStreamSynchronize(stream_);  // the kernel reads the flag until then
    cudaFreeHost(state_);
  }

  /// From any thread, once or more often.
  void open() noexcept { std::atomic_ref(*state_).store(gate_open, std::memory_order_release); }

 private:
  unsigned* state_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

/// Opens a gate for a host that gets nowhere: the device's queue is full and has room again only
/// when the device works, or a piece waits for the device.
class GateWatch {
 public:
  explicit GateWatch(Gate& gate)
      : thread_([this, &gate](const std::stop_token& stop) { watch(gate, stop); }) {}

  void progress() noexcept { steps_.fetch_add(1, std::memory_order_relaxed); }

 private:
  void watch(Gate& gate, const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any never;
    for (std::int64_t before = -1, now = 0; !stop.stop_requested(); before = now) {
      now = steps_.load(std::memory_order_relaxed);
      if (now == before) {
        gate.open();
        return;
      }
      never.wait_for(lock, stop, kPatience, [] { return false; });
    }
  }

  std::atomic<std::int64_t> steps_{0};
  std::jthread thread_;  // the last member: ends before what it reads
};

class Event {
 public:
  Event() { check_cuda(cudaEventCreate(&event_), "cudaEventCreate"); }
  Event(Event&& other) noexcept : event_(other.event_) { other.event_ = nullptr; }
  Event& operator=(Event&&) = delete;
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  void record(cudaStream_t stream) {
    check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  [[nodiscard]] bool has_passed() const {
    const cudaError_t state = cudaEventQuery(event_);
    if (state != cudaErrorNotReady) check_cuda(state, "cudaEventQuery");
    return state == cudaSuccess;
  }
  [[nodiscard]] double seconds_until(const Event& later) const {
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, event_, later.event_), "cudaEventElapsedTime");
    // Events tick in half microseconds; zero would divide throughput by nothing.
    return std::max(static_cast<double>(milliseconds) * 1e-3, 1e-9);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// @returns how many pieces the device came to before the whole of them was enqueued.
template <typename Progress>
std::int64_t enqueue(std::span<const std::function<void()>> pieces, std::vector<Event>& events,
                     cudaStream_t stream, const Progress& progress) {
  std::int64_t late = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    events[2 * i].record(stream);
    pieces[i]();
    events[2 * i + 1].record(stream);
    late += events[2 * i].has_passed() ? 1 : 0;  // asked behind both events: none is missed
    progress();
  }
  return late;
}

void require_none_late(std::int64_t late, std::size_t pieces) {
  if (late == 0) return;
  throw Error(ErrorCode::device_failure,
              "gate: expected all of a piece enqueued before the device comes to it, got " +
                  std::to_string(late) + " of " + std::to_string(pieces) +
                  " pieces later: the host stood still for seconds, a piece has more launches than "
                  "the device's queue holds, or it waits for the device and needs TimerGate::open");
}

/// Whatever ends a function, what it has enqueued is done before its caller's memory may go.
class Finished {
 public:
  explicit Finished(cudaStream_t stream) : stream_(stream) {}
  Finished(const Finished&) = delete;
  Finished& operator=(const Finished&) = delete;
  ~Finished() { cudaStreamSynchronize(stream_); }

 private:
  cudaStream_t stream_;
};

/// A unit of calls, captured once.
class UnitGraph {
 public:
  UnitGraph(const std::function<void()>& piece, std::int64_t calls, cudaStream_t stream) {
    // Of this thread alone: another may go on allocating.
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture(unit)");
    try {
      for (std::int64_t call = 0; call < calls; ++call) piece();
    } catch (...) {
      end_capture(stream);  // or the stream would stay in capture for good
      destroy();
      throw;
    }
    check_cuda(end_capture(stream), "cudaStreamEndCapture(unit)");
    const cudaError_t made = cudaGraphInstantiate(&exec_, graph_, 0);
    if (made != cudaSuccess) destroy();
    check_cuda(made, "cudaGraphInstantiate(unit)");
    // Else the first launch uploads it, within the first unit.
    check_cuda(cudaGraphUpload(exec_, stream), "cudaGraphUpload(unit)");
    check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize(unit)");
  }
  UnitGraph(const UnitGraph&) = delete;
  UnitGraph& operator=(const UnitGraph&) = delete;
  ~UnitGraph() { destroy(); }

  void launch(cudaStream_t stream) const {
    check_cuda(cudaGraphLaunch(exec_, stream), "cudaGraphLaunch(unit)");
  }

 private:
  cudaError_t end_capture(cudaStream_t stream) { return cudaStreamEndCapture(stream, &graph_); }
  void destroy() noexcept {
    if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace

UnitTimes time_units(const std::function<void()>& piece, std::int64_t calls_per_unit,
                     std::int64_t units, const Stream& stream) {
  const DeviceScope scope(stream.device().index);
  const auto native = static_cast<cudaStream_t>(stream.native());
  const UnitGraph unit(piece, calls_per_unit, native);
  std::vector<Event> events(static_cast<std::size_t>(units) + 1);
  const Finished finished(native);
  UnitTimes times;
  events[0].record(native);
  for (std::size_t i = 1; i < events.size(); ++i) {
    unit.launch(native);
    if (i > 1 && events[i - 1].has_passed())
      ++times.late;  // asked behind the launch: none is missed
    events[i].record(native);
  }
  check_cuda(cudaStreamSynchronize(native), "cudaStreamSynchronize(timer)");
  times.seconds.reserve(static_cast<std::size_t>(units));
  for (std::size_t i = 1; i < events.size(); ++i) {
    times.seconds.push_back(events[i - 1].seconds_until(events[i]));
  }
  return times;
}

std::vector<double> time_pieces(std::span<const std::function<void()>> pieces, const Stream& stream,
                                TimerGate gate) {
  const DeviceScope scope(stream.device().index);
  const auto native = static_cast<cudaStream_t>(stream.native());
  std::vector<Event> events(2 * pieces.size());
  std::int64_t late = 0;
  if (gate == TimerGate::closed) {
    Gate held(native);
    GateWatch watch(held);
    late = enqueue(pieces, events, native, [&watch] { watch.progress(); });
  } else {
    enqueue(pieces, events, native, [] {});
  }
  check_cuda(cudaStreamSynchronize(native), "cudaStreamSynchronize(timer)");
  require_none_late(late, pieces.size());
  std::vector<double> seconds;
  seconds.reserve(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    seconds.push_back(events[2 * i].seconds_until(events[2 * i + 1]));
  }
  return seconds;
}

}  // namespace moesaic::backends::cuda::launch
