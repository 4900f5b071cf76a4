// SPDX-License-Identifier: Apache-2.0
// moesaic info: build, processor, backends, devices, and which implementation takes what here.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "commands.hpp"
#include "json_output.hpp"
#include "machine.hpp"
#include "table.hpp"
#include "text.hpp"

namespace moesaic::cli {
namespace {

/// A problem that every implementation should take, so that a refusal says something about the
/// machine.
GroupedGemmProblem sample_problem(Pass pass, Format format, Strategy strategy) {
  GroupedGemmProblem problem;
  problem.pass = pass;
  problem.format = format;
  problem.d_dtype = format == Format::bf16 ? DType::bf16 : DType::f32;
  problem.num_experts = 8;
  problem.max_rows = 1024;
  problem.n = 256;
  problem.k = 128;
  problem.strategy = strategy;
  return problem;
}

InfoReport gather() {
  InfoReport report{build_info(), cpu_info(), backend_status(), list_devices(), {}};
  for (const DeviceInfo& device : report.devices.devices) {
    for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad}) {
      for (const Format format : {Format::bf16, Format::f32}) {
        for (const Strategy strategy :
             {Strategy::grouped, Strategy::padded_bmm, Strategy::host_loop}) {
          const GroupedGemmProblem problem = sample_problem(pass, format, strategy);
          for (Candidate& candidate : GroupedGemm::candidates(problem, device)) {
            report.implementations.push_back(
                {std::string(name(pass)), std::string(dtype_word(format)),
                 std::string(name(strategy)), to_string(device.device),
                 std::move(candidate.implementation), std::move(candidate.support)});
          }
        }
      }
    }
  }
  return report;
}

/// An implementation on a device, asked with its own strategy.
struct Line {
  std::string device, implementation, strategy;
  std::vector<std::string> passes, dtypes;  ///< What it takes.
  std::vector<std::string> refusals;        ///< "fp32: it multiplies bf16, not f32".
};

void add_new(std::string word, std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(std::move(word));
}

std::vector<Line> lines_of(const InfoReport& report) {
  std::vector<Line> lines;
  for (const InfoReport::Row& row : report.implementations) {
    if (row.strategy != name(strategy_of(row.implementation))) continue;
    const auto same = [&row](const Line& line) {
      return line.device == row.device && line.implementation == row.implementation;
    };
    auto line = std::find_if(lines.begin(), lines.end(), same);
    if (line == lines.end()) {
      line = lines.insert(lines.end(), {row.device, row.implementation, row.strategy, {}, {}, {}});
    }
    if (row.support) {
      add_new(row.pass, line->passes);
      add_new(row.dtype, line->dtypes);
    } else {
      add_new(row.dtype + ": " + row.support.reason, line->refusals);
    }
  }
  return lines;
}

std::string implementations_text(const InfoReport& report) {
  Table table({{"  device", Align::left},
               {"implementation", Align::left},
               {"strategy", Align::left},
               {"passes", Align::left},
               {"types", Align::left},
               {"cannot", Align::left}});
  for (const Line& line : lines_of(report)) {
    table.add({"  " + line.device, line.implementation, line.strategy,
               line.passes.empty() ? "none" : join(line.passes, ", "),
               line.dtypes.empty() ? "none" : join(line.dtypes, ", "),
               line.refusals.empty() ? "-" : join(line.refusals, "; ")});
  }
  return table.text();
}

std::string info_text(const InfoReport& report) {
  const BuildInfo& build = report.build;
  std::string text =
      format("moesaic %s (%s%s), %s, %s\n", build.version.c_str(), build.git_sha.c_str(),
             build.git_dirty ? ", modified" : "", build.compiler.c_str(), build.build_type.c_str());
  text += format("processor: %s, %d threads, %s\n\nBackends\n", report.cpu.model.c_str(),
                 report.cpu.threads, join(report.cpu.features, " ").c_str());
  Table backends({{"  name", Align::left}, {"works", Align::left}, {"detail", Align::left}});
  for (const BackendStatus& backend : report.backends) {
    backends.add({"  " + backend.name, backend.ok ? "yes" : "no", backend.detail});
  }
  text += backends.text() + "\nDevices\n";
  for (const DeviceInfo& device : report.devices.devices) {
    text += "  " + to_string(device.device) + ": " + device.name;
    if (device.device.kind == DeviceKind::cuda) {
      text += format(", compute capability %d.%d, %d SMs, L2 %s, memory %s/s nominal",
                     device.compute_capability / 10, device.compute_capability % 10, device.num_sms,
                     byte_count(static_cast<double>(device.l2_bytes)).c_str(),
                     byte_count(device.dram_bytes_per_second).c_str());
    }
    text += '\n';
  }
  if (!report.devices.why_no_cuda.empty()) {
    text += "  " + report.devices.why_no_cuda + "\n";
  }
  return text + "\nImplementations for a small sample problem, the best of each strategy first\n" +
         implementations_text(report);
}

}  // namespace

ExitCode cmd_info(const Options& options) {
  const InfoReport report = gather();
  std::fputs((options.output.json ? info_json(report) : info_text(report)).c_str(), stdout);
  return ExitCode::fine;
}

}  // namespace moesaic::cli
