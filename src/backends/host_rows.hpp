// SPDX-License-Identifier: Apache-2.0
// What the CPU backends share: reading offsets on the host, segments, tails and typed row
// addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "backends/backend.hpp"
#include "core/workspace_header.hpp"
#include "math/expert_segment.hpp"
#include "math/row_gather.hpp"
#include "moesaic/grouped_gemm.hpp"

namespace moesaic::backends {

/// Segments of all experts, as every backend must see them.
struct HostSegments {
  std::vector<math::RowRange> experts;
  std::uint64_t fault_word = 0;
  std::int64_t tail_begin = 0;

  HostSegments(const ConstTensorView& offs, std::int64_t max_rows) {
    const auto* ends = static_cast<const std::int32_t*>(offs.data);
    const auto num_experts = static_cast<std::int32_t>(offs.shape[0]);
    experts.reserve(static_cast<std::size_t>(num_experts));
    for (std::int32_t expert = 0; expert < num_experts; ++expert) {
      experts.push_back(math::expert_rows(ends, expert, max_rows));
    }
    fault_word = math::scan_faults(ends, num_experts, max_rows);
    tail_begin = math::tail_begin(ends, num_experts, max_rows);
  }
};

/// Changes the records at the head of a workspace, whose bytes are no object of their type.
template <class Change>
void change_header(const Workspace& workspace, const Change& change) {
  core::WorkspaceHeader header;
  std::memcpy(&header, workspace.bytes.data(), sizeof(header));
  change(header);
  std::memcpy(workspace.bytes.data(), &header, sizeof(header));
}

/// Keeps the fault of the lowest expert seen since the header was last taken.
inline void record_fault(const Workspace& workspace, std::uint64_t fault_word) {
  change_header(workspace, [&](core::WorkspaceHeader& header) {
    header.fault_word = math::combine_faults(header.fault_word, fault_word);
  });
}
/// padded_bmm alone: other strategies leave what its last execute has written.
inline void record_overflow(const Workspace& workspace, std::int64_t overflow_rows) {
  change_header(workspace,
                [&](core::WorkspaceHeader& header) { header.overflow_rows = overflow_rows; });
}

inline const std::byte* at(const ConstTensorView& view, std::int64_t offset_elems) {
  return static_cast<const std::byte*>(view.data) + offset_elems * size_bytes(view.dtype);
}
inline std::byte* at(const TensorView& view, std::int64_t offset_elems) {
  return static_cast<std::byte*>(view.data) + offset_elems * size_bytes(view.dtype);
}

/// The first element of a row of a matrix of T.
template <class T>
const T* row(const ConstTensorView& matrix, std::int64_t index) {
  return reinterpret_cast<const T*>(at(matrix, index * matrix.stride[0]));
}
template <class T>
T* row(const TensorView& matrix, std::int64_t index) {
  return reinterpret_cast<T*>(at(matrix, index * matrix.stride[0]));
}

/// Row `index` of take_rows().
inline void take_row(const TakeRowsArgs& args, std::int64_t index) {
  const auto row_bytes = static_cast<std::size_t>(args.x.shape[1] * size_bytes(args.x.dtype));
  const std::int32_t from =
      math::gathered_row(static_cast<const std::int32_t*>(args.x_rows.data)[index],
                         static_cast<std::int32_t>(args.x.shape[0]));
  auto* to = row<std::byte>(args.rows, index);
  if (from < 0) {
    std::memset(to, 0, row_bytes);
  } else {
    std::memcpy(to, row<std::byte>(args.x, from), row_bytes);
  }
}

/// Zeroes rows [begin, end) of a matrix [rows, columns].
inline void zero_rows(const TensorView& matrix, std::int64_t begin, std::int64_t end) {
  const auto row_bytes = static_cast<std::size_t>(matrix.shape[1] * size_bytes(matrix.dtype));
  for (std::int64_t row = begin; row < end; ++row) {
    std::memset(at(matrix, row * matrix.stride[0]), 0, row_bytes);
  }
}

/// The weight of a row; 1 where `row_weights` is empty.
inline float weight_of(const ConstTensorView& row_weights, std::int64_t index) {
  return row_weights.data == nullptr ? 1.0F : static_cast<const float*>(row_weights.data)[index];
}
/// Zeroes [begin, end) of a dense vector.
inline void zero_elements(const TensorView& vector, std::int64_t begin, std::int64_t end) {
  if (begin < end) {
    std::memset(at(vector, begin), 0,
                static_cast<std::size_t>((end - begin) * size_bytes(vector.dtype)));
  }
}

/// The matrix of one expert in a weight-shaped tensor [E, rows, columns].
template <class View>
View expert_matrix(const View& tensor, std::int64_t expert) {
  View matrix = tensor;
  matrix.data = at(tensor, expert * tensor.stride[0]);
  matrix.rank = 2;
  matrix.shape = {tensor.shape[1], tensor.shape[2], 0};
  matrix.stride = {tensor.stride[1], tensor.stride[2], 0};
  return matrix;
}

}  // namespace moesaic::backends
