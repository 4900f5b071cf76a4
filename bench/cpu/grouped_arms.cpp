// SPDX-License-Identifier: Apache-2.0
// See grouped_arms.hpp.

#include "cpu/grouped_arms.hpp"

#include <span>
#include <string_view>

#include "moesaic/build_info.hpp"
#include "moesaic/device.hpp"

namespace moesaic::bench {
namespace {

constexpr float kActivationScale = 1.0F;
constexpr float kWeightScale = 0.05F;
constexpr std::int64_t kDenseCheckRows = 128;  // as many as 32 experts with 4 sampled rows each
constexpr const char* kReference = "double-precision sums over sampled rows of every expert";

DType operand_dtype(Format format) { return format == Format::f32 ? DType::f32 : DType::bf16; }

std::string implementation_name(Strategy strategy) {
  return "cpu/onednn/" + std::string(name(strategy));
}

/// The planned product with what one execute needs. Shared by an arm's check and run.
struct PlannedProduct {
  GroupedGemm gemm;
  HostWorkspace workspace;
  PackedWeights packed;
  GroupedGemmArgs args;

  explicit PlannedProduct(GroupedGemm planned)
      : gemm(std::move(planned)), workspace(gemm.workspace_bytes()) {}
  void run() const { gemm.execute(args, workspace.get(), Stream::cpu()); }
};

}  // namespace

int cpu_threads() { return query_device(Device{}).num_sms; }

Json problem_json(const GroupedGemmProblem& problem, bool packed, int threads) {
  return {{"pass", name(problem.pass)},
          {"format", name(problem.format)},
          {"d_dtype", name(problem.d_dtype)},
          {"num_experts", problem.num_experts},
          {"max_rows", problem.max_rows},
          {"n", problem.n},
          {"k", problem.k},
          {"weights", packed ? "packed" : std::string(name(problem.weights))},
          {"strategy", name(problem.strategy)},
          {"threads", threads}};
}

GroupedOperands::GroupedOperands(const ProductCase& product, const Routing& routing)
    : product_(product),
      experts_(static_cast<std::int64_t>(routing.counts.size())),
      rows_(0),
      offs_(end_offsets(routing.counts)) {
  rows_ = offs_.back();
  const DType dtype = operand_dtype(product.format);
  const bool forward = product.pass == Pass::forward;
  a_ = HostTensor(dtype, {rows_, forward ? product.k : product.n});
  a_.fill(1, kActivationScale);
  if (product.pass == Pass::wgrad) {
    b_ = HostTensor(dtype, {rows_, product.k});
    b_.fill(2, kActivationScale);
    d_ = HostTensor(dtype, {experts_, product.n, product.k});
  } else {
    b_ = HostTensor(dtype, {experts_, product.n, product.k});
    b_.fill(2, kWeightScale);
    d_ = HostTensor(dtype, {rows_, forward ? product.n : product.k});
  }
}

std::shared_ptr<GroupedOperands> GroupedOperands::make(const ProductCase& product,
                                                       const Routing& routing) {
  return std::shared_ptr<GroupedOperands>(new GroupedOperands(product, routing));
}

GroupedGemmProblem GroupedOperands::problem() const {
  GroupedGemmProblem problem;
  problem.pass = product_.pass;
  problem.format = product_.format;
  problem.d_dtype = operand_dtype(product_.format);
  problem.num_experts = static_cast<int>(experts_);
  problem.max_rows = rows_;
  problem.n = product_.n;
  problem.k = product_.k;
  return problem;
}

double GroupedOperands::flops() const {
  return 2.0 * static_cast<double>(rows_) * static_cast<double>(product_.n) *
         static_cast<double>(product_.k);
}

Arm GroupedOperands::grouped(const GroupedArm& what) {
  GroupedGemmProblem wanted = problem();
  wanted.strategy = what.strategy;
  PlanOptions options;
  options.implementation = implementation_name(what.strategy);
  options.num_sms = what.threads;
  auto planned =
      std::make_shared<PlannedProduct>(GroupedGemm::plan(wanted, query_device(Device{}), options));
  GroupedGemmArgs plain;
  plain.a.qdata = a_.view();
  plain.b.qdata = b_.view();
  plain.offs = view(std::span<const std::int32_t>(offs_), {experts_});
  plain.d = d_.view();
  planned->args = plain;
  if (what.packed) {
    planned->packed = planned->gemm.pack_weights(plain.b, Stream::cpu());
    planned->args.b = {};
    planned->args.packed_b = &planned->packed;
  }

  Arm arm;
  arm.name = what.name;
  arm.implementation = planned->gemm.implementation();
  arm.problem = problem_json(wanted, what.packed, what.threads > 0 ? what.threads : cpu_threads());
  arm.ratio_to = what.ratio_to;
  arm.useful_flops = arm.executed_flops = flops();
  arm.check_reference = kReference;
  arm.run = [planned] { planned->run(); };
  // The check reads the plain weights even where the product read the packed copy.
  arm.check = [self = shared_from_this(), planned, plain] {
    self->d_.poison();
    planned->run();
    return check_grouped_gemm(planned->gemm.problem(), plain);
  };
  return arm;
}

Arm GroupedOperands::dense(const DenseArm& what) {
  const bool forward = product_.pass == Pass::forward;
  ConstTensorView first =
      b_.view();  // [n, k] of expert 0; forward contracts k, so it is transposed
  first.rank = 2;
  first.shape = forward ? std::array{product_.k, product_.n, std::int64_t{0}}
                        : std::array{product_.n, product_.k, std::int64_t{0}};
  first.stride = forward ? std::array{std::int64_t{1}, product_.k, std::int64_t{0}}
                         : std::array{product_.k, std::int64_t{1}, std::int64_t{0}};
  auto product =
      std::make_shared<DenseProduct>(a_.view(), first, d_.view(), what.weights, cpu_threads());

  Arm arm;
  arm.name = what.name;
  arm.implementation = "baseline/onednn/matmul";
  arm.problem = {{"pass", name(product_.pass)},
                 {"format", name(product_.format)},
                 {"d_dtype", name(operand_dtype(product_.format))},
                 {"m", rows_},
                 {"n", d_.view().shape[1]},
                 {"k", a_.view().shape[1]},
                 {"weights", what.weights == DenseWeights::packed ? "packed" : "enk"},
                 {"strategy", "dense"},
                 {"threads", cpu_threads()}};
  arm.ratio_to = what.ratio_to;
  arm.useful_flops = arm.executed_flops = flops();
  arm.check_reference = "double-precision sums over 128 sampled rows";
  arm.run = [self = shared_from_this(), product] { product->run(); };
  arm.check = [self = shared_from_this(), product] {
    // As one expert that owns all rows: the same rows, the same bound.
    GroupedGemmProblem one = self->problem();
    one.num_experts = 1;
    const std::vector<std::int32_t> offs = {static_cast<std::int32_t>(self->rows_)};
    GroupedGemmArgs args;
    args.a.qdata = self->a_.view();
    args.b.qdata = self->b_.view();
    args.b.qdata.shape[0] = 1;
    args.offs = view(std::span<const std::int32_t>(offs), {1});
    args.d = self->d_.view();
    self->d_.poison();
    product->run();
    CheckOptions options;
    options.rows_per_expert = kDenseCheckRows;
    return check_grouped_gemm(one, args, options);
  };
  return arm;
}

}  // namespace moesaic::bench
