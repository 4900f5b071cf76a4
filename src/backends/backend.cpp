// SPDX-License-Identifier: Apache-2.0
// What a backend answers when it does not override: refusals, and host memory, time and workspaces.

#include "backends/backend.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/message.hpp"

namespace moesaic {

PackedWeights detail::GroupedGemmImpl::pack_weights(const Operand& /*w*/,
                                                    const Stream& /*stream*/) const {
  throw Error(ErrorCode::unsupported, "pack_weights: " + std::string(name()) +
                                          " has no packed layout; pass the weights as b");
}

namespace backends {

void Backend::swiglu(const ActivationArgs& /*args*/, const Stream& /*stream*/) const {
  throw Error(ErrorCode::unsupported, "swiglu: backend " + status().name + " has no activation");
}

void Backend::dswiglu(const ActivationArgs& /*args*/, const Stream& /*stream*/) const {
  throw Error(ErrorCode::unsupported, "dswiglu: backend " + status().name + " has no activation");
}

void Backend::scale_rows(const ScaleRowsArgs& /*args*/, const Stream& /*stream*/) const {
  throw Error(ErrorCode::unsupported,
              "scale_rows: backend " + status().name + " has no activation");
}

void Backend::take_rows(const TakeRowsArgs& /*args*/, const Stream& /*stream*/) const {
  throw Error(ErrorCode::unsupported, "take_rows: backend " + status().name + " has no activation");
}

std::unique_ptr<const FusedExpert> Backend::fused_expert(
    const ExpertMlpProblem& /*problem*/, const DeviceInfo& /*device*/,
    const std::optional<std::string>& /*implementation*/) const {
  return nullptr;
}

core::WorkspaceHeader Backend::read_header(const Workspace& workspace,
                                           const Stream& /*stream*/) const {
  core::WorkspaceHeader header;
  std::memcpy(&header, workspace.bytes.data(), sizeof(header));
  return header;
}

void Backend::clear_fault(const Workspace& workspace, const Stream& /*stream*/) const {
  std::memset(workspace.bytes.data() + offsetof(core::WorkspaceHeader, fault_word), 0,
              sizeof(core::WorkspaceHeader::fault_word));
}

void* Backend::allocate(std::size_t size_bytes, Device device) const {
  const std::size_t whole =
      (size_bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  constexpr std::size_t kMost = PTRDIFF_MAX;  // no object is larger
  const bool possible = whole >= size_bytes && whole <= kMost;
  void* data = possible ? std::aligned_alloc(kWorkspaceAlignment, whole) : nullptr;
  if (data == nullptr) {
    throw Error(ErrorCode::device_failure, "size_bytes: expected what is free on " +
                                               to_string(device) + ", got " +
                                               std::to_string(size_bytes));
  }
  return data;
}

void Backend::release(void* data, Device /*device*/) const noexcept { std::free(data); }

void Backend::copy_from_host(void* target, const void* source, std::size_t size_bytes,
                             const Stream& /*stream*/) const {
  std::memcpy(target, source, size_bytes);
}

void Backend::copy_to_host(void* target, const void* source, std::size_t size_bytes,
                           const Stream& /*stream*/) const {
  std::memcpy(target, source, size_bytes);
}

void Backend::fill(void* target, std::byte value, std::size_t size_bytes,
                   const Stream& /*stream*/) const {
  std::memset(target, std::to_integer<int>(value), size_bytes);
}

void Backend::copy_within(void* target, const void* source, std::size_t size_bytes,
                          const Stream& /*stream*/) const {
  std::memcpy(target, source, size_bytes);
}

void Backend::fill_words(void* target, std::uint32_t word, std::size_t size_bytes,
                         const Stream& /*stream*/) const {
  std::fill_n(static_cast<std::uint32_t*>(target), size_bytes / sizeof(word), word);
}

namespace {

template <class T>
WordCount count_equal(const T* words, std::size_t size_bytes, T word) {
  const auto size = static_cast<std::int64_t>(size_bytes / sizeof(T));
  WordCount found;
  for (std::int64_t i = 0; i < size; ++i) {
    if (words[i] != word) continue;
    if (found.count++ == 0) found.first = i;
  }
  return found;
}

}  // namespace

WordCount Backend::count_words(const void* data, std::size_t size_bytes, const Word& word,
                               const Stream& /*stream*/) const {
  if (word.size_bytes == sizeof(std::uint16_t)) {
    return count_equal(static_cast<const std::uint16_t*>(data), size_bytes,
                       static_cast<std::uint16_t>(word.value));
  }
  return count_equal(static_cast<const std::uint32_t*>(data), size_bytes, word.value);
}

void* Backend::make_stream(Device /*device*/) const { return nullptr; }

void Backend::destroy_stream(void* /*native*/, Device /*device*/) const noexcept {}

void Backend::synchronize(const Stream& /*stream*/) const {}

std::vector<double> Backend::time(std::span<const std::function<void()>> pieces,
                                  const Stream& /*stream*/, TimerGate /*gate*/) const {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  seconds.reserve(pieces.size());
  for (const std::function<void()>& piece : pieces) {
    const Clock::time_point start = Clock::now();
    piece();
    // A clock tick is the least that can be told apart; zero would divide throughput by nothing.
    seconds.push_back(std::max(std::chrono::duration<double>(Clock::now() - start).count(), 1e-9));
  }
  return seconds;
}

UnitTimes Backend::time_units(const std::function<void()>& piece, std::int64_t calls_per_unit,
                              std::int64_t units, const Stream& stream) const {
  const std::function<void()> unit = [&] {
    for (std::int64_t call = 0; call < calls_per_unit; ++call) piece();
  };
  const std::vector<std::function<void()>> pieces(static_cast<std::size_t>(units), unit);
  return {Backend::time(pieces, stream, TimerGate::open), 0};
}

std::unique_ptr<detail::BatchedGemmImpl> Backend::batched_gemm(
    const BatchedGemmProblem& /*problem*/, const DeviceInfo& /*device*/, Support& why_not) const {
  why_not = {false, "backend " + status().name + " has no library of dense products"};
  return nullptr;
}

std::unique_ptr<TelemetrySource> Backend::telemetry(Device device, std::string& why_none) const {
  why_none = "no clocks are read on " + to_string(device);
  return nullptr;
}

DeviceCircumstances Backend::circumstances(Device /*device*/) const { return {}; }

}  // namespace backends
}  // namespace moesaic
