// SPDX-License-Identifier: Apache-2.0
// What this library is: version, commit, toolchain, what it was built with.
#pragma once

#include <string>
#include <vector>

namespace moesaic {

/// How this library was built.
struct BuildInfo {
  std::string version;     ///< "0.1.0"
  std::string git_sha;     ///< Twelve digits, or "unknown".
  bool git_dirty = false;  ///< Uncommitted changes at configure time.
  std::string compiler, build_type;
  bool has_onednn = false, has_cuda = false;
  bool has_nvshmem = false;    ///< Expert parallelism between GPUs.
  std::string onednn_version;  ///< Of the library loaded now; empty without oneDNN.
};
/// Fixed at configure time, but for the version of the oneDNN that is loaded now. Never throws.
BuildInfo build_info();

/// One backend: whether it can work here, and the reason when it cannot.
struct BackendStatus {
  std::string name;  ///< "cuda", "onednn", "reference"; "nvshmem": GPUs exchange rows
  bool ok = false;
  std::string detail;  ///< What it found, or why it is out.
};
std::vector<BackendStatus> backend_status();

/// Name of the processor and the instruction sets that decide which CPU code can run.
struct CpuInfo {
  std::string model;
  int threads = 0;
  std::vector<std::string> features;  ///< Of avx2, avx512f, avx512_bf16, amx_bf16, …
};
CpuInfo cpu_info();

}  // namespace moesaic
