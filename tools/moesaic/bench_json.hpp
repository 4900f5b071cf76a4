// SPDX-License-Identifier: Apache-2.0
// A row of `bench` as JSON, for rows that add to it. Of its own, so that nlohmann-json stays out of
// the files that only print rows.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bench.hpp"

namespace moesaic::cli {

/// All fields of schema moesaic.bench/1.
nlohmann::ordered_json bench_json(const BenchCase& one, const BenchSetting& setting);

/// What the activations of a layer take.
nlohmann::ordered_json memory_json(const MlpMemory& memory);

/// "2026-11-30T16:16:05Z".
std::string utc_now();

/// One line without a newline; bytes that are no UTF-8 are replaced.
std::string json_line(const nlohmann::ordered_json& json);

}  // namespace moesaic::cli
