// SPDX-License-Identifier: Apache-2.0
// See cublas_api.hpp.

#include "backends/cuda/launch/cublas_api.hpp"

#include <dlfcn.h>

#include <array>
#include <limits>

namespace moesaic::backends::cuda::launch {
namespace {

template <class Function>
bool resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

/// cuBLAS's leading dimensions are int.
int leading(const char* argument, std::int64_t stride) {
  if (stride > std::numeric_limits<int>::max()) {
    throw Error(ErrorCode::invalid_argument, std::string(argument) +
                                                 ": expected a row stride below 2^31 for a cuBLAS "
                                                 "product, got " +
                                                 std::to_string(stride));
  }
  return static_cast<int>(stride);
}

CublasLibrary load() {
  CublasLibrary result;
  // A copy that the process already has (PyTorch's) is found by its name too.
  constexpr std::array kNames = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
  void* library = nullptr;
  for (const char* name : kNames) {
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) {
      break;
    }
  }
  if (library == nullptr) {
    const char* reason = dlerror();
    result.support = {false, std::string("it needs cuBLAS, which cannot be loaded: ") +
                                 (reason == nullptr ? "libcublas.so not found" : reason)};
    return result;
  }
  CublasApi& api = result.api;
  result.support.ok = resolve(library, "cublasCreate_v2", api.create) &&
                      resolve(library, "cublasDestroy_v2", api.destroy) &&
                      resolve(library, "cublasSetStream_v2", api.set_stream) &&
                      resolve(library, "cublasSetWorkspace_v2", api.set_workspace) &&
                      resolve(library, "cublasSetMathMode", api.set_math_mode) &&
                      resolve(library, "cublasGemmStridedBatchedEx", api.gemm_strided_batched);
  if (!result.support) {
    result.support.reason = "the cuBLAS found here lacks a function that it needs";
  }
  return result;
}

}  // namespace

const CublasLibrary& cublas() {
  static const CublasLibrary library = load();
  return library;
}

void check_cublas(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw Error(ErrorCode::device_failure,
                std::string(call) + ": cublasStatus_t " + std::to_string(static_cast<int>(status)));
  }
}

CublasHandle::CublasHandle() {
  check_cublas(cublas().api.create(&handle_), "cublasCreate");
  // Sums of a split contraction stay FP32: the contract rounds once.
  check_cublas(
      cublas().api.set_math_mode(
          handle_, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH |
                                             CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)),
      "cublasSetMathMode");
}

CublasHandle::~CublasHandle() { cublas().api.destroy(handle_); }

void CublasHandle::bind(void* stream, void* workspace) {
  check_cublas(cublas().api.set_stream(handle_, static_cast<cudaStream_t>(stream)),
               "cublasSetStream");
  // After the stream: setting it resets the workspace.
  check_cublas(cublas().api.set_workspace(handle_, workspace, kCublasWorkspaceBytes),
               "cublasSetWorkspace");
}

void CublasHandle::multiply(const DenseProduct& p) {
  if (p.m == 0 || p.n == 0 || p.batch == 0) {
    return;
  }
  // cuBLAS is column-major: it computes D^T[n, m] = B^T A^T from the same memory.
  const float alpha = 1.0F;
  const float beta = p.accumulate ? 1.0F : 0.0F;
  const cublasOperation_t b_op = p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t a_op = p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  check_cublas(
      cublas().api.gemm_strided_batched(
          handle_, b_op, a_op, static_cast<int>(p.n), static_cast<int>(p.m), static_cast<int>(p.k),
          &alpha, p.b, CUDA_R_16BF, leading("b", p.b_row_stride), p.b_batch_stride, p.a,
          CUDA_R_16BF, leading("a", p.a_row_stride), p.a_batch_stride, &beta, p.d,
          p.f32_out ? CUDA_R_32F : CUDA_R_16BF, leading("d", p.d_row_stride), p.d_batch_stride,
          static_cast<int>(p.batch), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
      "cublasGemmStridedBatchedEx");
}

}  // namespace moesaic::backends::cuda::launch
