// SPDX-License-Identifier: Apache-2.0
// What the designs share: even and hot histograms, options turned into arms and trials.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiment/design.hpp"

namespace moesaic::cli::experiment {

/// Local experts of every experiment but table44.
inline constexpr std::int64_t kExperts = 16;

/// What an experiment is, whatever its protocol.
struct Outline {
  std::string_view name, title;
  std::vector<Arm> arms;     ///< Run unless others are asked for.
  std::vector<Arm> allowed;  ///< All that may be asked for.
  std::int64_t trials = 0;   ///< Stated number of trials or processes; 0: it has none.
  std::int64_t reduced_trials = 0;
};

/// A design without cases; arms and trials settled. @throws Error{invalid_argument}.
struct Start {
  Design design;
  std::vector<Arm> arms;
  std::int64_t trials = 0;
};
Start start_design(const Outline& outline, const DesignOptions& options);

routing::Record even_record(std::int64_t rows, std::int64_t experts);
routing::Record made_record(std::string source, std::vector<std::int64_t> counts,
                            std::string label = {});
/// `units` shared out as evenly as integers allow, lower indices first.
std::vector<std::int64_t> evenly(std::int64_t units, std::int64_t parts);
/// `arms` from the `first` on, then those before it.
std::vector<Arm> rotated(const std::vector<Arm>& arms, std::int64_t first);

Design make_fig38(const DesignOptions& options);
Design make_fig71(const DesignOptions& options);
Design make_table44(const DesignOptions& options);
Design make_fig40(const DesignOptions& options);
Design make_fig72(const DesignOptions& options);
Design make_fig73(const DesignOptions& options);

}  // namespace moesaic::cli::experiment
