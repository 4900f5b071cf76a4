// SPDX-License-Identifier: Apache-2.0
// Packing and running several products: a failure on one of the threads reaches the caller.
#include "backends/onednn/exact_rows.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "support/expect_error.hpp"
#include "support/implementations.hpp"

namespace moesaic::backends::onednn {
namespace {

using moesaic::testing::expect_error;

TEST(PackedExperts, AFailureOfOneThreadReachesTheCaller) {
  moesaic::testing::GroupedRun run(
      moesaic::testing::make_problem(Pass::forward, WeightStorage::enk, moesaic::testing::kF32, 4,
                                     20, 16, 24),
      {5, 5, 9, 18});
  MatmulSpec spec = row_spec(run.problem, run.a.view(), run.b.view(), run.d.view(), 20);
  spec.packed_for_m = 20;
  EXPECT_NO_THROW(PackedExperts(run.problem, spec, {run.b.view(), {}}, 2));
  spec.b_row_stride = -5;  // the copy reads it, the size of the copy does not
  expect_error(ErrorCode::unsupported, {"oneDNN " + version(), "n 16", "k 24"}, [&] {
    PackedExperts(run.problem, spec, {run.b.view(), {}}, 2);
  });
}

class Broken final : public Matmul {
 public:
  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return 64; }
  void run(const void* /*a*/, const void* /*b*/, void* /*d*/,
           std::byte* /*scratch*/) const override {
    throw Error(ErrorCode::device_failure, "broken");
  }
};

TEST(RunSideBySide, AFailureOfOneThreadReachesTheCaller) {
  const auto broken = std::make_shared<Broken>();
  const std::vector<Product> products(5, Product{broken, nullptr, nullptr, nullptr, 1});
  expect_error(ErrorCode::device_failure, {"broken"}, [&] { run_side_by_side(products, 2); });
}

}  // namespace
}  // namespace moesaic::backends::onednn
