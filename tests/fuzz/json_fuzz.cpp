// SPDX-License-Identifier: Apache-2.0
// JSON documents and JSON lines, with and without what an id file needs.
#include "fuzz_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace moesaic::routing;
  const std::span bytes(data, size);
  fuzzing::read_anything(bytes, "fuzz.json", {});
  ReadOptions options;
  options.num_experts = 4;
  options.form = Form::offsets;
  fuzzing::read_anything(bytes, "fuzz.json", options);
  options.form.reset();
  fuzzing::read_anything(bytes, "fuzz.jsonl", options);
  return 0;
}
