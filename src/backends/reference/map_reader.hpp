// SPDX-License-Identifier: Apache-2.0
// One rank's route maps as the simulated exchange reads them, and elements of rows as FP32.
#pragma once

#include <cstdint>

#include "core/expert_parallel_impl.hpp"
#include "math/route_fault.hpp"
#include "moesaic/dtype.hpp"

namespace moesaic::backends::reference {

/// One rank's route maps, which point into the buffers of all ranks.
struct MapReader {
  const std::int32_t* ranks;
  const std::int32_t* rows;
  std::int32_t num_ranks;
  std::int64_t max_rows;
  std::int64_t routes;

  MapReader(const detail::ExpertParallelImpl& exchange, const ConstTensorView& map_ranks,
            const ConstTensorView& map_rows)
      : ranks(static_cast<const std::int32_t*>(map_ranks.data)),
        rows(static_cast<const std::int32_t*>(map_rows.data)),
        num_ranks(exchange.group().num_ranks()),
        max_rows(exchange.max_rows()),
        routes(map_ranks.shape[0] * map_ranks.shape[1]) {}

  [[nodiscard]] bool moves(std::int64_t route) const {
    return math::moves_row(ranks[route], rows[route], num_ranks, max_rows);
  }
  [[nodiscard]] std::uint64_t faults(math::Transfer transfer) const {
    std::uint64_t word = 0;
    for (std::int64_t route = 0; route < routes; ++route) {
      word = math::combine_route_faults(word, math::encode_route_fault(math::map_fault(
                                                  ranks[route], rows[route], num_ranks, max_rows,
                                                  static_cast<std::int32_t>(route), transfer)));
    }
    return word;
  }
};

inline float single(float value) { return value; }
inline float single(BFloat16 value) { return static_cast<float>(value); }
template <class T>
T rounded(float value) {
  return static_cast<T>(value);
}

inline const float* probs_of(const ConstTensorView& probs) {
  return probs.rank == 0 ? nullptr : static_cast<const float*>(probs.data);
}

/// Calls `body` with a value of the rows' C++ type.
template <class Body>
void with_row_type(Format format, const Body& body) {
  format == Format::f32 ? body(float{}) : body(BFloat16{});
}

}  // namespace moesaic::backends::reference
