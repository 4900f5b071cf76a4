// SPDX-License-Identifier: Apache-2.0
// The dense baseline: one oneDNN matmul of the same FLOPs, called without moesaic. The only folder
// of bench/ that may see oneDNN.
#pragma once

#include <cstdint>
#include <memory>

#include "moesaic/tensor.hpp"

namespace moesaic::bench {

/// How the baseline's weights lie in memory.
enum class DenseWeights : std::uint8_t {
  strided,  ///< As they are given.
  packed,   ///< Copied once, before any timing, into the layout that oneDNN asks for.
};

/// d[m, n] = a[m, k] b[k, n] on `threads` threads. `b` may be a transposed view (stride [1, k]).
/// Everything that can be done once is done in the constructor; run() only executes.
class DenseProduct {
 public:
  /// The memory of a, b and d must outlive the object (b may go when packed).
  /// @throws Error{invalid_argument} on shapes that do not fit, Error{unsupported} with oneDNN's
  /// reason.
  DenseProduct(const ConstTensorView& a, const ConstTensorView& b, const TensorView& d,
               DenseWeights weights, int threads);
  ~DenseProduct();
  DenseProduct(const DenseProduct&) = delete;
  DenseProduct& operator=(const DenseProduct&) = delete;

  void run() const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace moesaic::bench
