// SPDX-License-Identifier: Apache-2.0
// Shared-memory addresses as 32-bit numbers, which stay in uniform registers, and as the pointers
// that cuda::ptx takes.
#pragma once

#include <cstdint>

namespace moesaic::backends::cuda::ptx {

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}
template <class T>
__device__ __forceinline__ T* shared_pointer(std::uint32_t address) {
  return static_cast<T*>(__cvta_shared_to_generic(address));
}

}  // namespace moesaic::backends::cuda::ptx
