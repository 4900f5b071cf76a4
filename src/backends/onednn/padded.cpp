// SPDX-License-Identifier: Apache-2.0
// Strategy `padded_bmm` on oneDNN: copy every expert's rows into C reserved rows, multiply all
// experts as one batch, copy back. Rows beyond C are counted and computed exactly, one product per
// overfull expert.

#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/onednn/exact_rows.hpp"
#include "backends/onednn/grouped.hpp"
#include "core/sizes.hpp"
#include "moesaic/capacity.hpp"

namespace moesaic::backends::onednn {
namespace {

/// A dense [E, C, columns] block inside the workspace.
struct PaddedBlock {
  std::byte* data = nullptr;
  std::int64_t columns = 0;
  std::int64_t element_bytes = 0;

  [[nodiscard]] std::int64_t row_bytes() const { return columns * element_bytes; }
};

class Padded final : public detail::GroupedGemmImpl {
 public:
  Padded(std::string_view name, const PlanRequest& request)
      : GroupedGemmImpl(request.problem, request.device),
        name_(name),
        capacity_(capacity_rows(request.problem.capacity, request.problem.max_rows,
                                request.problem.num_experts)),
        first_bytes_(block_bytes(first_columns(), operand_bytes())),
        workspace_bytes_(core::checked_total_bytes(
            "capacity", {core::kWorkspaceHeaderBytes, first_bytes_,
                         block_bytes(second_columns(), second_element_bytes())})) {}

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::size_t workspace_bytes() const noexcept override {
    return static_cast<std::size_t>(workspace_bytes_);
  }

  void execute(const GroupedGemmArgs& args, const Workspace& workspace,
               const Stream& /*stream*/) const override {
    const HostSegments segments(args.offs, problem().max_rows);
    const ExactRows exact(problem(), args, cache_);
    std::byte* base = workspace.bytes.data() + core::kWorkspaceHeaderBytes;
    const PaddedBlock first{base, first_columns(), operand_bytes()};
    const PaddedBlock second{base + first_bytes_, second_columns(), second_element_bytes()};
    std::vector<Product> overflow;
    if (problem().pass == Pass::wgrad) {
      pad(args.a.qdata, segments, first);
      pad(args.b.qdata, segments, second);
      multiply_weights(args, segments, first, second);
    } else {
      pad(args.a.qdata, segments, first);
      multiply_rows(args, first, second);
      unpad(second, segments, args.d);
    }
    record_fault(workspace, segments.fault_word);
    record_overflow(workspace, add_overflow(exact, segments, overflow));
    run_in_turn(overflow);
    write_absent(problem(), args, segments);
  }

 private:
  [[nodiscard]] std::int64_t operand_bytes() const {
    return problem().format == Format::f32 ? 4 : 2;
  }
  [[nodiscard]] std::int64_t first_columns() const {
    return problem().pass == Pass::forward ? problem().k : problem().n;
  }
  [[nodiscard]] std::int64_t second_columns() const {
    return problem().pass == Pass::forward ? problem().n : problem().k;
  }
  [[nodiscard]] std::int64_t second_element_bytes() const {
    return problem().pass == Pass::wgrad ? operand_bytes() : size_bytes(problem().d_dtype);
  }
  [[nodiscard]] std::int64_t block_bytes(std::int64_t columns, std::int64_t element_bytes) const {
    return core::checked_bytes("capacity",
                               {problem().num_experts, capacity_, columns, element_bytes});
  }
  /// wgrad recomputes an overfull expert whole, so that its dw is still rounded once.
  [[nodiscard]] std::int64_t padded_rows_of(math::RowRange segment) const {
    const bool overfull = segment.rows() > capacity_;
    return problem().pass == Pass::wgrad && overfull ? 0 : std::min(segment.rows(), capacity_);
  }

  void pad(const ConstTensorView& matrix, const HostSegments& segments,
           const PaddedBlock& block) const {
    const auto row_bytes = static_cast<std::size_t>(block.row_bytes());
#pragma omp parallel for num_threads(device().num_sms) schedule(static)
    for (std::int64_t slot = 0; slot < problem().num_experts * capacity_; ++slot) {
      const math::RowRange segment = segments.experts[static_cast<std::size_t>(slot / capacity_)];
      const std::int64_t row = slot % capacity_;
      std::byte* to = block.data + slot * block.row_bytes();
      if (row < padded_rows_of(segment)) {
        std::memcpy(to, at(matrix, (segment.begin + row) * matrix.stride[0]), row_bytes);
      } else {
        std::memset(to, 0, row_bytes);
      }
    }
  }

  void unpad(const PaddedBlock& block, const HostSegments& segments,
             const TensorView& matrix) const {
    const auto row_bytes = static_cast<std::size_t>(block.row_bytes());
    const auto experts = static_cast<std::int64_t>(segments.experts.size());
    for (std::int64_t expert = 0; expert < experts;
         ++expert) {  // in order: see overlap in grouped.cpp
      const math::RowRange segment = segments.experts[static_cast<std::size_t>(expert)];
#pragma omp parallel for num_threads(device().num_sms) schedule(static)
      for (std::int64_t row = 0; row < padded_rows_of(segment); ++row) {
        std::memcpy(at(matrix, (segment.begin + row) * matrix.stride[0]),
                    block.data + (expert * capacity_ + row) * block.row_bytes(), row_bytes);
      }
    }
  }

  void run_batch(MatmulSpec spec, std::int64_t experts, const void* a, const void* b,
                 void* d) const {
    spec.threads = device().num_sms;
    spec.batch = experts;
    run_in_turn({Product{cache_.get(spec), a, b, d, 0}});
  }

  void multiply_rows(const GroupedGemmArgs& args, const PaddedBlock& a,
                     const PaddedBlock& d) const {
    if (capacity_ == 0) {
      return;
    }
    MatmulSpec spec = row_spec(problem(), args.a.qdata, args.b.qdata, args.d, capacity_);
    spec.a_row_stride = a.columns;
    spec.d_row_stride = d.columns;
    spec.a_batch_stride = capacity_ * a.columns;
    spec.b_batch_stride = args.b.qdata.stride[0];
    spec.d_batch_stride = capacity_ * d.columns;
    run_batch(spec, problem().num_experts, a.data, args.b.qdata.data, d.data);
  }

  void multiply_weights(const GroupedGemmArgs& args, const HostSegments& segments,
                        const PaddedBlock& dy, const PaddedBlock& x) const {
    if (capacity_ == 0) {
      return;
    }
    const bool enk = problem().weights == WeightStorage::enk;
    const PaddedBlock& left = enk ? dy : x;
    const PaddedBlock& right = enk ? x : dy;
    MatmulSpec spec;
    spec.m = left.columns;
    spec.n = right.columns;
    spec.k = capacity_;
    spec.ab_dtype = args.a.qdata.dtype;
    spec.d_dtype = args.d.dtype;
    spec.a_row_stride = 1;
    spec.a_column_stride = left.columns;
    spec.b_row_stride = right.columns;
    spec.d_row_stride = args.d.stride[1];
    spec.accumulate = problem().accumulate;
    spec.a_batch_stride = capacity_ * left.columns;
    spec.b_batch_stride = capacity_ * right.columns;
    spec.d_batch_stride = args.d.stride[0];
    if (!problem().accumulate) {
      run_batch(spec, problem().num_experts, left.data, right.data, args.d.data);
      return;
    }
    // One batch per run of experts with rows: adding an empty one's zeros would turn -0 into +0.
    const auto has_rows = [&](std::int64_t expert) {
      return padded_rows_of(segments.experts[static_cast<std::size_t>(expert)]) > 0;
    };
    for (std::int64_t first = 0; first < problem().num_experts; ++first) {
      const std::int64_t begin = first;
      while (first < problem().num_experts && has_rows(first)) {
        ++first;
      }
      if (first > begin) {
        run_batch(spec, first - begin, left.data + begin * capacity_ * left.row_bytes(),
                  right.data + begin * capacity_ * right.row_bytes(),
                  at(args.d, begin * args.d.stride[0]));
      }
    }
  }

  /// Queues what did not fit and returns how many rows that were.
  std::int64_t add_overflow(const ExactRows& exact, const HostSegments& segments,
                            std::vector<Product>& products) const {
    std::int64_t overflow_rows = 0;
    for (std::size_t index = 0; index < segments.experts.size(); ++index) {
      const math::RowRange segment = segments.experts[index];
      const auto expert = static_cast<std::int64_t>(index);
      if (segment.rows() <= capacity_) {
        continue;
      }
      overflow_rows += segment.rows() - capacity_;
      products.push_back(
          problem().pass == Pass::wgrad
              ? exact.weight_rows(expert, segment, 0, exact.weight_rows_count(), device().num_sms)
              : exact.rows(expert, segment.begin + capacity_, segment.end, device().num_sms));
    }
    return overflow_rows;
  }

  std::string_view name_;
  std::int64_t capacity_;
  std::int64_t first_bytes_, workspace_bytes_;
  mutable MatmulCache cache_;  // locks itself
};

}  // namespace

std::shared_ptr<const detail::GroupedGemmImpl> make_padded(std::string_view name,
                                                           const PlanRequest& request) {
  return std::make_shared<Padded>(name, request);
}

}  // namespace moesaic::backends::onednn
