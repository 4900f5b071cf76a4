// SPDX-License-Identifier: Apache-2.0
// Exceptions become status codes here: no exception crosses the C ABI.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "moesaic/c_api.h"
#include "moesaic/error.hpp"

namespace moesaic::c_api {

/// Keeps `message` for moesaic_last_error() of this thread and returns `status`.
int fail(int status, std::string_view message) noexcept;
int fail(const Error& error) noexcept;

/// Refuses a null pointer argument by name.
template <class T>
T& required(std::string_view argument, T* pointer) {
  if (pointer == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                std::string(argument) + ": expected a pointer, got null");
  }
  return *pointer;
}

/// Runs `body`; what it throws becomes a status.
template <class Body>
int guarded(Body&& body) noexcept {
  try {
    body();
    return moesaic_ok;
  } catch (const Error& error) {
    return fail(error);
  } catch (const std::bad_alloc&) {
    return fail(moesaic_internal_error, "out of host memory");
  } catch (const std::exception& error) {
    return fail(moesaic_internal_error, error.what());
  } catch (...) {
    return fail(moesaic_internal_error, "an exception of unknown type");
  }
}

}  // namespace moesaic::c_api
