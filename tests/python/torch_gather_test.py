#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""moesaic.torch.swiglu_mlp on rows of tokens that are not sorted: the bits and gradients of the copied
rows, and what is kept."""

import unittest

from torch_cases import BF16, MLP_DEVICE, MlpCase, MoesaicTest, needs_mlp_cuda, saved_bytes

import torch
from torch import library


class GatheredRows(MoesaicTest):
    """x_rows: the rows of tokens that are not sorted."""

    def setUp(self):
        super().setUp()
        self.case = MlpCase([9, 0, 21])
        # 20 tokens: two of no row, one of many; the tail of x_rows is what was there before.
        self.tokens = torch.randn(20, 64, generator=torch.Generator().manual_seed(7)).to(BF16).to(MLP_DEVICE)
        index = torch.randint(0, 18, (36,), generator=torch.Generator().manual_seed(8))
        index[10:16] = 3
        index[30:] = torch.tensor([-5, 99, 2 ** 30, 4, -2 ** 31, 20])
        self.x_rows = index.to(torch.int32).to(MLP_DEVICE)

    def copied(self):
        """The rows as a leaf of their own, with a tail of NaN."""
        tail = torch.full((6, 64), float("nan"), dtype=BF16, device=MLP_DEVICE)
        return torch.cat([self.tokens[self.x_rows[:30].long()], tail]).requires_grad_()

    def leaves(self):
        _, w_up_gate, w_down = self.case.leaves()
        return self.tokens.clone().requires_grad_(), w_up_gate, w_down

    def test_the_bits_of_the_copied_rows(self):
        for recompute in (False, True):
            for dtype in (torch.int32, torch.int64):
                gathered, copied = self.leaves(), [self.copied(), *self.leaves()[1:]]
                y = self.case.run(*gathered, x_rows=self.x_rows.to(dtype), recompute=recompute)
                want = self.case.run(*copied, recompute=recompute)
                self.same(y, want)
                y.backward(self.case.dy)
                want.backward(self.case.dy)
                self.same(gathered[1].grad, copied[1].grad)
                self.same(gathered[2].grad, copied[2].grad)
                summed = torch.zeros(20, 64, device=MLP_DEVICE).index_add_(
                    0, self.x_rows[:30].long(), copied[0].grad[:30].float())
                torch.testing.assert_close(gathered[0].grad.float(), summed, rtol=2 ** -8, atol=1e-6)
                self.assertFalse(gathered[0].grad[18:].any(), "tokens without a row")

    def test_gradient_of_the_tokens_against_fp64(self):
        gathered = self.leaves()
        self.case.run(*gathered, x_rows=self.x_rows).backward(self.case.dy)
        self.case.x = self.tokens[self.x_rows[:30].long()]
        exact_dx = torch.zeros(20, 64, dtype=torch.float64, device=MLP_DEVICE)
        exact_dx.index_add_(0, self.x_rows[:30].long(), self.case.gradients[0])
        self.case.near(self, gathered[0].grad, exact_dx)

    def test_an_index_outside_is_a_row_of_zeros(self):
        self.x_rows[:2] = torch.tensor([-1, 20])
        gathered = self.leaves()
        y = self.case.run(*gathered, x_rows=self.x_rows)
        self.same(y[:2], torch.zeros(2, 64, device=MLP_DEVICE))
        self.case.dy[:2] = float("nan")
        y.backward(self.case.dy)
        self.assertTrue(gathered[0].grad.isfinite().all(), "the gradient of a row of nobody")

    def test_indices_of_any_size_and_stride(self):
        """int64 past what int32 holds is outside too; every other entry of a wider vector is read."""
        wild = self.x_rows.long()
        wild[:3] = torch.tensor([2 ** 40, -2 ** 40, 2 ** 32 + 3])
        y = self.case.run(*self.leaves(), x_rows=wild)
        self.same(y[:3], torch.zeros(3, 64, device=MLP_DEVICE))
        for dtype in (torch.int32, torch.int64):
            apart = torch.stack([self.x_rows, self.x_rows + 1], 1).to(dtype)[:, 0]
            self.same(self.case.run(*self.leaves(), x_rows=apart),
                      self.case.run(*self.leaves(), x_rows=self.x_rows))

    def test_the_operators(self):
        ops, case, x_rows = torch.ops.moesaic, MlpCase([9, 0, 21], tail=0), self.x_rows[:30].clone()
        x_rows[4:6] = torch.tensor([-1, 20])
        inputs = (self.tokens, case.w_up_gate, case.w_down, case.offs)
        for save in (False, True):
            rest = ("up_gate", save, True, None, x_rows)
            library.opcheck(ops.swiglu_mlp, (*self.leaves(), case.offs, *rest))
            out = torch.zeros_like(case.x)
            library.opcheck(ops.swiglu_mlp_out,
                            (*inputs, out, "up_gate", save, None, x_rows))
            _, u = ops.swiglu_mlp(*inputs, *rest)
            u = u if save else None
            wanted = (True, True, True, False)
            library.opcheck(ops.swiglu_mlp_backward,
                            (case.dy, *inputs, u, "up_gate", wanted, None, x_rows))
            library.opcheck(ops.swiglu_mlp_backward_out,
                            (case.dy, *inputs, u, out, None, None, "up_gate", True, False,
                             None, None, x_rows))
            by_operator, by_function = self.leaves(), self.leaves()
            y, _ = ops.swiglu_mlp(*by_operator, case.offs, *rest)
            want = case.run(*by_function, x_rows=x_rows, recompute=not save)
            self.same(y, want)
            y.backward(case.dy)
            want.backward(case.dy)
            for mine, other in zip(by_operator, by_function):
                self.same(mine.grad, other.grad)

    @needs_mlp_cuda
    def test_nothing_waits_for_the_device(self):
        for dtype in (torch.int32, torch.int64):
            leaves, index = self.leaves(), self.x_rows.to(dtype)
            self.case.run(*leaves, x_rows=index)
            torch.cuda.set_sync_debug_mode("error")
            try:
                self.case.run(*leaves, x_rows=index)
            finally:
                torch.cuda.set_sync_debug_mode("default")

    @needs_mlp_cuda
    def test_rows_are_not_copied(self):
        """Beyond y and U a forward on CUDA takes H, and no [M, d] for the rows of x."""
        peaks = []
        for x_rows in (None, torch.arange(4096, device="cuda", dtype=torch.int32).flip(0)):
            case = MlpCase([4096], tail=0, d=1024, h=64)
            leaves = case.leaves()
            case.run(*leaves, x_rows=x_rows)
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            case.run(*leaves, x_rows=x_rows)
            peaks.append(torch.cuda.max_memory_allocated() - before)
        self.assertLess(peaks[1] - peaks[0], 2 * 4096 * 1024 // 4)

    def test_the_copied_rows_are_not_kept(self):
        kept = saved_bytes(lambda: self.case.run(
            *self.leaves(), x_rows=self.x_rows, recompute=True))
        inputs = (self.tokens, self.case.w_up_gate, self.case.w_down, self.case.offs, self.x_rows)
        self.assertEqual(kept, sum(tensor.untyped_storage().nbytes() for tensor in inputs))

    def test_the_input_gradient_may_take_the_place_of_x(self):
        plain, alias = self.leaves(), self.leaves()
        self.case.run(*plain, x_rows=self.x_rows).backward(self.case.dy)
        main = torch.zeros(self.case.w_down.shape, device=MLP_DEVICE)
        self.case.run(*alias, x_rows=self.x_rows, input_grad_out=alias[0].detach(),
                      w_down_grad_out=main, accumulate_wgrad=True).backward(self.case.dy)
        self.same(alias[0].detach(), plain[0].grad)
        self.same(alias[1].grad, plain[1].grad)
        self.case.near(self, main, plain[2].grad.double())

    def test_no_tokens_at_all(self):
        none = self.tokens[:0].clone().requires_grad_()
        y = self.case.run(none, *self.leaves()[1:], x_rows=self.x_rows)
        y.sum().backward()
        self.assertFalse(y.any())
        self.assertEqual(none.grad.shape, (0, 64))


if __name__ == "__main__":
    unittest.main()
