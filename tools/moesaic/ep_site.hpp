// SPDX-License-Identifier: Apache-2.0
// The ranks that this process holds, for the benchmark of expert parallelism: one GPU among several
// processes, or all ranks simulated; their tensors, their operations, and whether these are right.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ep_routing.hpp"
#include "moesaic/device_memory.hpp"
#include "moesaic/expert_parallel.hpp"
#include "options.hpp"

namespace moesaic::cli {

/// Whether an operation, by its name, dispatches by fan-out.
bool is_fan_out(const std::string& operation);

struct EpCheck {
  std::int64_t elements = 0, mismatches = 0;
};

class EpSite {
 public:
  /// Joins the group that the environment tells of, or makes a simulated one.
  /// @throws Error{invalid_argument} where neither is asked for.
  explicit EpSite(const EpBenchFlags& flags);

  [[nodiscard]] const ExpertParallelGroup& group() const { return *group_; }
  [[nodiscard]] bool writes() const { return first_rank_ == 0; }  ///< Rank 0 says what came out.
  [[nodiscard]] Stream stream() const { return queue_.get(); }

  /// A number from every process, in their order; those that run alone give their own.
  std::vector<double> share(double value);

  /// One routing, ready to be timed.
  void prepare(const EpRouting& routing, std::uint64_t seed);
  [[nodiscard]] const EpTraffic& traffic() const { return traffic_; }
  [[nodiscard]] const ExpertParallel& exchange() const { return *exchange_; }
  /// The form of dispatch that a plan of these sizes takes when none is named.
  [[nodiscard]] DispatchForm automatic_form() const { return automatic_form_; }

  /// The operations by name, each as `bench ep` times it.
  [[nodiscard]] std::vector<std::string> operations() const;
  void run(const std::string& operation, int nblocks);
  /// Maps against the simulation, element by element; rows and sums of sampled tokens exactly,
  /// after going out and coming back by every operation.
  EpCheck check(int nblocks);

 private:
  struct Rank;
  void make_maps(const EpRouting& routing, std::uint64_t seed);
  EpCheck check_maps();
  EpCheck check_gathered(const Rank& rank) const;
  EpCheck check_sums(const Rank& rank, float weight) const;

  EpBenchFlags flags_;
  std::shared_ptr<Rendezvous> rendezvous_;  // null when alone
  std::int64_t shared_ = 0;
  int first_rank_ = 0, num_processes_ = 1;
  std::unique_ptr<ExpertParallelGroup> group_;
  DeviceStream queue_;
  std::unique_ptr<ExpertParallel> exchange_, fan_out_;  // the same in both forms of dispatch
  DispatchForm automatic_form_ = DispatchForm::automatic;
  SymmetricBuffer lease_;
  std::vector<std::shared_ptr<Rank>> ranks_;
  /// Of all ranks, by the simulation.
  std::vector<std::vector<std::int32_t>> ids_, wanted_ranks_, wanted_rows_, wanted_offs_;
  EpTraffic traffic_;
};

}  // namespace moesaic::cli
