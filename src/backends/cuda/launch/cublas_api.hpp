// SPDX-License-Identifier: Apache-2.0
// cuBLAS for the baselines, loaded when one is planned, so that the library itself loads without
// it.
#pragma once

#include <cublas_v2.h>

#include <memory>
#include <mutex>
#include <string>

#include "moesaic/error.hpp"

namespace moesaic::backends::cuda::launch {

/// The few functions that are used, by their own types.
struct CublasApi {
  decltype(&cublasCreate_v2) create;
  decltype(&cublasDestroy_v2) destroy;
  decltype(&cublasSetStream_v2) set_stream;
  decltype(&cublasSetWorkspace_v2) set_workspace;
  decltype(&cublasSetMathMode) set_math_mode;
  // Spelled out: in C++ the header overloads this name.
  cublasStatus_t (*gemm_strided_batched)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
                                         int, int, const void* alpha, const void* a, cudaDataType,
                                         int lda, long long a_stride, const void* b, cudaDataType,
                                         int ldb, long long b_stride, const void* beta, void* c,
                                         cudaDataType, int ldc, long long c_stride, int batch,
                                         cublasComputeType_t, cublasGemmAlgo_t);
};

/// The loaded library; the reason when it cannot be loaded.
struct CublasLibrary {
  Support support;
  CublasApi api{};
};
const CublasLibrary& cublas();

void check_cublas(cublasStatus_t status, const char* call);

/// Scratch that cuBLAS may use; what PyTorch gives it on Hopper.
inline constexpr std::size_t kCublasWorkspaceBytes = 32U << 20;

/// Row-major D[m, n] (+)= A[m, k] B[k, n], `batch` times; BF16 operands, FP32 accumulation.
struct DenseProduct {
  std::int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  bool a_transposed = false;                                          ///< A is stored [k, m].
  bool b_transposed = false;                                          ///< B is stored [n, k].
  std::int64_t a_row_stride = 0, b_row_stride = 0, d_row_stride = 0;  ///< Of the stored matrices.
  std::int64_t batch = 1, a_batch_stride = 0, b_batch_stride = 0, d_batch_stride = 0;
  bool f32_out = false;
  bool accumulate = false;
};

/// A cuBLAS handle of one device. Calls lock it: a handle carries its stream and scratch with it.
class CublasHandle {
 public:
  CublasHandle();  ///< Of the current device.
  CublasHandle(const CublasHandle&) = delete;
  CublasHandle& operator=(const CublasHandle&) = delete;
  ~CublasHandle();

  /// Enqueues the products on `stream` (a cudaStream_t), with `workspace` as cuBLAS's scratch.
  template <class Products>
  void run(const Products& products, void* stream, void* workspace) {
    const std::lock_guard lock(mutex_);
    bind(stream, workspace);
    for (const DenseProduct& product : products) {
      multiply(product);
    }
  }

 private:
  void bind(void* stream, void* workspace);
  void multiply(const DenseProduct& product);

  std::mutex mutex_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace moesaic::backends::cuda::launch
