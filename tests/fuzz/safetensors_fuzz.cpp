// SPDX-License-Identifier: Apache-2.0
// TensorRT-LLM statistics.
#include "fuzz_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace moesaic::routing;
  const std::span bytes(data, size);
  fuzzing::read_anything(bytes, "rank1.safetensors", {});
  ReadOptions options;
  options.num_experts = 4;
  fuzzing::read_anything(bytes, "rank1_raw.safetensors", options);
  return 0;
}
