// SPDX-License-Identifier: Apache-2.0
// Figures of bench rows by hand, peaks by device name, rows that are found again.
#include "tools/moesaic/bench.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "moesaic/error.hpp"
#include "tools/moesaic/staging.hpp"

namespace moesaic::cli {
namespace {

GroupedGemmProblem problem(Pass pass) {
  GroupedGemmProblem one;
  one.pass = pass;
  one.num_experts = 3;
  one.max_rows = 10;
  one.n = 16;
  one.k = 8;
  return one;
}

BenchCase sample_case() {
  BenchCase one;
  one.problem = problem(Pass::forward);
  one.counts = {4, 0, 6};
  one.run.rows = 10;
  one.run.experts = 3;
  one.run.source = "counts:4,0,6";
  one.run.seconds = 0.5;
  one.run.useful_flops = 2560;
  one.run.check.elements = 1;
  one.samples_seconds = {0.5};
  return one;
}

BenchSetting setting() { return {"moesaic bench", query_device(Device{}), {}}; }

TEST(Bench, LeastBytesByHand) {
  const std::vector<std::int64_t> counts = {4, 0, 6};
  // bf16: rows in, two active experts' weights, rows out.
  EXPECT_EQ(min_bytes(problem(Pass::forward), counts), 2 * (10 * 8 + 2 * 128 + 10 * 16));
  EXPECT_EQ(min_bytes(problem(Pass::dgrad), counts), 2 * (10 * 16 + 2 * 128 + 10 * 8));
  GroupedGemmProblem wgrad = problem(Pass::wgrad);
  wgrad.d_dtype = DType::f32;
  EXPECT_EQ(min_bytes(wgrad, counts), 2 * 10 * (16 + 8) + 4 * 3 * 128);
}

TEST(Bench, PeaksByTheNameOfTheDevice) {
  DeviceInfo device;
  device.device = {DeviceKind::cuda, 0};
  const auto preset = [&device](const char* name) {
    device.name = name;
    const planner::DeviceModel* model = peak_model(device);
    return model == nullptr ? std::string("none") : model->name;
  };
  EXPECT_EQ(preset("NVIDIA H200"), "h200");
  EXPECT_EQ(preset("NVIDIA H100 80GB HBM3"), "h100");
  EXPECT_EQ(preset("NVIDIA H100 PCIe"), "h100-pcie");
  EXPECT_EQ(preset("NVIDIA GB200"), "gb200");
  EXPECT_EQ(preset("NVIDIA B200"), "b200");
  EXPECT_EQ(preset("NVIDIA RTX A6000"), "none");
  device.device.kind = DeviceKind::cpu;
  EXPECT_EQ(preset("NVIDIA H200"), "none");
}

TEST(Bench, RooflineIsTheLargerOfBothBounds) {
  DeviceInfo device;
  device.device = {DeviceKind::cuda, 0};
  device.name = "NVIDIA H200";
  BenchCase one = sample_case();
  one.run.useful_flops = 989'000'000'000'000;  // one second at the nominal peak
  one.run.seconds = 2;
  EXPECT_DOUBLE_EQ(roofline_fraction(one, device), 0.5);
  one.min_bytes = 7'200'000'000'000;  // one and a half at 4.8 TB/s
  EXPECT_DOUBLE_EQ(roofline_fraction(one, device), 0.75);
  EXPECT_EQ(roofline_fraction(one, query_device(Device{})), 0);
}

class BenchBaseFile : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  std::string write(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }
  std::string path_ = ::testing::TempDir() + "moesaic_bench_base_" +
                      ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".jsonl";
};

TEST_F(BenchBaseFile, TheLastRowOfTheSameCaseCounts) {
  BenchCase slow = sample_case();
  const BenchCase fast = sample_case();
  slow.run.seconds = 2;
  BenchCase other = sample_case();
  other.counts = {6, 0, 4};
  const DeviceInfo device = query_device(Device{});
  const BenchBase base(
      write(bench_row(slow, setting()) + "\n\n" + bench_row(fast, setting()) + "\n"));
  EXPECT_EQ(base.find(slow, device)->seconds, 0.5);
  EXPECT_FALSE(base.find(other, device));
  other = sample_case();
  other.problem.strategy = Strategy::host_loop;
  EXPECT_FALSE(base.find(other, device));
  DeviceInfo elsewhere = device;
  elsewhere.name += "?";
  EXPECT_FALSE(base.find(slow, elsewhere));
}

TEST_F(BenchBaseFile, SkipsRowsThatWereCutOff) {
  const std::string row = bench_row(sample_case(), setting());
  const std::string part = row.substr(0, row.size() / 2);
  for (const std::string& text : {row + "\n" + part, part + "\n" + row + "\n"}) {
    const BenchBase base(write(text));
    EXPECT_EQ(base.find(sample_case(), query_device(Device{}))->seconds, 0.5);
    ASSERT_EQ(base.warnings().size(), 1U);
    EXPECT_NE(base.warnings()[0].find("cut off"), std::string::npos);
  }
  EXPECT_THROW(BenchBase(write(part)), Error);
}

TEST_F(BenchBaseFile, RefusesWhatIsNoRow) {
  EXPECT_THROW(BenchBase(path_ + ".absent"), Error);
  EXPECT_THROW(BenchBase(write("")), Error);
  EXPECT_THROW(BenchBase(write("{}")), Error);
  EXPECT_THROW(BenchBase(write("not json")), Error);
  EXPECT_THROW(BenchBase(write(R"({"schema":"moesaic.bench/1","timing":{"median_s":0}})")), Error);
  EXPECT_THROW(BenchBase(write(R"({"schema":"moesaic.bench/1","timing":7,"device":{}})")), Error);
  EXPECT_THROW(BenchBase(write(R"({"schema":"moesaic.bench/2"})")), Error);
}

TEST(Staging, OnTheCpuMirrorsAreTheTensorsThemselves) {
  GemmTensors tensors;
  tensors.a = HostTensor(DType::bf16, {2, 8});
  tensors.b = HostTensor(DType::bf16, {1, 16, 8});
  tensors.d = HostTensor(DType::bf16, {2, 16});
  tensors.offs = {2};
  const Site site(Device{});
  const GroupedGemmArgs args = tensors.stage(site);
  EXPECT_EQ(args.a.qdata.data, tensors.a.view().data);
  EXPECT_EQ(args.b.qdata.data, tensors.b.view().data);
  EXPECT_EQ(args.d.data, tensors.d.view().data);
  EXPECT_EQ(args.offs.data, tensors.offs.data());
}

TEST(Staging, WorkspacesAreZeroed) {
  const SiteWorkspace workspace(4096, Stream::cpu());
  for (const std::byte byte : workspace.get().bytes) ASSERT_EQ(byte, std::byte{0});
  EXPECT_EQ(workspace.get().bytes.size(), 4096U);
}

TEST(Staging, EveryStepIsTimedAsOften) {
  int first = 0, second = 0;
  const Site site(Device{});
  const auto samples = time_steps(site, Strategy::grouped, {[&] { ++first; }, [&] { ++second; }});
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].size(), 15U);
  EXPECT_EQ(samples[1].size(), 15U);
  EXPECT_EQ(first, 15);
  EXPECT_EQ(second, 15);
}

}  // namespace
}  // namespace moesaic::cli
