// SPDX-License-Identifier: Apache-2.0
// Strategies `grouped` and `host_loop` on oneDNN.

#include "backends/onednn/grouped.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/onednn/exact_rows.hpp"
#include "math/integer.hpp"

namespace moesaic::backends::onednn {
namespace {

// Rows of one product: large enough for oneDNN's blocking (256 rows reach 0.96 of a dense product,
// 64 rows 0.90, 32 rows 0.83 on one AVX-512 BF16 core pair, NB-0001), small enough that every
// thread gets some.
constexpr std::int64_t kMostTileRows = 256;
constexpr std::int64_t kLeastTileRows = 32;
constexpr std::int64_t kTilesPerThread = 4;
constexpr std::int64_t kWeightTilesPerThread = 2;
constexpr std::int64_t kMostWeightTileRows = 512;
constexpr std::int64_t kLeastWeightTileRows = 64;

std::int64_t clamp_tile(std::int64_t extent, std::int64_t tiles, std::int64_t least,
                        std::int64_t most) {
  const std::int64_t even = math::round_up<std::int64_t>(math::ceil_div(extent, tiles), 32);
  return std::clamp(even, least, most);
}

class OnednnGemm : public detail::GroupedGemmImpl {
 public:
  OnednnGemm(std::string_view name, const PlanRequest& request)
      : GroupedGemmImpl(request.problem, request.device), name_(name) {}

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::size_t workspace_bytes() const noexcept override {
    return core::kWorkspaceHeaderBytes;
  }

  [[nodiscard]] PackedWeights pack_weights(const Operand& w,
                                           const Stream& /*stream*/) const override {
    const bool forward = problem().pass == Pass::forward;
    ConstTensorView a;
    a.dtype = w.qdata.dtype;
    a.shape = {problem().max_rows, forward ? problem().k : problem().n, 0};
    a.stride = {a.shape[1], 1, 0};
    TensorView d;
    d.dtype = problem().d_dtype;
    d.shape = {problem().max_rows, forward ? problem().n : problem().k, 0};
    d.stride = {d.shape[1], 1, 0};
    MatmulSpec spec = row_spec(problem(), a, w.qdata, d, kMostTileRows);
    spec.packed_for_m = kMostTileRows;
    return PackedWeights(std::make_shared<PackedExperts>(problem(), spec, w, threads()));
  }

 protected:
  [[nodiscard]] int threads() const { return device().num_sms; }
  MatmulCache& cache() const { return cache_; }

 private:
  std::string_view name_;
  mutable MatmulCache cache_;  // compiled products are a cache of pure functions; it locks itself
};

/// Exact rows, all experts' tiles side by side. Which tiles there are depends on a segment's own
/// rows and on the plan, never on other experts.
class Grouped final : public OnednnGemm {
 public:
  using OnednnGemm::OnednnGemm;

  void execute(const GroupedGemmArgs& args, const Workspace& workspace,
               const Stream& /*stream*/) const override {
    const HostSegments segments(args.offs, problem().max_rows);
    const ExactRows exact(problem(), args, cache());
    std::vector<Product> products;
    for (std::size_t expert = 0; expert < segments.experts.size(); ++expert) {
      if (!segments.experts[expert].empty()) {
        add_tiles(exact, static_cast<std::int64_t>(expert), segments.experts[expert], products);
      }
    }
    record_fault(workspace, segments.fault_word);
    if (segments.fault_word != 0) {
      run_in_turn(products);  // segments of wrong offsets may overlap: the last one wins, always
    } else {
      run_side_by_side(std::move(products), threads());
    }
    write_absent(problem(), args, segments);
  }

 private:
  void add_tiles(const ExactRows& exact, std::int64_t expert, math::RowRange segment,
                 std::vector<Product>& products) const {
    const bool wgrad = problem().pass == Pass::wgrad;
    const std::int64_t extent = wgrad ? exact.weight_rows_count() : segment.rows();
    const std::int64_t most = wgrad ? clamp_tile(extent, kWeightTilesPerThread * threads(),
                                                 kLeastWeightTileRows, kMostWeightTileRows)
                                    : clamp_tile(problem().max_rows, kTilesPerThread * threads(),
                                                 kLeastTileRows, kMostTileRows);
    const std::int64_t tiles = math::ceil_div(extent, most);
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const std::int64_t first = extent * tile / tiles;
      const std::int64_t last = extent * (tile + 1) / tiles;
      products.push_back(wgrad
                             ? exact.weight_rows(expert, segment, first, last, 1)
                             : exact.rows(expert, segment.begin + first, segment.begin + last, 1));
    }
  }
};

/// One product per expert, each on all threads: what a loop over a dense library does.
class HostLoop final : public OnednnGemm {
 public:
  using OnednnGemm::OnednnGemm;

  void execute(const GroupedGemmArgs& args, const Workspace& workspace,
               const Stream& /*stream*/) const override {
    const HostSegments segments(args.offs, problem().max_rows);
    const ExactRows exact(problem(), args, cache());
    std::vector<Product> products;
    for (std::size_t index = 0; index < segments.experts.size(); ++index) {
      const math::RowRange segment = segments.experts[index];
      const auto expert = static_cast<std::int64_t>(index);
      if (segment.empty()) {
        continue;
      }
      products.push_back(
          problem().pass == Pass::wgrad
              ? exact.weight_rows(expert, segment, 0, exact.weight_rows_count(), threads())
              : exact.rows(expert, segment.begin, segment.end, threads()));
    }
    record_fault(workspace, segments.fault_word);
    run_in_turn(products);
    write_absent(problem(), args, segments);
  }
};

}  // namespace

std::shared_ptr<const detail::GroupedGemmImpl> make_grouped(std::string_view name,
                                                            const PlanRequest& request) {
  return std::make_shared<Grouped>(name, request);
}

std::shared_ptr<const detail::GroupedGemmImpl> make_host_loop(std::string_view name,
                                                              const PlanRequest& request) {
  return std::make_shared<HostLoop>(name, request);
}

}  // namespace moesaic::backends::onednn
