// SPDX-License-Identifier: Apache-2.0
// Which row of which experiment a row is: what resuming and reading back go by.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "experiment/design.hpp"

namespace moesaic::cli::experiment {

/// Two rows with equal places are two measurements of the same thing.
struct RowPlace {
  std::string experiment, protocol, key, arm;
  std::int64_t process = 0;
  friend bool operator<(const RowPlace& a, const RowPlace& b) {
    return std::tie(a.experiment, a.protocol, a.key, a.arm, a.process) <
           std::tie(b.experiment, b.protocol, b.key, b.arm, b.process);
  }
};
RowPlace place_of(const Design& design, const Case& one, Arm arm);

/// The member "experiment" of a row.
nlohmann::ordered_json place_json(const RowPlace& place, std::int64_t order,
                                  const Factors& factors);
nlohmann::ordered_json factors_json(const Factors& factors);

}  // namespace moesaic::cli::experiment
