// SPDX-License-Identifier: Apache-2.0
// JSON text of every verb, keys in the documented order. The only header in front of nlohmann-json,
// which is slow to compile.
#pragma once

#include <string>
#include <vector>

#include "moesaic/build_info.hpp"
#include "moesaic/planner.hpp"
#include "moesaic/routing.hpp"
#include "run.hpp"
#include "verify.hpp"

namespace moesaic::cli {

/// One element of `plan`'s "layers", without a newline.
std::string plan_layer_json(const routing::Record& record, const planner::LayerPlan& plan);

/// The whole of `run --json`.
std::string run_json(const std::vector<RunCase>& cases);

/// The whole of `verify --json`.
std::string verify_json(const VerifyReport& report);

/// What `info` found.
struct InfoReport {
  BuildInfo build;
  CpuInfo cpu;
  std::vector<BackendStatus> backends;
  DeviceList devices;
  struct Row {
    std::string pass, dtype, strategy, device, implementation;
    Support support;
  };
  std::vector<Row> implementations;
};
std::string info_json(const InfoReport& report);

}  // namespace moesaic::cli
