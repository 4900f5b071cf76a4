// SPDX-License-Identifier: Apache-2.0
// moesaic info: build, processor, backends, devices, and which implementation takes what here.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "arguments.hpp"
#include "commands.hpp"
#include "json_output.hpp"
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

/// Rows that differ in pass or dtype alone are one line.
std::string implementations_text(const InfoReport& report) {
  struct Line {
    InfoReport::Row row;
    std::string taken;
  };
  std::vector<Line> lines;
  for (const InfoReport::Row& row : report.implementations) {
    const auto same = [&row](const Line& line) {
      return line.row.device == row.device && line.row.strategy == row.strategy &&
             line.row.implementation == row.implementation &&
             line.row.support.ok == row.support.ok && line.row.support.reason == row.support.reason;
    };
    auto line = std::find_if(lines.begin(), lines.end(), same);
    if (line == lines.end()) line = lines.insert(lines.end(), {row, ""});
    line->taken += (line->taken.empty() ? "" : ", ") + row.pass + " " + row.dtype;
  }
  Table table({{"  device", Align::left},
               {"strategy", Align::left},
               {"implementation", Align::left},
               {"takes it", Align::left},
               {"asked with", Align::left}});
  for (const Line& line : lines) {
    table.add({"  " + line.row.device, line.row.strategy, line.row.implementation,
               line.row.support ? "yes" : "no: " + line.row.support.reason, line.taken});
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
    text += "  " + to_string(device.device) + ": " + device.name + "\n";
  }
  if (!report.devices.why_no_cuda.empty()) {
    text += "  " + report.devices.why_no_cuda + "\n";
  }
  return text + "\nImplementations for a small sample problem, best first\n" +
         implementations_text(report);
}

}  // namespace

ExitCode cmd_info(const Options& options) {
  const InfoReport report = gather();
  std::fputs((options.output.json ? info_json(report) : info_text(report)).c_str(), stdout);
  return ExitCode::fine;
}

}  // namespace moesaic::cli
