// SPDX-License-Identifier: Apache-2.0
// L0: how the CTAs of one launch share out tiles; zero between launches, part of every workspace.
#pragma once

#include <cstdint>

namespace moesaic::math {

struct TileCounters {
  std::uint64_t next = 0;      ///< Asked for in the shared part of the schedule, past its end too.
  std::uint32_t finished = 0;  ///< CTAs that found no more.
  std::uint32_t begun = 0;     ///< Marks that CTAs in step have made: step_marks.hpp.
};

}  // namespace moesaic::math
