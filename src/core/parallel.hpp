// SPDX-License-Identifier: Apache-2.0
// Loops on several threads out of which exceptions come: the only OpenMP regions whose bodies may
// throw. Without OpenMP they run on the calling thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <type_traits>
#if defined(_OPENMP)
#include <omp.h>
#endif

namespace moesaic::core {

/// Runs body(state, index) for every index below `count` on at most `threads` threads (0: as many
/// as OpenMP's default), each with a State of its own. After a failure no further index begins.
/// @throws the first exception that a body threw, once all threads are done.
template <class State, class Body>
void parallel_for_with(std::int64_t count, int threads, const Body& body) {
  static_assert(std::is_nothrow_default_constructible_v<State>);
  std::exception_ptr failure;
  std::atomic_flag failed;
#if defined(_OPENMP)
  const int team = threads > 0 ? threads : omp_get_max_threads();
#pragma omp parallel num_threads(team)
#else
  static_cast<void>(threads);
#endif
  {
    State state;
#if defined(_OPENMP)
#pragma omp for schedule(dynamic, 1)
#endif
    for (std::int64_t index = 0; index < count; ++index) {
      if (failed.test(std::memory_order_relaxed)) {
        continue;  // an OpenMP loop has no break
      }
      try {
        body(state, index);
      } catch (...) {  // one that leaves an OpenMP region ends the process
        if (!failed.test_and_set()) {
          failure = std::current_exception();
        }
      }
    }
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

/// The same where threads keep nothing between indices: body(index).
template <class Body>
void parallel_for(std::int64_t count, int threads, const Body& body) {
  struct Nothing {};
  parallel_for_with<Nothing>(count, threads,
                             [&](Nothing& /*state*/, std::int64_t index) { body(index); });
}

}  // namespace moesaic::core
