// SPDX-License-Identifier: Apache-2.0
// Accesses to global memory of 16 bytes that a lane makes or does not make, without a branch: what
// is not read is anything. Without a place in L1: nobody else of the CTA touches it.
#pragma once

#include <cstdint>

namespace moesaic::backends::cuda::ptx {

__device__ __forceinline__ void load_global_v4(const void* from, std::uint32_t (&words)[4],
                                               bool made) {
  asm volatile(
      "{\n.reg .pred made;\nsetp.ne.u32 made, %5, 0;\n"
      "@made ld.global.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];\n}\n"
      : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
      : "l"(from), "r"(static_cast<std::uint32_t>(made))
      : "memory");
}
__device__ __forceinline__ void store_global_v4(void* to, const std::uint32_t (&words)[4],
                                                bool made) {
  asm volatile(
      "{\n.reg .pred made;\nsetp.ne.u32 made, %5, 0;\n"
      "@made st.global.L1::no_allocate.v4.b32 [%0], {%1, %2, %3, %4};\n}\n" ::"l"(to),
      "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]),
      "r"(static_cast<std::uint32_t>(made))
      : "memory");
}

}  // namespace moesaic::backends::cuda::ptx
