// SPDX-License-Identifier: Apache-2.0
// Expert parallelism behind its C handles.

#include <array>
#include <map>
#include <mutex>

#include "c_api/convert.hpp"
#include "c_api/status.hpp"
#include "moesaic/c_api_exchange.h"
#include "moesaic/expert_parallel.hpp"

using namespace moesaic::c_api;

struct moesaic_ep_group {
  moesaic::ExpertParallelGroup group;
  std::mutex mutex;
  std::map<std::int64_t, moesaic::SymmetricBuffer> buffers;  // all that were ever leased
};
struct moesaic_ep_exchange {
  moesaic::ExpertParallel plan;
  moesaic::Device device;
  std::string implementation;
};

namespace {

constexpr std::size_t kMostValueBytes = 4096;

/// The caller's functions.
class ForeignRendezvous final : public moesaic::Rendezvous {
 public:
  explicit ForeignRendezvous(const moesaic_rendezvous& functions) : functions_(functions) {
    static_cast<void>(required("rendezvous.set", functions.set));
    static_cast<void>(required("rendezvous.get", functions.get));
  }
  void set(const std::string& key, const std::string& value) override {
    if (const int status =
            functions_.set(functions_.state, key.c_str(), value.data(), value.size())) {
      fail("set", key, status);
    }
  }
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    std::array<char, kMostValueBytes> value{};
    std::size_t bytes = 0;
    if (const int status = functions_.get(functions_.state, key.c_str(), timeout.count(),
                                          value.data(), value.size(), &bytes)) {
      fail("get", key, status);
    }
    if (bytes > value.size()) {
      throw moesaic::Error(moesaic::ErrorCode::device_failure,
                           "rendezvous: expected at most " + std::to_string(value.size()) +
                               " bytes for '" + key + "', got " + std::to_string(bytes));
    }
    return {value.data(), bytes};
  }

 private:
  [[noreturn]] static void fail(const char* function, const std::string& key, int status) {
    throw moesaic::Error(moesaic::ErrorCode::device_failure,
                         "rendezvous: " + std::string(function) + " of '" + key +
                             "' failed with status " + std::to_string(status));
  }
  moesaic_rendezvous functions_;
};

moesaic::NvshmemGroupOptions to_options(const moesaic_ep_group_options& options) {
  moesaic::NvshmemGroupOptions result;
  result.rank = options.rank;
  result.num_ranks = options.num_ranks;
  result.device = to_device(options.device);
  result.rendezvous = std::make_shared<ForeignRendezvous>(options.rendezvous);
  if (options.heap_bytes != 0) result.heap_bytes = options.heap_bytes;
  if (options.timeout_seconds != 0) result.timeout_seconds = options.timeout_seconds;
  return result;
}

moesaic::RouteMapsArgs to_args(const moesaic_ep_route_maps_args& args, moesaic::Device device) {
  return {.expert_ids = to_const_view("expert_ids", args.expert_ids),
          .dst_ranks = to_view("dst_ranks", args.dst_ranks),
          .dst_rows = to_view("dst_rows", args.dst_rows),
          .offs = to_view("offs", args.offs),
          .kept = to_view("kept", args.kept),
          .src_ranks = to_view("src_ranks", args.src_ranks),
          .src_routes = to_view("src_routes", args.src_routes),
          .workspace = to_workspace(args.workspace, device)};
}
moesaic::DispatchPutArgs to_args(const moesaic_ep_dispatch_put_args& args, moesaic::Device device) {
  return {.input = to_const_view("input", args.input),
          .out = to_view("out", args.out),
          .dst_ranks = to_const_view("dst_ranks", args.dst_ranks),
          .dst_rows = to_const_view("dst_rows", args.dst_rows),
          .probs = to_const_view("probs", args.probs),
          .workspace = to_workspace(args.workspace, device)};
}
moesaic::CombineGetArgs to_args(const moesaic_ep_combine_get_args& args, moesaic::Device device) {
  return {.expert_out = to_const_view("expert_out", args.expert_out),
          .out = to_view("out", args.out),
          .src_ranks = to_const_view("src_ranks", args.src_ranks),
          .src_rows = to_const_view("src_rows", args.src_rows),
          .probs = to_const_view("probs", args.probs),
          .gathered = to_view("gathered", args.gathered),
          .workspace = to_workspace(args.workspace, device)};
}
moesaic::GatherGetArgs to_args(const moesaic_ep_gather_get_args& args, moesaic::Device device) {
  return {.expert_out = to_const_view("expert_out", args.expert_out),
          .gathered = to_view("gathered", args.gathered),
          .src_ranks = to_const_view("src_ranks", args.src_ranks),
          .src_rows = to_const_view("src_rows", args.src_rows),
          .workspace = to_workspace(args.workspace, device)};
}
moesaic::ProbsGradArgs to_args(const moesaic_ep_probs_grad_args& args, moesaic::Device /*device*/) {
  return {.gathered = to_const_view("gathered", args.gathered),
          .dout = to_const_view("dout", args.dout),
          .src_ranks = to_const_view("src_ranks", args.src_ranks),
          .src_rows = to_const_view("src_rows", args.src_rows),
          .dprobs = to_view("dprobs", args.dprobs)};
}

template <class Options>
Options to_transfer(const moesaic_ep_options* options) {
  if (options == nullptr) return {};
  for (const std::int32_t flag : {options->pre_barrier, options->post_barrier}) {
    if (flag != 0 && flag != 1) {
      throw moesaic::Error(
          moesaic::ErrorCode::invalid_argument,
          "pre_barrier, post_barrier: expected 0 or 1, got " + std::to_string(flag));
    }
  }
  return {options->nblocks, options->pre_barrier == 1, options->post_barrier == 1};
}

/// Converts the entries of all local ranks, then calls body(plan, entries, stream).
template <class Args, class Body>
int run(const moesaic_ep_exchange* plan, const Args* args, std::size_t count, void* stream,
        const Body& body) {
  return guarded([&] {
    const moesaic_ep_exchange& handle = required("plan", plan);
    const Args* first = &required("args", args);
    std::vector<decltype(to_args(*first, handle.device))> entries;
    entries.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      try {
        entries.push_back(to_args(first[i], handle.device));
      } catch (const moesaic::Error& error) {
        throw moesaic::Error(error.code(),
                             "ranks[" + std::to_string(i) + "]." + std::string(error.what()));
      }
    }
    const std::span<const typename decltype(entries)::value_type> all = entries;
    body(handle.plan, all, moesaic::Stream::from_native(handle.device, stream));
  });
}

moesaic::Stream stream_of(const moesaic_ep_group& handle, void* stream) {
  return moesaic::Stream::from_native(handle.group.device(), stream);
}

void make_group(moesaic_ep_group** group, const moesaic::ExpertParallelGroup& made) {
  *group = new moesaic_ep_group{made, {}, {}};
}

}  // namespace

extern "C" {

int moesaic_ep_group_simulated(int32_t num_ranks, moesaic_ep_group** group) {
  return guarded([&] {
    static_cast<void>(required("group", group));
    make_group(group, moesaic::ExpertParallelGroup::simulated(num_ranks));
  });
}

int moesaic_ep_group_nvshmem(const moesaic_ep_group_options* options, moesaic_ep_group** group) {
  return guarded([&] {
    static_cast<void>(required("group", group));
    make_group(group,
               moesaic::ExpertParallelGroup::nvshmem(to_options(required("options", options))));
  });
}

void moesaic_ep_group_destroy(moesaic_ep_group* group) { delete group; }

int32_t moesaic_ep_group_num_ranks(const moesaic_ep_group* group) {
  return group == nullptr ? 0 : group->group.num_ranks();
}

int32_t moesaic_ep_group_num_local_ranks(const moesaic_ep_group* group) {
  return group == nullptr ? 0 : static_cast<int32_t>(group->group.local_ranks().size());
}

int64_t moesaic_ep_group_barriers(const moesaic_ep_group* group) {
  return group == nullptr ? 0 : group->group.barriers();
}

int moesaic_ep_group_lease(moesaic_ep_group* group, uint64_t size_bytes, int64_t* id, void** data) {
  return guarded([&] {
    moesaic_ep_group& handle = required("group", group);
    static_cast<void>(required("id", id));
    static_cast<void>(required("data", data));
    moesaic::SymmetricBuffer buffer = handle.group.lease(size_bytes);
    *id = buffer.id;
    for (std::size_t rank = 0; rank < buffer.data.size(); ++rank) data[rank] = buffer.data[rank];
    const std::lock_guard lock(handle.mutex);
    handle.buffers[buffer.id] = std::move(buffer);
  });
}

int moesaic_ep_group_release(moesaic_ep_group* group, int64_t id) {
  return guarded([&] {
    moesaic_ep_group& handle = required("group", group);
    moesaic::SymmetricBuffer buffer;
    buffer.id = id;
    {
      const std::lock_guard lock(handle.mutex);
      const auto found = handle.buffers.find(id);
      if (found != handle.buffers.end()) buffer = found->second;
    }
    handle.group.release(buffer);
  });
}

int moesaic_ep_group_pool_usage(const moesaic_ep_group* group, moesaic_ep_pool_usage* usage) {
  return guarded([&] {
    const moesaic::PoolUsage found = required("group", group).group.pool_usage();
    required("usage", usage) = {found.leases, found.leased_bytes, found.high_water_bytes,
                                found.pooled_bytes};
  });
}

int moesaic_ep_group_barrier(const moesaic_ep_group* group, void* stream) {
  return guarded([&] {
    const moesaic_ep_group& handle = required("group", group);
    handle.group.barrier(stream_of(handle, stream));
  });
}

int moesaic_ep_group_check(const moesaic_ep_group* group, void* stream) {
  return guarded([&] {
    const moesaic_ep_group& handle = required("group", group);
    handle.group.check(stream_of(handle, stream));
  });
}

int moesaic_ep_create(const moesaic_ep_problem* problem, const moesaic_ep_group* group,
                      moesaic_ep_exchange** plan) {
  return guarded([&] {
    const moesaic_ep_group& handle = required("group", group);
    moesaic_ep_exchange*& result = required("plan", plan);
    const auto exchange =
        moesaic::ExpertParallel::plan(to_problem(required("problem", problem)), handle.group);
    result = new moesaic_ep_exchange{exchange, handle.group.device(),
                                     std::string(exchange.implementation())};
  });
}

void moesaic_ep_destroy(moesaic_ep_exchange* plan) { delete plan; }

const char* moesaic_ep_implementation(const moesaic_ep_exchange* plan) {
  return plan == nullptr ? "" : plan->implementation.c_str();
}

int32_t moesaic_ep_dispatch_form(const moesaic_ep_exchange* plan) {
  return plan == nullptr ? 0 : static_cast<int32_t>(plan->plan.dispatch_form());
}

int64_t moesaic_ep_max_rows(const moesaic_ep_exchange* plan) {
  return plan == nullptr ? 0 : plan->plan.max_rows();
}

size_t moesaic_ep_workspace_bytes(const moesaic_ep_exchange* plan) {
  return plan == nullptr ? 0 : plan->plan.workspace_bytes();
}

int moesaic_ep_route_maps(const moesaic_ep_exchange* plan, const moesaic_ep_route_maps_args* args,
                          size_t count, void* stream) {
  return run(plan, args, count, stream, [](const auto& exchange, auto entries, auto queue) {
    exchange.route_maps(entries, queue);
  });
}

int moesaic_ep_dispatch_put(const moesaic_ep_exchange* plan,
                            const moesaic_ep_dispatch_put_args* args, size_t count,
                            const moesaic_ep_options* options, void* stream) {
  return run(plan, args, count, stream, [&](const auto& exchange, auto entries, auto queue) {
    exchange.dispatch_put(entries, queue, to_transfer<moesaic::PutOptions>(options));
  });
}

int moesaic_ep_combine_get(const moesaic_ep_exchange* plan, const moesaic_ep_combine_get_args* args,
                           size_t count, const moesaic_ep_options* options, void* stream) {
  return run(plan, args, count, stream, [&](const auto& exchange, auto entries, auto queue) {
    exchange.combine_get(entries, queue, to_transfer<moesaic::GetOptions>(options));
  });
}

int moesaic_ep_combine_get_fused(const moesaic_ep_exchange* plan,
                                 const moesaic_ep_combine_get_args* args, size_t count,
                                 const moesaic_ep_options* options, void* stream) {
  return run(plan, args, count, stream, [&](const auto& exchange, auto entries, auto queue) {
    exchange.combine_get_fused(entries, queue, to_transfer<moesaic::GetOptions>(options));
  });
}

int moesaic_ep_gather_get(const moesaic_ep_exchange* plan, const moesaic_ep_gather_get_args* args,
                          size_t count, const moesaic_ep_options* options, void* stream) {
  return run(plan, args, count, stream, [&](const auto& exchange, auto entries, auto queue) {
    exchange.gather_get(entries, queue, to_transfer<moesaic::GetOptions>(options));
  });
}

int moesaic_ep_probs_grad(const moesaic_ep_exchange* plan, const moesaic_ep_probs_grad_args* args,
                          size_t count, void* stream) {
  return run(plan, args, count, stream, [](const auto& exchange, auto entries, auto queue) {
    exchange.probs_grad(entries, queue);
  });
}

int moesaic_ep_read_fault(const moesaic_ep_exchange* plan, const moesaic_workspace* workspace,
                          void* stream, moesaic_ep_route_fault* fault) {
  return guarded([&] {
    const moesaic_ep_exchange& handle = required("plan", plan);
    const moesaic::RouteFault found =
        handle.plan.read_fault(to_workspace(required("workspace", workspace), handle.device),
                               moesaic::Stream::from_native(handle.device, stream));
    required("fault", fault) = {static_cast<std::int32_t>(found.kind), found.slot, found.token,
                                found.value};
  });
}

int moesaic_ep_read_dropped_routes(const moesaic_ep_exchange* plan,
                                   const moesaic_workspace* workspace, void* stream,
                                   int64_t* routes) {
  return guarded([&] {
    const moesaic_ep_exchange& handle = required("plan", plan);
    required("routes", routes) = handle.plan.read_dropped_routes(
        to_workspace(required("workspace", workspace), handle.device),
        moesaic::Stream::from_native(handle.device, stream));
  });
}

}  // extern "C"
