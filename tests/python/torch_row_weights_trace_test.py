#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""moesaic.torch.swiglu_mlp with weights of rows under what traces, casts or repeats it."""

import unittest

from torch_cases import BF16, MLP_DEVICE, weighted
from torch_mlp_properties import MlpTest

import torch
from torch import library

import moesaic.torch as m


class Tracing(MlpTest):
    def test_opcheck(self):
        case = weighted(tail=0)
        ops = torch.ops.moesaic
        *inputs, row_weights = case.inputs
        inputs.append(case.offs)
        for save in (False, True):
            *leaves, weights = case.leaves()
            library.opcheck(ops.swiglu_mlp, (*leaves, case.offs, "gate_up", save, True, weights))
            library.opcheck(ops.swiglu_mlp_out, (*inputs, torch.zeros_like(case.x), "gate_up",
                                                 save, row_weights))
            _, u = ops.swiglu_mlp(*inputs, "gate_up", save, True, row_weights)
            u = u if save else None
            for wanted in ((True, True, True, True), (False, False, False, True)):
                library.opcheck(ops.swiglu_mlp_backward,
                                (case.dy, *inputs, u, "gate_up", wanted, row_weights))
            main = torch.zeros(case.w_down.shape, device=MLP_DEVICE)
            library.opcheck(ops.swiglu_mlp_backward_out,
                            (case.dy, *inputs, u, torch.zeros_like(case.x), None, main, "gate_up",
                             False, True, row_weights, torch.zeros_like(row_weights)))
        with self.assertRaisesRegex(m.InvalidArgument, "^row_weights: expected f32 \\[30\\]"):
            ops.swiglu_mlp(*inputs, "gate_up", False, True, row_weights.to(BF16))
        with self.assertRaisesRegex(m.InvalidArgument, "^row_weights: expected a tensor, since"):
            ops.swiglu_mlp_backward(case.dy, *inputs, None, "gate_up", (True, False, False, True))

    def test_compile(self):
        for recompute in (False, True):
            case = weighted()
            plain, traced = case.leaves(), case.leaves()

            @torch.compile(fullgraph=True)
            def layer(x, w_up_gate, w_down, row_weights, offs):
                return m.swiglu_mlp(x, w_up_gate, w_down, offs=offs, order="up_gate",
                                    row_weights=row_weights * 2, recompute=recompute)
            y = m.swiglu_mlp(*plain[:3], offs=case.offs, order="up_gate", row_weights=plain[3] * 2)
            got = layer(*traced, case.offs)
            self.same(got, y)
            y.backward(case.dy)
            got.backward(case.dy)
            for mine, want in zip(traced, plain):
                self.same(mine.grad, want.grad)

    def test_compile_with_buffers_and_a_gather(self):
        case = weighted()
        x_rows = torch.arange(case.rows, device=MLP_DEVICE).flip(0) // 2
        results = []
        for run in (case.run, torch.compile(case.run, fullgraph=True)):
            leaves = case.leaves()
            down = torch.zeros(case.w_down.shape, device=MLP_DEVICE)
            run(*leaves, x_rows=x_rows, w_down_grad_out=down, accumulate_wgrad=True).backward(case.dy)
            results.append([down, *(leaf.grad.nan_to_num() for leaf in (leaves[0], leaves[1], leaves[3]))])
        for want, got in zip(*results):
            self.same(got, want)

    def test_compile_once_for_any_number_of_rows(self):
        self.one_compilation_serves_any_number_of_rows(weighted)

    def test_autocast_leaves_them_in_fp32(self):
        self.autocast_computes_in_bf16(weighted())

    def test_checkpoint_and_inference_mode(self):
        self.checkpoint_and_inference_mode_change_nothing(weighted())


if __name__ == "__main__":
    unittest.main()
