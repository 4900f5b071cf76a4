// SPDX-License-Identifier: Apache-2.0
// See case.hpp.

#include "device/case.hpp"

#include <algorithm>
#include <limits>
#include <sstream>

#include "backends/cuda/launch/sm90_gemm.hpp"
#include "math/expert_segment.hpp"

namespace moesaic::device_tests {
namespace {

constexpr std::int64_t kGuard = 4096;  // elements before and after d
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

ConstTensorView matrix(const void* data, std::int64_t lines, std::int64_t width,
                       std::int64_t stride) {
  return {data, DType::bf16, kDevice, 2, {lines, width, 0}, {stride, 1, 0}};
}
ConstTensorView batch(const void* data, std::int64_t experts, std::int64_t lines,
                      std::int64_t width, std::int64_t stride) {
  return {data, DType::bf16, kDevice, 3, {experts, lines, width}, {lines * stride, stride, 1}};
}

DeviceHere find_device() {
  try {
    DeviceHere here{query_device(kDevice), ""};
    if (here.info.compute_capability != 90) {
      here.why_none = "the kernels are compiled for compute capability 9.0, " + here.info.name +
                      " has " + std::to_string(here.info.compute_capability);
    }
    return here;
  } catch (const Error& error) {
    return {{}, error.what()};
  }
}

}  // namespace

const DeviceHere& device_here() {
  static const DeviceHere here = find_device();
  return here;
}

std::string describe(const Case& c) {
  std::ostringstream text;
  text << name(c.pass) << ' ' << name(c.weights) << ' ' << name(c.d_dtype) << " rows " << c.rows
       << " n " << c.n << " k " << c.k << (c.accumulate ? " accumulate" : "") << " tail "
       << name(c.tail) << ' ' << name(c.strategy) << " sms " << c.num_sms << " gap " << c.line_gap
       << " offs";
  for (std::size_t e = 0; e < std::min<std::size_t>(c.offs.size(), 16); ++e) {
    text << ' ' << c.offs[e];
  }
  if (c.offs.size() > 16) text << " ... (" << c.offs.size() << ')';
  return text.str();
}

std::vector<std::int32_t> ends(const std::vector<std::int32_t>& counts) {
  std::vector<std::int32_t> offs;
  std::int32_t end = 0;
  for (const std::int32_t count : counts) offs.push_back(end += count);
  return offs;
}

CaseOnDevice::CaseOnDevice(Case c, Operands operands) : case_(std::move(c)) {
  const auto experts = static_cast<std::int64_t>(case_.offs.size());
  problem_.pass = case_.pass;
  problem_.d_dtype = case_.d_dtype;
  problem_.num_experts = static_cast<int>(experts);
  problem_.max_rows = case_.rows;
  problem_.n = case_.n;
  problem_.k = case_.k;
  problem_.accumulate = case_.accumulate;
  problem_.weights = case_.weights;
  problem_.tail = case_.tail;
  problem_.strategy = case_.strategy;
  const bool forward = case_.pass == Pass::forward;
  const std::int64_t weight_lines = experts * (is_enk() ? case_.n : case_.k);
  const std::int64_t weight_width = is_enk() ? case_.k : case_.n;
  a_width_ = forward ? case_.k : case_.n;
  b_lines_ = is_wgrad() ? case_.rows : weight_lines;
  b_width_ = is_wgrad() ? case_.k : weight_width;
  d_lines_ = is_wgrad() ? weight_lines : case_.rows;
  d_width_ = is_wgrad() ? weight_width : (forward ? case_.n : case_.k);
  a_stride_ = a_width_ + case_.line_gap;
  b_stride_ = b_width_ + case_.line_gap;
  d_stride_ = d_width_ + case_.line_gap;
  const std::int64_t element_bytes = case_.d_dtype == DType::f32 ? 4 : 2;
  d_bytes_ = (d_lines_ * d_stride_ + 2 * kGuard) * element_bytes;
  a_ = DeviceMemory(case_.rows * a_stride_ * 2);
  b_ = DeviceMemory(b_lines_ * b_stride_ * 2);
  offs_ = DeviceMemory(experts * 4);
  got_ = DeviceMemory(d_bytes_);
  want_ = DeviceMemory(d_bytes_);
  differences_ = DeviceMemory(sizeof(Differences));
  const Differences none{0, ~0ULL};
  check(cudaMemcpy(differences_.bytes(), &none, sizeof(none), cudaMemcpyHostToDevice),
        "cudaMemcpy(differences)");
  if (operands == Operands::exact) {
    prepare(case_.offs, 1, nullptr);
  } else {
    upload_offsets(nullptr);
    fill_random(nullptr);
  }
  check(cudaStreamSynchronize(nullptr), "preparing a case");
}

std::vector<std::string> CaseOnDevice::implementations() const {
  if (case_.strategy != Strategy::grouped) return {""};
  std::vector<std::string> names;
  for (const Candidate& candidate : GroupedGemm::candidates(problem_, device_here().info)) {
    if (candidate.implementation.rfind("cuda/sm90/", 0) != 0) continue;
    try {
      names.emplace_back(plan(candidate.implementation).implementation());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
    }
  }
  return names;
}

GroupedGemm CaseOnDevice::plan(const std::string& implementation) const {
  PlanOptions options;
  options.num_sms = case_.num_sms;
  if (!implementation.empty()) options.implementation = implementation;
  return GroupedGemm::plan(problem_, device_here().info, options);
}

void* CaseOnDevice::d() const {
  return got_.bytes() + kGuard * (case_.d_dtype == DType::f32 ? 4 : 2);
}

GroupedGemmArgs CaseOnDevice::args() const {
  const std::int64_t experts = problem_.num_experts;
  GroupedGemmArgs args;
  args.a.qdata = matrix(a(), case_.rows, a_width_, a_stride_);
  args.b.qdata = is_wgrad() ? matrix(b(), b_lines_, b_width_, b_stride_)
                            : batch(b(), experts, b_lines_ / experts, b_width_, b_stride_);
  args.offs = {offs(), DType::i32, kDevice, 1, {experts, 0, 0}, {1, 0, 0}};
  const ConstTensorView out = is_wgrad()
                                  ? batch(d(), experts, d_lines_ / experts, d_width_, d_stride_)
                                  : matrix(d(), d_lines_, d_width_, d_stride_);
  args.d = {d(), case_.d_dtype, kDevice, out.rank, out.shape, out.stride};
  return args;
}

void CaseOnDevice::fill_rows(std::int64_t begin, std::int64_t end, float value,
                             cudaStream_t stream) {
  const auto fill = [&](const DeviceMemory& rows, std::int64_t stride) {
    fill_value(rows.bytes() + begin * stride * 2, DType::bf16, (end - begin) * stride, value,
               stream);
  };
  fill(a_, a_stride_);
  if (is_wgrad()) fill(b_, b_stride_);
}

void CaseOnDevice::fill_operands(std::uint64_t seed, cudaStream_t stream) {
  // Sums must stay within BF16's 256 exact integers.
  const std::uint32_t threshold = a_width_ > 1600 || is_wgrad() ? 0x20000000U : 0x60000000U;
  fill_ternary(a(), case_.rows * a_stride_, 2 * seed, threshold, stream);
  fill_ternary(b(), b_lines_ * b_stride_, 2 * seed + 1, threshold, stream);
  if (case_.line_gap > 0) {
    const auto gaps = [&](void* data, std::int64_t lines, std::int64_t width) {
      const auto gap = static_cast<std::size_t>(case_.line_gap) * 2;
      check(cudaMemset2DAsync(static_cast<std::byte*>(data) + width * 2,
                              static_cast<std::size_t>(width) * 2 + gap, 0xFF, gap,
                              static_cast<std::size_t>(lines), stream),
            "cudaMemset2DAsync");  // 0xFFFF is a NaN
    };
    gaps(a(), case_.rows, a_width_);
    gaps(b(), b_lines_, b_width_);
  }
  std::vector<bool> owned(static_cast<std::size_t>(case_.rows));
  for (std::int32_t e = 0; e < problem_.num_experts; ++e) {
    const math::RowRange segment = math::expert_rows(case_.offs, e, case_.rows);
    if (case_.nan_expert == e) continue;
    std::fill(owned.begin() + segment.begin, owned.begin() + segment.end, true);
  }
  for (std::int64_t row = 0; row < case_.rows;) {
    std::int64_t end = row;
    while (end < case_.rows && !owned[static_cast<std::size_t>(end)]) ++end;
    if (end > row) fill_rows(row, end, kNan, stream);
    row = end + 1;
  }
}

void CaseOnDevice::upload_offsets(cudaStream_t stream) {
  check(cudaMemcpyAsync(offs_.bytes(), case_.offs.data(), case_.offs.size() * 4,
                        cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync(offs)");
}

void CaseOnDevice::fill_random(cudaStream_t stream) {
  fill_normal(a(), case_.rows * a_stride_, 5, 1.0F, stream);
  fill_normal(b(), b_lines_ * b_stride_, 6, 1.0F, stream);
}

void CaseOnDevice::prepare(const std::vector<std::int32_t>& offs, std::uint64_t seed,
                           cudaStream_t stream) {
  case_.offs = offs;
  upload_offsets(stream);
  fill_operands(seed, stream);
  compute_wanted(stream);
}

void CaseOnDevice::compute_wanted(cudaStream_t stream) {
  const std::int64_t element_bytes = case_.d_dtype == DType::f32 ? 4 : 2;
  fill_old(want_.bytes(), stream);
  std::byte* d = want_.bytes() + kGuard * element_bytes;
  plain_product(
      {case_.pass, is_enk(), case_.rows, case_.n, case_.k, problem_.num_experts, a(), b(), offs(),
       d, a_stride_, b_stride_, d_stride_, case_.d_dtype == DType::f32, case_.accumulate},
      stream);
  if (case_.tail == Tail::zero && !is_wgrad()) {
    const std::int64_t tail = math::tail_begin(case_.offs, problem_.num_experts, case_.rows);
    if (tail < case_.rows) {
      check(cudaMemset2DAsync(d + tail * d_stride_ * element_bytes,
                              static_cast<std::size_t>(d_stride_ * element_bytes), 0,
                              static_cast<std::size_t>(d_width_ * element_bytes),
                              static_cast<std::size_t>(case_.rows - tail), stream),
            "cudaMemset2DAsync(tail)");
    }
  }
  check(cudaGetLastError(), "a kernel of the test");
}

void CaseOnDevice::prepare_random(const GroupedGemm& plan, cudaStream_t stream) {
  fill_random(stream);
  poison(stream);
  execute(plan, stream);
  check(cudaMemcpyAsync(want_.bytes(), got_.bytes(), static_cast<std::size_t>(d_bytes_),
                        cudaMemcpyDeviceToDevice, stream),
        "cudaMemcpyAsync(first result)");
}

void CaseOnDevice::fill_old(std::byte* d, cudaStream_t stream) {
  if (case_.accumulate) {
    fill_value(d, case_.d_dtype, d_bytes_ / (case_.d_dtype == DType::f32 ? 4 : 2), 3.0F, stream);
  } else {
    fill_unwritten(d, d_bytes_, stream);
  }
}

void CaseOnDevice::poison(cudaStream_t stream) { fill_old(got_.bytes(), stream); }

Workspace CaseOnDevice::workspace(std::size_t bytes) {
  if (workspace_.bytes.size() < bytes) {
    own_workspace_ = DeviceMemory(static_cast<std::int64_t>(bytes));
    check(cudaMemset(own_workspace_.bytes(), 0, bytes), "cudaMemset(workspace)");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    workspace_ = {{own_workspace_.bytes(), bytes}, kDevice};
  }
  return workspace_;
}

void CaseOnDevice::execute(const GroupedGemm& plan, cudaStream_t stream) {
  plan.execute(args(), workspace(plan.workspace_bytes()), Stream::from_native(kDevice, stream));
}

void CaseOnDevice::forget_rows(std::int64_t begin, std::int64_t end, cudaStream_t stream) {
  const std::int64_t element_bytes = case_.d_dtype == DType::f32 ? 4 : 2;
  const std::int64_t at = (kGuard + begin * d_stride_) * element_bytes;
  check(cudaMemcpy2DAsync(want_.bytes() + at, static_cast<std::size_t>(d_stride_ * element_bytes),
                          got_.bytes() + at, static_cast<std::size_t>(d_stride_ * element_bytes),
                          static_cast<std::size_t>(d_width_ * element_bytes),
                          static_cast<std::size_t>(end - begin), cudaMemcpyDeviceToDevice, stream),
        "cudaMemcpy2DAsync");
}

void CaseOnDevice::forget_unknown(cudaStream_t stream) {
  if (case_.nan_expert) {
    const int e = *case_.nan_expert;
    const math::RowRange rows = math::expert_rows(case_.offs, e, case_.rows);
    const std::int64_t lines = d_lines_ / problem_.num_experts;
    if (is_wgrad()) {
      forget_rows(e * lines, (e + 1) * lines, stream);
    } else {
      forget_rows(rows.begin, rows.end, stream);
    }
  }
  if (is_wgrad() || std::is_sorted(case_.offs.begin(), case_.offs.end())) return;
  // Wrong offsets may give a row to several experts; then it is any one's.
  std::vector<int> owners(static_cast<std::size_t>(case_.rows));
  for (std::int32_t e = 0; e < problem_.num_experts; ++e) {
    const math::RowRange segment = math::expert_rows(case_.offs, e, case_.rows);
    for (std::int64_t row = segment.begin; row < segment.end; ++row) {
      if (++owners[static_cast<std::size_t>(row)] == 2) forget_rows(row, row + 1, stream);
    }
  }
}

void CaseOnDevice::compare(cudaStream_t stream) {
  forget_unknown(stream);
  count_differences(got_.bytes(), want_.bytes(), d_bytes_, differences_.as<Differences>(), stream);
  check(cudaGetLastError(), "comparing");
}

std::string CaseOnDevice::differences(cudaStream_t stream) {
  Differences found{0, ~0ULL};
  const Differences none = found;
  check(
      cudaMemcpyAsync(&found, differences_.bytes(), sizeof(found), cudaMemcpyDeviceToHost, stream),
      "cudaMemcpyAsync(differences)");
  check(cudaStreamSynchronize(stream), "waiting for a product");
  check(cudaMemcpyAsync(differences_.bytes(), &none, sizeof(none), cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync(differences)");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  if (found.count == 0) return "";
  const auto element =
      static_cast<std::int64_t>(found.first_byte) / (case_.d_dtype == DType::f32 ? 4 : 2) - kGuard;
  return std::to_string(found.count) + " bytes differ, the first in line " +
         std::to_string(element / d_stride_) + ", column " + std::to_string(element % d_stride_);
}

math::TileCounters CaseOnDevice::counters(cudaStream_t stream) const {
  namespace launch = backends::cuda::launch;
  return launch::read_device_header(workspace_, Stream::from_native(kDevice, stream)).counters;
}

DeviceFault CaseOnDevice::fault(cudaStream_t stream) {
  return read_fault(workspace_, Stream::from_native(kDevice, stream));
}

void expect_exact(const Case& c) {
  SCOPED_TRACE(describe(c));
  CaseOnDevice on(c);
  const std::vector<std::string> implementations = on.implementations();
  EXPECT_FALSE(implementations.empty());
  for (const std::string& implementation : implementations) {
    SCOPED_TRACE(implementation);
    const GroupedGemm plan = on.plan(implementation);
    on.poison(nullptr);
    on.execute(plan, nullptr);
    on.compare(nullptr);
    EXPECT_EQ(on.differences(nullptr), "");
    EXPECT_FALSE(on.fault(nullptr)) << "a fault was recorded";
  }
}

}  // namespace moesaic::device_tests
