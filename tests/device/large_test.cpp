// SPDX-License-Identifier: Apache-2.0
// Tensors of more than 2^31 elements, where 32-bit products of indices wrap: the last rows of the
// last expert must be right. Reports: DeepSpeed#8261, vllm#42201, #48398, sycl-tla#804.

#include <gtest/gtest.h>

#include "device/case.hpp"

namespace moesaic::device_tests {
namespace {

class Large : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (IsSkipped()) return;
    std::size_t free_bytes = 0, total_bytes = 0;
    check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    constexpr std::size_t kNeeded = std::size_t{48} << 30;
    if (free_bytes < kNeeded) GTEST_SKIP() << "needs 48 GiB of device memory";
  }
};

Case many_rows(Pass pass) {
  Case c;
  c.offs = {524'116, 524'116, 524'416};
  c.rows = 525'312;
  c.n = pass == Pass::forward ? 4096 : 64;
  c.k = pass == Pass::forward ? 64 : 4096;
  c.pass = pass;
  return c;
}

Case many_weights(Pass pass) {
  Case c;
  std::vector<std::int32_t> counts(384);
  for (const std::size_t e : {0U, 127U, 341U, 342U, 383U}) counts[e] = 9;
  c.offs = ends(counts);
  c.rows = 64;
  c.n = 3072;
  c.k = 2048;
  c.pass = pass;
  return c;
}

TEST_F(Large, OutputRowsPastTwoToThe31Elements) {
  Case c = many_rows(Pass::forward);
  c.tail = Tail::zero;
  expect_exact(c);
}
// 2^32 elements are past unsigned indices too: vllm#45884, #42201.
TEST_F(Large, OutputRowsPastTwoToThe32Elements) {
  Case c = many_rows(Pass::forward);
  c.n = 8192;
  expect_exact(c);
}
TEST_F(Large, GradientRowsPastTwoToThe31Elements) { expect_exact(many_rows(Pass::dgrad)); }
TEST_F(Large, ContractedRowsPastTwoToThe31Elements) {
  Case c = many_rows(Pass::wgrad);
  c.d_dtype = DType::f32;  // sums of half a million terms
  expect_exact(c);
}
TEST_F(Large, WeightsPastTwoToThe31Elements) { expect_exact(many_weights(Pass::forward)); }
TEST_F(Large, WeightGradientsPastTwoToThe31Elements) { expect_exact(many_weights(Pass::wgrad)); }
// 384 x 3072 x 7168, the size of the report: expert 195 begins past 2^32 elements. sycl-tla#804.
TEST_F(Large, WeightsPastTwoToThe32Elements) {
  for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad}) {
    Case c = many_weights(pass);
    c.k = 7168;
    expect_exact(c);
  }
}

}  // namespace
}  // namespace moesaic::device_tests
