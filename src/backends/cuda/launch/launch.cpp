// SPDX-License-Identifier: Apache-2.0
// See launch.hpp.

#include "backends/cuda/launch/launch.hpp"

#include <cuda_runtime_api.h>

#include "backends/cuda/launch/cuda_error.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

template <class Maps>
void launch_with(const Instance& instance, Maps maps, KernelParams params, int ctas, void* stream) {
  // The kernel waits for the grids before it by itself, after its prologue.
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(ctas));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = static_cast<std::size_t>(instance.config.smem_bytes());
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &attribute;
  config.numAttrs = 1;
  void* arguments[] = {&maps, &params};
  check_cuda(cudaLaunchKernelExC(&config, instance.kernel(), arguments), "cudaLaunchKernelExC");
}

}  // namespace

void prepare(const Instance& instance) {
  check_cuda(cudaFuncSetAttribute(instance.kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(instance.config.smem_bytes())),
             "cudaFuncSetAttribute(MaxDynamicSharedMemorySize)");
}

void launch(const Instance& instance, const TensorMaps& maps, const KernelParams& params, int ctas,
            void* stream) {
  launch_with(instance, maps, params, ctas, stream);
}

void launch(const Instance& instance, const ExpertMaps& maps, const KernelParams& params, int ctas,
            void* stream) {
  launch_with(instance, maps, params, ctas, stream);
}

}  // namespace moesaic::backends::cuda::launch
