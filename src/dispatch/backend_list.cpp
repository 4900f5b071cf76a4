// SPDX-License-Identifier: Apache-2.0
// Which backends there are, in order, and what they say of themselves.

#include "dispatch/backend_list.hpp"

#include <algorithm>
#include <array>
#include <moesaic_build_info.hpp>

#include "backends/reference/reference_backend.hpp"
#include "moesaic/build_info.hpp"
#if MOESAIC_HAVE_CUDA
#include "backends/cuda/cuda_backend.hpp"
#endif
#if MOESAIC_HAVE_ONEDNN
#include "backends/onednn/onednn_backend.hpp"
#endif

namespace moesaic {

std::span<const backends::Backend* const> dispatch::all_backends() {
  static const std::array kBackends = {
#if MOESAIC_HAVE_CUDA
    &backends::cuda::backend(),
#endif
#if MOESAIC_HAVE_ONEDNN
    &backends::onednn::backend(),
#endif
    &backends::reference::backend(),
  };
  return kBackends;
}

const backends::Backend& dispatch::activation_backend(DeviceKind kind) {
  for (const backends::Backend* backend : all_backends()) {
    if (backend->device_kind() == kind && backend->has_activation()) {
      return *backend;
    }
  }
  throw Error(ErrorCode::unsupported,
              "no backend has the SwiGLU activation on this kind of device");
}

std::vector<BackendStatus> backend_status() {
  std::vector<BackendStatus> all;
#if !MOESAIC_HAVE_CUDA
  all.push_back(
      {"cuda", false, "this build has no CUDA backend (no nvcc 12.8 or later was found)"});
#endif
#if MOESAIC_HAVE_NVSHMEM
  all.push_back(backends::cuda::exchange_status());
#else
  all.push_back(
      {"nvshmem", false,
       "this build has no expert parallelism between GPUs: " + std::string(build::kWhyNoNvshmem)});
#endif
#if !MOESAIC_HAVE_ONEDNN
  all.push_back({"onednn", false, "this build has no oneDNN backend (Debian: libdnnl-dev)"});
#endif
  for (const backends::Backend* backend : dispatch::all_backends()) {
    all.push_back(backend->status());
  }
  constexpr std::array<std::string_view, 4> kOrder = {"cuda", "nvshmem", "onednn", "reference"};
  const auto place = [&](const BackendStatus& status) {
    return std::find(kOrder.begin(), kOrder.end(), status.name) - kOrder.begin();
  };
  std::stable_sort(all.begin(), all.end(), [&](const BackendStatus& a, const BackendStatus& b) {
    return place(a) < place(b);
  });
  return all;
}

BuildInfo build_info() {
  BuildInfo info;
  info.version = build::kVersion;
  info.git_sha = build::kGitSha;
  info.git_dirty = build::kGitDirty;
  info.compiler = build::kCompiler;
  info.build_type = build::kBuildType;
  info.has_onednn = MOESAIC_HAVE_ONEDNN != 0;
  info.has_cuda = MOESAIC_HAVE_CUDA != 0;
  info.has_nvshmem = MOESAIC_HAVE_NVSHMEM != 0;
#if MOESAIC_HAVE_ONEDNN
  info.onednn_version = backends::onednn::library_version();
#endif
  return info;
}

}  // namespace moesaic
