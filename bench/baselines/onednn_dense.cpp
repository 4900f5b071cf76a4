// SPDX-License-Identifier: Apache-2.0
// See onednn_dense.hpp.

#include "baselines/onednn_dense.hpp"

#include <omp.h>

#include <dnnl.hpp>
#include <string>
#include <unordered_map>

#include "moesaic/error.hpp"

namespace moesaic::bench {
namespace {

using Memory = dnnl::memory;

Memory::desc matrix(const ConstTensorView& view) {
  const auto type = view.dtype == DType::f32 ? Memory::data_type::f32 : Memory::data_type::bf16;
  return {{view.shape[0], view.shape[1]}, type, Memory::dims{view.stride[0], view.stride[1]}};
}

dnnl::matmul::primitive_desc describe(const Memory::desc& a, const Memory::desc& b,
                                      const Memory::desc& d, const dnnl::engine& engine) {
  return {dnnl::matmul::desc(a, b, d), engine};
}

void require_shapes(const ConstTensorView& a, const ConstTensorView& b, const TensorView& d) {
  if (a.rank != 2 || b.rank != 2 || d.rank != 2 || a.shape[1] != b.shape[0] ||
      a.shape[0] != d.shape[0] || b.shape[1] != d.shape[1]) {
    throw Error(ErrorCode::invalid_argument,
                "dense product: expected a [m, k], b [k, n], d [m, n], got " +
                    moesaic::describe(a) + ", " + moesaic::describe(b) + ", " +
                    moesaic::describe(d));
  }
}

/// oneDNN plans for the calling thread's OpenMP limit, at compile and at run time.
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

}  // namespace

struct DenseProduct::Impl {
  Impl(const ConstTensorView& a, const ConstTensorView& b, const TensorView& d,
       DenseWeights weights, int num_threads)
      : threads(num_threads), engine(dnnl::engine::kind::cpu, 0), stream(engine) {
    // dnnl::memory has no read-only form; a matmul writes only its destination.
    Memory strided(matrix(b), engine, const_cast<void*>(b.data));
    const Memory::desc any({b.shape[0], b.shape[1]}, strided.get_desc().data_type(),
                           Memory::format_tag::any);
    const bool packs = weights == DenseWeights::packed;
    const auto description =
        describe(matrix(a), packs ? any : strided.get_desc(), matrix(d), engine);
    product = dnnl::matmul(description);
    Memory used = strided;
    if (packs) {
      used = Memory(description.weights_desc(), engine);
      dnnl::reorder(strided, used).execute(stream, strided, used);
      stream.wait();
    }
    arguments = {{DNNL_ARG_SRC, Memory(description.src_desc(), engine, const_cast<void*>(a.data))},
                 {DNNL_ARG_WEIGHTS, used},
                 {DNNL_ARG_DST, Memory(description.dst_desc(), engine, d.data)}};
  }

  int threads;
  dnnl::engine engine;
  mutable dnnl::stream stream;
  dnnl::matmul product;
  std::unordered_map<int, Memory> arguments;
};

DenseProduct::DenseProduct(const ConstTensorView& a, const ConstTensorView& b, const TensorView& d,
                           DenseWeights weights, int threads) {
  require_shapes(a, b, d);
  const ThreadLimit limit(threads);
  try {
    impl_ = std::make_unique<const Impl>(a, b, d, weights, threads);
  } catch (const dnnl::error& error) {
    throw Error(ErrorCode::unsupported, "dense product of " + moesaic::describe(a) + " and " +
                                            moesaic::describe(b) +
                                            ": oneDNN refuses it: " + error.what());
  }
}

DenseProduct::~DenseProduct() = default;

void DenseProduct::run() const {
  const ThreadLimit limit(impl_->threads);
  impl_->product.execute(impl_->stream, impl_->arguments);
  impl_->stream.wait();
}

}  // namespace moesaic::bench
