/* SPDX-License-Identifier: Apache-2.0 */
/* A C program's use of the ABI, compiled as C11: forward on the CPU in FP32. */

#include <stdint.h>
#include <string.h>

#include "moesaic/c_api.h"

static moesaic_tensor matrix(float* data, int64_t rows, int64_t columns) {
  moesaic_tensor tensor;
  memset(&tensor, 0, sizeof(tensor));
  tensor.data = data;
  tensor.shape[0] = rows;
  tensor.shape[1] = columns;
  tensor.stride[0] = columns;
  tensor.stride[1] = 1;
  tensor.dtype = moesaic_f32;
  tensor.rank = 2;
  return tensor;
}

/* y[3, 8] of two experts with offs {1, 3}; w[0] = identity, w[1] = 2 * identity. Gives a status. */
int moesaic_test_plain_c_forward(const float x[24], float y[24]) {
  static float w[2 * 8 * 8];
  static float input[24];
  int32_t ends[2] = {1, 3};
  const moesaic_device cpu = {moesaic_cpu, 0};
  moesaic_gemm_problem problem = {0};
  moesaic_gemm_args args;
  moesaic_workspace workspace;
  moesaic_gemm* plan = NULL;
  static uint64_t memory[1 << 16];
  int status;
  int i;

  for (i = 0; i < 8; ++i) {
    w[i * 9] = 1.0F;
    w[64 + i * 9] = 2.0F;
  }
  memcpy(input, x, sizeof(input));
  problem.format = moesaic_format_f32;
  problem.d_dtype = moesaic_f32;
  problem.num_experts = 2;
  problem.max_rows = 3;
  problem.n = 8;
  problem.k = 8;
  status = moesaic_gemm_create(&problem, cpu, NULL, &plan);
  if (status != moesaic_ok) {
    return status;
  }

  memset(&args, 0, sizeof(args));
  args.a.qdata = matrix(input, 3, 8);
  args.b.qdata = matrix(w, 8, 8);
  args.b.qdata.rank = 3;
  args.b.qdata.shape[0] = 2;
  args.b.qdata.stride[0] = 64;
  args.b.qdata.shape[1] = args.b.qdata.shape[2] = 8;
  args.b.qdata.stride[1] = 8;
  args.b.qdata.stride[2] = 1;
  args.offs.data = ends;
  args.offs.shape[0] = 2;
  args.offs.stride[0] = 1;
  args.offs.dtype = moesaic_i32;
  args.offs.rank = 1;
  args.d = matrix(y, 3, 8);
  workspace.data = (void*)(((uintptr_t)memory + 255) / 256 * 256);
  workspace.size_bytes = sizeof(memory) - 256;
  status = moesaic_gemm_execute(plan, &args, &workspace, NULL);
  moesaic_gemm_destroy(plan);
  return status;
}
