// SPDX-License-Identifier: Apache-2.0
// The CPU backend through oneDNN: AMX or AVX-512 BF16 where the processor has them.
#pragma once

#include "backends/backend.hpp"

namespace moesaic::backends::onednn {

const Backend& backend();

/// Version of the library loaded now.
std::string library_version();

}  // namespace moesaic::backends::onednn
