// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#if MOESAIC_HAVE_NVSHMEM
#include "backends/cuda/transport/nvshmem_version.hpp"

namespace moesaic::backends::cuda::transport {
namespace {

TEST(NvshmemVersion, TheLibraryOfThisBuildIsItsHeaders) {
  EXPECT_EQ(header_version(), library_version());
  EXPECT_GE(header_version().major, 3);
  EXPECT_TRUE(versions_match(header_version(), library_version()));
}

TEST(NvshmemVersion, AMismatchNamesBoth) {
  for (const NvshmemVersion library : {NvshmemVersion{3, 4, 6}, {3, 5, 5}, {4, 4, 5}}) {
    const Support match = versions_match({3, 4, 5}, library);
    EXPECT_FALSE(match);
    EXPECT_NE(match.reason.find(to_string(library)), std::string::npos) << match.reason;
    EXPECT_NE(match.reason.find("3.4.5"), std::string::npos) << match.reason;
  }
}

}  // namespace
}  // namespace moesaic::backends::cuda::transport
#endif
