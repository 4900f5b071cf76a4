// SPDX-License-Identifier: Apache-2.0
// See bench_ep.hpp.
#include "bench_ep.hpp"

#include <algorithm>

#include "arguments.hpp"
#include "bench_json.hpp"
#include "moesaic/build_info.hpp"
#include "table.hpp"
#include "text.hpp"

namespace moesaic::cli {

double EpCase::seconds() const {
  return *std::max_element(median_seconds.begin(), median_seconds.end());
}

std::int64_t EpCase::remote_bytes() const {
  if (operation == "route_maps") return 0;  // counts alone
  const std::int64_t rows = std::max(traffic.remote_out_rows, traffic.remote_in_rows);
  const std::int64_t tokens = std::max(traffic.remote_out_tokens, traffic.remote_in_tokens);
  const std::int64_t first = is_fan_out(operation) ? tokens : rows;
  return (operation.starts_with("maps+") ? first + rows : first) * row_bytes;
}

double EpCase::remote_bytes_per_second() const {
  return static_cast<double>(remote_bytes()) / seconds();
}

std::string ep_row(const EpCase& one, const EpSite& site, const DeviceInfo& device,
                   const DeviceCircumstances& around, const std::string& command) {
  const BuildInfo build = build_info();
  const ExpertParallelProblem& problem = site.exchange().problem();
  return json_line({{"schema", "moesaic.bench_ep/1"},
                    {"date", utc_now()},
                    {"git", {{"sha", build.git_sha}, {"dirty", build.git_dirty}}},
                    {"command", command},
                    {"device",
                     {{"name", device.name},
                      {"ranks", site.group().num_ranks()},
                      {"transport", site.group().transport()},
                      {"driver", around.driver},
                      {"cuda", around.runtime}}},
                    {"problem",
                     {{"dtype", dtype_word(problem.format)},
                      {"experts", problem.num_experts},
                      {"topk", problem.topk},
                      {"tokens", problem.max_tokens},
                      {"d", problem.d},
                      {"capacity_factor_millionths", problem.capacity_factor_millionths},
                      {"max_rows", site.exchange().max_rows()}}},
                    {"routing",
                     {{"name", one.routing},
                      {"seed", one.seed},
                      {"routes", one.traffic.routes},
                      {"dropped_routes", one.traffic.dropped_routes},
                      {"max_rows_used", one.traffic.max_rows_used},
                      {"remote_out_rows", one.traffic.remote_out_rows},
                      {"remote_in_rows", one.traffic.remote_in_rows},
                      {"remote_out_tokens", one.traffic.remote_out_tokens},
                      {"remote_in_tokens", one.traffic.remote_in_tokens}}},
                    {"implementation", site.exchange().implementation()},
                    {"operation", one.operation},
                    {"nblocks", one.nblocks},
                    {"timing",
                     {{"regime", name(Regime::short_burst)},
                      {"warm_ups", one.warm_ups},
                      {"samples", one.samples},
                      {"median_s", one.median_seconds},
                      {"slowest_s", one.seconds()}}},
                    {"derived",
                     {{"remote_bytes", one.remote_bytes()},
                      {"remote_bytes_per_second", one.remote_bytes_per_second()}}},
                    {"check",
                     {{"reference", "maps of a simulated group; sampled rows and sums, exact"},
                      {"elements", one.check.elements},
                      {"mismatches", one.check.mismatches}}}});
}

std::string ep_table(const std::vector<EpCase>& cases) {
  Table table({{"routing", Align::left},
               {"operation", Align::left},
               {"nblocks", Align::right},
               {"time", Align::right},
               {"remote", Align::right},
               {"rate", Align::right},
               {"dropped", Align::right}});
  for (const EpCase& one : cases) {
    const bool moves = one.remote_bytes() > 0;
    table.add({one.routing, one.operation, one.nblocks == 0 ? "auto" : std::to_string(one.nblocks),
               duration(one.seconds()),
               moves ? byte_count(static_cast<double>(one.remote_bytes())) : "-",
               moves ? byte_count(one.remote_bytes_per_second()) + "/s" : "-",
               grouped_digits(one.traffic.dropped_routes)});
  }
  return table.text();
}

}  // namespace moesaic::cli
