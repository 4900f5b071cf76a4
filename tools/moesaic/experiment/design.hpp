// SPDX-License-Identifier: Apache-2.0
// Designs as data: which cases an experiment has, in which order, with which arms, timed how. Made
// from a seed by arithmetic alone, so that tests reach all of it without a device. How cases run is
// runner.hpp's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "moesaic/grouped_gemm.hpp"
#include "moesaic/planner.hpp"
#include "moesaic/routing.hpp"
#include "regime.hpp"

namespace moesaic::cli::experiment {

enum class Arm : std::uint8_t { grouped, padded_bmm, host_loop, dense, torch };
/// `full` is what the claim's own protocol says; anything smaller, shorter or rarer is `reduced`.
enum class Protocol : std::uint8_t { full, reduced };

std::string_view name(Arm arm) noexcept;
std::string_view name(Protocol protocol) noexcept;
/// @throws Error{invalid_argument} naming --arms or --protocol, what was expected and what came.
Arm parse_arm(std::string_view text);
Protocol parse_protocol(std::string_view text);

/// A named value of the design: a whole number, a word, or true or false.
using FactorValue = std::variant<std::int64_t, bool, std::string>;
struct Factor {
  std::string name;
  FactorValue value;
};
using Factors = std::vector<Factor>;
/// The value of a factor as text; empty when there is none of that name.
std::string factor_text(const Factors& factors, std::string_view name);

/// How long a case is worked on.
struct Timing {
  Regime regime = Regime::short_burst;
  std::int64_t warm_ups = kGpuWarmUps;
  std::int64_t samples = 20;  ///< short_burst: executes of every arm.
  SustainedRegions regions{};
};

/// What the dense arm multiplies: all rows by the first expert's weights, or the rows of one expert
/// by all experts' weights side by side. Both have the FLOPs of the grouped product.
enum class DenseControl : std::uint8_t { first_expert, joined };
/// How the padded arm gets its batch: filled before any timing, as the sweeps of the report do, or
/// as the strategy does it, with the copies in and out and what overflows inside the time.
enum class PaddedBatch : std::uint8_t { prefilled, copied };
/// What experts' rows hold: each its own, or every expert the same (counts are then equal).
enum class ExpertRows : std::uint8_t { own, repeated };

struct Case {
  std::string key;    ///< Unique in the design, process aside; says what it is.
  std::string group;  ///< Cases that a plan shows as one line.
  Factors factors;
  planner::LayerShape shape;
  planner::Projection projection = planner::Projection::square;
  routing::Record record;  ///< Rows of each expert, and where they come from.
  std::vector<Arm> arms;   ///< In the order of the first round.
  std::int64_t process = 0;
  DenseControl dense = DenseControl::first_expert;
  PaddedBatch padded = PaddedBatch::prefilled;
  ExpertRows expert_rows = ExpertRows::own;

  [[nodiscard]] std::int64_t experts() const {
    return static_cast<std::int64_t>(record.counts.size());
  }
  [[nodiscard]] planner::ProductShape product() const {
    return planner::product_shape(shape, projection);
  }
  /// Of one execute of the grouped product, padding not counted.
  [[nodiscard]] double useful_flops() const;
};

struct Design {
  std::string name;   ///< "fig38"
  std::string title;  ///< What is asked, in one line.
  Protocol protocol = Protocol::full;
  std::string why_reduced;  ///< What is less than the claim's own protocol; empty when full.
  Timing timing;
  std::uint64_t seed = 1;      ///< Of histograms, orders and operands.
  std::int64_t processes = 1;  ///< Fresh processes that share the cases out.
  std::vector<Case> cases;     ///< In the order of execution: process 0 first.
};

/// What a user may change of a design. Anything less than the claim's own makes it reduced.
struct DesignOptions {
  Protocol protocol = Protocol::full;
  std::vector<Arm> arms{};  ///< Empty: the experiment's own.
  std::int64_t trials = 0;  ///< Trials, or fresh processes of fig40; 0: as the claim has them.
  std::uint64_t seed = 1;
};

/// The experiments that are designs by name; `skew` needs records, `fig2` is arithmetic.
std::span<const std::string_view> design_names() noexcept;
/// All experiments: the designs by name, skew and fig2.
std::span<const std::string> experiment_names();
bool is_experiment(std::string_view name);
/// @throws Error{invalid_argument} for an unknown name, for an arm that the experiment does not
/// have, and for trials where there are none.
Design make_design(std::string_view name, const DesignOptions& options);

/// Replays records: every one by all arms, and for every number of experts the pair of the broadest
/// and the most concentrated record at the same number of rows.
/// @throws Error{invalid_argument} without a record that has rows, or like make_design.
Design make_skew(const std::vector<routing::Record>& records, const planner::LayerShape& shape,
                 planner::Projection projection, const DesignOptions& options);
/// Mean rows per expert up to which `skew` calls a histogram one of decoding.
inline constexpr std::int64_t kDecodeMeanRows = 64;

}  // namespace moesaic::cli::experiment
