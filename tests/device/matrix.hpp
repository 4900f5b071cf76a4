// SPDX-License-Identifier: Apache-2.0
// Matrices of the tests of the expert's activation, and how far a BF16 result of it may be off.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "device/kernels.hpp"
#include "device/on_device.hpp"
#include "moesaic/dtype.hpp"
#include "moesaic/tensor.hpp"

namespace moesaic::device_tests {

/// A BF16 matrix on the device; `gap` elements between its rows.
struct Matrix {
  Matrix(std::int64_t matrix_rows, std::int64_t matrix_columns, std::int64_t gap = 0)
      : rows(matrix_rows), columns(matrix_columns), stride(matrix_columns + gap), memory(bytes()) {}

  [[nodiscard]] std::int64_t elements() const { return rows * stride; }
  [[nodiscard]] std::int64_t bytes() const { return elements() * 2; }
  [[nodiscard]] TensorView view() const {
    return {memory.as<void>(), DType::bf16, kDevice, 2, {rows, columns, 0}, {stride, 1, 0}};
  }
  /// The same lines as a tensor [experts, rows / experts, columns].
  [[nodiscard]] TensorView weights(std::int64_t experts) const {
    const std::int64_t lines = rows / experts;
    return {memory.as<void>(),          DType::bf16, kDevice, 3, {experts, lines, columns},
            {lines * stride, stride, 1}};
  }
  void unwritten(const Queue& queue) const { fill_unwritten(memory.bytes(), bytes(), queue.get()); }
  /// The host's `values`, dense and gaps included.
  void write(const std::vector<BFloat16>& values) const {
    check(cudaMemcpy(memory.bytes(), values.data(), static_cast<std::size_t>(bytes()),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
  [[nodiscard]] std::vector<BFloat16> read(const Queue& queue) const {
    std::vector<BFloat16> values(static_cast<std::size_t>(elements()));
    queue.wait();
    check(cudaMemcpy(values.data(), memory.bytes(), static_cast<std::size_t>(bytes()),
                     cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    return values;
  }

  std::int64_t rows, columns, stride;
  DeviceMemory memory;
};

/// Half a unit in the last place of BF16, and what evaluating in FP32 may add.
inline double allowed(double exact) {
  constexpr double kEvaluation = 16.0 / 16'777'216.0;
  const double magnitude = std::abs(exact) * (1 + kEvaluation);
  const int exponent = std::max(std::ilogb(std::max(magnitude, 1e-300)), -126);
  return std::abs(exact) * kEvaluation + std::ldexp(1.0, exponent - 8);
}

}  // namespace moesaic::device_tests
