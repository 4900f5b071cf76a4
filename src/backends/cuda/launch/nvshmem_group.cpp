// SPDX-License-Identifier: Apache-2.0
// See nvshmem_group.hpp.

#include "backends/cuda/launch/nvshmem_group.hpp"

#include <algorithm>
#include <cstdio>

#include "backends/cuda/launch/cuda_error.hpp"
#include "backends/cuda/launch/exchange_launch.hpp"
#include "backends/cuda/launch/nvshmem_process.hpp"
#include "core/message.hpp"
#include "math/missed_barrier.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

/// What a rank says of itself before a group is made: host, NVSHMEM job or "", process number in
/// it.
struct Member {
  std::string host, job;
  int pe = -1;
};

std::string to_text(const Member& member) {
  return member.host + "\n" + std::to_string(member.pe) + "\n" + member.job;
}

Member member_of(const std::string& text) {
  const std::size_t first = text.find('\n'), second = text.find('\n', first + 1);
  return {text.substr(0, first), text.substr(second + 1),
          std::stoi(text.substr(first + 1, second - first - 1))};
}

/// On `device`, which is current.
DeviceMemory allocate_on(Device device, std::size_t size_bytes) {
  void* data = nullptr;
  check_cuda(cudaMalloc(&data, size_bytes), "cudaMalloc");
  return {data, FreeMemory{device.index}};
}

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", seconds);
  return text;
}

}  // namespace

void FreeMemory::operator()(void* data) const noexcept {
  quietly_on_device(device, [&] { cudaFree(data); });
}

void FreeHostMemory::operator()(void* data) const noexcept {
  quietly_on_device(device, [&] { cudaFreeHost(data); });
}

SymmetricRegion::SymmetricRegion(std::shared_ptr<NvshmemProcess> process, std::size_t offset,
                                 std::byte* data, const std::vector<transport::Peer>& peers)
    : process_(std::move(process)),
      offset_(offset),
      data_(data),
      peers_(allocate_on(process_->device(), peers.size() * sizeof(transport::Peer))) {
  check_cuda(cudaMemcpy(peers_.get(), peers.data(), peers.size() * sizeof(transport::Peer),
                        cudaMemcpyHostToDevice),
             "cudaMemcpy");
}

SymmetricRegion::~SymmetricRegion() {
  peers_.reset();  // waits for work that is queued
  process_->release(offset_);
}

NvshmemGroup::NvshmemGroup(const NvshmemGroupOptions& options)
    : ExpertParallelGroupImpl(options.num_ranks, {options.rank}, options.device),
      rendezvous_(options.rendezvous),
      timeout_(static_cast<std::int64_t>(options.timeout_seconds * 1000)) {
  const DeviceScope scope(options.device.index);
  check_cuda(cudaFree(nullptr), "cudaFree");  // NVSHMEM expects a context
  check_cuda(
      cudaDeviceGetAttribute(&num_sms_, cudaDevAttrMultiProcessorCount, options.device.index),
      "cudaDeviceGetAttribute");
  view_.rank = options.rank;
  view_.num_ranks = options.num_ranks;
  start_process(options);
  make_control(options.timeout_seconds);
}

NvshmemGroup::~NvshmemGroup() {
  if (broken_word() != 0) {
    process_->note_broken();
  }
}

std::uint64_t NvshmemGroup::broken_word() const {
  return *static_cast<const volatile std::uint64_t*>(host_word_.get());
}

std::vector<std::string> NvshmemGroup::exchange(const std::string& what, const std::string& value) {
  rendezvous_->set(what + "/" + std::to_string(rank()), value);
  std::vector<std::string> values;
  values.reserve(static_cast<std::size_t>(num_ranks()));
  for (int r = 0; r < num_ranks(); ++r) {
    values.push_back(rendezvous_->get(what + "/" + std::to_string(r), timeout_));
  }
  return values;
}

void NvshmemGroup::start_process(const NvshmemGroupOptions& options) {
  process_ = NvshmemProcess::current();
  if (process_ != nullptr && process_->device() != options.device) {
    core::refuse("device", "that of this process's first group, " + to_string(process_->device()),
                 to_string(options.device));
  }
  Member self{host_identity(), "", -1};
  if (process_ != nullptr) {
    self.job = process_->id();
    self.pe = process_->job().pe();
  }
  std::vector<Member> members;
  for (const std::string& text : exchange("member", to_text(self))) {
    members.push_back(member_of(text));
  }
  const bool one_host = std::all_of(members.begin(), members.end(),
                                    [&](const Member& member) { return member.host == self.host; });
  for (std::size_t r = 0; r < members.size(); ++r) {
    if (members[r].job != self.job) {
      const auto first = [](const Member& member) {
        return member.job.empty() ? "has had no group before" : "belongs to an earlier group";
      };
      throw Error(
          ErrorCode::invalid_argument,
          "rendezvous: expected ranks that all belong to one earlier group, or none to any, "
          "got rank " +
              std::to_string(r) + ", which " + first(members[r]) + ", and rank " +
              std::to_string(rank()) + ", which " + first(self) +
              "; make one group of all ranks first");
    }
  }
  if (process_ == nullptr) {
    if (one_host) {
      transport::set_one_host_defaults(options.heap_bytes);
    }
    const std::string own = rank() == 0 ? transport::make_unique_id() : std::string();
    process_ = NvshmemProcess::begin(options, exchange("unique_id", own).front());
    for (int r = 0; r < num_ranks(); ++r) pes_.push_back(r);
  } else {
    for (const Member& member : members) pes_.push_back(member.pe);
  }
}

void NvshmemGroup::make_control(double timeout_seconds) {
  local_words_ = allocate_on(device(), 2 * sizeof(std::uint64_t));
  check_cuda(cudaMemset(local_words_.get(), 0, 2 * sizeof(std::uint64_t)), "cudaMemset");
  void* on_host = nullptr;
  check_cuda(cudaHostAlloc(&on_host, sizeof(std::uint64_t), cudaHostAllocMapped), "cudaHostAlloc");
  host_word_ = MappedHostMemory(on_host, FreeHostMemory{device().index});
  *static_cast<std::uint64_t*>(on_host) = 0;
  void* on_device = nullptr;
  check_cuda(cudaHostGetDevicePointer(&on_device, on_host, 0), "cudaHostGetDevicePointer");
  agree("timeout_seconds", seconds_text(timeout_seconds));
  control_ = make_region("control", static_cast<std::size_t>(num_ranks()) * sizeof(std::uint64_t));
  view_.peers = control_->peers();
  view_.arrivals = reinterpret_cast<std::uint64_t*>(control_->data());
  view_.generation = static_cast<std::uint64_t*>(local_words_.get());
  view_.broken = view_.generation + 1;
  view_.host_broken = static_cast<std::uint64_t*>(on_device);
  view_.timeout_nanoseconds = static_cast<std::uint64_t>(timeout_seconds * 1e9);
}

std::shared_ptr<SymmetricRegion> NvshmemGroup::make_region(const std::string& what,
                                                           std::size_t size_bytes) {
  const DeviceScope scope(device().index);
  // Ranges that were freed may still be read by work that is queued, here or on a peer, which comes
  // through here too before this range is used.
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  agree("size_bytes of " + what, std::to_string(size_bytes));
  const std::size_t offset = process_->allocate(size_bytes, what);
  std::byte* heap = process_->job().heap();
  check_cuda(cudaMemset(heap + offset, 0, size_bytes), "cudaMemset");
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  std::vector<transport::Peer> peers;
  bool all_mapped = true;
  for (const std::string& text : exchange("offset of " + what, std::to_string(offset))) {
    transport::Peer peer;
    peer.pe = pes_[peers.size()];
    peer.symmetric = heap + std::stoull(text);
    peer.mapped = process_->job().mapped(peer.symmetric, peer.pe);
    all_mapped = all_mapped && peer.mapped != nullptr;
    peers.push_back(peer);
  }
  view_.all_mapped = all_mapped;  // a matter of peers, not of ranges
  return std::make_shared<SymmetricRegion>(process_, offset, heap + offset, peers);
}

void NvshmemGroup::agree(const std::string& what, const std::string& text) {
  const std::vector<std::string> said = exchange("agree on " + what, text);
  for (std::size_t r = 0; r < said.size(); ++r) {
    if (said[r] != text) {
      core::refuse(what, "the same on all ranks, " + said[r] + " as on rank " + std::to_string(r),
                   text + " on rank " + std::to_string(rank()));
    }
  }
}

std::vector<void*> NvshmemGroup::make_buffer(std::int64_t id, std::size_t size_bytes) {
  throw_if_broken();
  std::shared_ptr<SymmetricRegion> region = make_region("buffer " + std::to_string(id), size_bytes);
  const std::lock_guard lock(mutex_);
  buffers_.push_back(region);  // ids count up
  return {region->data()};
}

std::shared_ptr<SymmetricRegion> NvshmemGroup::buffer(std::int64_t id) const {
  const std::lock_guard lock(mutex_);
  return buffers_.at(static_cast<std::size_t>(id));
}

void NvshmemGroup::barrier(const Stream& stream) {
  throw_if_broken();
  const DeviceScope scope(device().index);
  launch_barrier(view_, static_cast<cudaStream_t>(stream.native()));
  count_barrier();
}

void NvshmemGroup::check(const Stream& stream) {
  const DeviceScope scope(device().index);
  check_cuda(cudaStreamSynchronize(static_cast<cudaStream_t>(stream.native())),
             "cudaStreamSynchronize");
  throw_if_broken();
}

void NvshmemGroup::throw_if_broken() const {
  const math::MissedBarrier missed = math::decode_missed_barrier(broken_word());
  if (missed) {
    throw Error(ErrorCode::device_failure,
                "group of " + std::to_string(num_ranks()) + " ranks: rank " +
                    std::to_string(missed.rank) + " did not reach barrier " +
                    std::to_string(missed.generation) + " within " +
                    seconds_text(static_cast<double>(view_.timeout_nanoseconds) * 1e-9) +
                    " s of rank " + std::to_string(rank()) +
                    "; rows may be missing, and the group cannot be used any more");
  }
}

}  // namespace moesaic::backends::cuda::launch
