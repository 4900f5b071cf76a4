// SPDX-License-Identifier: Apache-2.0
// The C ABI as a whole: its version, the devices, and its use from plain C.

#include "moesaic/c_api.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "c_api/host_memory.hpp"

extern "C" int moesaic_test_plain_c_forward(const float x[24], float y[24]);

namespace moesaic::testing {
namespace {

TEST(CApi, NamesItself) {
  EXPECT_EQ(moesaic_abi_version(), MOESAIC_ABI_VERSION);
  EXPECT_EQ(std::string(moesaic_version()).find("0."), 0U) << moesaic_version();
}

TEST(CApi, PlainCComputes) {
  std::array<float, 24> x{}, y{};
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i);
  }
  ASSERT_EQ(moesaic_test_plain_c_forward(x.data(), y.data()), moesaic_ok) << moesaic_last_error();
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(y[i], (i < 8 ? 1.0F : 2.0F) * x[i]) << i;
  }
}

TEST(CApi, DescribesTheCpu) {
  moesaic_device_info info{};
  ASSERT_EQ(moesaic_query_device(kCpu, &info), moesaic_ok);
  EXPECT_EQ(info.device.kind, moesaic_cpu);
  EXPECT_GT(info.num_sms, 0);
  EXPECT_LT(std::strlen(info.name), sizeof(info.name));
  std::int32_t count = -1;
  ASSERT_EQ(moesaic_cuda_device_count(&count), moesaic_ok);
  EXPECT_GE(count, 0);
  EXPECT_EQ(moesaic_query_device({moesaic_cuda, count}, &info), moesaic_device_failure);
  EXPECT_NE(std::string(moesaic_last_error()).find("cuda:" + std::to_string(count)),
            std::string::npos);
}

}  // namespace
}  // namespace moesaic::testing
