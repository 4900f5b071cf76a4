// SPDX-License-Identifier: Apache-2.0
// Long CSV.
#include "fuzz_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace moesaic::routing;
  const std::span bytes(data, size);
  fuzzing::read_anything(bytes, "fuzz.csv", {});
  ReadOptions options;
  options.num_experts = 8;
  options.layer = 1;
  fuzzing::read_anything(bytes, "fuzz.csv", options);
  return 0;
}
