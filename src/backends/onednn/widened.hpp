// SPDX-License-Identifier: Apache-2.0
// BF16 products on processors whose oneDNN multiplies FP32 only: operands are widened tile by tile,
// which is exact.
#pragma once

#include <cstddef>
#include <memory>

#include "backends/onednn/matmul.hpp"

namespace moesaic::backends::onednn {

/// A product with BF16 operands as an FP32 one. A packed b is the widened, dense [k, n].
std::shared_ptr<const Matmul> compile_widened(const MatmulSpec& spec);

std::size_t widened_packed_bytes(const MatmulSpec& spec);
void pack_widened(const MatmulSpec& spec, const void* strided_b, void* packed_b);

}  // namespace moesaic::backends::onednn
