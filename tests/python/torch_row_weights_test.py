#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""moesaic.torch.swiglu_mlp with weights of rows: results and all four gradients against FP64, tails,
types of the weights, the caller's buffers, gathered rows."""

import unittest
from unittest import mock

from torch_cases import (BF16, MLP_CUDA, MLP_DEVICE, MLP_DTYPES, ORDERS, MlpCase, MoesaicTest, saved_bytes,
                         weighted)
from torch_mlp_properties import MlpTest

import torch

import moesaic.torch as m
from moesaic.torch import _mlp_execute

NAN = float("nan")


class AgainstFp64(MlpTest):
    def test_results_and_gradients_with_nan_tails(self):
        for dtype in MLP_DTYPES:
            for order in ORDERS:
                for recompute in (False, True):
                    case = weighted(order=order, dtype=dtype)
                    leaves = case.leaves()
                    y = case.train(leaves, recompute=recompute)
                    what = f"{order} {dtype} recompute {recompute}"
                    case.near(self, y, case.y, what)
                    case.near_gradients(self, leaves, what)
                    for rows in (y, leaves[0].grad, leaves[3].grad):
                        self.same(rows[case.used:], torch.zeros_like(rows[case.used:]), what)
                    self.assertEqual(leaves[3].grad.dtype, torch.float32)

    def test_routings_that_have_broken_kernels(self):
        for counts in ([0, 0, 0], [0, 21, 0], [5, 7, 9, 11], [1] * 40, [130, 1, 0, 65]):
            case = weighted(counts)
            leaves = case.leaves()
            case.near(self, case.train(leaves), case.y, counts)
            case.near_gradients(self, leaves, counts)

    def test_no_tokens(self):
        case = weighted([0, 0, 0], tail=0)
        leaves = case.leaves()
        case.run(*leaves).sum().backward()
        self.assertEqual(leaves[3].grad.shape, (0,))
        self.assertFalse(leaves[2].grad.any())

    def test_recompute_gives_the_bits_of_save(self):
        self.recompute_gives_the_bits_of_save(weighted())

    def test_weights_of_one_change_no_gradient(self):
        plain, case = MlpCase(), weighted()
        case.row_weights = torch.ones_like(case.row_weights)
        without, leaves = plain.leaves(), case.leaves()
        plain.run(*without).backward(plain.dy)
        case.run(*leaves).backward(case.dy)
        for got, want in zip(leaves, without):
            self.same(got.grad, want.grad)

    def test_frozen_parts_are_not_computed(self):
        self.frozen_parts_are_not_computed(weighted())  # in one of them the router alone is trained

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


class Buffers(MlpTest):
    def test_all_of_them(self):
        for recompute in (False, True):
            case = weighted()
            found = self.all_buffers_take_their_results(case, recompute)[3].grad
            case.near(self, found, case.gradients[3], recompute)
            self.same(found[case.used:], torch.zeros(6, device=MLP_DEVICE), "a fresh tail")

    def test_input_gradient_may_take_the_place_of_x(self):
        for recompute in (False, True):
            case = weighted(tail=0)
            leaves = case.leaves()
            case.run(*leaves, recompute=recompute, input_grad_out=leaves[0].detach()).backward(case.dy)
            case.near(self, leaves[0].detach(), case.gradients[0])
            for got, want in zip((leaf.grad for leaf in leaves[1:]), case.gradients[1:]):
                case.near(self, got, want, "it must see the old x")

    def test_the_weights_are_kept_and_no_more(self):
        plain, case = MlpCase(), weighted()
        without = saved_bytes(lambda: plain.run(*plain.leaves()))
        self.assertEqual(saved_bytes(lambda: case.run(*case.leaves())) - without, 36 * 4)

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


if __name__ == "__main__":
    unittest.main()
