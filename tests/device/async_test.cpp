// SPDX-License-Identifier: Apache-2.0
// Streams, threads, graphs and dependent launches: a product depends on nothing but its stream, and
// reads its offsets when it runs, not before.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "device/case.hpp"

namespace moesaic::device_tests {
namespace {

constexpr std::int64_t kRows = 1100;

Case make(Pass pass, const std::vector<std::int32_t>& offs = {300, 300, 701, 1000}) {
  Case c;
  c.offs = offs;
  c.rows = kRows;
  c.n = 392;
  c.k = 264;
  c.pass = pass;
  return c;
}

class Async : public OnDevice, public ::testing::WithParamInterface<Pass> {};
INSTANTIATE_TEST_SUITE_P(Passes, Async, ::testing::Values(Pass::forward, Pass::dgrad, Pass::wgrad),
                         [](const auto& parameter) { return std::string(name(parameter.param)); });

// Cached state that two streams share: pytorch#192061, flashinfer#4553.
TEST_P(Async, TwoStreamsAtOnceDoNotDisturbEachOther) {
  CaseOnDevice first(make(GetParam()));
  CaseOnDevice second(make(GetParam(), {1, 2, 1050, 1100}));
  const GroupedGemm plan = first.plan();
  const Queue left, right;
  for (int i = 0; i < 50; ++i) {
    for (const auto& [on, queue] : {std::pair(&first, &left), std::pair(&second, &right)}) {
      on->poison(queue->get());
      on->execute(plan, queue->get());
      on->compare(queue->get());
    }
  }
  EXPECT_EQ(first.differences(left.get()), "");
  EXPECT_EQ(second.differences(right.get()), "");
}

// What the contract allows a call: 5 µs. The best of some batches, since other processes may run.
TEST_P(Async, ACallCostsTheHostAtMostFiveMicroseconds) {
  using Clock = std::chrono::steady_clock;
  constexpr int kBatches = 20, kCalls = 100;
  CaseOnDevice on(make(GetParam()));
  const GroupedGemm plan = on.plan();
  const GroupedGemmArgs args = on.args();
  const Workspace workspace = on.workspace(plan.workspace_bytes());
  const Queue queue;
  const Stream stream = Stream::from_native(kDevice, queue.get());
  double best = 1e9;
  for (int batch = 0; batch < kBatches; ++batch) {
    spin(10'000'000, queue.get());  // so that no call waits for room in the queue's hardware
    const auto begin = Clock::now();
    for (int call = 0; call < kCalls; ++call) plan.execute(args, workspace, stream);
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
    queue.wait();
    best = std::min(best, took.count() / kCalls);
  }
  RecordProperty("microseconds_per_call", std::to_string(best));
  std::printf("%s: %.2f us of host a call\n", name(GetParam()).data(), best);
  EXPECT_LE(best, 5.0);
}

// A thread that never touched CUDA has no context: pytorch#124565, TransformerEngine#734.
TEST_P(Async, AFreshThreadMayPlanAndLaunch) {
  CaseOnDevice on(make(GetParam()));
  on.poison(nullptr);
  std::string failure = "the thread did not run";
  std::thread([&] {
    try {
      on.execute(on.plan(), nullptr);
      failure.clear();
    } catch (const std::exception& error) {
      failure = error.what();
    }
  }).join();
  EXPECT_EQ(failure, "");
  on.compare(nullptr);
  EXPECT_EQ(on.differences(nullptr), "");
}

// A replay that multiplies by the offsets of the capture: cudnn-frontend#1126, DeepGEMM#444; and a
// capture that ends in an error because the host reads offsets: pytorch#169970.
TEST_P(Async, AReplayFollowsChangedOffsets) {
  CaseOnDevice on(make(GetParam()));
  const GroupedGemm plan = on.plan();
  const Queue queue;
  on.workspace(plan.workspace_bytes());
  const Graph graph(queue, [&] { on.execute(plan, queue.get()); });
  EXPECT_EQ(graph.num_nodes(), 1U) << "one device operation per product";
  for (std::int32_t i = 0; i < 20; ++i) {
    on.prepare({i * 37, i * 37, i * 37 + 90, 1000 + i}, static_cast<std::uint64_t>(i), queue.get());
    on.poison(queue.get());
    graph.replay(queue);
    on.compare(queue.get());
    EXPECT_EQ(on.differences(queue.get()), "") << "replay " << i;
  }
}

// Tensor maps of the addresses before: cudnn-frontend#1126, DeepGEMM#414.
TEST_P(Async, AnUpdatedGraphFollowsNewAddresses) {
  CaseOnDevice first(make(GetParam()));
  CaseOnDevice second(make(GetParam(), {900, 901, 902, 1100}));
  const GroupedGemm plan = first.plan();
  const Queue queue;
  first.workspace(plan.workspace_bytes());
  second.workspace(plan.workspace_bytes());
  const Graph of_first(queue, [&] { first.execute(plan, queue.get()); });
  const Graph of_second(queue, [&] { second.execute(plan, queue.get()); });
  Graph graph(queue, [&] { first.execute(plan, queue.get()); });
  for (int i = 0; i < 20; ++i) {
    CaseOnDevice& on = i % 2 == 0 ? second : first;
    graph.update(i % 2 == 0 ? of_second : of_first);
    on.poison(queue.get());
    graph.replay(queue);
    on.compare(queue.get());
    EXPECT_EQ(on.differences(queue.get()), "") << "replay " << i;
  }
}

// A cache that ends with its thread while a graph still uses it: pytorch#192061, #193402.
TEST_P(Async, AGraphOutlivesItsPlanAndItsThread) {
  CaseOnDevice on(make(GetParam()));
  const Queue queue;
  std::unique_ptr<Graph> graph;
  std::async(std::launch::async, [&] {
    const GroupedGemm plan = on.plan();
    on.workspace(plan.workspace_bytes());
    graph = std::make_unique<Graph>(queue, [&] { on.execute(plan, queue.get()); });
  }).get();
  for (int i = 0; i < 3; ++i) {
    on.poison(queue.get());
    graph->replay(queue);
    on.compare(queue.get());
  }
  EXPECT_EQ(on.differences(queue.get()), "");
}

// Work on whichever device is current: grouped_gemm#15, pytorch#134441.
TEST_P(Async, TheDeviceNeedNotBeTheCurrentOne) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (count < 2) GTEST_SKIP() << "one CUDA device here";
  for (const Strategy strategy : {Strategy::grouped, Strategy::padded_bmm, Strategy::host_loop}) {
    SCOPED_TRACE(name(strategy));
    Case c = make(GetParam());
    c.strategy = strategy;
    CaseOnDevice on(c);
    const Queue queue;
    on.workspace(on.plan().workspace_bytes());
    on.poison(queue.get());
    const auto elsewhere = [&] {  // which device is current belongs to a thread
      check(cudaSetDevice(1), "cudaSetDevice");
      on.execute(on.plan(), queue.get());
      int current = 0;
      check(cudaGetDevice(&current), "cudaGetDevice");
      return current;
    };
    EXPECT_EQ(std::async(std::launch::async, elsewhere).get(), 1);
    on.compare(queue.get());
    EXPECT_EQ(on.differences(queue.get()), "");
  }
}

// The second replay hangs where two products share a workspace: TransformerEngine#3171.
TEST_P(Async, TwoProductsOfOneWorkspaceReplayInOneGraph) {
  CaseOnDevice first(make(GetParam()));
  CaseOnDevice second(make(GetParam(), {900, 901, 902, 1100}));
  const GroupedGemm plan = first.plan();
  second.share_workspace(first.workspace(plan.workspace_bytes()));
  const Queue queue;
  const Graph graph(queue, [&] {
    first.execute(plan, queue.get());
    second.execute(plan, queue.get());
  });
  for (int i = 0; i < 10; ++i) {
    first.poison(queue.get());
    second.poison(queue.get());
    graph.replay(queue);
    first.compare(queue.get());
    second.compare(queue.get());
  }
  EXPECT_EQ(first.differences(queue.get()), "");
  EXPECT_EQ(second.differences(queue.get()), "");
}

// Offsets read before the kernel that writes them has finished: cutlass#2760, #2719; on a stream
// that does not wait for the default one: cutlass#214.
TEST_P(Async, OffsetsOfTheKernelBeforeAreWaitedFor) {
  CaseOnDevice on(make(GetParam()));
  const GroupedGemm plan = on.plan();
  const Queue queue;
  on.workspace(plan.workspace_bytes());
  const std::vector<std::int32_t> late = {500, 510, 760, 1000};
  const DeviceMemory source(16), stale(16);
  check(cudaMemcpy(source.bytes(), late.data(), 16, cudaMemcpyHostToDevice), "cudaMemcpy");
  check(cudaMemcpy(stale.bytes(), on.description().offs.data(), 16, cudaMemcpyHostToDevice),
        "cudaMemcpy");
  on.prepare(late, 7, queue.get());
  for (int i = 0; i < 200; ++i) {
    on.poison(queue.get());
    check(cudaMemcpyAsync(on.offs(), stale.bytes(), 16, cudaMemcpyDeviceToDevice, queue.get()),
          "cudaMemcpyAsync");
    write_offsets_late(on.offs(), source.as<std::int32_t>(), 4, 20'000, queue.get());
    on.execute(plan, queue.get());
    on.compare(queue.get());
  }
  EXPECT_EQ(on.differences(queue.get()), "");
}

// Fewer workers than tiles, an odd number, all but one; a default of 0 SMs: cutlass#3585, #1543.
TEST_P(Async, AnyNumberOfSmsComputesAllTiles) {
  for (const int num_sms : {1, 7, 131}) {
    Case c = make(GetParam());
    c.num_sms = num_sms;
    for (const WeightStorage weights : {WeightStorage::enk, WeightStorage::ekn}) {
      c.weights = weights;
      expect_exact(c);
    }
  }
}

class AsyncBaselines : public OnDevice {};
// An operation that cannot be captured waits on the host without a word: pytorch#169970.
TEST_F(AsyncBaselines, AHostLoopRefusesToBeCaptured) {
  Case c = make(Pass::forward);
  c.strategy = Strategy::host_loop;
  CaseOnDevice on(c);
  const GroupedGemm plan = on.plan();
  const Queue queue;
  on.workspace(plan.workspace_bytes());
  EXPECT_THROW(Graph(queue, [&] { on.execute(plan, queue.get()); }), Error);
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(queue.get(), &graph);
  cudaGraphDestroy(graph);
  cudaGetLastError();  // that of the capture, which was meant to fail
  on.poison(nullptr);
  on.execute(plan, nullptr);
  on.compare(nullptr);
  EXPECT_EQ(on.differences(nullptr), "");
}
// An error that some other call of the process left is not that of a launch.
TEST_F(AsyncBaselines, AnEarlierErrorIsNotTheLaunchs) {
  Case c = make(Pass::forward);
  c.strategy = Strategy::padded_bmm;
  CaseOnDevice on(c);
  const GroupedGemm plan = on.plan();
  on.workspace(plan.workspace_bytes());
  on.poison(nullptr);
  EXPECT_EQ(cudaMemset(nullptr, 0, 16), cudaErrorInvalidValue);
  on.execute(plan, nullptr);
  cudaGetLastError();  // the tests' own launches look at it
  on.compare(nullptr);
  EXPECT_EQ(on.differences(nullptr), "");
}
TEST_F(AsyncBaselines, APaddedBatchFollowsChangedOffsetsInAReplay) {
  Case c = make(Pass::forward);
  c.strategy = Strategy::padded_bmm;
  CaseOnDevice on(c);
  const GroupedGemm plan = on.plan();
  const Queue queue;
  on.execute(plan, queue.get());  // cuBLAS loads its kernels
  queue.wait();
  const Graph graph(queue, [&] { on.execute(plan, queue.get()); });
  for (std::int32_t i = 0; i < 5; ++i) {
    on.prepare({i * 37, i * 37, i * 37 + 90, 1000 + i}, static_cast<std::uint64_t>(i), queue.get());
    on.poison(queue.get());
    graph.replay(queue);
    on.compare(queue.get());
    EXPECT_EQ(on.differences(queue.get()), "") << "replay " << i;
  }
}

class AsyncChain : public OnDevice {};
// Launches overlap at their ends; what one product writes, the next must see.
TEST_F(AsyncChain, AProductSeesTheRowsOfTheOneBefore) {
  Case c = make(Pass::forward);
  c.n = c.k = 264;
  CaseOnDevice first(c), second(c);
  const GroupedGemm plan = first.plan();
  const Queue queue;
  first.workspace(plan.workspace_bytes());
  const Workspace workspace = second.workspace(plan.workspace_bytes());
  // What the second makes of the first's output, one after the other.
  first.execute(plan, queue.get());
  queue.wait();
  GroupedGemmArgs args = second.args();
  args.a = {first.args().d, {}};
  const Stream stream = Stream::from_native(kDevice, queue.get());
  const auto rows = static_cast<std::size_t>(c.offs.back());
  const std::size_t bytes = rows * 264 * 2;
  second.poison(queue.get());
  plan.execute(args, workspace, stream);
  const DeviceMemory want(static_cast<std::int64_t>(bytes));
  check(cudaMemcpyAsync(want.bytes(), second.d(), bytes, cudaMemcpyDeviceToDevice, queue.get()),
        "cudaMemcpyAsync");
  queue.wait();
  const DeviceMemory found(sizeof(Differences));
  check(cudaMemset(found.bytes(), 0, sizeof(Differences)), "cudaMemset");
  for (int i = 0; i < 500; ++i) {
    first.poison(queue.get());
    second.poison(queue.get());
    first.execute(plan, queue.get());
    plan.execute(args, workspace, stream);
    count_differences(want.bytes(), second.d(), static_cast<std::int64_t>(bytes),
                      found.as<Differences>(), queue.get());
  }
  queue.wait();
  Differences result{};
  check(cudaMemcpy(&result, found.bytes(), sizeof(result), cudaMemcpyDeviceToHost), "cudaMemcpy");
  EXPECT_EQ(result.count, 0U);
}

}  // namespace
}  // namespace moesaic::device_tests
