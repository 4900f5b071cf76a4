// SPDX-License-Identifier: Apache-2.0
// The grammar of SPECs: NAME[:PARAMETER[,PARAMETER…]], a PARAMETER being VALUE or KEY=VALUE.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace moesaic::routing {

/// For messages.
inline constexpr std::string_view kKnownSpecs =
    "uniform, zipf:S, dirichlet:ALPHA, hotspot:SHARE[,COUNT], one-hot, counts:17,17,16";

struct Spec {
  enum class Kind { uniform, zipf, dirichlet, hotspot, one_hot, counts } kind = Kind::uniform;
  double s = 0;                      ///< zipf
  double alpha = 0;                  ///< dirichlet
  double share = 0;                  ///< hotspot
  std::int64_t hot_experts = 1;      ///< hotspot
  std::vector<std::int64_t> counts;  ///< counts
};

/// Parses and checks every range that does not depend on the number of experts.
/// @throws Error{invalid_argument} naming the SPEC and the word that is wrong.
[[nodiscard]] Spec parse_spec(std::string_view text);

}  // namespace moesaic::routing
