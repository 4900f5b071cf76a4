// SPDX-License-Identifier: Apache-2.0
// What stands behind the public handles ExpertParallelGroup and ExpertParallel.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/lease_pool.hpp"
#include "moesaic/expert_parallel.hpp"
#include "moesaic/workspace.hpp"

namespace moesaic::detail {

class ExpertParallelGroupImpl {
 public:
  ExpertParallelGroupImpl(int num_ranks, std::vector<int> local_ranks, Device device)
      : num_ranks_(num_ranks), local_ranks_(std::move(local_ranks)), device_(device) {}
  ExpertParallelGroupImpl(const ExpertParallelGroupImpl&) = delete;
  ExpertParallelGroupImpl& operator=(const ExpertParallelGroupImpl&) = delete;
  virtual ~ExpertParallelGroupImpl() = default;

  [[nodiscard]] int num_ranks() const noexcept { return num_ranks_; }
  [[nodiscard]] std::span<const int> local_ranks() const noexcept { return local_ranks_; }
  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] virtual std::string_view transport() const noexcept = 0;
  /// Memory of each local rank for a new buffer of the pool.
  [[nodiscard]] virtual std::vector<void*> make_buffer(std::int64_t id, std::size_t size_bytes) = 0;
  /// Enqueues a barrier and counts it. The stream has been checked.
  virtual void barrier(const Stream& stream) = 0;
  /// Waits for the stream. @throws Error{device_failure} when a rank was waited for in vain.
  virtual void check(const Stream& stream) = 0;

  [[nodiscard]] core::LeasePool& pool() noexcept { return pool_; }
  [[nodiscard]] std::int64_t barriers() const noexcept { return barriers_; }
  /// Whoever makes a barrier happen says so here.
  void count_barrier() noexcept { ++barriers_; }

 private:
  int num_ranks_;
  std::vector<int> local_ranks_;
  Device device_;
  std::atomic<std::int64_t> barriers_ = 0;
  core::LeasePool pool_;
};

/// All ranks in this process, on the CPU. Ranks run in turn, so a barrier has nothing to wait for.
class SimulatedGroup final : public ExpertParallelGroupImpl {
 public:
  explicit SimulatedGroup(int num_ranks);
  [[nodiscard]] std::string_view transport() const noexcept override { return "simulated"; }
  [[nodiscard]] std::vector<void*> make_buffer(std::int64_t id, std::size_t size_bytes) override;
  void barrier(const Stream& /*stream*/) override { count_barrier(); }
  void check(const Stream& /*stream*/) override {}

 private:
  std::deque<HostWorkspace> memory_;  // of all buffers; grows without moving
};

/// Whether combine fetches and sums in two kernels or in one.
enum class CombineForm : std::uint8_t { gather_then_sum, fused };

/// A planned exchange. Arguments and stream have been checked when a member is called.
class ExpertParallelImpl {
 public:
  ExpertParallelImpl(const ExpertParallelProblem& problem, ExpertParallelGroup group);
  ExpertParallelImpl(const ExpertParallelImpl&) = delete;
  ExpertParallelImpl& operator=(const ExpertParallelImpl&) = delete;
  virtual ~ExpertParallelImpl() = default;

  [[nodiscard]] const ExpertParallelProblem& problem() const noexcept { return problem_; }
  [[nodiscard]] const ExpertParallelGroup& group() const noexcept { return group_; }
  /// Never automatic: implementations ask here and not the problem.
  [[nodiscard]] DispatchForm dispatch_form() const noexcept { return dispatch_form_; }
  [[nodiscard]] std::int64_t max_rows() const noexcept { return max_rows_; }
  [[nodiscard]] int local_experts() const noexcept {
    return problem_.num_experts / group_.num_ranks();
  }
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Header included; see core/workspace_header.hpp.
  [[nodiscard]] virtual std::size_t workspace_bytes() const noexcept = 0;

  virtual void route_maps(std::span<const RouteMapsArgs> ranks, const Stream& stream) const = 0;
  virtual void dispatch_put(std::span<const DispatchPutArgs> ranks, const Stream& stream,
                            const PutOptions& options) const = 0;
  virtual void combine_get(std::span<const CombineGetArgs> ranks, const Stream& stream,
                           const GetOptions& options, CombineForm form) const = 0;
  virtual void gather_get(std::span<const GatherGetArgs> ranks, const Stream& stream,
                          const GetOptions& options) const = 0;
  virtual void probs_grad(std::span<const ProbsGradArgs> ranks, const Stream& stream) const = 0;

 private:
  ExpertParallelProblem problem_;
  ExpertParallelGroup group_;
  DispatchForm dispatch_form_;
  std::int64_t max_rows_;
};

}  // namespace moesaic::detail
