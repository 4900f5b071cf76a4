// SPDX-License-Identifier: Apache-2.0
// See tensor_maps.hpp.

#include "backends/cuda/launch/tensor_maps.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>

#include "backends/cuda/launch/cuda_error.hpp"
#include "core/recent_values.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

constexpr int kPanel = math::kPanelElems;

/// A tensor map being described; dimensions from the fastest.
struct Description {
  CUtensorMapDataType type;
  const void* base;
  int rank = 0;
  std::array<cuuint64_t, 5> dims{};
  std::array<cuuint64_t, 4> stride_bytes{};  // of dimensions 1 and up
  std::array<cuuint32_t, 5> box{};

  Description(const ConstTensorView& view)  // NOLINT(google-explicit-constructor)
      : type(view.dtype == DType::f32 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                      : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16),
        base(view.data) {}

  Description& dim(std::int64_t size, int box_size, std::int64_t stride_elems,
                   std::int64_t element_bytes) {
    const auto axis = static_cast<std::size_t>(rank);
    // A tensor without rows still needs a map; nothing is ever copied through it.
    dims[axis] = static_cast<cuuint64_t>(std::max<std::int64_t>(size, 1));
    box[axis] = static_cast<cuuint32_t>(box_size);
    if (rank > 0) {
      stride_bytes[axis - 1] = static_cast<cuuint64_t>(stride_elems * element_bytes);
    }
    ++rank;
    return *this;
  }
};

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                            const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                            CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                            CUtensorMapFloatOOBfill);

/// The driver's encoder, found at run time, so that the library loads where there is no driver.
Encode encoder() {
  static const Encode function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    constexpr unsigned int kCuda12 = 12000;
    check_cuda(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, kCuda12,
                                                cudaEnableDefault, &result),
               "cudaGetDriverEntryPointByVersion(cuTensorMapEncodeTiled)");
    if (result != cudaDriverEntryPointSuccess || found == nullptr) {
      throw Error(ErrorCode::device_failure,
                  "the CUDA driver has no cuTensorMapEncodeTiled: it is older than 12.0");
    }
    return reinterpret_cast<Encode>(found);
  }();
  return function;
}

CUtensorMap encode_anew(const Description& description) {
  constexpr std::array<cuuint32_t, 5> kUnitSteps = {1, 1, 1, 1, 1};
  CUtensorMap map{};
  // 128-byte promotion: with 256 bytes a streamed weight is read 7 % slower (NB-0002).
  const CUresult result =
      encoder()(&map, description.type, static_cast<cuuint32_t>(description.rank),
                const_cast<void*>(description.base), description.dims.data(),
                description.stride_bytes.data(), description.box.data(), kUnitSteps.data(),
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw Error(ErrorCode::device_failure, "cuTensorMapEncodeTiled refuses a tensor of rank " +
                                               std::to_string(description.rank) + ": CUresult " +
                                               std::to_string(static_cast<int>(result)));
  }
  return map;
}

/// Everything that a map depends on.
using Words = std::array<std::uint64_t, 17>;
Words words_of(const Description& description) {
  Words words{};
  words[0] = reinterpret_cast<std::uintptr_t>(description.base);
  words[1] = static_cast<std::uint64_t>(description.type);
  words[2] = static_cast<std::uint64_t>(description.rank);
  auto next = std::copy(description.dims.begin(), description.dims.end(), words.begin() + 3);
  next = std::copy(description.stride_bytes.begin(), description.stride_bytes.end(), next);
  std::copy(description.box.begin(), description.box.end(), next);
  return words;
}

/// A call of the driver per map costs host time, and much more of it where a profiler listens to
/// every call. Layers use the same tensors again: a thread keeps the maps that it made last.
CUtensorMap encode(const Description& description) {
  using Maps = core::RecentValues<std::tuple_size_v<Words>, CUtensorMap, 64>;
  thread_local const auto maps = std::make_unique<Maps>();
  return maps->of(words_of(description), [&] { return encode_anew(description); });
}

/// The stride of a dimension that has one entry is never used, and may be anything in a view.
std::int64_t stride_or(std::int64_t extent, std::int64_t stride, std::int64_t dense) {
  return extent > 1 ? stride : dense;
}

struct Strides {
  std::int64_t row, expert, bytes;
  explicit Strides(const ConstTensorView& view) : bytes(size_bytes(view.dtype)) {
    const bool batched = view.rank == 3;
    const auto axis = static_cast<std::size_t>(batched ? 1 : 0);
    row = stride_or(view.shape[axis], view.stride[axis], view.shape[axis + 1]);
    expert = batched ? stride_or(view.shape[0], view.stride[0], view.shape[1] * row) : 0;
  }
};

}  // namespace

PanelCopy panel_copy(std::int64_t columns) {
  return columns % kPanel == 0 ? PanelCopy::whole : PanelCopy::single;
}

CUtensorMap map_rows(const ConstTensorView& matrix, int box_rows) {
  const Strides stride(matrix);
  return encode(Description(matrix)
                    .dim(matrix.shape[1], kPanel, 1, stride.bytes)
                    .dim(matrix.shape[0], box_rows, stride.row, stride.bytes));
}

CUtensorMap map_weights(const ConstTensorView& weights, int box_lines) {
  const Strides stride(weights);
  return encode(Description(weights)
                    .dim(weights.shape[2], kPanel, 1, stride.bytes)
                    .dim(weights.shape[1], box_lines, stride.row, stride.bytes)
                    .dim(weights.shape[0], 1, stride.expert, stride.bytes));
}

CUtensorMap map_weight_panels(const ConstTensorView& weights, int box_columns, PanelCopy copy) {
  const Strides stride(weights);
  Description map(weights);
  if (copy == PanelCopy::whole) {
    map.dim(kPanel, kPanel, 1, stride.bytes)
        .dim(weights.shape[1], kBlockK, stride.row, stride.bytes)
        .dim(weights.shape[2] / kPanel, box_columns / kPanel, kPanel, stride.bytes);
  } else {
    map.dim(weights.shape[2], kPanel, 1, stride.bytes)
        .dim(weights.shape[1], kBlockK, stride.row, stride.bytes);
  }
  return encode(map.dim(weights.shape[0], 1, stride.expert, stride.bytes));
}

CUtensorMap map_ragged_panels(const ConstTensorView& matrix, int box_columns, PanelCopy copy) {
  const Strides stride(matrix);
  Description map(matrix);
  if (copy == PanelCopy::whole) {
    map.dim(kPanel, kPanel, 1, stride.bytes)
        .dim(kRaggedRows, kBlockK, stride.row, stride.bytes)
        .dim(matrix.shape[1] / kPanel, box_columns / kPanel, kPanel, stride.bytes);
  } else {
    map.dim(matrix.shape[1], kPanel, 1, stride.bytes)
        .dim(kRaggedRows, kBlockK, stride.row, stride.bytes);
  }
  map.dim(std::int64_t{1} << 31, 1, kRaggedWrapElems - stride.row, stride.bytes);
  return encode(map.dim(std::int64_t{1} << 31, 1, stride.row, stride.bytes));
}

CUtensorMap map_ragged_output(const ConstTensorView& matrix) {
  const Strides stride(matrix);
  return encode(Description(matrix)
                    .dim(matrix.shape[1], static_cast<int>(128 / stride.bytes), 1, stride.bytes)
                    .dim(kRaggedRows, kPanelRows, stride.row, stride.bytes)
                    .dim(std::int64_t{1} << 31, 1, kRaggedWrapElems - stride.row, stride.bytes)
                    .dim(std::int64_t{1} << 31, 1, stride.row, stride.bytes));
}

CUtensorMap map_weight_output(const ConstTensorView& weights) {
  const Strides stride(weights);
  return encode(Description(weights)
                    .dim(weights.shape[2], static_cast<int>(128 / stride.bytes), 1, stride.bytes)
                    .dim(weights.shape[1], kPanelRows, stride.row, stride.bytes)
                    .dim(weights.shape[0], 1, stride.expert, stride.bytes));
}

CUtensorMap map_paired_weights(const ConstTensorView& weights, const PartLayout& layout,
                               int box_lines) {
  const Strides stride(weights);
  const std::int64_t h = weights.shape[1] / 2;
  const std::int64_t line = layout.interleaved ? 2 * stride.row : stride.row;
  const std::int64_t part = layout.interleaved ? stride.row : h * stride.row;
  return encode(Description(weights)
                    .dim(weights.shape[2], kPanel, 1, stride.bytes)
                    .dim(h, box_lines, line, stride.bytes)
                    .dim(2, 2, part, stride.bytes)
                    .dim(weights.shape[0], 1, stride.expert, stride.bytes));
}

}  // namespace moesaic::backends::cuda::launch
