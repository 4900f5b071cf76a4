// SPDX-License-Identifier: Apache-2.0
// From (expert, rows) to compiled products with their addresses; and running a list of them. What
// the three strategies share.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "backends/host_rows.hpp"
#include "backends/onednn/matmul.hpp"
#include "core/grouped_gemm_impl.hpp"
#include "moesaic/grouped_gemm.hpp"

namespace moesaic::backends::onednn {

/// Weights of every expert in one oneDNN layout.
class PackedExperts final : public detail::PackedWeightsImpl {
 public:
  PackedExperts(const GroupedGemmProblem& problem, const MatmulSpec& spec, const Operand& w,
                int threads);
  [[nodiscard]] std::string_view implementation() const noexcept override { return "cpu/onednn"; }
  [[nodiscard]] std::int64_t size_bytes() const noexcept override {
    return stride_bytes_ * num_experts_;
  }
  [[nodiscard]] const std::byte* expert(std::int64_t index) const {
    return first_ + index * stride_bytes_;
  }
  [[nodiscard]] std::int64_t packed_for_m() const noexcept { return packed_for_m_; }
  void check_fits(std::string_view argument, std::string_view implementation,
                  const GroupedGemmProblem& problem) const override;

 private:
  std::int64_t num_experts_, n_, k_, stride_bytes_, packed_for_m_;
  Pass pass_;
  Format format_;
  std::vector<std::byte> storage_bytes_;
  std::byte* first_ = nullptr;
};

/// One compiled product and where its operands are.
struct Product {
  std::shared_ptr<const Matmul> matmul;
  const void* a;
  const void* b;
  void* d;
  std::int64_t work;  ///< Multiply-adds, to start the longest first.
};

/// Builds products for one execute.
class ExactRows {
 public:
  ExactRows(const GroupedGemmProblem& problem, const GroupedGemmArgs& args, MatmulCache& cache);

  /// forward, dgrad: rows [begin, end) of `expert`.
  [[nodiscard]] Product rows(std::int64_t expert, std::int64_t begin, std::int64_t end,
                             int threads) const;
  /// wgrad: rows [first, last) of dw[expert], contracted over the segment.
  [[nodiscard]] Product weight_rows(std::int64_t expert, math::RowRange segment, std::int64_t first,
                                    std::int64_t last, int threads) const;
  /// Rows of one dw[e]: N, or K when stored [E, K, N].
  [[nodiscard]] std::int64_t weight_rows_count() const { return args_.d.shape[1]; }
  [[nodiscard]] const GroupedGemmArgs& args() const { return args_; }

 private:
  const GroupedGemmProblem& problem_;
  const GroupedGemmArgs& args_;
  MatmulCache& cache_;
  const PackedExperts* packed_ = nullptr;
};

/// The product of `m` rows of forward or dgrad, strided b.
MatmulSpec row_spec(const GroupedGemmProblem& problem, const ConstTensorView& a,
                    const ConstTensorView& b, const TensorView& d, std::int64_t m);

/// Side by side on `threads` threads, longest first; each product runs on one thread.
void run_side_by_side(std::vector<Product> products, int threads);
/// One after the other, in the given order.
void run_in_turn(const std::vector<Product>& products);

/// What the contract wants of rows and experts that no product writes: empty dw zeroed, tail
/// zeroed.
void write_absent(const GroupedGemmProblem& problem, const GroupedGemmArgs& args,
                  const HostSegments& segments);

}  // namespace moesaic::backends::onednn
