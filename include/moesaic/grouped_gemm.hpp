// SPDX-License-Identifier: Apache-2.0
// Grouped GEMM over the rows that routing produced: describe a problem, plan it once, execute it
// often.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "moesaic/capacity.hpp"
#include "moesaic/device.hpp"
#include "moesaic/error.hpp"
#include "moesaic/stream.hpp"
#include "moesaic/tensor.hpp"
#include "moesaic/workspace.hpp"

namespace moesaic {

/// The three products of a routed linear layer Y_e = X_e W_e^T.
enum class Pass : std::uint8_t {
  forward,  ///< a = x [M, K],  b = w,        d = y  [M, N]; contracts K.
  dgrad,    ///< a = dy [M, N], b = w,        d = dx [M, K]; contracts N.
  wgrad,    ///< a = dy [M, N], b = x [M, K], d = dw;        contracts the rows of each expert.
};

/// Operand format; `mxfp8` keeps its place here and is refused until a backend offers it.
enum class Format : std::uint8_t { bf16, f32, mxfp8 };

/// How w and dw lie in memory: [E, N, K] (the usual storage) or [E, K, N].
enum class WeightStorage : std::uint8_t { enk, ekn };

/// What happens to output rows at or past offs[E-1] in forward and dgrad.
enum class Tail : std::uint8_t { leave, zero };

enum class Strategy : std::uint8_t {
  grouped,     ///< Exactly the routed rows; the product.
  padded_bmm,  ///< Every expert padded to a common capacity, then one batched product.
  host_loop,   ///< Counts on the host, one dense product per expert.
};

/// The enumerator's own word: "forward", "bf16", "enk", "leave", "grouped", …
std::string_view name(Pass pass) noexcept;
std::string_view name(Format format) noexcept;
std::string_view name(WeightStorage storage) noexcept;
std::string_view name(Tail tail) noexcept;
std::string_view name(Strategy strategy) noexcept;

/// A grouped product without its data. M = `max_rows` is the buffer's capacity, not the rows
/// routed.
struct GroupedGemmProblem {
  Pass pass = Pass::forward;
  Format format = Format::bf16;
  DType d_dtype = DType::bf16;  ///< bf16 or f32; an f32 problem writes f32.
  int num_experts = 0;          ///< E, 1 to 65,536.
  std::int64_t max_rows = 0;    ///< M, 0 to 2^31 - 1 (offsets are int32).
  std::int64_t n = 0,
               k = 0;       ///< Output and contracted width of the forward product, multiples of 8.
  bool accumulate = false;  ///< wgrad only: d += result.
  WeightStorage weights = WeightStorage::enk;
  Tail tail = Tail::leave;
  Strategy strategy = Strategy::grouped;
  Capacity capacity{};  ///< Read by `padded_bmm` only.
};

class PackedWeights;

/// BF16 and F32: `qdata` holds the values and `scales` is empty.
/// MXFP8 (a later version): value = qdata * 2^(scales - 127), one scale per 32 elements.
struct Operand {
  ConstTensorView qdata{};
  ConstTensorView scales{};
};

/// The data of one execute. Row strides are any multiple of 16 bytes not below the row's width, the
/// last stride is 1, base pointers are 16-byte aligned. d may not overlap a, b or offs.
struct GroupedGemmArgs {
  Operand a;
  Operand b;  ///< Left empty when `packed_b` is given.
  ConstTensorView
      offs;  ///< int32 [E]: end row of every expert; offs[E-1] <= M (equality is legal).
  TensorView d;
  const PackedWeights* packed_b = nullptr;  ///< Weights packed by `pack_weights`, in place of b.
};

/// What a caller may ask of the plan beyond the problem itself.
struct PlanOptions {
  std::optional<std::string> implementation;  ///< Exactly this one, or an error.
  int num_sms = 0;               ///< SMs (threads on a CPU) the product may use; 0 = all.
  bool deterministic = true;     ///< The same inputs give the same bits on every run.
  bool batch_invariant = false;  ///< A row's bits depend on that row and its weights alone.
};

/// One implementation and whether it takes the problem here; the reason when it does not. Where the
/// reason is a better choice, naming it in PlanOptions has it all the same; the reason says so.
struct Candidate {
  std::string implementation;
  Support support;
};

namespace detail {
class GroupedGemmImpl;
class PackedWeightsImpl;
}  // namespace detail

/// A copy of the weights in the layout that one implementation reads fastest. Made by an explicit
/// call, immutable, shared cheaply; it does not follow later changes of the weights it was made
/// from.
class PackedWeights {
 public:
  PackedWeights() = default;
  explicit PackedWeights(std::shared_ptr<const detail::PackedWeightsImpl> impl);
  [[nodiscard]] std::string_view implementation() const noexcept;  ///< Empty for an empty object.
  [[nodiscard]] std::int64_t size_bytes() const noexcept;
  [[nodiscard]] const detail::PackedWeightsImpl* impl() const noexcept { return impl_.get(); }

 private:
  std::shared_ptr<const detail::PackedWeightsImpl> impl_;
};

/// A planned grouped product: immutable, cheap to copy, safe to share between threads.
///
/// Rows at or past offs[E-1] and rows of other experts never reach a result. Segments with a wrong
/// offset count as empty and leave a DeviceFault in the workspace. Empty experts write nothing in
/// forward and dgrad; in wgrad their dw is zeroed, or left when accumulating. f32 accumulation and
/// one rounding: |d - exact| <= 64 * 2^-24 * sum|a||b| + half an ulp of d. A CPU's native BF16
/// instructions may flush products below 2^-126 to zero: there the bound has terms * 2^-126 more.
/// On Hopper a sum of more than about 1,024 terms of one sign may miss it
/// (docs/adr/0018-hopper-sums-truncate.md).
class GroupedGemm {
 public:
  /// Validates, chooses the first implementation that can run, sizes the workspace.
  /// @throws Error{invalid_argument} on a malformed problem, naming the field, what was expected
  /// and what came; Error{unsupported} when no implementation takes it, with every reason.
  static GroupedGemm plan(const GroupedGemmProblem& problem, const DeviceInfo& device,
                          const PlanOptions& options = {});

  /// Every implementation for this kind of device, best first, each with its reason. Never throws
  /// for a problem that cannot run.
  static std::vector<Candidate> candidates(const GroupedGemmProblem& problem,
                                           const DeviceInfo& device,
                                           const PlanOptions& options = {});

  [[nodiscard]] const GroupedGemmProblem& problem() const noexcept;
  [[nodiscard]] std::string_view implementation() const noexcept;  ///< "cpu/onednn/grouped".
  [[nodiscard]] std::size_t workspace_bytes() const noexcept;
  /// How this implementation computes an expert of `rows` rows, where that depends on their number:
  /// the sizes of its tiles, "2x128x256" (of two CTAs), "128x256", "64x128" or two
  /// joined by "+". Empty where it does not, and for no rows.
  [[nodiscard]] std::string_view regime(std::int64_t rows) const noexcept;

  /// Copies `w` (forward and dgrad; [E, N, K] or [E, K, N] as the problem says) into this
  /// implementation's own layout. Allocates what PackedWeights::size_bytes() tells.
  /// @throws Error{unsupported} when this implementation has no such layout.
  [[nodiscard]] PackedWeights pack_weights(const Operand& w, Stream stream) const;

  /// Runs the product on `stream`. Everything is checked before anything is written.
  /// @throws Error{invalid_argument} naming the argument (a, b, offs, d, packed_b, stream), what
  /// was expected and what came; Error{workspace_too_small}.
  void execute(const GroupedGemmArgs& args, Workspace workspace, Stream stream) const;

 private:
  explicit GroupedGemm(std::shared_ptr<const detail::GroupedGemmImpl> impl);
  std::shared_ptr<const detail::GroupedGemmImpl> impl_;
};

}  // namespace moesaic
