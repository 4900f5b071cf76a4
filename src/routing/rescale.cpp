// SPDX-License-Identifier: Apache-2.0
// Operations on one histogram: apportionment, rescaling, expert-parallel shares.
#include <algorithm>
#include <numeric>

#include "moesaic/routing.hpp"
#include "routing/apportion.hpp"
#include "routing/fail.hpp"

namespace moesaic::routing {
namespace {

__extension__ using Wide = unsigned __int128;  // rows x weight needs 126 bits

void add_label(Record& record, const std::string& text) {
  record.label += (record.label.empty() ? "" : "; ") + text;
}

/// "1, 2, 4, …": the divisors, shortened in the middle of long lists by leaving out the rest.
std::string divisors(std::int64_t number) {
  constexpr std::size_t kMaxShown = 24;
  std::vector<std::int64_t> found;
  for (std::int64_t d = 1; d <= number && found.size() < kMaxShown; ++d) {
    if (number % d == 0) found.push_back(d);
  }
  std::string out;
  for (const std::int64_t d : found) out += concat(out.empty() ? "" : ", ", d);
  return found.size() == kMaxShown ? out + ", ..." : out;
}

}  // namespace

std::vector<std::int64_t> apportion(std::int64_t rows, std::span<const std::int64_t> weights) {
  const Wide total =
      static_cast<Wide>(std::accumulate(weights.begin(), weights.end(), std::int64_t{0}));
  std::vector<std::int64_t> shares(weights.size());
  std::vector<std::uint64_t> remainders(weights.size());
  std::int64_t left = rows;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Wide product = static_cast<Wide>(rows) * static_cast<Wide>(weights[i]);
    shares[i] = static_cast<std::int64_t>(product / total);
    remainders[i] = static_cast<std::uint64_t>(product % total);
    left -= shares[i];
  }
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(left);
  std::partial_sort(order.begin(), middle, order.end(), [&](std::size_t a, std::size_t b) {
    return remainders[a] != remainders[b] ? remainders[a] > remainders[b] : a < b;
  });
  std::for_each(order.begin(), middle, [&](std::size_t i) { ++shares[i]; });
  return shares;
}

Record rescale(const Record& record, std::int64_t rows) {
  if (rows < 0) fail("rows is ", rows, ", expected 0 or more");
  Record out = record;
  const std::int64_t old_rows = record.rows();
  if (old_rows == 0) {
    add_label(out, "all zero, not rescaled");
    return out;
  }
  out.counts = apportion(rows, record.counts);
  out.invalid_slots = 0;
  out.tokens = record.top_k > 0 && rows % record.top_k == 0 ? rows / record.top_k : -1;
  add_label(out, concat("rescaled to ", rows, " rows from ", old_rows));
  return out;
}

void require_even_share(std::int64_t experts, std::int64_t redundant, std::int64_t ep) {
  if (experts < 1 || redundant < 0 || redundant > kMaxExperts || experts > kMaxExperts) {
    fail("experts is ", experts, " with ", redundant, " redundant ones, expected 1 to ",
         kMaxExperts, " and 0 or more");
  }
  if (ep < 1) fail("ep is ", ep, ", expected 1 or more ranks");
  const std::int64_t slots = experts + redundant;
  if (slots % ep == 0) return;
  const std::int64_t fewest = (ep - experts % ep) % ep;
  const std::string held =
      redundant == 0 ? concat(experts, " experts")
                     : concat(experts, " + ", redundant, " redundant = ", slots, " experts");
  fail("ep is ", ep, ", which does not divide ", held, "; ep sizes that work: ", divisors(slots),
       "; or with ep ", ep, " numbers of redundant experts that work: ", fewest, ", ", fewest + ep,
       ", ", fewest + 2 * ep, ", ...");
}

Record rank_share(const Record& record, std::int64_t ep, std::int64_t rank) {
  const auto experts = static_cast<std::int64_t>(record.counts.size());
  require_even_share(experts, 0, ep);
  if (rank < 0 || rank >= ep) fail("rank is ", rank, ", expected 0 to ", ep - 1, " for ep ", ep);
  const std::int64_t share = experts / ep, first = rank * share;
  Record out = record;
  out.counts.assign(record.counts.begin() + first, record.counts.begin() + first + share);
  out.rank = rank;
  out.tokens = -1;
  out.invalid_slots = 0;  // padding belongs to no expert, so to no rank
  if (record.rank >= 0) add_label(out, concat("source rank ", record.rank));
  add_label(out, concat("experts ", first, " to ", first + share - 1, " of ", experts));
  return out;
}

}  // namespace moesaic::routing
