#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""moesaic.torch.swiglu_mlp on rows of tokens that are not sorted: the bits and gradients of the copied
rows, and what is kept."""

import unittest

from torch_cases import BF16, MLP_DEVICE, MlpCase, MoesaicTest, saved_bytes

import torch


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
