// SPDX-License-Identifier: Apache-2.0
// One dense product through oneDNN, compiled for its exact shape. All dnnl calls are in matmul.cpp.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "moesaic/dtype.hpp"
#include "moesaic/error.hpp"

namespace moesaic::backends::onednn {

/// d[m, n] (+)= a[m, k] b[k, n], `batch` times. Strides count elements.
struct MatmulSpec {
  std::int64_t m = 0, n = 0, k = 0;
  DType ab_dtype = DType::bf16, d_dtype = DType::bf16;
  std::int64_t a_row_stride = 0, a_column_stride = 1;
  std::int64_t b_row_stride = 0, b_column_stride = 1;  ///< Ignored when b is packed.
  std::int64_t d_row_stride = 0;
  bool accumulate = false;
  /// Rows that the packed layout of b was chosen for; 0 = b is strided.
  std::int64_t packed_for_m = 0;
  int threads = 1;  ///< Threads that run the product; one when several run side by side.
  std::int64_t batch = 1, a_batch_stride = 0, b_batch_stride = 0, d_batch_stride = 0;

  auto operator<=>(const MatmulSpec&) const = default;
};

/// A compiled product. Immutable; concurrent runs need separate scratch.
class Matmul {
 public:
  virtual ~Matmul() = default;
  [[nodiscard]] virtual std::size_t scratch_bytes() const noexcept = 0;
  /// `scratch`: 64-byte aligned, scratch_bytes() long. @throws Error{device_failure}
  virtual void run(const void* a, const void* b, void* d, std::byte* scratch) const = 0;
};

/// Compiles `spec` for the CPU this runs on; BF16 that the CPU lacks is widened, see widened.hpp.
/// @throws Error{unsupported} with oneDNN's reason.
std::shared_ptr<const Matmul> compile(const MatmulSpec& spec);

/// Whether this oneDNN multiplies FP32 on this CPU.
Support supports_f32();
/// Whether it multiplies BF16 by itself (AVX-512 or AMX); otherwise `compile` widens operands to
/// FP32.
bool multiplies_bf16();

/// "2.6.3"
std::string version();

/// Bytes of one packed b, and the copy into that layout. `spec.packed_for_m` must be set; the
/// strides of b in `spec` describe the source. @throws Error{unsupported} with oneDNN's reason.
std::size_t packed_bytes(const MatmulSpec& spec);
void pack(const MatmulSpec& spec, const void* strided_b, void* packed_b);

/// Compiled products by spec. Row counts exist only when a call arrives, so a count that was never
/// seen is compiled then (about 0.2 ms) and kept; the least recently used go when there are too
/// many.
class MatmulCache {
 public:
  std::shared_ptr<const Matmul> get(const MatmulSpec& spec);

 private:
  static constexpr std::size_t kMostEntries = 512;
  using Order = std::list<MatmulSpec>;
  struct Entry {
    std::shared_ptr<const Matmul> matmul;
    Order::iterator place;
  };
  std::mutex mutex_;
  Order order_;  // most recently used first
  std::map<MatmulSpec, Entry> entries_;
};

}  // namespace moesaic::backends::onednn
