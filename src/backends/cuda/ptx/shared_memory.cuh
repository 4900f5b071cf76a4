// SPDX-License-Identifier: Apache-2.0
// Ordinary accesses to shared memory by 32-bit address: words, and the 8x8 matrices of 16-bit
// elements that a wgmma fragment is made of.
#pragma once

#include <cstdint>

namespace moesaic::backends::cuda::ptx {

/// Stores four 8x8 matrices; `row` is this lane's row of matrix lane / 8.
__device__ __forceinline__ void stmatrix_x4(std::uint32_t row, std::uint32_t m0, std::uint32_t m1,
                                            std::uint32_t m2, std::uint32_t m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
               "r"(m0), "r"(m1), "r"(m2), "r"(m3)
               : "memory");
}
/// Loads and transposes them.
__device__ __forceinline__ void ldmatrix_x4_trans(std::uint32_t row, std::uint32_t& m0,
                                                  std::uint32_t& m1, std::uint32_t& m2,
                                                  std::uint32_t& m3) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m0), "=r"(m1), "=r"(m2), "=r"(m3)
               : "r"(row)
               : "memory");
}

__device__ __forceinline__ void store_shared_v2(std::uint32_t address, std::uint32_t x,
                                                std::uint32_t y) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(x), "r"(y) : "memory");
}
/// Of floats, as such: an accumulator of wgmma whose bits are taken for an integer is read where
/// the compiler likes, also while a multiplication is under way.
__device__ __forceinline__ void store_shared_v2(std::uint32_t address, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}
__device__ __forceinline__ void store_shared_v4(std::uint32_t address, int x, int y, int z, int w) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x), "r"(y), "r"(z),
               "r"(w)
               : "memory");
}
__device__ __forceinline__ void load_shared_v4(std::uint32_t address, std::uint32_t (&words)[4]) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ int4 load_shared_v4(std::uint32_t address) {
  int4 value;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(address)
               : "memory");
  return value;
}

}  // namespace moesaic::backends::cuda::ptx
