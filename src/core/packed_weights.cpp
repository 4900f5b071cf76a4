// SPDX-License-Identifier: Apache-2.0
// The handle of packed weights. Here rather than in dispatch, since backends make them.

#include <utility>

#include "core/grouped_gemm_impl.hpp"
#include "moesaic/grouped_gemm.hpp"

namespace moesaic {

PackedWeights::PackedWeights(std::shared_ptr<const detail::PackedWeightsImpl> impl)
    : impl_(std::move(impl)) {}

std::string_view PackedWeights::implementation() const noexcept {
  return impl_ ? impl_->implementation() : std::string_view();
}

std::int64_t PackedWeights::size_bytes() const noexcept { return impl_ ? impl_->size_bytes() : 0; }

}  // namespace moesaic
