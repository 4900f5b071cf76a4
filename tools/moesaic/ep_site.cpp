// SPDX-License-Identifier: Apache-2.0
// See ep_site.hpp.
#include "ep_site.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "arguments.hpp"
#include "moesaic/workspace.hpp"
#include "text.hpp"

namespace moesaic::cli {
namespace {

constexpr std::int64_t kSampledTokens = 64;
constexpr float kProb = 0.5F;  // sums stay exact

/// A dense tensor on a device.
TensorView view_of(const DeviceBuffer& buffer, DType dtype,
                   std::initializer_list<std::int64_t> shape) {
  TensorView view{buffer.data(), dtype, buffer.device(), static_cast<int>(shape.size()), {}, {}};
  std::copy(shape.begin(), shape.end(), view.shape.begin());
  std::int64_t stride = 1;
  for (auto axis = static_cast<std::size_t>(view.rank); axis-- > 0;) {
    view.stride[axis] = stride;
    stride *= view.shape[axis];
  }
  return view;
}

template <class T>
void upload(DeviceBuffer& buffer, const std::vector<T>& values, Stream stream) {
  buffer.copy_from_host(std::as_bytes(std::span(values)), 0, stream);
}

int environment_number(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return -1;
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  return static_cast<int>(parse_integer(name, text, -1, kMost));
}

}  // namespace

bool is_fan_out(const std::string& operation) {
  return operation.find("_fan_out") != std::string::npos;
}

/// Tensors of a local rank.
struct EpSite::Rank {
  int rank = 0;
  DeviceBuffer ids, dst_ranks, dst_rows, offs, x, y, probs, gathered, workspace;
  RouteMapsArgs maps;
  DispatchPutArgs put;
  CombineGetArgs get;
  GatherGetArgs gather;
};

EpSite::EpSite(const EpBenchFlags& flags) : flags_(flags) {
  if (flags.simulated > 0) {
    group_ = std::make_unique<ExpertParallelGroup>(ExpertParallelGroup::simulated(flags.simulated));
  } else {
    const char* folder = std::getenv("MOESAIC_RENDEZVOUS");
    NvshmemGroupOptions options;
    options.rank = environment_number("RANK");
    options.num_ranks = environment_number("WORLD_SIZE");
    if (folder == nullptr || options.rank < 0 || options.num_ranks < 1) {
      throw Error(ErrorCode::invalid_argument,
                  "ranks: expected RANK, WORLD_SIZE and MOESAIC_RENDEZVOUS in the environment "
                  "(scripts/run_ranks.sh N moesaic bench ep), or --simulated R");
    }
    options.device.index = std::max(0, environment_number("LOCAL_RANK"));
    options.rendezvous = file_rendezvous(std::string(folder) + "/bench_group");
    options.heap_bytes = std::size_t{8} << 30;
    rendezvous_ = file_rendezvous(std::string(folder) + "/bench");
    first_rank_ = options.rank;
    num_processes_ = options.num_ranks;
    group_ = std::make_unique<ExpertParallelGroup>(ExpertParallelGroup::nvshmem(options));
    queue_ = DeviceStream(options.device);
  }
  ExpertParallelProblem problem;
  problem.format = flags.format;
  problem.num_experts = static_cast<int>(flags.experts);
  problem.topk = static_cast<int>(flags.topk);
  problem.max_tokens = flags.tokens;
  problem.d = flags.d;
  problem.capacity_factor_millionths = flags.capacity_factor_millionths;
  const auto simulated = ExpertParallelGroup::simulated(group_->num_ranks());
  automatic_form_ = ExpertParallel::plan(problem, simulated).dispatch_form();
  problem.dispatch = DispatchForm::direct;
  exchange_ = std::make_unique<ExpertParallel>(ExpertParallel::plan(problem, *group_));
  problem.dispatch = DispatchForm::fan_out;
  fan_out_ = std::make_unique<ExpertParallel>(ExpertParallel::plan(problem, *group_));
}

std::vector<double> EpSite::share(double value) {
  if (rendezvous_ == nullptr) return {value};
  const std::string key = "share_" + std::to_string(shared_++) + "/";
  rendezvous_->set(key + std::to_string(first_rank_), format("%.17g", value));
  std::vector<double> all;
  for (int rank = 0; rank < num_processes_; ++rank) {
    const std::string text =
        rendezvous_->get(key + std::to_string(rank), std::chrono::seconds(120));
    all.push_back(std::strtod(text.c_str(), nullptr));
  }
  return all;
}

void EpSite::make_maps(const EpRouting& routing, std::uint64_t seed) {
  const ExpertParallelProblem& problem = exchange_->problem();
  const auto all = static_cast<std::size_t>(group_->num_ranks());
  const auto simulated =
      ExpertParallel::plan(problem, ExpertParallelGroup::simulated(group_->num_ranks()));
  ids_.assign(all, {});
  wanted_ranks_ = wanted_rows_ = wanted_offs_ = ids_;
  std::vector<RouteMapsArgs> args(all);
  std::vector<HostWorkspace> workspaces;
  for (std::size_t r = 0; r < all; ++r) {
    ids_[r] = ep_expert_ids(routing, flags_.tokens, problem.topk, problem.num_experts, seed,
                            static_cast<int>(r));
    wanted_ranks_[r].resize(ids_[r].size());
    wanted_rows_[r].resize(ids_[r].size());
    wanted_offs_[r].resize(static_cast<std::size_t>(simulated.local_experts()));
    workspaces.emplace_back(simulated.workspace_bytes());
    args[r].expert_ids = view(std::span(ids_[r]), {flags_.tokens, problem.topk});
    args[r].dst_ranks = view(std::span(wanted_ranks_[r]), {flags_.tokens, problem.topk});
    args[r].dst_rows = view(std::span(wanted_rows_[r]), {flags_.tokens, problem.topk});
    args[r].offs = view(std::span(wanted_offs_[r]), {simulated.local_experts()});
  }
  for (std::size_t r = 0; r < all; ++r) args[r].workspace = workspaces[r].get();
  simulated.route_maps(args, Stream::cpu());
  traffic_ = ep_traffic(wanted_ranks_, problem.topk);
  for (const auto& offs : wanted_offs_) {
    traffic_.max_rows_used = std::max<std::int64_t>(traffic_.max_rows_used, offs.back());
  }
}

void EpSite::prepare(const EpRouting& routing, std::uint64_t seed) {
  make_maps(routing, seed);
  const ExpertParallelProblem& problem = exchange_->problem();
  const bool bf16 = problem.format == Format::bf16;
  const DType dtype = bf16 ? DType::bf16 : DType::f32;
  const std::int64_t tokens = flags_.tokens, topk = problem.topk, d = problem.d;
  const auto row_bytes = static_cast<std::size_t>(d) * (bf16 ? 2 : 4);
  const auto routes = static_cast<std::size_t>(tokens * topk);
  const Device device = group_->device();
  const Stream queue = stream();
  if (lease_.id < 0) {
    lease_ = group_->lease(static_cast<std::size_t>(exchange_->max_rows()) * row_bytes);
  }
  ranks_.clear();
  for (std::size_t i = 0; i < group_->local_ranks().size(); ++i) {
    auto rank = std::make_shared<Rank>();
    rank->rank = group_->local_ranks()[i];
    const std::size_t ints = routes * sizeof(std::int32_t);
    rank->ids = DeviceBuffer(ints, device);
    rank->dst_ranks = DeviceBuffer(ints, device);
    rank->dst_rows = DeviceBuffer(ints, device);
    rank->offs = DeviceBuffer(static_cast<std::size_t>(exchange_->local_experts()) * 4, device);
    rank->x = DeviceBuffer(static_cast<std::size_t>(tokens) * row_bytes, device);
    rank->y = DeviceBuffer(static_cast<std::size_t>(tokens) * row_bytes, device);
    rank->probs = DeviceBuffer(routes * sizeof(float), device);
    rank->gathered = DeviceBuffer(routes * row_bytes, device);
    rank->workspace = DeviceBuffer(exchange_->workspace_bytes(), device);
    rank->workspace.fill(std::byte{0}, queue);
    upload(rank->ids, ids_[static_cast<std::size_t>(rank->rank)], queue);
    upload(rank->probs, std::vector<float>(routes, kProb), queue);
    std::vector<std::byte> rows(static_cast<std::size_t>(tokens) * row_bytes);
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t j = 0; j < d; ++j) {
        const float value = ep_element(rank->rank, t, j);
        const BFloat16 narrow(value);
        std::memcpy(&rows[static_cast<std::size_t>(t * d + j) * (bf16 ? 2 : 4)],
                    bf16 ? static_cast<const void*>(&narrow) : &value, bf16 ? 2 : 4);
      }
    }
    upload(rank->x, rows, queue);

    const Workspace workspace{{rank->workspace.data(), rank->workspace.size_bytes()}, device};
    TensorView leased{lease_.data[i], dtype, device, 2, {exchange_->max_rows(), d, 0}, {d, 1, 0}};
    rank->maps.expert_ids = view_of(rank->ids, DType::i32, {tokens, topk});
    rank->maps.dst_ranks = view_of(rank->dst_ranks, DType::i32, {tokens, topk});
    rank->maps.dst_rows = view_of(rank->dst_rows, DType::i32, {tokens, topk});
    rank->maps.offs = view_of(rank->offs, DType::i32, {exchange_->local_experts()});
    rank->maps.workspace = workspace;
    rank->put.input = view_of(rank->x, dtype, {tokens, d});
    rank->put.out = leased;
    rank->put.dst_ranks = rank->maps.dst_ranks;
    rank->put.dst_rows = rank->maps.dst_rows;
    rank->put.probs = view_of(rank->probs, DType::f32, {tokens, topk});
    rank->put.workspace = workspace;
    rank->get.expert_out = leased;
    rank->get.out = view_of(rank->y, dtype, {tokens, d});
    rank->get.src_ranks = rank->maps.dst_ranks;
    rank->get.src_rows = rank->maps.dst_rows;
    rank->get.probs = rank->put.probs;
    rank->get.gathered = view_of(rank->gathered, dtype, {tokens, topk, d});
    rank->get.workspace = workspace;
    rank->gather = {leased, rank->get.gathered, rank->maps.dst_ranks, rank->maps.dst_rows,
                    workspace};
    ranks_.push_back(std::move(rank));
  }
}

std::vector<std::string> EpSite::operations() const {
  return {"route_maps",
          "dispatch_put",
          "dispatch_put_weighted",
          "dispatch_put_fan_out",
          "dispatch_put_weighted_fan_out",
          "gather_get",
          "combine_get",
          "combine_get_fused",
          "maps+dispatch_put+combine_get_fused",
          "maps+dispatch_put_fan_out+combine_get_fused"};
}

void EpSite::run(const std::string& operation, int nblocks) {
  std::vector<RouteMapsArgs> maps;
  std::vector<DispatchPutArgs> put;
  std::vector<CombineGetArgs> get;
  std::vector<GatherGetArgs> gather;
  const bool weighted = operation.starts_with("dispatch_put_weighted");
  const bool two = operation == "combine_get";
  for (const auto& rank : ranks_) {
    maps.push_back(rank->maps);
    put.push_back(rank->put);
    if (!weighted) put.back().probs = {};
    get.push_back(rank->get);
    if (!two) get.back().gathered = {};
    gather.push_back(rank->gather);
  }
  const PutOptions put_options{.nblocks = nblocks};
  const GetOptions get_options{.nblocks = nblocks};
  if (operation == "route_maps") return exchange_->route_maps(maps, stream());
  if (operation == "gather_get") return exchange_->gather_get(gather, stream(), get_options);
  if (two) return exchange_->combine_get(get, stream(), get_options);
  if (operation == "combine_get_fused") {
    return exchange_->combine_get_fused(get, stream(), get_options);
  }
  if (operation.starts_with("maps+")) exchange_->route_maps(maps, stream());
  const ExpertParallel& exchange = is_fan_out(operation) ? *fan_out_ : *exchange_;
  exchange.dispatch_put(put, stream(), put_options);
  if (operation.starts_with("maps+")) exchange_->combine_get_fused(get, stream(), get_options);
}

EpCheck EpSite::check_maps() {
  EpCheck check;
  for (const auto& rank : ranks_) {
    const auto r = static_cast<std::size_t>(rank->rank);
    const auto compare = [&](const DeviceBuffer& buffer, const std::vector<std::int32_t>& wanted) {
      std::vector<std::int32_t> got(wanted.size());
      buffer.copy_to_host(std::as_writable_bytes(std::span(got)), 0, stream());
      check.elements += static_cast<std::int64_t>(got.size());
      for (std::size_t i = 0; i < got.size(); ++i) check.mismatches += got[i] == wanted[i] ? 0 : 1;
    };
    compare(rank->dst_ranks, wanted_ranks_[r]);
    compare(rank->dst_rows, wanted_rows_[r]);
    compare(rank->offs, wanted_offs_[r]);
  }
  return check;
}

namespace {

/// Reads rows of a dense tensor back, one at a time.
class RowReader {
 public:
  RowReader(const DeviceBuffer& buffer, bool bf16, std::int64_t d, Stream stream)
      : buffer_(buffer),
        bf16_(bf16),
        stream_(stream),
        bytes_(static_cast<std::size_t>(d) * (bf16 ? 2 : 4)) {}

  void read(std::int64_t row) {
    buffer_.copy_to_host(bytes_, static_cast<std::size_t>(row) * bytes_.size(), stream_);
  }
  [[nodiscard]] float at(std::int64_t j) const {
    if (bf16_) {
      BFloat16 value;
      std::memcpy(&value, &bytes_[static_cast<std::size_t>(j) * 2], sizeof(value));
      return static_cast<float>(value);
    }
    float value = 0;
    std::memcpy(&value, &bytes_[static_cast<std::size_t>(j) * 4], sizeof(value));
    return value;
  }

 private:
  const DeviceBuffer& buffer_;
  bool bf16_;
  Stream stream_;
  std::vector<std::byte> bytes_;
};

}  // namespace

EpCheck EpSite::check_gathered(const Rank& rank) const {
  const ExpertParallelProblem& problem = exchange_->problem();
  RowReader reader(rank.gathered, problem.format == Format::bf16, problem.d, stream());
  EpCheck check;
  const std::int64_t step = std::max<std::int64_t>(1, flags_.tokens / kSampledTokens);
  for (std::int64_t token = 0; token < flags_.tokens; token += step) {
    for (std::int64_t slot = 0; slot < problem.topk; ++slot) {
      const std::int64_t route = token * problem.topk + slot;
      const bool kept =
          wanted_rows_[static_cast<std::size_t>(rank.rank)][static_cast<std::size_t>(route)] >= 0;
      reader.read(route);
      for (std::int64_t j = 0; j < problem.d; ++j) {
        const float want = kept ? ep_element(rank.rank, token, j) : 0.0F;
        check.mismatches += reader.at(j) == want ? 0 : 1;
      }
      check.elements += problem.d;
    }
  }
  return check;
}

EpCheck EpSite::check_sums(const Rank& rank, float weight) const {
  const ExpertParallelProblem& problem = exchange_->problem();
  RowReader reader(rank.y, problem.format == Format::bf16, problem.d, stream());
  EpCheck check;
  const std::int64_t step = std::max<std::int64_t>(1, flags_.tokens / kSampledTokens);
  for (std::int64_t token = 0; token < flags_.tokens; token += step) {
    std::int64_t kept = 0;
    for (std::int64_t slot = 0; slot < problem.topk; ++slot) {
      const auto route = static_cast<std::size_t>(token * problem.topk + slot);
      kept += wanted_rows_[static_cast<std::size_t>(rank.rank)][route] >= 0 ? 1 : 0;
    }
    reader.read(token);
    for (std::int64_t j = 0; j < problem.d; ++j) {
      const float want = weight * static_cast<float>(kept) * ep_element(rank.rank, token, j);
      const float rounded =
          problem.format == Format::bf16 ? static_cast<float>(BFloat16(want)) : want;
      check.mismatches += reader.at(j) == rounded ? 0 : 1;
    }
    check.elements += problem.d;
  }
  return check;
}

EpCheck EpSite::check(int nblocks) {
  run("route_maps", nblocks);
  EpCheck all = check_maps();
  const auto add = [&](const EpCheck& one) {
    all.elements += one.elements;
    all.mismatches += one.mismatches;
  };
  const auto sums = [&](const std::string& operation, float weight) {
    for (const auto& rank : ranks_) rank->y.fill(std::byte{0xFF}, stream());
    run(operation, nblocks);
    for (const auto& rank : ranks_) add(check_sums(*rank, weight));
  };
  // Each form finds the weighted rows of the one before in the buffers.
  for (const char* form : {"", "_fan_out"}) {
    run(std::string("dispatch_put") + form, nblocks);
    run("gather_get", nblocks);
    for (const auto& rank : ranks_) add(check_gathered(*rank));
    sums("combine_get", kProb);
    sums("combine_get_fused", kProb);
    group_->barrier(stream());  // peers have fetched what is overwritten next
    run(std::string("dispatch_put_weighted") + form, nblocks);
    sums("combine_get_fused", kProb * kProb);
    group_->barrier(stream());
  }
  group_->check(stream());
  double mismatches = 0, elements = 0;
  for (const double one : share(static_cast<double>(all.mismatches))) mismatches += one;
  for (const double one : share(static_cast<double>(all.elements))) elements += one;
  return {static_cast<std::int64_t>(elements), static_cast<std::int64_t>(mismatches)};
}

}  // namespace moesaic::cli
