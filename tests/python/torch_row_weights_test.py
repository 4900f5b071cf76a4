#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""moesaic.torch.swiglu_mlp with weights of rows: results and all four gradients against FP64, tails,
types of the weights, the caller's buffers, gathered rows, tracing."""

import unittest
from unittest import mock

from torch_cases import BF16, MLP_CUDA, MLP_DEVICE, MlpCase, MoesaicTest

import torch
from torch import library
import torch.utils.checkpoint

import moesaic.torch as m
from moesaic.torch import _mlp_execute

ORDERS = ("up_gate", "gate_up", "interleaved")
DTYPES = (BF16,) if MLP_CUDA else (BF16, torch.float32)
NAN = float("nan")


def weighted(*arguments, **options):
    return MlpCase(*arguments, weighted=True, **options)


class AgainstFp64(MoesaicTest):
    def test_results_and_gradients_with_nan_tails(self):
        for dtype in DTYPES:
            for order in ORDERS:
                for recompute in (False, True):
                    case = weighted(order=order, dtype=dtype)
                    leaves = case.leaves()
                    y = case.run(*leaves, recompute=recompute)
                    y.backward(case.dy)
                    what = f"{order} {dtype} recompute {recompute}"
                    case.near(self, y.detach(), case.y, what)
                    for got, want in zip((leaf.grad for leaf in leaves), case.gradients):
                        case.near(self, got, want, what)
                    for rows in (y, leaves[0].grad, leaves[3].grad):
                        self.same(rows[case.used:], torch.zeros_like(rows[case.used:]), what)
                    self.assertEqual(leaves[3].grad.dtype, torch.float32)

    def test_routings_that_have_broken_kernels(self):
        for counts in ([0, 0, 0], [0, 21, 0], [5, 7, 9, 11], [1] * 40, [130, 1, 0, 65]):
            case = weighted(counts)
            leaves = case.leaves()
            y = case.run(*leaves)
            y.backward(case.dy)
            case.near(self, y.detach(), case.y, counts)
            for got, want in zip((leaf.grad for leaf in leaves), case.gradients):
                case.near(self, got, want, counts)

    def test_no_tokens(self):
        case = weighted([0, 0, 0], tail=0)
        leaves = case.leaves()
        case.run(*leaves).sum().backward()
        self.assertEqual(leaves[3].grad.shape, (0,))
        self.assertFalse(leaves[2].grad.any())

    def test_recompute_gives_the_bits_of_save(self):
        case, results = weighted(), []
        for recompute in (False, True):
            leaves = case.leaves()
            y = case.run(*leaves, recompute=recompute)
            y.backward(case.dy)
            results.append([y.detach(), *(leaf.grad for leaf in leaves)])
        for save, recompute in zip(*results):
            self.same(recompute, save)

    def test_weights_of_one_change_no_gradient(self):
        plain, case = MlpCase(), weighted()
        case.row_weights = torch.ones_like(case.row_weights)
        without, leaves = plain.leaves(), case.leaves()
        plain.run(*without).backward(plain.dy)
        case.run(*leaves).backward(case.dy)
        for got, want in zip(leaves, without):
            self.same(got.grad, want.grad)

    def test_frozen_parts_are_not_computed(self):
        case = weighted()
        for number in range(1, 16):  # 8: the router alone is trained
            wanted = [bool(number & bit) for bit in (1, 2, 4, 8)]
            leaves = [leaf if want else leaf.detach() for leaf, want in zip(case.leaves(), wanted)]
            with mock.patch.object(_mlp_execute, "backward", wraps=_mlp_execute.backward) as spy:
                case.run(*leaves).backward(case.dy)
            self.assertEqual([gradient is not None for gradient in spy.call_args.args[6]], wanted)
            for leaf, want, gradient in zip(leaves, wanted, case.gradients):
                if want:
                    case.near(self, leaf.grad, gradient, number)
                else:
                    self.assertIsNone(leaf.grad)

    def test_a_second_derivative_is_refused_by_name(self):
        case = weighted(tail=0)
        leaves = case.leaves()
        (found,) = torch.autograd.grad(case.run(*leaves).sum(), leaves[3], create_graph=True)
        with self.assertRaisesRegex(m.Unsupported, "^swiglu_mlp: expected to be differentiated once"):
            found.sum().backward()


class Weights(MoesaicTest):
    def test_of_16_bits(self):
        for dtype in (BF16, torch.float16):
            case = weighted()
            narrow = case.row_weights.to(dtype)
            case.row_weights = narrow.float()
            leaves = case.leaves()
            case.run(*leaves).backward(case.dy)
            others = [*case.leaves()[:3], narrow.clone().requires_grad_()]
            y = case.run(*others)
            self.same(y, case.run(*leaves))
            y.backward(case.dy)
            self.assertEqual(others[3].grad.dtype, dtype)
            self.same(others[3].grad, leaves[3].grad.to(dtype))
            self.same(others[0].grad, leaves[0].grad)

    def test_in_any_storage(self):
        case = weighted()
        leaves = case.leaves()
        y = case.run(*leaves)
        y.backward(case.dy)
        table = torch.stack([case.row_weights, case.row_weights * NAN], 1).requires_grad_()
        got = case.run(*case.leaves()[:3], table[:, 0])
        self.same(got, y)
        got.backward(case.dy)
        self.same(table.grad[:, 0], leaves[3].grad)
        self.assertFalse(table.grad[:, 1].any())
        one = torch.full((1,), 0.5, device=MLP_DEVICE, requires_grad=True)
        case = weighted(tail=0)
        case.run(*case.leaves()[:3], one.expand(case.rows)).backward(case.dy)
        case.row_weights = torch.full_like(case.row_weights, 0.5)
        want = case.gradients[3]
        self.assertAlmostEqual(one.grad.item(), want.sum().item(), delta=0.02 * want.abs().sum().item())

    def test_of_another_call_of_the_same_shapes(self):
        # A plan with weights must not serve a call without.
        case = weighted()
        plain = case.run(*case.inputs[:3])
        y = case.forward()
        self.same(case.run(*case.inputs[:3]), plain)
        self.assertFalse(torch.equal(y, plain))
        case.near(self, y, case.y)

    def test_wrong_offsets_are_contained(self):
        case = weighted()
        y = case.forward()
        wrong = torch.tensor([9, 4, 30], dtype=torch.int32, device=MLP_DEVICE)
        got = m.swiglu_mlp(*case.inputs[:3], offs=wrong, order="up_gate", row_weights=case.row_weights)
        self.assertEqual(m.read_fault(), m.Fault("offs_not_monotonic", 1, 4))
        self.same(got[:4], y[:4], "rows of expert 0 alone")

    def test_a_module_of_sorted_rows(self):
        case = weighted()
        experts = m.SwiGLUExperts(3, 64, 48, order="up_gate", device=MLP_DEVICE, dtype=BF16)
        with torch.no_grad():
            experts.w_up_gate.copy_(case.w_up_gate)
            experts.w_down.copy_(case.w_down)
        y = experts(case.x, offs=case.offs, row_weights=case.row_weights)
        self.same(y, case.forward())
        with self.assertRaisesRegex(m.InvalidArgument, "^row_weights: expected offs beside it"):
            experts(case.x, row_weights=case.row_weights)


class Buffers(MoesaicTest):
    def test_all_of_them(self):
        for recompute in (False, True):
            case = weighted()
            leaves = case.leaves()
            out, dx = torch.full_like(case.x, 7.0), torch.full_like(case.x, 7.0)
            up, down = (torch.full(w.shape, 5.0, device=MLP_DEVICE) for w in leaves[1:3])
            y = case.run(*leaves, recompute=recompute, out=out, input_grad_out=dx,
                         w_up_gate_grad_out=up, w_down_grad_out=down, accumulate_wgrad=True)
            self.assertEqual(y.data_ptr(), out.data_ptr())
            y.backward(case.dy)
            case.near(self, out, case.y)
            for got, want in zip((dx, up - 5, down - 5, leaves[3].grad), case.gradients):
                case.near(self, got, want, recompute)
            for buffer in (out, dx):
                self.same(buffer[case.used:], torch.full_like(buffer[case.used:], 7.0), "tail")
            self.same(leaves[3].grad[case.used:], torch.zeros(6, device=MLP_DEVICE), "a fresh tail")

    def test_input_gradient_may_take_the_place_of_x(self):
        for recompute in (False, True):
            case = weighted(tail=0)
            leaves = case.leaves()
            case.run(*leaves, recompute=recompute, input_grad_out=leaves[0].detach()).backward(case.dy)
            case.near(self, leaves[0].detach(), case.gradients[0])
            for got, want in zip((leaf.grad for leaf in leaves[1:]), case.gradients[1:]):
                case.near(self, got, want, "it must see the old x")

    def test_the_weights_are_kept_and_no_more(self):
        def saved_bytes(case):
            storages = {}

            def keep(tensor):
                storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
                return tensor
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                case.run(*case.leaves())
            return sum(storages.values())
        self.assertEqual(saved_bytes(weighted()) - saved_bytes(MlpCase()), 36 * 4)

    def test_scratch_is_that_of_the_guide(self):
        for d, h in ((64, 48), (64, 160)):
            case = weighted(d=d, h=h)
            with mock.patch.object(_mlp_execute, "_launch", wraps=_mlp_execute._launch) as spy:
                case.forward()
            u, hidden, sums = (-(-case.rows * row // 256) * 256 for row in (4 * h, 2 * h, 4 * d))
            # In the epilogues of CUDA neither U nor the FP32 sums are ever in memory.
            apart = 0 if MLP_CUDA else max(u, sums)
            self.assertEqual(spy.call_args.args[4], hidden + apart)


class GatheredRows(MoesaicTest):
    def setUp(self):
        super().setUp()
        self.case = weighted()
        self.tokens = torch.randn(20, 64, generator=torch.Generator().manual_seed(7)).to(BF16).to(MLP_DEVICE)
        index = torch.randint(0, 20, (36,), generator=torch.Generator().manual_seed(8))
        index[30:] = torch.tensor([-5, 99, 2 ** 30, 4, -2 ** 31, 20])
        self.x_rows = index.to(torch.int32).to(MLP_DEVICE)

    def test_the_bits_of_the_copied_rows(self):
        for recompute in (False, True):
            _, w_up_gate, w_down, row_weights = self.case.leaves()
            gathered = [self.tokens.clone().requires_grad_(), w_up_gate, w_down, row_weights]
            copied = self.case.leaves()
            with torch.no_grad():
                copied[0][:30] = self.tokens[self.x_rows[:30].long()]
            y = self.case.run(*gathered, x_rows=self.x_rows, recompute=recompute)
            want = self.case.run(*copied, recompute=recompute)
            self.same(y, want)
            y.backward(self.case.dy)
            want.backward(self.case.dy)
            for got, same in zip(gathered[1:], copied[1:]):
                self.same(got.grad, same.grad)

    def test_a_row_of_nobody_has_no_gradient(self):
        self.x_rows[:2] = torch.tensor([-1, 20])
        self.case.dy[:2] = NAN
        leaves = [self.tokens.clone().requires_grad_(), *self.case.leaves()[1:]]
        y = self.case.run(*leaves, x_rows=self.x_rows)
        self.same(y[:2], torch.zeros(2, 64, device=MLP_DEVICE))
        y.backward(self.case.dy)
        self.same(leaves[3].grad[:2], torch.zeros(2, device=MLP_DEVICE))
        self.assertTrue(leaves[3].grad.isfinite().all() and leaves[0].grad.isfinite().all())


class Tracing(MoesaicTest):
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
        torch._dynamo.reset()
        compiled = torch.compile(
            lambda x, w_up_gate, w_down, row_weights, offs: m.swiglu_mlp(
                x, w_up_gate, w_down, offs=offs, order="up_gate", row_weights=row_weights),
            fullgraph=True, dynamic=True)
        with mock.patch.object(torch._dynamo.config, "error_on_recompile", True):
            for counts in ([9, 0, 21], [1, 2, 3], [40, 0, 0]):
                case = weighted(counts)
                leaves = case.leaves()
                y = compiled(*leaves, case.offs)
                y.backward(case.dy)
                case.near(self, y.detach(), case.y)
                case.near(self, leaves[3].grad, case.gradients[3])

    def test_autocast_leaves_them_in_fp32(self):
        case = weighted()
        leaves = [leaf.float().detach().requires_grad_() for leaf in case.leaves()]
        with torch.autocast(MLP_DEVICE, dtype=BF16):
            y = case.run(*leaves)
        self.same(y, case.forward())
        y.backward(case.dy)
        for leaf, want in zip(leaves, case.gradients):
            self.assertEqual(leaf.grad.dtype, torch.float32)
            case.near(self, leaf.grad, want)

    def test_checkpoint_and_inference_mode(self):
        case = weighted()
        plain, leaves = case.leaves(), case.leaves()
        case.run(*plain).backward(case.dy)
        torch.utils.checkpoint.checkpoint(case.run, *leaves, use_reentrant=False).backward(case.dy)
        for got, want in zip(leaves, plain):
            self.same(got.grad, want.grad)
        with torch.inference_mode():
            case.near(self, case.forward(), case.y)


if __name__ == "__main__":
    unittest.main()
