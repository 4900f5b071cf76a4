// SPDX-License-Identifier: Apache-2.0
// Which row of which experiment a row is.
#include "experiment/row_place.hpp"

namespace moesaic::cli::experiment {

RowPlace place_of(const Design& design, const Case& one, Arm arm) {
  return {design.name, std::string(name(design.protocol)), one.key, std::string(name(arm)),
          one.process};
}

nlohmann::ordered_json factors_json(const Factors& factors) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const Factor& factor : factors) {
    std::visit([&](const auto& value) { json[factor.name] = value; }, factor.value);
  }
  return json;
}

nlohmann::ordered_json place_json(const RowPlace& place, std::int64_t order,
                                  const Factors& factors) {
  return {{"name", place.experiment},
          {"protocol", place.protocol},
          {"case", place.key},
          {"arm", place.arm},
          {"process", place.process},
          {"order", order},
          {"factors", factors_json(factors)}};
}

}  // namespace moesaic::cli::experiment
