// SPDX-License-Identifier: Apache-2.0
// What the command needs of the machine: threads for filling memory, memory that is free, a device.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "moesaic/device.hpp"
#include "moesaic/grouped_gemm.hpp"
#include "options.hpp"

namespace moesaic::cli {

/// Calls work(begin, end) on pieces of [0, count) in parallel; the pieces cover it once. `work` may
/// not throw.
void parallel_pieces(std::int64_t count,
                     const std::function<void(std::int64_t, std::int64_t)>& work);

/// Bytes that can still be allocated without swapping: of the machine, or of this process's control
/// group where that is less. 0 when neither is known.
double available_memory_bytes();

/// What operands take: weights grow with --shape and the experts, the rest with --rows too.
struct MemoryNeed {
  double weights_bytes = 0, rows_bytes = 0;
};

/// @throws Error{invalid_argument} when that exceeds what is available: naming --shape when the
/// weights alone do, else --rows.
void require_memory(const MemoryNeed& need);

/// What an implementation computes. The baselines' names end with it ("cpu/onednn/host_loop"); any
/// other is of the grouped product.
Strategy strategy_of(std::string_view implementation);

/// Why none of the candidates for `strategy` can: "cpu/onednn/host_loop: it needs …; …". Those that
/// compute another strategy say nothing about it and are left out. Empty when one can.
std::string reasons_against(const std::vector<Candidate>& candidates, Strategy strategy);

/// A device, and for `auto` in one line why a CUDA device that is here was not taken.
struct DeviceChoice {
  DeviceInfo device;
  std::string why_not_cuda;
};

/// Why a device cannot do what is asked; empty when it can.
using Refusal = std::function<std::string(const DeviceInfo&)>;

/// The device for --backend: auto is the first CUDA device that `refusal` has nothing against, else
/// the CPU. @throws Error{device_failure} when cuda was asked for and there is no such device,
/// Error{unsupported} when there is one that cannot; with the reason.
DeviceChoice choose_device(BackendChoice choice, const Refusal& refusal);

/// The choice as lines on stderr: what was not taken and why, then what runs.
void print_choice(const DeviceChoice& choice, const std::string& verb);

}  // namespace moesaic::cli
