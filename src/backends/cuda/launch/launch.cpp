// SPDX-License-Identifier: Apache-2.0
// See launch.hpp.

#include "backends/cuda/launch/launch.hpp"

#include <cuda_runtime_api.h>

#include <array>

#include "backends/cuda/launch/cuda_error.hpp"

namespace moesaic::backends::cuda::launch {

void prepare(const Instance& instance) {
  check_cuda(cudaFuncSetAttribute(instance.kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(instance.config.smem_bytes())),
             "cudaFuncSetAttribute(MaxDynamicSharedMemorySize)");
}

void launch(const Instance& instance, const TensorMaps& maps, const KernelParams& params, int ctas,
            void* stream) {
  const auto cluster = static_cast<unsigned>(instance.config.worker_ctas());
  std::array<cudaLaunchAttribute, 2> attributes{};
  // The kernel waits for the grids before it by itself, after its prologue.
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {cluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(ctas) / cluster * cluster);
  config.blockDim = dim3(static_cast<unsigned>(instance.config.threads()));
  config.dynamicSmemBytes = static_cast<std::size_t>(instance.config.smem_bytes());
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = attributes.data();
  config.numAttrs = cluster > 1 ? 2 : 1;
  TensorMaps maps_argument = maps;
  KernelParams params_argument = params;
  void* arguments[] = {&maps_argument, &params_argument};
  check_cuda(cudaLaunchKernelExC(&config, instance.kernel(), arguments), "cudaLaunchKernelExC");
}

}  // namespace moesaic::backends::cuda::launch
