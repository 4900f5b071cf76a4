// SPDX-License-Identifier: Apache-2.0
// The CUDA backend's account of itself and its candidate list.

#include "backends/cuda/cuda_backend.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "backends/cuda/launch/activation.hpp"
#include "backends/cuda/launch/baselines.hpp"
#include "backends/cuda/launch/choose.hpp"
#include "backends/cuda/launch/device_query.hpp"
#include "backends/cuda/launch/memory.hpp"
#include "backends/cuda/launch/nvml.hpp"
#include "backends/cuda/launch/nvtx.hpp"
#include "backends/cuda/launch/sm90_expert.hpp"
#include "backends/cuda/launch/sm90_gemm.hpp"
#include "backends/cuda/launch/timer.hpp"
#include "backends/cuda/launch/words.hpp"
#if MOESAIC_HAVE_NVSHMEM
#include "backends/cuda/launch/nvshmem_exchange.hpp"
#include "backends/cuda/transport/nvshmem_version.hpp"
#endif

namespace moesaic::backends::cuda {
namespace {

/// One compiled kernel as a row of the candidate list. Named, it takes what it can compute; else
/// what it suits.
class Sm90Grouped final : public GroupedGemmImplementation {
 public:
  explicit Sm90Grouped(const Instance& instance)
      : instance_(instance), name_(implementation_name(instance)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] Support supports(const PlanRequest& request) const override {
    Support grouped = launch::supports_grouped(request, Strategy::grouped);
    if (!grouped) {
      return grouped;
    }
    return launch::takes(instance_, request);
  }
  [[nodiscard]] std::shared_ptr<const detail::GroupedGemmImpl> make(
      const PlanRequest& request) const override {
    return std::make_shared<launch::Sm90Gemm>(request, instance_);
  }

 private:
  const Instance& instance_;
  std::string name_;
};

class CublasPaddedBmm final : public GroupedGemmImplementation {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "cuda/cublas/padded_bmm"; }
  [[nodiscard]] Support supports(const PlanRequest& request) const override {
    if (request.problem.accumulate && request.problem.strategy == Strategy::padded_bmm) {
      return {false, "cuBLAS would add zeros to the dw of experts without rows, and -0 became +0"};
    }
    // The grouped kernel computes what overflows.
    Support grouped = launch::supports_grouped(request, Strategy::padded_bmm);
    return grouped ? launch::supports_baseline(request, Strategy::padded_bmm) : grouped;
  }
  [[nodiscard]] std::shared_ptr<const detail::GroupedGemmImpl> make(
      const PlanRequest& request) const override {
    return launch::make_padded_bmm(request);
  }
};

class CublasHostLoop final : public GroupedGemmImplementation {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "cuda/cublas/host_loop"; }
  [[nodiscard]] Support supports(const PlanRequest& request) const override {
    return launch::supports_baseline(request, Strategy::host_loop);
  }
  [[nodiscard]] std::shared_ptr<const detail::GroupedGemmImpl> make(
      const PlanRequest& request) const override {
    return launch::make_host_loop(request);
  }
};

class CudaBackend final : public Backend {
 public:
  [[nodiscard]] BackendStatus status() const override {
    std::string why_none;
    const std::vector<DeviceInfo> found = devices(why_none);
    if (found.empty()) {
      return {"cuda", false, why_none};
    }
    const bool hopper = std::any_of(found.begin(), found.end(), [](const DeviceInfo& device) {
      return device.compute_capability == 90;
    });
    return {
        "cuda", hopper,
        std::to_string(found.size()) + " device(s)" +
            (hopper ? "" : ", none of compute capability 9.0, for which the kernels are compiled")};
  }
  [[nodiscard]] DeviceKind device_kind() const noexcept override { return DeviceKind::cuda; }
  [[nodiscard]] std::span<const GroupedGemmImplementation* const> grouped_gemms() const override {
    static const std::vector<Sm90Grouped> instances = [] {
      std::vector<Sm90Grouped> products;
      for (const Instance& instance : kInstances) {
        if (is_product(instance.config)) products.emplace_back(instance);
      }
      return products;
    }();
    static const CublasPaddedBmm padded;
    static const CublasHostLoop loop;
    static const std::vector<const GroupedGemmImplementation*> all = [] {
      std::vector<const GroupedGemmImplementation*> list;
      list.reserve(instances.size() + 2);
      for (const Sm90Grouped& instance : instances) {
        list.push_back(&instance);
      }
      list.insert(list.end(), {&padded, &loop});
      return list;
    }();
    return all;
  }
#if MOESAIC_HAVE_NVSHMEM
  [[nodiscard]] const ExpertParallelImplementation* expert_parallel() const noexcept override {
    return &launch::nvshmem_exchange();
  }
#endif
  [[nodiscard]] bool has_activation() const noexcept override { return true; }
  void swiglu(const ActivationArgs& args, const Stream& stream) const override {
    launch::swiglu(args, stream);
  }
  void dswiglu(const ActivationArgs& args, const Stream& stream) const override {
    launch::dswiglu(args, stream);
  }
  void scale_rows(const ScaleRowsArgs& args, const Stream& stream) const override {
    launch::scale_rows(args, stream);
  }
  void take_rows(const TakeRowsArgs& args, const Stream& stream) const override {
    launch::take_rows(args, stream);
  }
  [[nodiscard]] std::unique_ptr<const FusedExpert> fused_expert(
      const ExpertMlpProblem& problem, const DeviceInfo& device,
      const std::optional<std::string>& implementation) const override {
    return launch::make_sm90_expert(problem, device, implementation);
  }
  core::WorkspaceHeader read_header(const Workspace& workspace,
                                    const Stream& stream) const override {
    return launch::read_device_header(workspace, stream);
  }
  void clear_fault(const Workspace& workspace, const Stream& stream) const override {
    launch::clear_device_fault(workspace, stream);
  }

  [[nodiscard]] void* allocate(std::size_t size_bytes, Device device) const override {
    return launch::allocate(size_bytes, device);
  }
  void release(void* data, Device device) const noexcept override { launch::release(data, device); }
  void copy_from_host(void* target, const void* source, std::size_t size_bytes,
                      const Stream& stream) const override {
    launch::copy_from_host(target, source, size_bytes, stream);
  }
  void copy_to_host(void* target, const void* source, std::size_t size_bytes,
                    const Stream& stream) const override {
    launch::copy_to_host(target, source, size_bytes, stream);
  }
  void copy_within(void* target, const void* source, std::size_t size_bytes,
                   const Stream& stream) const override {
    launch::copy_within(target, source, size_bytes, stream);
  }
  void fill(void* target, std::byte value, std::size_t size_bytes,
            const Stream& stream) const override {
    launch::fill(target, value, size_bytes, stream);
  }
  void fill_words(void* target, std::uint32_t word, std::size_t size_bytes,
                  const Stream& stream) const override {
    launch::fill_words(target, word, size_bytes, stream);
  }
  [[nodiscard]] WordCount count_words(const void* data, std::size_t size_bytes, const Word& word,
                                      const Stream& stream) const override {
    return launch::count_words(data, size_bytes, word, stream);
  }
  [[nodiscard]] void* make_stream(Device device) const override {
    return launch::make_stream(device);
  }
  void destroy_stream(void* native, Device device) const noexcept override {
    launch::destroy_stream(native, device);
  }
  void synchronize(const Stream& stream) const override { launch::synchronize(stream); }
  [[nodiscard]] std::vector<double> time(std::span<const std::function<void()>> pieces,
                                         const Stream& stream, TimerGate gate) const override {
    return launch::time_pieces(pieces, stream, gate);
  }
  [[nodiscard]] UnitTimes time_units(const std::function<void()>& piece,
                                     std::int64_t calls_per_unit, std::int64_t units,
                                     const Stream& stream) const override {
    return launch::time_units(piece, calls_per_unit, units, stream);
  }
  [[nodiscard]] std::unique_ptr<detail::BatchedGemmImpl> batched_gemm(
      const BatchedGemmProblem& problem, const DeviceInfo& device,
      Support& why_not) const override {
    why_not = launch::supports_batched(problem);
    return why_not ? launch::make_batched(problem, device) : nullptr;
  }
  [[nodiscard]] std::unique_ptr<TelemetrySource> telemetry(Device device,
                                                           std::string& why_none) const override {
    return launch::nvml_source(device, why_none);
  }
  [[nodiscard]] DeviceCircumstances circumstances(Device device) const override {
    return launch::nvml_circumstances(device);
  }
  bool begin_range(const char* name) const noexcept override {
    launch::begin_range(name);
    return true;
  }
  void end_range() const noexcept override { launch::end_range(); }
};

}  // namespace

const Backend& backend() {
  static const CudaBackend instance;
  return instance;
}

std::vector<DeviceInfo> devices(std::string& why_none) { return launch::query_devices(why_none); }

#if MOESAIC_HAVE_NVSHMEM
BackendStatus exchange_status() {
  const transport::NvshmemVersion version = transport::library_version();
  const Support match = transport::versions_match(transport::header_version(), version);
  if (!match) {
    return {"nvshmem", false, match.reason};
  }
  std::string why_none;
  const bool any = !devices(why_none).empty();
  return {"nvshmem", any, "NVSHMEM " + to_string(version) + (any ? "" : "; " + why_none)};
}
#endif

}  // namespace moesaic::backends::cuda
