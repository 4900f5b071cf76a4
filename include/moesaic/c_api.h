// SPDX-License-Identifier: Apache-2.0
// The C ABI of libmoesaic: what Python and other languages bind to. Plain C11, also valid C++.
// The meaning of every problem, argument and option is told in the C++ headers of the same names.
// C names: everything is snake_case behind one prefix, the structs too.
// NOLINTBEGIN(readability-identifier-naming)
#ifndef MOESAIC_C_API_H_
#define MOESAIC_C_API_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MOESAIC_API __attribute__((visibility("default")))
#else
#define MOESAIC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// Grows when a struct or a function below changes its meaning; moesaic_abi_version() of the
/// library that is loaded must equal it.
#define MOESAIC_ABI_VERSION 5

/// What every function that can fail returns. After anything but `moesaic_ok`,
/// moesaic_last_error() says which argument, what was expected and what came.
enum moesaic_status {
  moesaic_ok = 0,
  moesaic_invalid_argument = 1,
  moesaic_unsupported = 2,
  moesaic_workspace_too_small = 3,
  moesaic_device_failure = 4,
  moesaic_internal_error = 5  ///< Out of host memory, or a fault of moesaic itself.
};

/// Values of the int32_t fields below. Zero is what moesaic does unless told otherwise; data types
/// are always stated, and `order` has no zero at all.
enum moesaic_device_kind { moesaic_cpu = 0, moesaic_cuda = 1 };
enum moesaic_dtype {
  moesaic_f32 = 0,
  moesaic_bf16 = 1,
  moesaic_f8_e4m3 = 2,
  moesaic_e8m0 = 3,
  moesaic_i32 = 4
};
enum moesaic_pass { moesaic_forward = 0, moesaic_dgrad = 1, moesaic_wgrad = 2 };
enum moesaic_format { moesaic_format_bf16 = 0, moesaic_format_f32 = 1, moesaic_format_mxfp8 = 2 };
enum moesaic_weight_storage { moesaic_enk = 0, moesaic_ekn = 1 };
enum moesaic_tail { moesaic_tail_leave = 0, moesaic_tail_zero = 1 };
enum moesaic_strategy { moesaic_grouped = 0, moesaic_padded_bmm = 1, moesaic_host_loop = 2 };
enum moesaic_capacity_rule { moesaic_ceil_mean = 0, moesaic_eight_row = 1 };
enum moesaic_activations { moesaic_save = 0, moesaic_recompute = 1 };
enum moesaic_x_rows { moesaic_in_order = 0, moesaic_indexed = 1, moesaic_copied = 2 };
enum moesaic_up_gate_order { moesaic_up_gate = 1, moesaic_gate_up = 2, moesaic_interleaved = 3 };

/// One device; the CPU is index 0 alone.
typedef struct moesaic_device {
  int32_t kind;  ///< enum moesaic_device_kind
  int32_t index;
} moesaic_device;

/// What a plan depends on.
typedef struct moesaic_device_info {
  moesaic_device device;
  int32_t compute_capability;  ///< 90 for sm_90; 0 on a CPU.
  int32_t num_sms;             ///< On a CPU the threads a product may use.
  int64_t smem_bytes_per_block;
  int64_t l2_bytes;
  double dram_bytes_per_second;  ///< Nominal; 0 when unknown.
  double bf16_flops_per_second;  ///< Nominal; 0 when unknown.
  char name[128];                ///< Zero-terminated; a longer name is cut.
} moesaic_device_info;

/// Non-owning strided view of rank 1 to 3. Strides count elements. All zero: no tensor.
typedef struct moesaic_tensor {
  void* data;  ///< Operands are only read.
  int64_t shape[3];
  int64_t stride[3];
  int32_t dtype;  ///< enum moesaic_dtype
  int32_t rank;
  moesaic_device device;
} moesaic_tensor;

/// A grouped product without its data; see moesaic::GroupedGemmProblem.
typedef struct moesaic_gemm_problem {
  int32_t pass;         ///< enum moesaic_pass
  int32_t format;       ///< enum moesaic_format
  int32_t d_dtype;      ///< enum moesaic_dtype
  int32_t weights;      ///< enum moesaic_weight_storage
  int32_t tail;         ///< enum moesaic_tail
  int32_t strategy;     ///< enum moesaic_strategy
  int32_t accumulate;   ///< 0 or 1; wgrad only.
  int32_t num_experts;  ///< E
  int64_t max_rows;     ///< M
  int64_t n;
  int64_t k;
  int32_t capacity_rule;               ///< enum moesaic_capacity_rule; padded_bmm only.
  int32_t reserved;                    ///< 0
  int64_t capacity_factor_millionths;  ///< 0 means 1,250,000.
  int64_t capacity_source_ranks;       ///< 0 means 1.
} moesaic_gemm_problem;

/// What a caller may ask of the plan. A null pointer in its place means all defaults.
typedef struct moesaic_plan_options {
  const char* implementation;  ///< Exactly this one, or null.
  int32_t num_sms;             ///< SMs (threads on a CPU) the product may use; 0 = all.
  int32_t batch_invariant;     ///< 1: a row's bits depend on that row and its weights alone.
} moesaic_plan_options;

/// BF16 and F32: `scales` is all zero. MXFP8 keeps its place in the second view.
typedef struct moesaic_operand {
  moesaic_tensor qdata;
  moesaic_tensor scales;
} moesaic_operand;

/// A planned grouped product: immutable, shared freely between threads.
typedef struct moesaic_gemm moesaic_gemm;
/// Weights in an implementation's own layout: immutable, shared freely between threads.
typedef struct moesaic_packed_weights moesaic_packed_weights;
/// A planned SwiGLU expert: immutable, shared freely between threads.
typedef struct moesaic_expert_mlp moesaic_expert_mlp;
/// Every implementation for a problem, with its reason.
typedef struct moesaic_candidate_list moesaic_candidate_list;

/// The data of one execute; see moesaic::GroupedGemmArgs.
typedef struct moesaic_gemm_args {
  moesaic_operand a;
  moesaic_operand b;  ///< All zero when `packed_b` is given.
  moesaic_tensor offs;
  moesaic_tensor d;
  const moesaic_packed_weights* packed_b;  ///< Or null.
} moesaic_gemm_args;

/// Caller-owned scratch on the plan's device: 256-byte aligned, zeroed once by the caller. Two
/// executes that may overlap in time need two.
typedef struct moesaic_workspace {
  void* data;
  size_t size_bytes;
} moesaic_workspace;

/// The lowest expert whose offset was wrong; kind 0: none was.
typedef struct moesaic_fault {
  int32_t kind;  ///< 0 none, 1 offs_not_monotonic, 2 offs_out_of_range
  int32_t expert;
  int64_t value;  ///< offs[expert] as it was read.
} moesaic_fault;

/// An expert MLP without its data; see moesaic::ExpertMlpProblem.
typedef struct moesaic_expert_mlp_problem {
  int32_t format;            ///< enum moesaic_format
  int32_t order;             ///< enum moesaic_up_gate_order; 0 is refused.
  int32_t activations;       ///< enum moesaic_activations
  int32_t tail;              ///< enum moesaic_tail
  int32_t wgrad_dtype;       ///< enum moesaic_dtype
  int32_t accumulate_wgrad;  ///< 0 or 1
  int32_t strategy;          ///< enum moesaic_strategy
  int32_t num_experts;       ///< E
  int64_t max_rows;          ///< M
  int64_t d;
  int64_t h;
  int32_t capacity_rule;               ///< enum moesaic_capacity_rule; padded_bmm only.
  int32_t reserved;                    ///< 0
  int64_t capacity_factor_millionths;  ///< 0 means 1,250,000.
  int64_t capacity_source_ranks;       ///< 0 means 1.
  int32_t row_weights;                 ///< 0 or 1: rows of y have weights.
  int32_t x_rows;                      ///< enum moesaic_x_rows
} moesaic_expert_mlp_problem;

/// See moesaic::ExpertMlpForwardArgs.
typedef struct moesaic_expert_mlp_forward_args {
  moesaic_tensor x, w_up_gate, w_down, offs, y;
  moesaic_tensor u;  ///< All zero with `recompute`.
  const moesaic_packed_weights* packed_up_gate;
  const moesaic_packed_weights* packed_down;
  moesaic_workspace scratch;   ///< All zero: the intermediates lie in the workspace.
  moesaic_tensor row_weights;  ///< f32 [M] with the problem's `row_weights`, else all zero.
  moesaic_tensor x_rows;       ///< i32 [M] unless the problem's `x_rows` is 0, else all zero.
} moesaic_expert_mlp_forward_args;

/// See moesaic::ExpertMlpBackwardArgs.
typedef struct moesaic_expert_mlp_backward_args {
  moesaic_tensor dy, x, w_up_gate, w_down, offs;
  moesaic_tensor u;                        ///< All zero with `recompute`.
  moesaic_tensor dx, dw_up_gate, dw_down;  ///< Of rank 0: not wanted.
  moesaic_workspace scratch;               ///< All zero: the intermediates lie in the workspace.
  moesaic_tensor row_weights;   ///< f32 [M] with the problem's `row_weights`, else all zero.
  moesaic_tensor drow_weights;  ///< f32 [M]; of rank 0: not wanted.
  moesaic_tensor x_rows;        ///< i32 [M] unless the problem's `x_rows` is 0, else all zero.
} moesaic_expert_mlp_backward_args;

/// MOESAIC_ABI_VERSION of the library.
MOESAIC_API int32_t moesaic_abi_version(void);
/// "0.1.0 (42c802d1f0aa, oneDNN, CUDA)": version, commit and what was built in. Lives for ever.
MOESAIC_API const char* moesaic_version(void);
/// Message of the last failure on this thread; "" before any. Lives until the next failure on it.
MOESAIC_API const char* moesaic_last_error(void);

/// Describes one device. Remembered after the first call, since drivers answer slowly.
MOESAIC_API int moesaic_query_device(moesaic_device device, moesaic_device_info* info);
/// How many CUDA devices can be seen here; 0 also without a driver.
MOESAIC_API int moesaic_cuda_device_count(int32_t* count);

/// Validates, chooses an implementation, sizes the workspace. `options` may be null. The plan is
/// the caller's to destroy.
MOESAIC_API int moesaic_gemm_create(const moesaic_gemm_problem* problem, moesaic_device device,
                                    const moesaic_plan_options* options, moesaic_gemm** plan);
/// Frees a plan; null is fine.
MOESAIC_API void moesaic_gemm_destroy(moesaic_gemm* plan);
/// Bytes that every workspace of this plan needs; 0 for null.
MOESAIC_API size_t moesaic_gemm_workspace_bytes(const moesaic_gemm* plan);
/// "cpu/onednn/grouped"; "" for null. Lives as long as the plan.
MOESAIC_API const char* moesaic_gemm_implementation(const moesaic_gemm* plan);
/// Runs the product on `stream` (a cudaStream_t; ignored on the CPU). Everything is checked before
/// anything is written; nothing is allocated, copied or waited for on a CUDA device.
MOESAIC_API int moesaic_gemm_execute(const moesaic_gemm* plan, const moesaic_gemm_args* args,
                                     const moesaic_workspace* workspace, void* stream);
/// The same with the addresses apart from the layout: `layout` supplies shapes, strides, types and
/// devices, its `data` fields are ignored, so that threads can share one.
MOESAIC_API int moesaic_gemm_execute_at(const moesaic_gemm* plan, const moesaic_gemm_args* layout,
                                        const void* a, const void* b, const void* offs, void* d,
                                        void* workspace, size_t workspace_bytes, void* stream);

/// Lists every implementation for this kind of device, best first. The caller destroys the list.
MOESAIC_API int moesaic_gemm_candidates(const moesaic_gemm_problem* problem, moesaic_device device,
                                        const moesaic_plan_options* options,
                                        moesaic_candidate_list** list);
/// Length of a list; 0 for null.
MOESAIC_API size_t moesaic_candidate_count(const moesaic_candidate_list* list);
/// Name of entry `index`; null past the end. Lives as long as the list.
MOESAIC_API const char* moesaic_candidate_name(const moesaic_candidate_list* list, size_t index);
/// Why entry `index` cannot run: "" when it can, null past the end. Lives as long as the list.
MOESAIC_API const char* moesaic_candidate_reason(const moesaic_candidate_list* list, size_t index);
/// Frees a list; null is fine.
MOESAIC_API void moesaic_candidate_list_destroy(moesaic_candidate_list* list);

/// Copies the weights `w` into the layout that this plan's implementation reads fastest.
MOESAIC_API int moesaic_gemm_pack_weights(const moesaic_gemm* plan, const moesaic_operand* w,
                                          void* stream, moesaic_packed_weights** packed);
/// Bytes of the copy; 0 for null.
MOESAIC_API int64_t moesaic_packed_weights_size_bytes(const moesaic_packed_weights* packed);
/// Frees the copy; null is fine.
MOESAIC_API void moesaic_packed_weights_destroy(moesaic_packed_weights* packed);

/// Returns and clears the fault record of all executes on `workspace`. Waits for `stream`.
MOESAIC_API int moesaic_read_fault(const moesaic_workspace* workspace, moesaic_device device,
                                   void* stream, moesaic_fault* fault);
/// Rows past their expert's capacity in the last padded_bmm execute on `workspace`. Waits.
MOESAIC_API int moesaic_read_overflow_rows(const moesaic_workspace* workspace,
                                           moesaic_device device, void* stream, int64_t* rows);

/// Plans the SwiGLU expert, forward and backward. `options` may be null.
MOESAIC_API int moesaic_expert_mlp_create(const moesaic_expert_mlp_problem* problem,
                                          moesaic_device device,
                                          const moesaic_plan_options* options,
                                          moesaic_expert_mlp** plan);
/// 1 where a call copies the rows of x that x_rows names into its scratch; 0 where it reads them in
/// x, and for null.
MOESAIC_API int32_t moesaic_expert_mlp_copies_x(const moesaic_expert_mlp* plan);
/// Frees a plan; null is fine.
MOESAIC_API void moesaic_expert_mlp_destroy(moesaic_expert_mlp* plan);
/// Of the grouped products inside; "" for null. Lives as long as the plan.
MOESAIC_API const char* moesaic_expert_mlp_implementation(const moesaic_expert_mlp* plan);
/// Bytes that a workspace of forward needs; 0 for null.
MOESAIC_API size_t moesaic_expert_mlp_forward_workspace_bytes(const moesaic_expert_mlp* plan);
/// Bytes that a workspace of backward needs; 0 for null.
MOESAIC_API size_t moesaic_expert_mlp_backward_workspace_bytes(const moesaic_expert_mlp* plan);
/// The part of forward's workspace that `scratch` takes over; of any content. 0 for null.
MOESAIC_API size_t moesaic_expert_mlp_forward_scratch_bytes(const moesaic_expert_mlp* plan);
/// The same of backward.
MOESAIC_API size_t moesaic_expert_mlp_backward_scratch_bytes(const moesaic_expert_mlp* plan);
/// Packs [E, 2h, d] weights for `packed_up_gate`.
MOESAIC_API int moesaic_expert_mlp_pack_up_gate(const moesaic_expert_mlp* plan,
                                                const moesaic_operand* w_up_gate, void* stream,
                                                moesaic_packed_weights** packed);
/// Packs [E, d, h] weights for `packed_down`.
MOESAIC_API int moesaic_expert_mlp_pack_down(const moesaic_expert_mlp* plan,
                                             const moesaic_operand* w_down, void* stream,
                                             moesaic_packed_weights** packed);
/// y, and u when activations are saved.
MOESAIC_API int moesaic_expert_mlp_forward(const moesaic_expert_mlp* plan,
                                           const moesaic_expert_mlp_forward_args* args,
                                           const moesaic_workspace* workspace, void* stream);
/// dx, dw_up_gate, dw_down and drow_weights; dx may be the memory of an x that is in order.
MOESAIC_API int moesaic_expert_mlp_backward(const moesaic_expert_mlp* plan,
                                            const moesaic_expert_mlp_backward_args* args,
                                            const moesaic_workspace* workspace, void* stream);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // MOESAIC_C_API_H_
// NOLINTEND(readability-identifier-naming)
