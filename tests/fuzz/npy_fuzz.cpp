// SPDX-License-Identifier: Apache-2.0
// .npy and .npz, raw and gzip, under every form that a matrix can be given.
#include "fuzz_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace moesaic::routing;
  const std::span bytes(data, size);
  ReadOptions options;
  options.num_experts = 4;
  fuzzing::read_anything(bytes, "fuzz.npy", options);
  for (const Form form : {Form::ids, Form::counts, Form::offsets}) {
    options.form = form;
    fuzzing::read_anything(bytes, "fuzz.npy", options);
  }
  fuzzing::read_anything(bytes, "fuzz.npz", {});
  return 0;
}
