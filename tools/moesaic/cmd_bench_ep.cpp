// SPDX-License-Identifier: Apache-2.0
// moesaic bench ep: times the operations of expert parallelism over routings and thread blocks, on
// the ranks of several processes or simulated ones. Rank 0 says what came out.
#include <cstdio>
#include <functional>

#include "bench_ep.hpp"
#include "commands.hpp"
#include "moesaic/device_timer.hpp"
#include "row_sink.hpp"
#include "stats.hpp"
#include "text.hpp"

namespace moesaic::cli {
namespace {

constexpr std::int64_t kWarmUps = 5;

/// Behind one gate on each rank; the first barrier of the warm-ups brings them together.
double median_seconds(EpSite& site, const std::string& operation, int nblocks,
                      std::int64_t samples) {
  site.share(0);  // all processes are here
  const std::function<void()> piece = [&] { site.run(operation, nblocks); };
  const std::vector<std::function<void()>> pieces(static_cast<std::size_t>(kWarmUps + samples),
                                                  piece);
  std::vector<double> seconds = DeviceTimer(site.stream()).time(pieces);
  seconds.erase(seconds.begin(), seconds.begin() + kWarmUps);
  site.group().check(site.stream());
  return median(std::move(seconds));
}

}  // namespace

ExitCode cmd_bench_ep(const Options& options) {
  const EpBenchFlags& flags = options.ep_bench;
  EpSite site(flags);
  const DeviceInfo device = query_device(site.group().device());
  const DeviceCircumstances around = device_circumstances(site.group().device());
  RowSink sink(site.writes() ? flags.json_path : std::string());
  std::vector<EpCase> cases;
  bool wrong = false;
  for (const EpRouting& routing : flags.routings) {
    site.prepare(routing, flags.seed);
    for (const int nblocks : flags.nblocks) {
      const EpCheck check = site.check(nblocks);
      if (check.mismatches > 0) {  // no figure without a passed check, on any rank
        wrong = true;
        std::fprintf(stderr, "moesaic bench ep: %s, nblocks %d: %lld of %lld elements are wrong\n",
                     routing.name.c_str(), nblocks, static_cast<long long>(check.mismatches),
                     static_cast<long long>(check.elements));
        continue;
      }
      for (const std::string& operation : site.operations()) {
        EpCase one;
        one.routing = routing.name;
        one.seed = flags.seed;
        one.operation = operation;
        one.nblocks = nblocks;
        one.samples = flags.samples;
        one.warm_ups = kWarmUps;
        one.traffic = site.traffic();
        one.check = check;
        one.row_bytes = flags.d * (flags.format == Format::bf16 ? 2 : 4);
        one.median_seconds = site.share(median_seconds(site, operation, nblocks, flags.samples));
        if (site.writes()) sink.write(ep_row(one, site, device, around, options.command));
        cases.push_back(std::move(one));
      }
    }
  }
  if (site.writes() && !sink.takes_stdout()) {
    std::printf("%s, %d ranks, %s; dispatch auto is %s\n", device.name.c_str(),
                site.group().num_ranks(), std::string(site.exchange().implementation()).c_str(),
                std::string(name(site.automatic_form())).c_str());
    std::fputs(ep_table(cases).c_str(), stdout);
  }
  return wrong ? ExitCode::check_failed : ExitCode::fine;
}

}  // namespace moesaic::cli
