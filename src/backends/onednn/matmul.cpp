// SPDX-License-Identifier: Apache-2.0
// The dnnl calls: descriptors, compilation, execution, packing.

#include "backends/onednn/matmul.hpp"

#include <omp.h>

#include <dnnl.hpp>
#include <string>
#include <unordered_map>
#include <utility>

#include "backends/onednn/widened.hpp"

namespace moesaic::backends::onednn {
namespace {

using Memory = dnnl::memory;

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

Memory::data_type data_type(DType dtype) {
  return dtype == DType::f32 ? Memory::data_type::f32 : Memory::data_type::bf16;
}

/// oneDNN plans for the calling thread's OpenMP limit, which is therefore set around compile and
/// run.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads) : saved_(omp_get_max_threads()) {
    omp_set_num_threads(threads);
  }
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;
  ~ThreadLimit() { omp_set_num_threads(saved_); }

 private:
  int saved_;
};

Memory::desc matrix(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                    std::int64_t column_stride, std::int64_t batch, std::int64_t batch_stride) {
  if (batch == 1) {
    return Memory::desc({rows, columns}, data_type(dtype), Memory::dims{row_stride, column_stride});
  }
  return Memory::desc({batch, rows, columns}, data_type(dtype),
                      Memory::dims{batch_stride, row_stride, column_stride});
}

Memory::desc strided_b(const MatmulSpec& spec) {
  return matrix(spec.ab_dtype, spec.k, spec.n, spec.b_row_stride, spec.b_column_stride, spec.batch,
                spec.b_batch_stride);
}

dnnl::matmul::primitive_desc describe(const MatmulSpec& spec, const Memory::desc& b) {
  const Memory::desc a = matrix(spec.ab_dtype, spec.m, spec.k, spec.a_row_stride,
                                spec.a_column_stride, spec.batch, spec.a_batch_stride);
  const Memory::desc d =
      matrix(spec.d_dtype, spec.m, spec.n, spec.d_row_stride, 1, spec.batch, spec.d_batch_stride);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (spec.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  return {dnnl::matmul::desc(a, b, d), attributes, cpu_engine()};
}

/// The layout oneDNN likes best for b when a dense a has `packed_for_m` rows and one thread runs.
/// It follows from these, the type, n and k alone: an execute with other strides, threads or type
/// of d must find what was packed.
Memory::desc packed_b(const MatmulSpec& spec) {
  const ThreadLimit limit(1);
  MatmulSpec dense;
  dense.m = spec.packed_for_m;
  dense.n = spec.n;
  dense.k = spec.k;
  dense.ab_dtype = dense.d_dtype = spec.ab_dtype;
  dense.a_row_stride = spec.k;
  dense.d_row_stride = spec.n;
  const Memory::desc any({spec.k, spec.n}, data_type(spec.ab_dtype), Memory::format_tag::any);
  return describe(dense, any).weights_desc();
}

/// Runs `body`; what oneDNN refuses of `action` leaves as this library's own exception.
template <class Body>
auto translated(ErrorCode code, const char* action, const MatmulSpec& spec, const Body& body) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    throw Error(code, "oneDNN " + version() + " refuses to " + action + " a " +
                          std::string(name(spec.ab_dtype)) + " product of m " +
                          std::to_string(spec.m) + ", n " + std::to_string(spec.n) + ", k " +
                          std::to_string(spec.k) + ": " + error.what());
  }
}

class DnnlMatmul final : public Matmul {
 public:
  explicit DnnlMatmul(const MatmulSpec& spec)
      : spec_(spec),
        desc_(describe(spec, spec.packed_for_m > 0 ? packed_b(spec) : strided_b(spec))),
        primitive_(desc_),
        scratch_bytes_(desc_.scratchpad_desc().get_size()) {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return scratch_bytes_; }

  void run(const void* a, const void* b, void* d, std::byte* scratch) const override {
    translated(ErrorCode::device_failure, "run", spec_, [&] { run_dnnl(a, b, d, scratch); });
  }

 private:
  void run_dnnl(const void* a, const void* b, void* d, std::byte* scratch) const {
    // dnnl::memory has no read-only form; a matmul writes only its destination and scratch.
    const std::unordered_map<int, Memory> arguments = {
        {DNNL_ARG_SRC, Memory(desc_.src_desc(), cpu_engine(), const_cast<void*>(a))},
        {DNNL_ARG_WEIGHTS, Memory(desc_.weights_desc(), cpu_engine(), const_cast<void*>(b))},
        {DNNL_ARG_DST, Memory(desc_.dst_desc(), cpu_engine(), d)},
        {DNNL_ARG_SCRATCHPAD, Memory(desc_.scratchpad_desc(), cpu_engine(), scratch)}};
    dnnl::stream stream(cpu_engine());
    const ThreadLimit limit(spec_.threads);
    primitive_.execute(stream, arguments);
    stream.wait();
  }

  MatmulSpec spec_;
  dnnl::matmul::primitive_desc desc_;
  dnnl::matmul primitive_;
  std::size_t scratch_bytes_;
};

/// oneDNN 2.6.3 kills the process (SIGILL) now and then where a BF16 product contracts 63 elements
/// on several threads and AMX: one thread has no tile configuration. Other lengths were not seen
/// to.
bool dies_on_threads(const MatmulSpec& spec) {
  constexpr std::int64_t kOneLessThanATile = 63;
  return spec.ab_dtype == DType::bf16 && spec.k == kOneLessThanATile && spec.threads != 1 &&
         dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core_amx;
}

/// The smallest product that shows whether a type is multiplied at all.
MatmulSpec probe_spec(DType dtype) {
  MatmulSpec spec;
  spec.m = spec.n = spec.k = 8;
  spec.ab_dtype = dtype;
  spec.d_dtype = DType::f32;
  spec.a_row_stride = spec.b_row_stride = spec.d_row_stride = 8;
  return spec;
}

}  // namespace

std::shared_ptr<const Matmul> compile(const MatmulSpec& spec) {
  if (spec.ab_dtype == DType::bf16 && !multiplies_bf16()) {
    return compile_widened(spec);
  }
  MatmulSpec safe = spec;
  if (dies_on_threads(spec)) {
    safe.threads = 1;
  }
  const ThreadLimit limit(safe.threads);
  return translated(ErrorCode::unsupported, "compile", spec,
                    [&] { return std::make_shared<DnnlMatmul>(safe); });
}

Support supports_f32() {
  try {
    const DnnlMatmul probe(probe_spec(DType::f32));
    return {true, {}};
  } catch (const dnnl::error& error) {
    return {false, "oneDNN " + version() + " multiplies nothing on this CPU: " + error.what()};
  }
}

bool multiplies_bf16() {
  static const bool kMultiplies = [] {
    try {
      const DnnlMatmul probe(probe_spec(DType::bf16));
      return true;
    } catch (const dnnl::error&) {
      return false;
    }
  }();
  return kMultiplies;
}

std::string version() {
  const dnnl_version_t* found = dnnl_version();
  return std::to_string(found->major) + "." + std::to_string(found->minor) + "." +
         std::to_string(found->patch);
}

std::size_t packed_bytes(const MatmulSpec& spec) {
  if (spec.ab_dtype == DType::bf16 && !multiplies_bf16()) {
    return widened_packed_bytes(spec);
  }
  const ThreadLimit limit(spec.threads);
  return translated(ErrorCode::unsupported, "pack b of", spec,
                    [&] { return packed_b(spec).get_size(); });
}

void pack(const MatmulSpec& spec, const void* strided, void* packed) {
  if (spec.ab_dtype == DType::bf16 && !multiplies_bf16()) {
    pack_widened(spec, strided, packed);
    return;
  }
  const ThreadLimit limit(spec.threads);
  translated(ErrorCode::unsupported, "pack b of", spec, [&] {
    Memory source(strided_b(spec), cpu_engine(), const_cast<void*>(strided));
    Memory destination(packed_b(spec), cpu_engine(), packed);
    dnnl::stream stream(cpu_engine());
    dnnl::reorder(source, destination).execute(stream, source, destination);
    stream.wait();
  });
}

std::shared_ptr<const Matmul> MatmulCache::get(const MatmulSpec& spec) {
  const std::lock_guard lock(mutex_);
  if (const auto found = entries_.find(spec); found != entries_.end()) {
    order_.splice(order_.begin(), order_, found->second.place);
    return found->second.matmul;
  }
  std::shared_ptr<const Matmul> matmul = compile(spec);
  if (entries_.size() >= kMostEntries) {
    entries_.erase(order_.back());
    order_.pop_back();
  }
  order_.push_front(spec);
  entries_.emplace(spec, Entry{matmul, order_.begin()});
  return matmul;
}

}  // namespace moesaic::backends::onednn
