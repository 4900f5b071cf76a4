// SPDX-License-Identifier: Apache-2.0
// See exact_rows.hpp.

#include "backends/onednn/exact_rows.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "core/message.hpp"
#include "core/parallel.hpp"
#include "core/sizes.hpp"
#include "core/validate.hpp"
#include "math/integer.hpp"

namespace moesaic::backends::onednn {
namespace {

constexpr std::int64_t kScratchAlignment = 64;

/// 64-byte aligned scratch that grows to the largest product it served.
class Scratch {
 public:
  std::byte* at_least(std::size_t size_bytes) {
    if (storage_.size() < size_bytes + kScratchAlignment) {
      storage_.resize(size_bytes + kScratchAlignment);
    }
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    const auto aligned =
        math::round_up<std::int64_t>(static_cast<std::int64_t>(address), kScratchAlignment);
    return storage_.data() + (aligned - static_cast<std::int64_t>(address));
  }

 private:
  std::vector<std::byte> storage_;
};

void run_one(const Product& product, Scratch& scratch) {
  product.matmul->run(product.a, product.b, product.d,
                      scratch.at_least(product.matmul->scratch_bytes()));
}

/// Multiply-adds, to compare products by.
std::int64_t work_of(const MatmulSpec& spec) {
  return math::saturating_mul(math::saturating_mul(spec.m, spec.n), spec.k);
}

/// b of forward and dgrad is [contracted, width]; it is stored transposed when the contraction is
/// the contiguous axis.
bool contraction_is_contiguous(const GroupedGemmProblem& problem) {
  return (problem.pass == Pass::forward) == (problem.weights == WeightStorage::enk);
}

}  // namespace

MatmulSpec row_spec(const GroupedGemmProblem& problem, const ConstTensorView& a,
                    const ConstTensorView& b, const TensorView& d, std::int64_t m) {
  MatmulSpec spec;
  spec.m = m;
  spec.n = d.shape[1];
  spec.k = a.shape[1];
  spec.ab_dtype = a.dtype;
  spec.d_dtype = d.dtype;
  // One row has no row stride; a dense one keeps oneDNN on its fast path.
  spec.a_row_stride = m > 1 ? a.stride[0] : spec.k;
  spec.d_row_stride = m > 1 ? d.stride[0] : spec.n;
  const bool transposed = contraction_is_contiguous(problem);
  spec.b_row_stride = transposed ? 1 : b.stride[1];
  spec.b_column_stride = transposed ? b.stride[1] : 1;
  return spec;
}

PackedExperts::PackedExperts(const GroupedGemmProblem& problem, const MatmulSpec& spec,
                             const Operand& w, int threads)
    : num_experts_(problem.num_experts),
      n_(problem.n),
      k_(problem.k),
      stride_bytes_(math::round_up<std::int64_t>(static_cast<std::int64_t>(packed_bytes(spec)),
                                                 kScratchAlignment)),
      packed_for_m_(spec.packed_for_m),
      pass_(problem.pass),
      format_(problem.format),
      storage_bytes_(static_cast<std::size_t>(
          core::checked_bytes("w", {num_experts_, stride_bytes_}) + kScratchAlignment)) {
  const auto address =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(storage_bytes_.data()));
  first_ =
      storage_bytes_.data() + (math::round_up<std::int64_t>(address, kScratchAlignment) - address);
  core::parallel_for(num_experts_, threads, [&](std::int64_t index) {
    pack(spec, at(w.qdata, index * w.qdata.stride[0]), first_ + index * stride_bytes_);
  });
}

void PackedExperts::check_fits(std::string_view argument, std::string_view implementation,
                               const GroupedGemmProblem& problem) const {
  if (implementation != "cpu/onednn/grouped" && implementation != "cpu/onednn/host_loop") {
    core::refuse(
        argument,
        "the weights themselves, since " + std::string(implementation) + " reads no packed layout",
        "weights packed by cpu/onednn");
  }
  const auto text = [](std::int64_t experts, std::int64_t n, std::int64_t k, Pass pass,
                       Format format) {
    return std::string(name(format)) + " weights of " + std::to_string(experts) + " experts, n " +
           std::to_string(n) + ", k " + std::to_string(k) + ", packed for " +
           std::string(name(pass));
  };
  if (num_experts_ != problem.num_experts || n_ != problem.n || k_ != problem.k ||
      pass_ != problem.pass || format_ != problem.format) {
    core::refuse(argument,
                 text(problem.num_experts, problem.n, problem.k, problem.pass, problem.format),
                 text(num_experts_, n_, k_, pass_, format_));
  }
}

ExactRows::ExactRows(const GroupedGemmProblem& problem, const GroupedGemmArgs& args,
                     MatmulCache& cache)
    : problem_(problem), args_(args), cache_(cache) {
  if (args.packed_b != nullptr) {
    // Checked by PackedExperts::check_fits before anything ran.
    packed_ = static_cast<const PackedExperts*>(args.packed_b->impl());
  }
}

Product ExactRows::rows(std::int64_t expert, std::int64_t begin, std::int64_t end,
                        int threads) const {
  const ConstTensorView& a = args_.a.qdata;
  MatmulSpec spec = row_spec(problem_, a, args_.b.qdata, args_.d, end - begin);
  spec.threads = threads;
  const void* b = nullptr;
  if (packed_ != nullptr) {
    spec.packed_for_m = packed_->packed_for_m();
    spec.b_row_stride = spec.n;  // not read; one fixed value makes one key
    spec.b_column_stride = 1;
    b = packed_->expert(expert);
  } else {
    b = at(args_.b.qdata, expert * args_.b.qdata.stride[0]);
  }
  return {cache_.get(spec), at(a, begin * a.stride[0]), b, at(args_.d, begin * args_.d.stride[0]),
          work_of(spec)};
}

Product ExactRows::weight_rows(std::int64_t expert, math::RowRange segment, std::int64_t first,
                               std::int64_t last, int threads) const {
  const bool enk = problem_.weights == WeightStorage::enk;
  const ConstTensorView& left = enk ? args_.a.qdata : args_.b.qdata;  // its columns are dw's rows
  const ConstTensorView& right =
      enk ? args_.b.qdata : args_.a.qdata;  // its columns are dw's columns
  const TensorView d = expert_matrix(args_.d, expert);
  MatmulSpec spec;
  spec.m = last - first;
  spec.n = d.shape[1];
  spec.k = segment.rows();
  spec.ab_dtype = left.dtype;
  spec.d_dtype = d.dtype;
  spec.a_row_stride = 1;
  spec.a_column_stride = left.stride[0];
  spec.b_row_stride = right.stride[0];
  spec.d_row_stride = d.stride[0];
  spec.accumulate = problem_.accumulate;
  spec.threads = threads;
  return {cache_.get(spec), at(left, segment.begin * left.stride[0] + first),
          at(right, segment.begin * right.stride[0]), at(d, first * d.stride[0]), work_of(spec)};
}

void run_in_turn(const std::vector<Product>& products) {
  Scratch scratch;
  for (const Product& product : products) {
    run_one(product, scratch);
  }
}

void run_side_by_side(std::vector<Product> products, int threads) {
  std::stable_sort(products.begin(), products.end(),
                   [](const Product& a, const Product& b) { return a.work > b.work; });
  core::parallel_for_with<Scratch>(static_cast<std::int64_t>(products.size()), threads,
                                   [&](Scratch& scratch, std::int64_t index) {
                                     run_one(products[static_cast<std::size_t>(index)], scratch);
                                   });
}

void write_absent(const GroupedGemmProblem& problem, const GroupedGemmArgs& args,
                  const HostSegments& segments) {
  if (problem.pass != Pass::wgrad) {
    if (problem.tail == Tail::zero) {
      zero_rows(args.d, segments.tail_begin, problem.max_rows);
    }
    return;
  }
  if (problem.accumulate) {
    return;
  }
  for (std::size_t expert = 0; expert < segments.experts.size(); ++expert) {
    if (segments.experts[expert].empty()) {
      const TensorView d = expert_matrix(args.d, static_cast<std::int64_t>(expert));
      zero_rows(d, 0, d.shape[0]);
    }
  }
}

}  // namespace moesaic::backends::onednn
