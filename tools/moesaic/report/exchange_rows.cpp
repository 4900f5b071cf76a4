// SPDX-License-Identifier: Apache-2.0
// Rows of the exchange between ranks, checked, told apart, and what their words mean.
#include "report/exchange_rows.hpp"

#include <array>

namespace moesaic::cli::report {
namespace {

constexpr std::array kTransports = {"nvshmem", "simulated"};
constexpr std::array kForms = {"direct", "fan_out"};
constexpr std::array kComparisons = {"exchange", "layer"};

void check_bench_ep(const RowCheck& check) {
  check.text("operation");
  check.whole("nblocks", 0);
  check.whole("routing.dropped_routes", 0);
  check.not_negative("derived.remote_bytes");
  check.not_negative("derived.remote_bytes_per_second");
}

void check_ep_arm(const Json& row, const RowCheck& check) {
  check.one_of("comparison", kComparisons);
  check.text("arm");
  check.positive("derived.ratio_to_moesaic");
  if (field(row, "problem.dispatch") != nullptr) check.one_of("problem.dispatch", kForms);
  if (text(row, "comparison") == "layer") check.whole("problem.h", 1);
}

}  // namespace

bool is_exchange(const Json& row) {
  const std::string schema = text(row, "schema");
  return schema == kBenchEpSchema || schema == kEpArmSchema;
}

void check_exchange(const Json& row, const RowCheck& check) {
  check.text("git.sha");
  check.text("device.name");
  check.whole("device.ranks", 1);
  check.one_of("device.transport", kTransports);
  check.text("problem.dtype");
  for (const char* name : {"experts", "topk", "tokens", "d", "capacity_factor_millionths"}) {
    check.whole(std::string("problem.") + name, 1);
  }
  check.text("routing.name");
  check.whole("routing.routes", 0);
  check.list_of_positive("timing.median_s");
  check.positive("timing.slowest_s");
  if (text(row, "schema") == kBenchEpSchema) return check_bench_ep(check);
  check_ep_arm(row, check);
}

std::string exchange_kind(const Json& row) {
  return text(row, "schema") == kEpArmSchema ? "ep_arm" : "ep";
}

std::string exchange_case(const Json& row) {
  Json problem = row["problem"];
  problem.erase("dispatch");
  // Rows from before there was a choice do not say it: direct.
  const bool fan_out = text(row, "problem.dispatch") == "fan_out";
  std::string key = problem.dump(-1, ' ', false, kReplace) + (fan_out ? "|fan_out" : "|direct");
  // Nor a seed: 1.
  const double seed = number(row, "routing.seed");
  key += "|" + std::to_string(static_cast<std::int64_t>(seed > 0 ? seed : 1));
  for (const char* path : {"routing.name", "operation", "nblocks", "comparison", "arm"}) {
    const Json* value = field(row, path);
    key += "|" + (value == nullptr ? "" : value->dump(-1, ' ', false, kReplace));
  }
  return key;
}

bool moves_rows(const Json& row) { return number(row, "derived.remote_bytes") > 0; }

void add_exchange_definitions(Json& definitions) {
  definitions["slowest_s"] = "median time of a call on the slowest rank";
  definitions["remote_bytes"] =
      "bytes of rows to or from other ranks, in the busiest direction of any rank; rows of its own "
      "experts do not count; by fan_out a token once for each rank; of maps+..., out and back "
      "added";
  definitions["remote_bytes_per_second"] =
      "remote_bytes / slowest_s, the payload rate of one direction";
  definitions["nblocks"] =
      "thread blocks of a transfer on each rank; 0, shown as auto: the transport's own number";
  definitions["direct, fan_out"] =
      "dispatch that sends a token once for each of its routes; once for each rank, which copies "
      "it to its other rows there";
  definitions["ratio_to_moesaic"] =
      "slowest_s over that of moesaic in the same run, in which arms take turns; above 1 moesaic "
      "is faster";
}

}  // namespace moesaic::cli::report
