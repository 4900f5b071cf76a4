// SPDX-License-Identifier: Apache-2.0
// Rows of the exchange between ranks: `moesaic bench ep`, and layers and exchanges beside PyTorch.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "report/row_check.hpp"

namespace moesaic::cli::report {

inline constexpr const char* kBenchEpSchema = "moesaic.bench_ep/1";
inline constexpr const char* kEpArmSchema = "moesaic.ep_arm/1";

/// True for a row of either schema.
bool is_exchange(const Json& row);

/// @throws Error{invalid_argument} naming the field that a row of either schema lacks.
void check_exchange(const Json& row, const RowCheck& check);

/// "ep" or "ep_arm".
std::string exchange_kind(const Json& row);

/// Rows of one file, device and number of ranks with equal keys measured the same thing.
std::string exchange_case(const Json& row);

/// True for a row that belongs into a sweep over thread blocks: its operation moves rows.
bool moves_rows(const Json& row);

/// Adds what the words of these rows mean.
void add_exchange_definitions(Json& definitions);

}  // namespace moesaic::cli::report
