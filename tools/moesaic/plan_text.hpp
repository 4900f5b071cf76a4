// SPDX-License-Identifier: Apache-2.0
// `plan` for people: what the table, the worst layer's ledgers and the verdict need of every layer,
// and their text. JSON and CSV go out layer by layer and keep nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "moesaic/planner.hpp"
#include "moesaic/routing.hpp"
#include "options.hpp"

namespace moesaic::cli {

class PlanText {
 public:
  explicit PlanText(const PlanFlags& flags, const InputOptions& input)
      : flags_(flags), input_(input) {}

  /// One layer record: itself, or the shares of its ranks, with the plan of each. Keeps what the
  /// table shows; of the slowest rank all, while its layer is the worst; of the ranks' report the
  /// one with the longest tail.
  void take(const routing::Record& whole, const std::vector<routing::Record>& shares,
            std::vector<planner::LayerPlan>&& plans);
  [[nodiscard]] std::string text(const std::vector<std::string>& notes) const;

 private:
  struct Kept {
    std::string source;
    std::int64_t layer = 0, step = 0, rank = -1, invalid_slots = 0;
    bool summed = false;
    std::string note;         ///< "rescaled ...", where the rows are not the source's own.
    std::int64_t group = -1;  ///< Which layer record a rank belongs to; -1: a layer by itself.
  };

  void take_ranks(const routing::Record& whole);

  [[nodiscard]] std::string label(const Kept& kept) const;
  [[nodiscard]] std::vector<std::size_t> shown_order() const;
  [[nodiscard]] std::string head(const std::vector<std::string>& notes) const;
  [[nodiscard]] std::string table() const;
  [[nodiscard]] std::vector<std::string> table_row(std::size_t index) const;
  [[nodiscard]] std::string ledgers() const;
  [[nodiscard]] std::string cost() const;
  [[nodiscard]] std::string ranks() const;
  [[nodiscard]] std::string verdict() const;
  [[nodiscard]] std::string worst_label() const;

  PlanFlags flags_;
  InputOptions input_;
  std::vector<Kept> kept_;
  std::vector<planner::LayerPlan> plans_;  ///< Without what only the worst layer's part shows.
  std::optional<planner::LayerPlan> worst_;
  std::size_t worst_index_ = 0;
  std::optional<planner::RankReport> tail_;
  std::string tail_label_;
  std::int64_t groups_ = 0;
  bool many_sources_ = false;
};

/// The definitions that --explain adds.
std::string explain_text();

/// The factor as the double nearest to its decimal: 1.6, where millionths times 1e-6 give
/// 1.5999999999999999.
double printed_factor(const Capacity& capacity);

/// Heads and lines of `plan --csv`.
std::string plan_csv_head(const PlanFlags& flags);
std::string plan_csv_line(const routing::Record& record, const planner::LayerPlan& plan);

}  // namespace moesaic::cli
