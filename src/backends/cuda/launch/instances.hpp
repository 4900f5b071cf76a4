// SPDX-License-Identifier: Apache-2.0
// The table of compiled kernels, as plain data.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "backends/cuda/block/kernel_config.hpp"
#include "math/smem_layout.hpp"

namespace moesaic::backends::cuda {

struct Instance {
  std::string_view name;
  KernelConfig config;
  const void* (*kernel)();  ///< The __global__ function, for the runtime's launch calls.
};

/// What a plan that is made by it is called.
inline std::string implementation_name(const Instance& instance) {
  return "cuda/sm90/" + std::string(instance.name);
}

#define MOESAIC_SM90_INSTANCE(name, ...) const void* kernel_##name();
#include "backends/cuda/sm90_instances.def"
#undef MOESAIC_SM90_INSTANCE

#define MOESAIC_SM90_INSTANCE(name, ...) Instance{#name, KernelConfig{__VA_ARGS__}, kernel_##name},
inline constexpr std::array kInstances = {
#include "backends/cuda/sm90_instances.def"
};
#undef MOESAIC_SM90_INSTANCE

/// One that computes a grouped product as such, and no part of an expert.
constexpr bool is_product(const KernelConfig& config) {
  return config.epilogue == Epilogue::store && !config.gather && !config.row_weights;
}

constexpr bool all_fit() {
  for (const Instance& instance : kInstances) {
    const KernelConfig& config = instance.config;
    // What else a consumer thread has to keep fits 32 registers, beside a side that is rounded.
    const int rounded = config.hands_over() ? config.accumulators() / 4 : 0;
    const bool registers = config.accumulators() + rounded <= config.consumer_registers() - 32 &&
                           config.consumer_registers() >= config.launch_registers();
    // Both parts of U, or dH, in BF16.
    const bool hands = !config.hands_over() ||
                       !(config.wgrad || config.f32_out || config.row_weights || config.spread);
    // A warpgroup has one block of rows, and half a large tile is as wide as the box of few rows.
    const bool boxes =
        config.rows_per_warpgroup() == kBlockRows && config.tile_n == 2 * kFewColumns;
    // Rows that are gathered are x's, and a tail is zeroed by warps that gather.
    const bool gathers = !config.gather || config.wgrad || config.epilogue == Epilogue::swiglu;
    // Tiles of few rows are beside large ones of the same height, and the consumers of a sum that
    // is stored go from one to the other and back.
    const bool spreads =
        !config.spread || (config.epilogue == Epilogue::store && !config.wgrad && !config.pair);
    // A lane knows the weights of two rows, those of its one block.
    const bool weighs = !config.row_weights ||
                        (config.epilogue == Epilogue::store && !config.wgrad && !config.f32_out);
    // Each CTA of a pair loads whole boxes of what both read; its rows lie in order.
    const bool pairs = !config.pair || !((config.f32_out && !config.wgrad) || config.gather ||
                                         config.row_weights || config.spread);
    if (config.smem_bytes() > math::kSm90SmemBytes || !registers || !boxes || !gathers ||
        !spreads || !weighs || !pairs || !hands) {
      return false;
    }
  }
  return true;
}
static_assert(all_fit(), "an instance exceeds shared memory, registers or a copy box");

/// Every pass, storage and output type has an instance.
constexpr bool all_served() {
  for (const bool wgrad : {false, true}) {
    for (const bool f32_out : {false, true}) {
      for (const bool b_mn_major : {false, true}) {
        bool served = wgrad && !b_mn_major;  // wgrad has one layout
        for (const Instance& instance : kInstances) {
          const KernelConfig& config = instance.config;
          served = served || (is_product(config) && config.wgrad == wgrad &&
                              config.f32_out == f32_out && config.b_mn_major == b_mn_major);
        }
        if (!served) return false;
      }
    }
  }
  return true;
}
static_assert(all_served(), "a pass, storage or output type has no instance");

}  // namespace moesaic::backends::cuda
