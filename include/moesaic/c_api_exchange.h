// SPDX-License-Identifier: Apache-2.0
// The C ABI of expert parallelism, beside c_api.h, whose words about statuses and errors hold here
// too. The meaning of every option and argument is told in expert_parallel.hpp and
// expert_parallel_group.hpp.
// C names: everything is snake_case behind one prefix, the structs too.
// NOLINTBEGIN(readability-identifier-naming)
#ifndef MOESAIC_C_API_EXCHANGE_H_
#define MOESAIC_C_API_EXCHANGE_H_

#include "moesaic/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The ranks that exchange rows.
typedef struct moesaic_ep_group moesaic_ep_group;
/// A planned exchange: immutable.
typedef struct moesaic_ep_exchange moesaic_ep_exchange;

/// How the processes of a group find one another; see moesaic::Rendezvous. Both return 0, or
/// another number on failure. They are called while a group, a plan or a new buffer is made, and
/// when a group is destroyed, on the thread that does so. A value has at most 4,096 bytes, zeros
/// among them.
typedef struct moesaic_rendezvous {
  void* state;  ///< Passed on to both.
  int (*set)(void* state, const char* key, const char* value, size_t value_bytes);
  /// Waits for the key at most for `timeout_ms`, then writes its value, `room` bytes at most.
  int (*get)(void* state, const char* key, int64_t timeout_ms, char* value, size_t room,
             size_t* value_bytes);
} moesaic_rendezvous;

/// See moesaic::NvshmemGroupOptions.
typedef struct moesaic_ep_group_options {
  int32_t rank;
  int32_t num_ranks;
  moesaic_device device;
  uint64_t heap_bytes;     ///< 0 means 4 GiB.
  double timeout_seconds;  ///< 0 means 60.
  moesaic_rendezvous rendezvous;
} moesaic_ep_group_options;

/// See moesaic::PoolUsage.
typedef struct moesaic_ep_pool_usage {
  int64_t leases;
  uint64_t leased_bytes;
  uint64_t high_water_bytes;
  uint64_t pooled_bytes;
} moesaic_ep_pool_usage;

/// See moesaic::DispatchForm.
enum moesaic_dispatch_form {
  moesaic_dispatch_automatic = 0,
  moesaic_dispatch_direct = 1,
  moesaic_dispatch_fan_out = 2
};

/// See moesaic::ExpertParallelProblem.
typedef struct moesaic_ep_problem {
  int32_t format;  ///< enum moesaic_format
  int32_t num_experts;
  int32_t topk;
  int32_t dispatch;  ///< enum moesaic_dispatch_form
  int64_t max_tokens;
  int64_t d;
  int64_t capacity_factor_millionths;  ///< 0 means 1,250,000.
} moesaic_ep_problem;

/// Barriers and thread blocks of a transfer. A null pointer in its place means all defaults.
typedef struct moesaic_ep_options {
  int32_t nblocks;
  int32_t pre_barrier;   ///< 0 or 1
  int32_t post_barrier;  ///< 0 or 1
} moesaic_ep_options;

/// One local rank's part of each operation; a tensor that is not wanted is all zero.
typedef struct moesaic_ep_route_maps_args {
  moesaic_tensor expert_ids, dst_ranks, dst_rows, offs, kept, src_ranks, src_routes;
  moesaic_workspace workspace;
} moesaic_ep_route_maps_args;
typedef struct moesaic_ep_dispatch_put_args {
  moesaic_tensor input, out, dst_ranks, dst_rows, probs;
  moesaic_workspace workspace;
} moesaic_ep_dispatch_put_args;
typedef struct moesaic_ep_combine_get_args {
  moesaic_tensor expert_out, out, src_ranks, src_rows, probs, gathered;
  moesaic_workspace workspace;
} moesaic_ep_combine_get_args;
typedef struct moesaic_ep_gather_get_args {
  moesaic_tensor expert_out, gathered, src_ranks, src_rows;
  moesaic_workspace workspace;
} moesaic_ep_gather_get_args;
typedef struct moesaic_ep_probs_grad_args {
  moesaic_tensor gathered, dout, src_ranks, src_rows, dprobs;
} moesaic_ep_probs_grad_args;

/// The lowest bad route; kind 0: there was none.
typedef struct moesaic_ep_route_fault {
  int32_t kind;  ///< 0 none, 1 expert_out_of_range, 2 rank_out_of_range, 3 row_out_of_range
  int32_t slot;
  int64_t token;
  int64_t value;
} moesaic_ep_route_fault;

/// All ranks in this process, on the CPU. The group is the caller's to destroy.
MOESAIC_API int moesaic_ep_group_simulated(int32_t num_ranks, moesaic_ep_group** group);
/// This process's rank of a group of one process per GPU; collective.
MOESAIC_API int moesaic_ep_group_nvshmem(const moesaic_ep_group_options* options,
                                         moesaic_ep_group** group);
/// Frees a group; null is fine. The last one of a process ends NVSHMEM, with all its processes.
MOESAIC_API void moesaic_ep_group_destroy(moesaic_ep_group* group);
/// R; 0 for null.
MOESAIC_API int32_t moesaic_ep_group_num_ranks(const moesaic_ep_group* group);
/// Ranks whose arguments a call takes; 0 for null.
MOESAIC_API int32_t moesaic_ep_group_num_local_ranks(const moesaic_ep_group* group);
/// Barriers so far; 0 for null.
MOESAIC_API int64_t moesaic_ep_group_barriers(const moesaic_ep_group* group);
/// Leases a symmetric buffer; collective. `data` receives an address for every local rank.
MOESAIC_API int moesaic_ep_group_lease(moesaic_ep_group* group, uint64_t size_bytes, int64_t* id,
                                       void** data);
/// Gives it back.
MOESAIC_API int moesaic_ep_group_release(moesaic_ep_group* group, int64_t id);
MOESAIC_API int moesaic_ep_group_pool_usage(const moesaic_ep_group* group,
                                            moesaic_ep_pool_usage* usage);
/// Enqueues a barrier of all ranks.
MOESAIC_API int moesaic_ep_group_barrier(const moesaic_ep_group* group, void* stream);
/// Waits for the stream; an error when a rank was waited for in vain.
MOESAIC_API int moesaic_ep_group_check(const moesaic_ep_group* group, void* stream);

/// Plans an exchange; collective. The plan is the caller's to destroy, before its group.
MOESAIC_API int moesaic_ep_create(const moesaic_ep_problem* problem, const moesaic_ep_group* group,
                                  moesaic_ep_exchange** plan);
/// Frees a plan; null is fine.
MOESAIC_API void moesaic_ep_destroy(moesaic_ep_exchange* plan);
/// "cpu/reference/rowwise"; "" for null. Lives as long as the plan.
MOESAIC_API const char* moesaic_ep_implementation(const moesaic_ep_exchange* plan);
/// moesaic_dispatch_direct or moesaic_dispatch_fan_out; 0 for null.
MOESAIC_API int32_t moesaic_ep_dispatch_form(const moesaic_ep_exchange* plan);
/// M; 0 for null.
MOESAIC_API int64_t moesaic_ep_max_rows(const moesaic_ep_exchange* plan);
/// Bytes of every local rank's workspace; 0 for null.
MOESAIC_API size_t moesaic_ep_workspace_bytes(const moesaic_ep_exchange* plan);

/// The operations. `args` holds `count` entries, one for each local rank.
MOESAIC_API int moesaic_ep_route_maps(const moesaic_ep_exchange* plan,
                                      const moesaic_ep_route_maps_args* args, size_t count,
                                      void* stream);
MOESAIC_API int moesaic_ep_dispatch_put(const moesaic_ep_exchange* plan,
                                        const moesaic_ep_dispatch_put_args* args, size_t count,
                                        const moesaic_ep_options* options, void* stream);
MOESAIC_API int moesaic_ep_combine_get(const moesaic_ep_exchange* plan,
                                       const moesaic_ep_combine_get_args* args, size_t count,
                                       const moesaic_ep_options* options, void* stream);
MOESAIC_API int moesaic_ep_combine_get_fused(const moesaic_ep_exchange* plan,
                                             const moesaic_ep_combine_get_args* args, size_t count,
                                             const moesaic_ep_options* options, void* stream);
MOESAIC_API int moesaic_ep_gather_get(const moesaic_ep_exchange* plan,
                                      const moesaic_ep_gather_get_args* args, size_t count,
                                      const moesaic_ep_options* options, void* stream);
MOESAIC_API int moesaic_ep_probs_grad(const moesaic_ep_exchange* plan,
                                      const moesaic_ep_probs_grad_args* args, size_t count,
                                      void* stream);

/// Returns and clears the lowest route fault of a rank's workspace. Waits for `stream`.
MOESAIC_API int moesaic_ep_read_fault(const moesaic_ep_exchange* plan,
                                      const moesaic_workspace* workspace, void* stream,
                                      moesaic_ep_route_fault* fault);
/// Routes of that rank that the last route_maps dropped. Waits for `stream`.
MOESAIC_API int moesaic_ep_read_dropped_routes(const moesaic_ep_exchange* plan,
                                               const moesaic_workspace* workspace, void* stream,
                                               int64_t* routes);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // MOESAIC_C_API_EXCHANGE_H_
// NOLINTEND(readability-identifier-naming)
