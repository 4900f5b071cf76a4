// SPDX-License-Identifier: Apache-2.0
// See nvshmem_job.hpp.

#include "backends/cuda/transport/nvshmem_job.hpp"

#include <nvshmem_host.h>

#include <cstdlib>
#include <cstring>

namespace moesaic::backends::cuda::transport {
namespace {

void check(int status, const char* call) {
  if (status != 0) {
    throw Error(ErrorCode::device_failure,
                std::string(call) + ": status " + std::to_string(status) +
                    "; NVSHMEM_DEBUG=INFO in the environment makes NVSHMEM say more");
  }
}

}  // namespace

std::string make_unique_id() {
  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  check(nvshmemx_get_uniqueid(&id), "nvshmemx_get_uniqueid");
  return {reinterpret_cast<const char*>(&id), sizeof(id)};
}

void set_one_host_defaults(std::size_t heap_bytes) {
  const auto set = [](const char* name, const char* value) { setenv(name, value, /*replace=*/0); };
  set("NVSHMEM_REMOTE_TRANSPORT", "none");
  set("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "lo");
  set("NVSHMEM_DISABLE_NVLS", "1");  // for collectives, of which none is used
  set("NVSHMEM_DISABLE_NCCL", "1");
  // NVSHMEM's own needs come on top of the block that groups share.
  const std::size_t size = heap_bytes + (std::size_t{128} << 20);
  set("NVSHMEM_SYMMETRIC_SIZE", std::to_string(size).c_str());
}

NvshmemJob::NvshmemJob(const std::string& unique_id, int pe, int num_pes, std::size_t heap_bytes)
    : pe_(pe), num_pes_(num_pes), heap_bytes_(heap_bytes) {
  static nvshmemx_uniqueid_t id;  // the attributes keep its address
  if (unique_id.size() != sizeof(id)) {
    throw Error(ErrorCode::device_failure, "NVSHMEM's unique id: expected " +
                                               std::to_string(sizeof(id)) + " bytes, got " +
                                               std::to_string(unique_id.size()));
  }
  std::memcpy(&id, unique_id.data(), sizeof(id));
  static nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  check(nvshmemx_set_attr_uniqueid_args(pe, num_pes, &id, &attributes),
        "nvshmemx_set_attr_uniqueid_args");
  // What nvshmemx_init_attr() does, which ends the process on an error.
  nvshmemx_init_init_attr_ver_only(attributes);
  int provided = 0;
  check(nvshmemi_init_thread(NVSHMEM_THREAD_SERIALIZED, &provided, NVSHMEMX_INIT_WITH_UNIQUEID,
                             &attributes,
                             {NVSHMEM_VENDOR_MAJOR_VERSION, NVSHMEM_VENDOR_MINOR_VERSION,
                              NVSHMEM_VENDOR_PATCH_VERSION}),
        "nvshmemi_init_thread");
  heap_ = static_cast<std::byte*>(nvshmem_malloc(heap_bytes));
  if (heap_ == nullptr) {
    throw Error(ErrorCode::device_failure,
                "heap_bytes: expected what NVSHMEM can allocate on every rank, got " +
                    std::to_string(heap_bytes));
  }
}

void NvshmemJob::finalize() noexcept {
  nvshmem_free(heap_);
  heap_ = nullptr;
  nvshmem_finalize();
}

std::byte* NvshmemJob::mapped(std::byte* symmetric, int pe) const {
  return static_cast<std::byte*>(nvshmem_ptr(symmetric, pe));
}

}  // namespace moesaic::backends::cuda::transport
