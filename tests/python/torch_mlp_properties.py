# SPDX-License-Identifier: Apache-2.0
"""What holds of moesaic.torch.swiglu_mlp with weights of rows and without: each method takes cases of
either kind."""

from unittest import mock

from torch_cases import BF16, MLP_DEVICE, MoesaicTest

import torch
import torch.utils.checkpoint

import moesaic.torch as m
from moesaic.torch import _mlp_execute


class MlpTest(MoesaicTest):
    def recompute_gives_the_bits_of_save(self, case):
        results = []
        for recompute in (False, True):
            leaves = case.leaves()
            y = case.train(leaves, recompute=recompute)
            results.append([y, *(leaf.grad for leaf in leaves)])
        for save, recompute in zip(*results):
            self.same(recompute, save)

    def frozen_parts_are_not_computed(self, case):
        inputs = len(case.inputs)
        for number in range(1, 2 ** inputs):
            wanted = [bool(number >> bit & 1) for bit in range(inputs)]
            leaves = [leaf if want else leaf.detach() for leaf, want in zip(case.leaves(), wanted)]
            with mock.patch.object(_mlp_execute, "backward", wraps=_mlp_execute.backward) as spy:
                case.train(leaves)
            computed = [gradient is not None for gradient in spy.call_args.args[6]]
            self.assertEqual(computed, wanted + [False] * (4 - inputs))
            for leaf, want, gradient in zip(leaves, wanted, case.gradients):
                if want:
                    case.near(self, leaf.grad, gradient, number)
                else:
                    self.assertIsNone(leaf.grad)

    def all_buffers_take_their_results(self, case, recompute):
        """Those of the weights are added to; tails keep what they were; the expert 1 has no rows."""
        leaves = case.leaves()
        out, dx = torch.full_like(case.x, 7.0), torch.full_like(case.x, 7.0)
        up, down = (torch.full(w.shape, 5.0, device=MLP_DEVICE) for w in leaves[1:3])
        y = case.run(*leaves, recompute=recompute, out=out, input_grad_out=dx,
                     w_up_gate_grad_out=up, w_down_grad_out=down, accumulate_wgrad=True)
        self.assertEqual(y.data_ptr(), out.data_ptr())
        y.backward(case.dy)
        case.near(self, out, case.y)
        for got, want in zip((dx, up - 5, down - 5), case.gradients):
            case.near(self, got, want, recompute)
        self.same(up[1], torch.full_like(up[1], 5.0), "the expert without rows")
        for buffer in (out, dx):
            self.same(buffer[case.used:], torch.full_like(buffer[case.used:], 7.0), "tail")
        self.same(leaves[0].grad, dx)
        self.assertIsNone(leaves[1].grad)
        self.assertIsNone(leaves[2].grad)
        return leaves

    def one_compilation_serves_any_number_of_rows(self, make_case):
        torch._dynamo.reset()
        compiled = torch.compile(
            lambda offs, x, w_up_gate, w_down, row_weights=None: m.swiglu_mlp(
                x, w_up_gate, w_down, offs=offs, order="up_gate", row_weights=row_weights),
            fullgraph=True, dynamic=True)
        with mock.patch.object(torch._dynamo.config, "error_on_recompile", True):
            for counts in ([9, 0, 21], [1, 2, 3], [40, 0, 0]):
                case = make_case(counts)
                leaves = case.leaves()
                y = compiled(case.offs, *leaves)
                y.backward(case.dy)
                case.near(self, y.detach(), case.y)
                case.near_gradients(self, leaves)

    def autocast_computes_in_bf16(self, case):
        leaves = [leaf.float().detach().requires_grad_() for leaf in case.leaves()]
        with torch.autocast(MLP_DEVICE, dtype=BF16):
            y = case.run(*leaves)
        self.assertEqual(y.dtype, BF16)
        self.same(y, case.forward())
        case.near(self, y.detach(), case.y)
        y.backward(case.dy)
        self.assertEqual({leaf.grad.dtype for leaf in leaves}, {torch.float32})
        case.near_gradients(self, leaves)

    def checkpoint_and_inference_mode_change_nothing(self, case):
        plain, leaves = case.leaves(), case.leaves()
        case.train(plain)
        torch.utils.checkpoint.checkpoint(case.run, *leaves, use_reentrant=False).backward(case.dy)
        for got, want in zip(leaves, plain):
            self.same(got.grad, want.grad)
        with torch.inference_mode():
            case.near(self, case.forward(), case.y)
