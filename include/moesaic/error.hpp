// SPDX-License-Identifier: Apache-2.0
// The one exception type of moesaic, and the answer to «can this run?».
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace moesaic {

enum class ErrorCode : std::uint8_t {
  invalid_argument,  ///< An argument breaks the contract; the message names it, what was expected
                     ///< and what came.
  unsupported,  ///< A legal request that no implementation here can serve; the message says why.
  workspace_too_small,  ///< The caller's workspace is missing, too small or misaligned.
  device_failure,       ///< The device or its driver reported an error, or there is no such device.
};

/// What every throwing function of moesaic throws.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  [[nodiscard]] ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// Yes, or no with the reason.
struct Support {
  bool ok = false;
  std::string reason;  ///< Empty when ok.
  explicit operator bool() const noexcept { return ok; }
};

}  // namespace moesaic
