// SPDX-License-Identifier: Apache-2.0
// Which cases of a design a run takes on. The design stays whole: rows of the others may lie in the
// same file, and what is run keeps its protocol and its place in the order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiment/design.hpp"

namespace moesaic::cli::experiment {

/// Values of one factor, as text.
struct FactorChoice {
  std::string factor;
  std::vector<std::string> values;
};
/// "trial=0,2". @throws Error{invalid_argument} naming --only, what was expected and what came.
FactorChoice parse_choice(std::string_view text);

struct CaseFilter {
  std::int64_t process = -1;       ///< Below 0: every process.
  std::vector<FactorChoice> only;  ///< A case that has such a factor has one of its values.
  [[nodiscard]] bool takes(const Case& one) const;
  /// @throws Error{invalid_argument} naming --process for one that the design does not have, --only
  /// for a factor or value that no case has.
  void require_known(const Design& design) const;
};

}  // namespace moesaic::cli::experiment
