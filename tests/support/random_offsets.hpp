// SPDX-License-Identifier: Apache-2.0
// Random problems for the schedule tests: offsets (some of them wrong), tiles of odd sizes but even
// widths, so that they can be halved, workers; the segments of such offsets, written down a second
// time straight from the contract; and workers that share out indices as those of a kernel do.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace moesaic::math {

struct ScheduleCase {
  std::vector<std::int32_t> offs;
  std::int64_t max_rows = 0;
  std::int64_t n = 0, tile_m = 0, tile_n = 0, group_m = 0;
  std::int64_t few_m = 0, few_n = 1;
  bool spread = false, elastic = false;
  std::int64_t num_workers = 0;
  bool wrong = false;
};

class ScheduleCases {
 public:
  explicit ScheduleCases(std::uint64_t seed) : rng_(seed) {}

  ScheduleCase next() {
    ScheduleCase c;
    c.tile_m = pick<std::int64_t, 10>({1, 3, 7, 8, 16, 64, 100, 128, 192, 256});
    c.tile_n = pick<std::int64_t, 6>({2, 6, 8, 192, 256, 384});
    c.n = 1 + below(5 * c.tile_n + 1);
    c.few_m = pick<std::int64_t, 5>({0, 1, c.tile_m / 2, c.tile_m - 1, below(c.tile_m)});
    c.few_m = std::min(c.few_m, c.tile_m - 1);
    c.few_n = std::max<std::int64_t>(
        1, pick<std::int64_t, 4>({c.tile_n / 4, c.tile_n / 2, c.tile_n, 2 * c.tile_n + 1}));
    c.group_m = pick<std::int64_t, 6>({1, 2, 3, 8, 16, 1000});
    c.num_workers = below(8) == 0 ? 264 : 1 + below(132);
    const std::int64_t num_experts = draw_num_experts();
    const std::int64_t shape = below(8);  // 0: all empty, 1: one expert has all, otherwise mixed
    const std::int64_t favourite = below(num_experts);
    std::int64_t end = 0;
    for (std::int64_t e = 0; e < num_experts; ++e) {
      if (shape == 1 ? e == favourite : shape != 0) end += draw_rows(c.tile_m, c.few_m);
      c.offs.push_back(static_cast<std::int32_t>(end));
    }
    c.max_rows = end + pick<std::int64_t, 4>({0, 0, 1, 3 * c.tile_m + 1});
    c.wrong = below(5) == 0;
    for (std::int64_t i = c.wrong ? 1 + below(3) : 0; i > 0; --i) {
      c.offs[static_cast<std::size_t>(below(num_experts))] = draw_wrong(c.max_rows);
    }
    c.spread = below(2) == 0;
    c.elastic = below(2) == 0;
    return c;
  }

 private:
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(rng_() % static_cast<std::uint64_t>(limit));
  }
  template <class T, std::size_t kCount>
  T pick(const std::array<T, kCount>& from) {
    return from[static_cast<std::size_t>(below(kCount))];
  }
  std::int64_t draw_num_experts() {
    const std::int64_t kind = below(800);
    if (kind == 0) return pick<std::int64_t, 5>({1023, 1024, 1025, 2048, 4096});
    if (kind < 16) return 41 + below(260);
    return 1 + below(40);
  }
  std::int64_t draw_rows(std::int64_t tile_m, std::int64_t few_m) {
    switch (below(9)) {
      case 0:
      case 1:
        return 0;
      case 2:
        return 1;
      case 3:
        return tile_m - 1 + below(3);
      case 4:
        return below(3) * tile_m + few_m + below(2);
      default:
        return below(6 * tile_m);
    }
  }
  std::int32_t draw_wrong(std::int64_t max_rows) {
    switch (below(6)) {
      case 0:
        return -1;
      case 1:
        return std::numeric_limits<std::int32_t>::min();
      case 2:
        return std::numeric_limits<std::int32_t>::max();
      case 3:
        return static_cast<std::int32_t>(max_rows + 1);
      default:
        return static_cast<std::int32_t>(below(max_rows + 1));
    }
  }

  std::mt19937_64 rng_;
};

struct ReferenceSegment {
  std::int64_t begin = 0, rows = 0;
};

inline std::vector<ReferenceSegment> reference_segments(const ScheduleCase& c) {
  std::vector<ReferenceSegment> segments;
  std::int64_t begin = 0;
  for (const std::int64_t end : c.offs) {
    const bool inside = begin >= 0 && begin <= c.max_rows && end >= 0 && end <= c.max_rows;
    segments.push_back(inside && end > begin ? ReferenceSegment{begin, end - begin}
                                             : ReferenceSegment{});
    begin = end;
  }
  return segments;
}

/// The indices that each worker takes unasked.
using Turns = std::vector<std::vector<std::int64_t>>;

/// Every `num_workers`-th from a worker's own number on, up to the first that is not below
/// `in_turns`.
inline Turns plain_turns(std::int64_t num_workers, std::int64_t in_turns) {
  Turns turns;
  for (std::int64_t worker = 0; worker < num_workers; ++worker) {
    turns.emplace_back();
    for (std::int64_t index = worker; index < in_turns; index += num_workers) {
      turns.back().push_back(index);
    }
    turns.back().push_back(worker + static_cast<std::int64_t>(turns.back().size()) * num_workers);
  }
  return turns;
}

/// Workers take what `turns` says; then whoever is next takes, from `shared` on, what nobody has.
/// They run in random order. Calls take(worker, index) until each of `total` indices is taken, and
/// for every worker once more, with the index that ends its way: `total` or more.
template <class Take>
void take_turns(std::int64_t total, const Turns& turns, std::int64_t shared, std::uint64_t seed,
                Take&& take) {
  struct Worker {
    std::size_t number, taken;
    std::int64_t next;
  };
  std::mt19937_64 rng(seed);
  std::vector<Worker> workers;
  for (std::size_t number = 0; number < turns.size(); ++number) {
    workers.push_back({number, 1, turns[number].front()});
  }
  while (!workers.empty()) {
    Worker& worker = workers[rng() % workers.size()];
    const std::int64_t index = worker.next;
    take(static_cast<std::int64_t>(worker.number), index);
    const std::vector<std::int64_t>& own = turns[worker.number];
    if (index >= total) {
      worker = workers.back();
      workers.pop_back();
    } else {
      worker.next = worker.taken < own.size() ? own[worker.taken++] : shared++;
    }
  }
}

}  // namespace moesaic::math
