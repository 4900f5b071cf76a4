// SPDX-License-Identifier: Apache-2.0
// L0: where workers in step say how far they are in a tile's contraction, and where they wait for
// one another. All tiles of a round have the same marks, those of the shortest, so that counting
// marks is enough.
#pragma once

#include "math/host_device.hpp"

namespace moesaic::math {

/// The marks of one tile. Before each wait a worker asks, early enough for the answer to be there.
class StepMarks {
 public:
  static constexpr int kFirst = 8;         ///< Stage of the first mark (NB-0015).
  static constexpr int kEvery = 64;        ///< Stages from mark to mark (NB-0017).
  static constexpr int kWaitsBehind = 16;  ///< Stages from a mark to its wait (NB-0015).
  static constexpr int kAsksBefore = 4;    ///< Stages from the question to the wait.

  enum class Place { before_mark, at_mark, at_question, at_wait };

  /// A tile of so many stages or more.
  MOESAIC_HD constexpr void begin(int stages) {
    stages_ = stages;
    mark_ = kFirst;
  }
  /// Whether there is another mark: one whose wait lies inside the tile.
  [[nodiscard]] MOESAIC_HD constexpr bool any() const { return wait() < stages_; }

  /// Of the next stage to be loaded: 0, or what up_to() gave last.
  [[nodiscard]] MOESAIC_HD constexpr Place place(int stage) const {
    return stage < mark_    ? Place::before_mark
           : stage == mark_ ? Place::at_mark
           : stage < wait() ? Place::at_question
                            : Place::at_wait;
  }
  /// Behind a wait.
  MOESAIC_HD constexpr void go_on() { mark_ += kEvery; }

  /// Up to which stage to go on from such a place, which is not a wait.
  [[nodiscard]] MOESAIC_HD constexpr int up_to(Place place) const {
    return place == Place::before_mark ? mark_
           : place == Place::at_mark   ? wait() - kAsksBefore
                                       : wait();
  }

 private:
  [[nodiscard]] MOESAIC_HD constexpr int wait() const { return mark_ + kWaitsBehind; }

  int stages_ = 0, mark_ = 0;
};

}  // namespace moesaic::math
