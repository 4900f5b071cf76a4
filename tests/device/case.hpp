// SPDX-License-Identifier: Apache-2.0
// One product on the device with everything around it that a wrong kernel would spoil: operands of
// small integers, NaN in the rows that are nobody's, an output that is poisoned and guarded, and
// what a plain kernel makes of the same operands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/kernels.hpp"
#include "device/on_device.hpp"
#include "math/tile_counters.hpp"
#include "moesaic/grouped_gemm.hpp"

namespace moesaic::device_tests {

struct Case {
  std::vector<std::int32_t> offs;
  std::int64_t rows = 0;
  std::int64_t n = 0, k = 0;
  Pass pass = Pass::forward;
  WeightStorage weights = WeightStorage::enk;
  DType d_dtype = DType::bf16;
  bool accumulate = false;
  Tail tail = Tail::leave;
  Strategy strategy = Strategy::grouped;
  int num_sms = 0;
  std::int64_t line_gap = 0;      ///< Elements between the lines of every operand; poisoned in d.
  std::optional<int> nan_expert;  ///< Its rows of a and b are NaN, its results are not compared.
};

/// What GTest prints on a failure.
std::string describe(const Case& c);

/// End offsets of these row counts.
std::vector<std::int32_t> ends(const std::vector<std::int32_t>& counts);

/// Small integers with a known result, or random values and nothing known.
enum class Operands : std::uint8_t { exact, random };

class CaseOnDevice {
 public:
  explicit CaseOnDevice(Case c, Operands operands = Operands::exact);

  [[nodiscard]] const GroupedGemmProblem& problem() const { return problem_; }
  [[nodiscard]] const Case& description() const { return case_; }
  /// The compiled kernels that take the problem, by name; for another strategy its only one.
  [[nodiscard]] std::vector<std::string> implementations() const;
  /// Empty: what moesaic chooses.
  [[nodiscard]] GroupedGemm plan(const std::string& implementation = "") const;
  [[nodiscard]] GroupedGemmArgs args() const;

  /// Fills the operands anew for these offsets, with other values per `seed`, and computes what is
  /// wanted. As many experts as before; addresses stay.
  void prepare(const std::vector<std::int32_t>& offs, std::uint64_t seed, cudaStream_t stream);
  /// The wanted bits from the operands and offsets that lie on the device now.
  void compute_wanted(cudaStream_t stream);
  /// Random operands whose sums are rounded; the wanted bits are then what `plan` computes first.
  void prepare_random(const GroupedGemm& plan, cudaStream_t stream);

  void poison(cudaStream_t stream);
  void execute(const GroupedGemm& plan, cudaStream_t stream);
  /// Adds the comparison of the whole guarded output with what is wanted to the queue.
  void compare(cudaStream_t stream);
  /// Waits; what the comparisons since the last call found, "" for nothing.
  std::string differences(cudaStream_t stream);
  /// Waits; the fault record, which is cleared.
  DeviceFault fault(cudaStream_t stream);

  [[nodiscard]] std::int32_t* offs() const { return offs_.as<std::int32_t>(); }
  [[nodiscard]] void* a() const { return a_.bytes(); }
  [[nodiscard]] void* b() const { return b_.bytes(); }
  [[nodiscard]] void* d() const;
  /// Uses this memory, zeroed and long enough, in place of a workspace of its own.
  void share_workspace(const Workspace& workspace) { workspace_ = workspace; }
  Workspace workspace(std::size_t bytes);
  /// What the last launch left in it.
  math::TileCounters counters(cudaStream_t stream) const;

 private:
  [[nodiscard]] bool is_wgrad() const { return case_.pass == Pass::wgrad; }
  [[nodiscard]] bool is_enk() const { return case_.weights == WeightStorage::enk; }
  void fill_operands(std::uint64_t seed, cudaStream_t stream);
  void upload_offsets(cudaStream_t stream);
  void fill_random(cudaStream_t stream);
  /// What d holds before the product: something to add to, or what must be overwritten.
  void fill_old(std::byte* d, cudaStream_t stream);
  void fill_rows(std::int64_t begin, std::int64_t end, float value, cudaStream_t stream);
  void forget_rows(std::int64_t begin, std::int64_t end, cudaStream_t stream);
  void forget_unknown(cudaStream_t stream);

  Case case_;
  GroupedGemmProblem problem_;
  std::int64_t a_width_, b_lines_, b_width_, d_lines_, d_width_;  // b_lines, d_lines: of everything
  std::int64_t a_stride_, b_stride_, d_stride_, d_bytes_;
  DeviceMemory a_, b_, offs_, got_, want_, differences_, own_workspace_;
  Workspace workspace_{};
};

/// Runs every implementation of the case and holds each to the wanted bits; no fault may be
/// recorded.
void expect_exact(const Case& c);

}  // namespace moesaic::device_tests
