// SPDX-License-Identifier: Apache-2.0
// The grouped product on a CUDA device against a plain kernel: exact integer operands, bit for bit, outputs
// poisoned and guarded, neighbours NaN; then timings of large shapes. Run by hand where there is a device.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "moesaic/grouped_gemm.hpp"

using namespace moesaic;

namespace {

#define CHECK_CUDA(call)                                                              \
  do {                                                                                \
    const cudaError_t error = (call);                                                 \
    if (error != cudaSuccess) {                                                       \
      std::printf("%s: %s (line %d)\n", #call, cudaGetErrorString(error), __LINE__);  \
      std::exit(1);                                                                   \
    }                                                                                 \
  } while (0)

__device__ std::uint32_t mix(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  x ^= x >> 33;
  return static_cast<std::uint32_t>(x);
}

/// Sparse ternary values: all sums stay small integers.
__global__ void fill_ternary(__nv_bfloat16* p, std::int64_t n, std::uint64_t seed, std::uint32_t threshold) {
  for (std::int64_t i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) {
    const std::uint32_t r = mix(seed * 0x9E3779B97F4A7C15ULL + i);
    p[i] = __float2bfloat16(r < threshold ? (r & 1 ? 1.0F : -1.0F) : 0.0F);
  }
}
__global__ void fill_normal(__nv_bfloat16* p, std::int64_t n, std::uint64_t seed, float scale) {
  for (std::int64_t i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) {
    const std::uint32_t a = mix(seed * 0x9E3779B97F4A7C15ULL + 2 * i), b = mix(seed + 77 + 2 * i + 1);
    const float u = (a + 1.0F) * 2.3283064e-10F, v = b * 2.3283064e-10F;
    p[i] = __float2bfloat16(scale * sqrtf(-2 * logf(u)) * cospif(2 * v));
  }
}
template <class T>
__global__ void fill_value(T* p, std::int64_t n, T value) {
  for (std::int64_t i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) p[i] = value;
}

struct Sizes {
  int pass;  // 0 forward, 1 dgrad, 2 wgrad
  bool enk;
  std::int64_t rows, n, k;
  int experts;
};

template <class Out>
__device__ float as_float(Out v) {
  return static_cast<float>(v);
}

/// want[row][column] or dw[e][..][..] by plain loops; valid segments only.
template <class Out>
__global__ void reference(Sizes s, const __nv_bfloat16* a, const __nv_bfloat16* b, const int* offs, Out* d, bool accumulate) {
  const std::int64_t width = s.pass == 0 ? s.n : s.k;
  if (s.pass < 2) {
    const std::int64_t contracted = s.pass == 0 ? s.k : s.n;
    for (std::int64_t i = blockIdx.x * 256LL + threadIdx.x; i < s.rows * width; i += gridDim.x * 256LL) {
      const std::int64_t row = i / width, column = i % width;
      int owner = -1;
      for (int e = 0; e < s.experts; ++e) {
        const std::int64_t begin = e ? offs[e - 1] : 0, end = offs[e];
        if (begin >= 0 && begin <= end && end <= s.rows && row >= begin && row < end) owner = e;
      }
      if (owner < 0) continue;
      float sum = 0;
      for (std::int64_t c = 0; c < contracted; ++c) {
        const std::int64_t n = s.pass == 0 ? column : c, k = s.pass == 0 ? c : column;
        const std::int64_t at = s.enk ? n * s.k + k : k * s.n + n;
        sum += __bfloat162float(a[row * contracted + c]) * __bfloat162float(b[owner * s.n * s.k + at]);
      }
      d[i] = static_cast<Out>(sum);
    }
  } else {
    const std::int64_t per = s.n * s.k;
    for (std::int64_t i = blockIdx.x * 256LL + threadIdx.x; i < s.experts * per; i += gridDim.x * 256LL) {
      const int e = static_cast<int>(i / per);
      const std::int64_t n = s.enk ? i % per / s.k : i % per % s.n, k = s.enk ? i % per % s.k : i % per / s.n;
      const std::int64_t begin = e ? offs[e - 1] : 0, end = offs[e];
      const bool valid = begin >= 0 && begin <= end && end <= s.rows;
      float sum = accumulate ? as_float(d[i]) : 0;
      if (valid)
        for (std::int64_t row = begin; row < end; ++row)
          sum += __bfloat162float(a[row * s.n + n]) * __bfloat162float(b[row * s.k + k]);
      d[i] = static_cast<Out>(sum);
    }
  }
}

__global__ void count_different(const unsigned char* a, const unsigned char* b, std::int64_t n, unsigned long long* result) {
  for (std::int64_t i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL)
    if (a[i] != b[i]) {
      atomicAdd(result, 1ULL);
      atomicMin(result + 1, static_cast<unsigned long long>(i));
    }
}

template <class T>
T* device_alloc(std::int64_t n) {
  T* p = nullptr;
  CHECK_CUDA(cudaMalloc(&p, std::max<std::int64_t>(n, 64) * sizeof(T)));
  return p;
}

ConstTensorView view2(const void* p, DType t, std::int64_t r, std::int64_t c, int dev = 0) {
  return {p, t, {DeviceKind::cuda, dev}, 2, {r, c, 0}, {c, 1, 0}};
}
TensorView wview2(void* p, DType t, std::int64_t r, std::int64_t c) {
  return {p, t, {DeviceKind::cuda, 0}, 2, {r, c, 0}, {c, 1, 0}};
}
ConstTensorView view3(const void* p, DType t, std::int64_t e, std::int64_t r, std::int64_t c) {
  return {p, t, {DeviceKind::cuda, 0}, 3, {e, r, c}, {r * c, c, 1}};
}
TensorView wview3(void* p, DType t, std::int64_t e, std::int64_t r, std::int64_t c) {
  return {p, t, {DeviceKind::cuda, 0}, 3, {e, r, c}, {r * c, c, 1}};
}

DeviceInfo g_device;
std::byte* g_workspace = nullptr;
unsigned long long* g_count = nullptr;
int g_failed = 0, g_passed = 0;

struct Case {
  std::vector<int> offs;
  std::int64_t rows, n, k;
  int pass;
  bool enk, f32, accumulate, zero_tail;
  int strategy = 0;
  std::string implementation{};
};

template <class Out>
void run_case(const std::string& name, const Case& c) {
  const int experts = static_cast<int>(c.offs.size());
  const std::int64_t ac = c.pass == 1 ? c.n : (c.pass == 0 ? c.k : c.n);
  const std::int64_t bn = c.pass == 2 ? c.rows * c.k : experts * c.n * c.k;
  const std::int64_t width = c.pass == 0 ? c.n : c.k;
  const std::int64_t dn = c.pass == 2 ? experts * c.n * c.k : c.rows * width;
  constexpr std::int64_t kGuard = 4096;
  auto* a = device_alloc<__nv_bfloat16>(c.rows * ac);
  auto* b = device_alloc<__nv_bfloat16>(bn);
  auto* got = device_alloc<Out>(dn + 2 * kGuard);
  auto* want = device_alloc<Out>(dn + 2 * kGuard);
  auto* offs = device_alloc<int>(experts);
  CHECK_CUDA(cudaMemcpy(offs, c.offs.data(), experts * 4, cudaMemcpyHostToDevice));
  const std::uint32_t threshold = ac > 1600 || c.pass == 2 ? 0x20000000U : 0x60000000U;
  fill_ternary<<<1024, 256>>>(a, c.rows * ac, 1, threshold);
  fill_ternary<<<1024, 256>>>(b, bn, 2, threshold);
  const int last = std::clamp(c.offs.back(), 0, static_cast<int>(c.rows));
  const auto nan = __float2bfloat16(NAN);
  if (last < c.rows) {
    fill_value<<<256, 256>>>(a + last * ac, (c.rows - last) * ac, nan);
    if (c.pass == 2) fill_value<<<256, 256>>>(b + last * c.k, (c.rows - last) * c.k, nan);
  }
  const Out poison = static_cast<Out>(c.accumulate ? 3.0F : NAN);
  fill_value<<<1024, 256>>>(got, dn + 2 * kGuard, poison);
  fill_value<<<1024, 256>>>(want, dn + 2 * kGuard, poison);
  const Sizes sizes{c.pass, c.enk, c.rows, c.n, c.k, experts};
  reference<<<2048, 256>>>(sizes, a, b, offs, want + kGuard, c.accumulate);
  if (c.zero_tail && c.pass != 2)
    CHECK_CUDA(cudaMemset(want + kGuard + last * width, 0, (c.rows - last) * width * sizeof(Out)));
  GroupedGemmProblem p;
  p.pass = static_cast<Pass>(c.pass);
  p.d_dtype = c.f32 ? DType::f32 : DType::bf16;
  p.num_experts = experts;
  p.max_rows = c.rows;
  p.n = c.n;
  p.k = c.k;
  p.accumulate = c.accumulate;
  p.weights = c.enk ? WeightStorage::enk : WeightStorage::ekn;
  p.tail = c.zero_tail ? Tail::zero : Tail::leave;
  p.strategy = static_cast<Strategy>(c.strategy);
  PlanOptions options;
  if (!c.implementation.empty()) options.implementation = c.implementation;
  const GroupedGemm gemm = GroupedGemm::plan(p, g_device, options);
  GroupedGemmArgs args;
  args.a.qdata = view2(a, DType::bf16, c.rows, ac);
  args.b.qdata = c.pass == 2 ? view2(b, DType::bf16, c.rows, c.k)
                             : (c.enk ? view3(b, DType::bf16, experts, c.n, c.k) : view3(b, DType::bf16, experts, c.k, c.n));
  args.offs = {offs, DType::i32, {DeviceKind::cuda, 0}, 1, {experts, 0, 0}, {1, 0, 0}};
  args.d = c.pass == 2 ? (c.enk ? wview3(got + kGuard, p.d_dtype, experts, c.n, c.k) : wview3(got + kGuard, p.d_dtype, experts, c.k, c.n))
                       : wview2(got + kGuard, p.d_dtype, c.rows, width);
  const Workspace ws{{g_workspace, gemm.workspace_bytes()}, {DeviceKind::cuda, 0}};
  const Stream stream = Stream::from_native({DeviceKind::cuda, 0}, nullptr);
  gemm.execute(args, ws, stream);
  const cudaError_t error = cudaDeviceSynchronize();
  if (error != cudaSuccess) {
    std::printf("FAIL %s %s: %s\n", name.c_str(), gemm.implementation().data(), cudaGetErrorString(error));
    std::exit(1);
  }
  const unsigned long long init[2] = {0, ~0ULL};
  CHECK_CUDA(cudaMemcpy(g_count, init, 16, cudaMemcpyHostToDevice));
  const std::int64_t bytes = (dn + 2 * kGuard) * static_cast<std::int64_t>(sizeof(Out));
  count_different<<<1024, 256>>>(reinterpret_cast<unsigned char*>(got), reinterpret_cast<unsigned char*>(want), bytes, g_count);
  unsigned long long result[2];
  CHECK_CUDA(cudaMemcpy(result, g_count, 16, cudaMemcpyDeviceToHost));
  if (result[0] != 0) {
    const std::int64_t element = static_cast<std::int64_t>(result[1] / sizeof(Out)) - kGuard;
    const std::int64_t columns = c.pass == 2 ? (c.enk ? c.k : c.n) : width;
    std::printf("FAIL %s pass %d %s rows %lld n %lld k %lld f32 %d acc %d zero %d [%s]: %llu bytes differ, first element row %lld column %lld\n", name.c_str(),
                c.pass, c.enk ? "enk" : "ekn", (long long)c.rows, (long long)c.n, (long long)c.k, c.f32, c.accumulate, c.zero_tail,
                std::string(gemm.implementation()).c_str(), result[0], (long long)(element / columns), (long long)(element % columns));
    ++g_failed;
  } else {
    ++g_passed;
  }
  const DeviceFault fault = read_fault(ws, stream);
  if (name.substr(0, 5) == "wrong") {
    std::printf("     %s: fault kind %d expert %d value %lld\n", name.c_str(), (int)fault.kind, fault.expert, (long long)fault.value);
  } else if (fault) {
    std::printf("FAIL %s: unexpected fault expert %d\n", name.c_str(), fault.expert);
    ++g_failed;
  }
  cudaFree(a);
  cudaFree(b);
  cudaFree(got);
  cudaFree(want);
  cudaFree(offs);
}

void run_one(const std::string& name, const Case& c) {
  if (c.f32) {
    run_case<float>(name, c);
  } else {
    run_case<__nv_bfloat16>(name, c);
  }
}

/// With every instance that matches.
void run(const std::string& name, Case c) {
  if (c.strategy != 0) return run_one(name, c);
  GroupedGemmProblem p;
  p.pass = static_cast<Pass>(c.pass);
  p.d_dtype = c.f32 ? DType::f32 : DType::bf16;
  p.num_experts = static_cast<int>(c.offs.size());
  p.max_rows = c.rows;
  p.n = c.n;
  p.k = c.k;
  p.weights = c.enk ? WeightStorage::enk : WeightStorage::ekn;
  for (const Candidate& candidate : GroupedGemm::candidates(p, g_device)) {
    if (candidate.implementation.find("sm90") == std::string::npos || candidate.support.reason.find("compiled for another") != std::string::npos) continue;
    c.implementation = candidate.implementation;
    run_one(name, c);
  }
}

std::vector<int> ends(const std::vector<int>& counts) {
  std::vector<int> offs;
  int sum = 0;
  for (const int count : counts) offs.push_back(sum += count);
  return offs;
}

void correctness(bool small) {
  std::vector<std::pair<std::string, std::vector<int>>> vectors = {
      {"balanced", std::vector<int>(8, 256)},
      {"all empty", std::vector<int>(8, 0)},
      {"only first", {300, 0, 0, 0}},
      {"only last", {0, 0, 0, 77}},
      {"interior empty", {150, 64, 0, 200, 0}},
      {"tiny odd", {5, 7, 9, 11}},
      {"one row each", std::vector<int>(64, 1)},
      {"tile edges", {63, 64, 65, 127, 128, 129, 255, 256, 257}},
      {"one hot", {3, 1, 2000, 2, 0, 1, 3, 38}},
      {"e=1", {777}},
      {"e=1025", {}},
      {"e=4096", {}}};
  for (int i = 0; i < 1025; ++i) vectors[10].second.push_back(i % 5 == 0 ? 1 : (i % 5 == 3 ? 3 : 0));
  for (int i = 0; i < 4096; ++i) vectors[11].second.push_back(i % 2 ? i % 4 / 2 + 1 : 0);
  const std::vector<std::pair<int, int>> shapes = {{64, 64}, {8, 8}, {128, 256}, {256, 128}, {768, 1408}, {72, 200}, {1536, 512}};
  for (const auto& [name, counts] : vectors) {
    int total = 0;
    for (const int count : counts) total += count;
    for (const auto& [k, n] : shapes) {
      if ((counts.size() > 64 || small) && k * n > 128 * 256) continue;
      for (int pass = 0; pass < 3; ++pass)
        for (const bool enk : {true, false})
          for (const bool f32 : {false, true})
            for (const bool flag : {false, true})
              run(name, {ends(counts), total + 37, n, k, pass, enk, f32, pass == 2 && flag, pass != 2 && flag});
    }
  }
  for (const auto& [name, counts] : vectors) {
    int total = 0;
    for (const int count : counts) total += count;
    if (counts.size() > 64) continue;
    for (const auto& [k, n] : shapes)
      for (int pass = 0; pass < 3; ++pass)
        for (const bool enk : {true, false})
          for (const bool f32 : {false, true})
            for (const bool flag : {false, true})
              for (int strategy = 1; strategy < 3; ++strategy)
                if (k * n <= 128 * 256)
                  run(name, {ends(counts), total + 37, n, k, pass, enk, f32, pass == 2 && flag, pass != 2 && flag, strategy});
  }
  // Large tiles of 256 x 192 are chosen where rows per expert are many.
  for (const bool enk : {true, false})
    for (int pass = 0; pass < 2; ++pass) run("large", {ends({2048, 1999, 0, 2049}), 6200, 768, 768, pass, enk, false, false, false});
  for (const auto& [name, offs] : std::vector<std::pair<std::string, std::vector<int>>>{
           {"wrong: decreasing", {100, 50, 300, 400}}, {"wrong: past M", {100, 200, 5000, 400}}, {"wrong: negative", {-7, 100, 200, 300}},
           {"wrong: last", {100, 200, 300, 401}}, {"wrong: huge", std::vector<int>(4, 2147483647)}})
    for (int pass = 2; pass < 3; ++pass) run(name, {offs, 400, 264, 256, pass, true, true, false, false});
  std::printf("%d passed, %d failed\n", g_passed, g_failed);
}

void timing(int experts, std::int64_t rows, std::int64_t n, std::int64_t k, int pass, bool enk) {
  auto* x = device_alloc<__nv_bfloat16>(rows * k);
  auto* y = device_alloc<__nv_bfloat16>(rows * n);
  auto* w = device_alloc<__nv_bfloat16>(experts * n * k);
  auto* offs = device_alloc<int>(experts);
  fill_normal<<<2048, 256>>>(x, rows * k, 1, 1.0F);
  fill_normal<<<2048, 256>>>(y, rows * n, 2, 1.0F);
  fill_normal<<<2048, 256>>>(w, experts * n * k, 3, 0.02F);
  std::vector<int> ends_host;
  for (int e = 0; e < experts; ++e) ends_host.push_back(static_cast<int>(rows * (e + 1) / experts));
  CHECK_CUDA(cudaMemcpy(offs, ends_host.data(), experts * 4, cudaMemcpyHostToDevice));
  GroupedGemmProblem p;
  p.pass = static_cast<Pass>(pass);
  p.num_experts = experts;
  p.max_rows = rows;
  p.n = n;
  p.k = k;
  p.weights = enk ? WeightStorage::enk : WeightStorage::ekn;
  const GroupedGemm gemm = GroupedGemm::plan(p, g_device);
  GroupedGemmArgs args;
  const auto weights = enk ? view3(w, DType::bf16, experts, n, k) : view3(w, DType::bf16, experts, k, n);
  args.offs = {offs, DType::i32, {DeviceKind::cuda, 0}, 1, {experts, 0, 0}, {1, 0, 0}};
  if (pass == 0) {
    args.a.qdata = view2(x, DType::bf16, rows, k);
    args.b.qdata = weights;
    args.d = wview2(y, DType::bf16, rows, n);
  } else if (pass == 1) {
    args.a.qdata = view2(y, DType::bf16, rows, n);
    args.b.qdata = weights;
    args.d = wview2(x, DType::bf16, rows, k);
  } else {
    args.a.qdata = view2(y, DType::bf16, rows, n);
    args.b.qdata = view2(x, DType::bf16, rows, k);
    args.d = enk ? wview3(w, DType::bf16, experts, n, k) : wview3(w, DType::bf16, experts, k, n);
  }
  const Workspace ws{{g_workspace, gemm.workspace_bytes()}, {DeviceKind::cuda, 0}};
  const Stream stream = Stream::from_native({DeviceKind::cuda, 0}, nullptr);
  cudaEvent_t start, stop;
  cudaEventCreate(&start);
  cudaEventCreate(&stop);
  for (int i = 0; i < 10; ++i) gemm.execute(args, ws, stream);
  std::vector<float> times;
  for (int i = 0; i < 20; ++i) {
    cudaEventRecord(start);
    gemm.execute(args, ws, stream);
    cudaEventRecord(stop);
    CHECK_CUDA(cudaEventSynchronize(stop));
    float ms = 0;
    cudaEventElapsedTime(&ms, start, stop);
    times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  std::printf("E %3d M %6lld N %5lld K %5lld pass %d %s  %8.1f us  %6.1f TFLOP/s  %s\n", experts, (long long)rows, (long long)n, (long long)k, pass,
              enk ? "enk" : "ekn", times[10] * 1e3, 2.0 * rows * n * k / times[10] * 1e-9, std::string(gemm.implementation()).c_str());
  cudaFree(x);
  cudaFree(y);
  cudaFree(w);
  cudaFree(offs);
}

__global__ void spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

/// Every matching instance on one problem, alternating in one queue.
void sweep(const std::vector<int>& counts, std::int64_t n, std::int64_t k, int pass, bool enk) {
  const int experts = static_cast<int>(counts.size());
  const std::vector<int> offs_host = ends(counts);
  const std::int64_t rows = offs_host.back();
  auto* x = device_alloc<__nv_bfloat16>(rows * k);
  auto* y = device_alloc<__nv_bfloat16>(rows * n);
  auto* w = device_alloc<__nv_bfloat16>(experts * n * k);
  auto* offs = device_alloc<int>(experts);
  fill_normal<<<2048, 256>>>(x, rows * k, 1, 1.0F);
  fill_normal<<<2048, 256>>>(y, rows * n, 2, 1.0F);
  fill_normal<<<2048, 256>>>(w, experts * n * k, 3, 0.02F);
  CHECK_CUDA(cudaMemcpy(offs, offs_host.data(), experts * 4, cudaMemcpyHostToDevice));
  GroupedGemmProblem p;
  p.pass = static_cast<Pass>(pass);
  p.num_experts = experts;
  p.max_rows = rows;
  p.n = n;
  p.k = k;
  p.weights = enk ? WeightStorage::enk : WeightStorage::ekn;
  GroupedGemmArgs args;
  const auto weights = enk ? view3(w, DType::bf16, experts, n, k) : view3(w, DType::bf16, experts, k, n);
  args.offs = {offs, DType::i32, {DeviceKind::cuda, 0}, 1, {experts, 0, 0}, {1, 0, 0}};
  args.a.qdata = pass == 0 ? view2(x, DType::bf16, rows, k) : view2(y, DType::bf16, rows, n);
  args.b.qdata = pass == 2 ? view2(x, DType::bf16, rows, k) : weights;
  args.d = pass == 0 ? wview2(y, DType::bf16, rows, n)
                     : (pass == 1 ? wview2(x, DType::bf16, rows, k)
                                  : (enk ? wview3(w, DType::bf16, experts, n, k) : wview3(w, DType::bf16, experts, k, n)));
  std::vector<GroupedGemm> plans;
  const std::string chosen(GroupedGemm::plan(p, g_device).implementation());
  for (const Candidate& candidate : GroupedGemm::candidates(p, g_device)) {
    if (candidate.implementation.find("sm90") == std::string::npos) continue;
    PlanOptions options;
    options.implementation = candidate.implementation;
    try {
      plans.push_back(GroupedGemm::plan(p, g_device, options));
    } catch (const Error&) {
    }
  }
  const Workspace ws{{g_workspace, 256}, {DeviceKind::cuda, 0}};
  const Stream stream = Stream::from_native({DeviceKind::cuda, 0}, nullptr);
  constexpr int kRounds = 16;
  std::vector<std::vector<cudaEvent_t>> events(plans.size() * 2);
  for (auto& list : events) {
    list.resize(kRounds);
    for (auto& event : list) cudaEventCreate(&event);
  }
  for (int warm = 0; warm < 4; ++warm)
    for (const auto& plan : plans) plan.execute(args, ws, stream);
  CHECK_CUDA(cudaDeviceSynchronize());
  spin<<<1, 1>>>(40'000'000);
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t turn = 0; turn < plans.size(); ++turn) {
      const std::size_t i = (turn + round) % plans.size();
      cudaEventRecord(events[2 * i][round]);
      plans[i].execute(args, ws, stream);
      cudaEventRecord(events[2 * i + 1][round]);
    }
  CHECK_CUDA(cudaDeviceSynchronize());
  std::printf("E %d M %lld n %lld k %lld pass %d %s:", experts, (long long)rows, (long long)n, (long long)k, pass, enk ? "enk" : "ekn");
  for (std::size_t i = 0; i < plans.size(); ++i) {
    std::vector<float> times;
    for (int round = 0; round < kRounds; ++round) {
      float ms = 0;
      cudaEventElapsedTime(&ms, events[2 * i][round], events[2 * i + 1][round]);
      times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    const std::string name(plans[i].implementation());
    std::printf("  %s%s %.1f us %.0f", name == chosen ? "*" : "", name.substr(10).c_str(), times[kRounds / 2] * 1e3, 2.0 * rows * n * k / times[kRounds / 2] * 1e-9);
  }
  std::printf("\n");
  for (auto& list : events)
    for (auto& event : list) cudaEventDestroy(event);
  cudaFree(x);
  cudaFree(y);
  cudaFree(w);
  cudaFree(offs);
}

}  // namespace

int main(int argc, char** argv) {
  g_device = query_device({DeviceKind::cuda, 0});
  std::printf("%s, %d SMs\n", g_device.name.c_str(), g_device.num_sms);
  g_workspace = device_alloc<std::byte>(256 << 20);
  g_count = device_alloc<unsigned long long>(2);
  CHECK_CUDA(cudaMemset(g_workspace, 0, 4096));
  const std::string what = argc > 1 ? argv[1] : "all";
  if (what == "small") {
    correctness(true);
    return g_failed != 0;
  }
  if (what == "all" || what == "check") correctness(false);
  if (what == "sweep") {
    for (const int rows : {1024, 4096, 8192, 16384, 65536}) sweep(std::vector<int>(16, rows / 16), 4096, 4096, 0, true);
    for (const int rows : {8192, 65536}) sweep(std::vector<int>(16, rows / 16), 2048, 2048, 0, true);
    sweep(std::vector<int>(8, 1024), 10240, 8192, 0, true);
    sweep(std::vector<int>(12, 2304), 3840, 4096, 0, true);
    sweep(std::vector<int>(16, 1024), 4096, 4096, 1, true);
    sweep(std::vector<int>(16, 4096), 4096, 4096, 1, true);
    sweep(std::vector<int>(8, 12288), 5120, 2048, 1, true);
  }
  if (what == "all" || what == "time") {
    for (const std::int64_t rows : {64, 1024, 4096, 8192, 16384, 32768, 65536, 131072}) timing(16, rows, 4096, 4096, 0, true);
    for (int pass = 0; pass < 3; ++pass)
      for (const bool enk : {true, false}) {
        timing(16, 16384, 4096, 4096, pass, enk);
        timing(16, 65536, 4096, 4096, pass, enk);
        timing(8, 98304, 5120, 2048, pass, enk);
      }
  }
  return g_failed != 0;
}
