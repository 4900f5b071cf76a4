// SPDX-License-Identifier: Apache-2.0
// One function per file format, and what they share. Each reads `input` to its end and emits
// records.
#pragma once

#include <string_view>

#include "routing/collector.hpp"
#include "routing/input.hpp"

namespace moesaic::routing {

/// A JSON document of any known format (moesaic.routing/1, SGLang, EPLB, vLLM).
void read_json(Input& input, Collector& collector);
/// JSON lines {"type":"meta"…}, {"type":"route", layer, topk_ids} of a router hook.
void read_hook_log(Input& input, Collector& collector);
/// NumPy array of ids [tokens, layers, top_k], or with a form hint a matrix.
void read_npy(Input& input, Collector& collector);
/// ZIP of .npy members: Megatron's expert-load dump, or one array of ids.
void read_npz(Input& input, Collector& collector);
/// Long CSV with the columns layer, expert, count and optionally step, rank.
void read_csv(Input& input, Collector& collector);
/// TensorRT-LLM expert statistics.
void read_safetensors(Input& input, Collector& collector);

/// True if `line` is a JSON object whose "type" is "meta" or "route".
[[nodiscard]] bool is_hook_log_line(std::string_view line);

/// Refuses a pickle in one line that says how to convert it.
[[noreturn]] void refuse_pickle(const Collector& collector);

}  // namespace moesaic::routing
