// SPDX-License-Identifier: Apache-2.0
// What a backend offers: rows of the candidate list, and its own account of why it can or cannot
// work here. Backends are siblings: none includes another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/row_exchange.hpp"
#include "core/grouped_gemm_impl.hpp"
#include "core/workspace_header.hpp"
#include "moesaic/batched_gemm.hpp"
#include "moesaic/build_info.hpp"
#include "moesaic/device_memory.hpp"
#include "moesaic/device_telemetry.hpp"
#include "moesaic/device_timer.hpp"
#include "moesaic/expert_mlp.hpp"
#include "moesaic/grouped_gemm.hpp"

namespace moesaic {

namespace detail {

/// A batch of dense products behind BatchedGemm, whose arguments have been checked.
class BatchedGemmImpl {
 public:
  virtual ~BatchedGemmImpl() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  [[nodiscard]] virtual std::size_t workspace_bytes() const noexcept = 0;
  virtual void execute(const BatchedGemmArgs& args, const Workspace& workspace,
                       const Stream& stream) const = 0;
};

}  // namespace detail

namespace backends {

struct PlanRequest {
  const GroupedGemmProblem& problem;
  const DeviceInfo& device;
  const PlanOptions& options;
};

/// One implementation of the grouped product: a row of the candidate list.
class GroupedGemmImplementation {
 public:
  virtual ~GroupedGemmImplementation() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// The problem is well formed and the device is of this backend's kind. Never throws.
  [[nodiscard]] virtual Support supports(const PlanRequest& request) const = 0;
  /// Called after `supports` said yes.
  [[nodiscard]] virtual std::shared_ptr<const detail::GroupedGemmImpl> make(
      const PlanRequest& request) const = 0;
};

/// The element-wise middle of the expert MLP. Matrices are dense views [M, 2h] or [M, h] of the
/// format's type; only rows of valid segments are read or written.
struct ActivationArgs {
  ConstTensorView u, offs;
  ConstTensorView dh{};  ///< Backward only.
  TensorView h{}, du{};  ///< Either may be empty in backward; du is empty in forward.
  UpGateOrder order;
  int threads = 1;                ///< CPU threads, or SMs, to use.
  ConstTensorView row_weights{};  ///< f32 [M], or empty: h and dh are multiplied by their row's.
  /// Backward with row_weights only: f32 [M], or empty: a row's sum of dh * h, neither multiplied,
  /// h not rounded. What follows the last segment is left or zeroed.
  TensorView drow_weights{};
  Tail tail = Tail::leave;  ///< Of drow_weights.
};

/// y = row_weights * sums, rounded once, for the rows of valid segments.
struct ScaleRowsArgs {
  ConstTensorView sums;         ///< f32 [M, d], dense.
  ConstTensorView row_weights;  ///< f32 [M]
  ConstTensorView offs;
  TensorView y;  ///< [M, d] of the format's type.
  Tail tail = Tail::leave;
  int threads = 1;  ///< As in ActivationArgs.
};

/// Row m of `rows` = row x_rows[m] of x, zeros for an index outside of it, for the rows of valid
/// segments.
struct TakeRowsArgs {
  ConstTensorView x;       ///< [T, d] of the format's type.
  ConstTensorView x_rows;  ///< i32 [M]
  ConstTensorView offs;
  TensorView rows;  ///< [M, d] of the same type, dense.
  int threads = 1;  ///< As in ActivationArgs.
};

/// U = x W_ug^T and H = up * silu(gate) in one launch. Layouts as in ExpertMlpForwardArgs.
struct UpGateArgs {
  ConstTensorView x, w_up_gate, offs;
  TensorView u{};            ///< Empty: not kept.
  TensorView h;              ///< [M, h]
  ConstTensorView x_rows{};  ///< With XRows::indexed, else empty.
};

/// y = row_weights * (h W_down^T), rounded once, in one launch; its tail as the problem says.
struct WeightedDownArgs {
  ConstTensorView h, w_down, offs, row_weights;
  TensorView y;
};

/// dw_up_gate (+)= du^T x in one launch, with rows of x as x_rows says.
struct UpGateWgradArgs {
  ConstTensorView du, x, x_rows, offs;
  TensorView dw_up_gate;  ///< [E, 2h, d] of the problem's wgrad_dtype.
};

/// dH = dy W_down and dU of it in one launch, H again if it is wanted.
struct DownGradientArgs {
  ConstTensorView dy, w_down, offs, u;
  TensorView du;
  TensorView h{};  ///< Empty: not wanted.
};

/// The products of a planned expert that grouped products, activations and copies apart would make
/// with the same bits: up and gate, and dH, with the activation in their launch; the down product
/// with weights of rows in its epilogue; and with XRows::indexed those that read x, which take its
/// rows where they lie. Rows as in ActivationArgs.
class FusedExpert {
 public:
  virtual ~FusedExpert() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  [[nodiscard]] virtual std::size_t workspace_bytes() const noexcept = 0;
  /// The implementation that a product beside these is to have; none: the first that takes it.
  [[nodiscard]] virtual std::optional<std::string> product(
      const GroupedGemmProblem& gemm) const = 0;
  virtual void up_gate(const UpGateArgs& args, const Workspace& workspace,
                       const Stream& stream) const = 0;
  /// Without row_weights only: their gradient has no product of its own yet.
  virtual void down_gradient(const DownGradientArgs& args, const Workspace& workspace,
                             const Stream& stream) const = 0;
  /// With row_weights only; else the grouped product does it.
  virtual void weighted_down(const WeightedDownArgs& args, const Workspace& workspace,
                             const Stream& stream) const = 0;
  /// With XRows::indexed only; else the grouped product does it.
  virtual void up_gate_wgrad(const UpGateWgradArgs& args, const Workspace& workspace,
                             const Stream& stream) const = 0;
};

/// A value of two or four bytes.
struct Word {
  std::uint32_t value = 0;
  std::size_t size_bytes = 4;
};

/// Where a device's clocks can be read.
class TelemetrySource {
 public:
  virtual ~TelemetrySource() = default;
  [[nodiscard]] virtual TelemetrySample read() const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual BackendStatus status() const = 0;
  [[nodiscard]] virtual DeviceKind device_kind() const noexcept = 0;
  /// Best first.
  [[nodiscard]] virtual std::span<const GroupedGemmImplementation* const> grouped_gemms() const = 0;
  /// How this backend moves rows between ranks; null where it does not.
  [[nodiscard]] virtual const ExpertParallelImplementation* expert_parallel() const noexcept {
    return nullptr;
  }
  /// The first backend of a device kind that has one serves all of that kind.
  [[nodiscard]] virtual bool has_activation() const noexcept { return false; }
  virtual void swiglu(const ActivationArgs& args, const Stream& stream) const;
  virtual void dswiglu(const ActivationArgs& args, const Stream& stream) const;
  virtual void scale_rows(const ScaleRowsArgs& args, const Stream& stream) const;
  virtual void take_rows(const TakeRowsArgs& args, const Stream& stream) const;
  /// Null where this backend has nothing fused for such an expert, or nothing of the name that is
  /// asked for.
  [[nodiscard]] virtual std::unique_ptr<const FusedExpert> fused_expert(
      const ExpertMlpProblem& problem, const DeviceInfo& device,
      const std::optional<std::string>& implementation) const;
  /// Copies the workspace's header to the host. Synchronizes.
  virtual core::WorkspaceHeader read_header(const Workspace& workspace, const Stream& stream) const;
  /// Clears the fault word and nothing else: a launch may be counting tiles. Synchronizes.
  virtual void clear_fault(const Workspace& workspace, const Stream& stream) const;

  /// Dense products of the vendor's library. Null with `why_not` set when it has none for this. The
  /// problem is well formed and the device of this backend's kind.
  [[nodiscard]] virtual std::unique_ptr<detail::BatchedGemmImpl> batched_gemm(
      const BatchedGemmProblem& problem, const DeviceInfo& device, Support& why_not) const;

  // Memory, queues and time of the device. What is not overridden is the host's.

  /// 256-byte aligned. @throws Error{device_failure} naming size and device.
  [[nodiscard]] virtual void* allocate(std::size_t size_bytes, Device device) const;
  virtual void release(void* data, Device device) const noexcept;
  // Copies, fills and counts are complete on return.

  /// Between host and device memory.
  virtual void copy_from_host(void* target, const void* source, std::size_t size_bytes,
                              const Stream& stream) const;
  virtual void copy_to_host(void* target, const void* source, std::size_t size_bytes,
                            const Stream& stream) const;
  /// Between places of the stream's device that do not overlap.
  virtual void copy_within(void* target, const void* source, std::size_t size_bytes,
                           const Stream& stream) const;
  virtual void fill(void* target, std::byte value, std::size_t size_bytes,
                    const Stream& stream) const;
  /// Every four bytes become `word`; `size_bytes` is a multiple of four.
  virtual void fill_words(void* target, std::uint32_t word, std::size_t size_bytes,
                          const Stream& stream) const;
  /// Words of `data`, which is 16-byte aligned, that equal `word`; `size_bytes` is whole words.
  [[nodiscard]] virtual WordCount count_words(const void* data, std::size_t size_bytes,
                                              const Word& word, const Stream& stream) const;
  /// A native stream; null on the host.
  [[nodiscard]] virtual void* make_stream(Device device) const;
  virtual void destroy_stream(void* native, Device device) const noexcept;
  virtual void synchronize(const Stream& stream) const;
  /// At most DeviceTimer::kPiecesPerGate pieces. @returns seconds of each.
  [[nodiscard]] virtual std::vector<double> time(std::span<const std::function<void()>> pieces,
                                                 const Stream& stream, TimerGate gate) const;
  /// See DeviceTimer::time_units; both numbers are positive.
  [[nodiscard]] virtual UnitTimes time_units(const std::function<void()>& piece,
                                             std::int64_t calls_per_unit, std::int64_t units,
                                             const Stream& stream) const;
  /// Null with `why_none` set where clocks cannot be read.
  [[nodiscard]] virtual std::unique_ptr<TelemetrySource> telemetry(Device device,
                                                                   std::string& why_none) const;
  [[nodiscard]] virtual DeviceCircumstances circumstances(Device device) const;
  /// Names what this thread enqueues until end_range(), for profilers. False where none looks.
  virtual bool begin_range(const char* /*name*/) const noexcept { return false; }
  virtual void end_range() const noexcept {}
};

}  // namespace backends
}  // namespace moesaic
