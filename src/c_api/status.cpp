// SPDX-License-Identifier: Apache-2.0
// The message of the last failure, one per thread.

#include "c_api/status.hpp"

namespace moesaic::c_api {
namespace {

std::string& last_message() {
  thread_local std::string message;
  return message;
}

int status_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
      return moesaic_invalid_argument;
    case ErrorCode::unsupported:
      return moesaic_unsupported;
    case ErrorCode::workspace_too_small:
      return moesaic_workspace_too_small;
    case ErrorCode::device_failure:
      return moesaic_device_failure;
  }
  return moesaic_internal_error;
}

}  // namespace

int fail(int status, std::string_view message) noexcept {
  try {
    last_message() = message;
  } catch (...) {
    last_message().clear();  // no memory for the message; the status still tells
  }
  return status;
}

int fail(const Error& error) noexcept { return fail(status_of(error.code()), error.what()); }

}  // namespace moesaic::c_api

extern "C" const char* moesaic_last_error(void) { return moesaic::c_api::last_message().c_str(); }
