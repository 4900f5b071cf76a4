#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The products on NumPy arrays, bit for bit on small integers."""

import sys
import threading
import unittest

try:
    import ml_dtypes
    import numpy as np
except ImportError as error:
    print(f"SKIPPED: {error} (scripts/setup.sh makes a .venv that has it)")
    sys.exit(0)

import moesaic

BF16 = np.dtype(ml_dtypes.bfloat16)
COUNTS = {
    "balanced": [16, 16, 16], "all empty": [0, 0, 0], "only middle": [0, 21, 0],
    "odd": [5, 7, 9], "one row each": [1] * 40, "long and short": [130, 1, 0, 65],
}


def integers(*shape, dtype=BF16, seed=0):
    """Sparse small integers: every sum and every BF16 result is exact."""
    return np.random.default_rng(seed).integers(-1, 2, shape).astype(dtype)


def offsets(counts):
    return np.cumsum(counts, dtype=np.int32) if len(counts) else np.zeros(0, np.int32)


def segments(counts):
    ends = np.cumsum(counts)
    return [(expert, end - count, end) for expert, (count, end) in enumerate(zip(counts, ends))]


def forward(x, w_enk, counts):
    y = np.zeros((x.shape[0], w_enk.shape[1]), np.float32)
    for expert, low, high in segments(counts):
        y[low:high] = x[low:high].astype(np.float32) @ w_enk[expert].astype(np.float32).T
    return y


def weight_gradient(dy, x, counts):
    dw = np.zeros((len(counts), dy.shape[1], x.shape[1]), np.float32)
    for expert, low, high in segments(counts):
        dw[expert] = dy[low:high].astype(np.float32).T @ x[low:high].astype(np.float32)
    return dw


class Product(unittest.TestCase):
    def same(self, got, want, dtype=BF16):
        self.assertEqual(got.dtype, dtype)
        np.testing.assert_array_equal(got.astype(np.float32), want.astype(dtype).astype(np.float32))

    def test_forward_in_both_storages(self):
        for name, counts in COUNTS.items():
            for dtype in (BF16, np.dtype(np.float32)):
                rows = sum(counts)
                x = integers(rows + 11, 72, dtype=dtype, seed=1)
                w = integers(len(counts), 40, 72, dtype=dtype, seed=2)
                x[rows:] = np.nan
                for mat_b in (w.swapaxes(1, 2), np.ascontiguousarray(w.swapaxes(1, 2))):
                    with self.subTest(counts=name, dtype=dtype, strides=mat_b.strides):
                        y = moesaic.grouped_mm(x, mat_b, offs=offsets(counts))
                        self.same(y[:rows], forward(x[:rows], w, counts), dtype)
                        self.same(y[rows:], np.zeros((11, 40)), dtype)

    def test_out_keeps_its_tail_unless_told(self):
        x, w, offs = integers(20, 16, seed=3), integers(2, 24, 16, seed=4), offsets([7, 6])
        for tail, expected in ((None, 7.0), ("leave", 7.0), ("zero", 0.0)):
            out = np.full((20, 24), 7.0, BF16)
            result = moesaic.grouped_mm(x, w.swapaxes(1, 2), offs=offs, out=out, tail=tail)
            self.assertIs(result, out)
            self.same(out[:13], forward(x[:13], w, [7, 6]))
            self.same(out[13:], np.full((7, 24), expected))

    def test_fp32_out_of_bf16(self):
        x, w = integers(9, 16, seed=5), integers(1, 8, 16, seed=6)
        y = moesaic.grouped_mm(x, w.swapaxes(1, 2), offs=offsets([9]), out_dtype=np.float32)
        self.same(y, forward(x, w, [9]), np.dtype(np.float32))

    def test_strided_rows(self):
        x, w = integers(9, 64, seed=5)[:, 16:48], integers(1, 8, 32, seed=6)
        self.same(moesaic.grouped_mm(x, w.swapaxes(1, 2), offs=offsets([9])), forward(x, w, [9]))

    def test_steps_between_rows_and_experts(self):
        x, w = integers(18, 32, seed=5)[::2], integers(4, 8, 32, seed=6)
        for weights in (w[::2], np.broadcast_to(w[:1], (2, 8, 32))):
            y = moesaic.grouped_mm(x, weights.swapaxes(1, 2), offs=offsets([4, 5]))
            self.same(y, forward(x, weights, [4, 5]))

    def test_arrays_without_rows(self):
        """Whose strides NumPy sets to zero."""
        x, w, offs = integers(0, 16), integers(2, 24, 16), offsets([0, 0])
        self.assertEqual(moesaic.grouped_mm(x, w.swapaxes(1, 2), offs=offs).shape, (0, 24))
        for dw in (moesaic.wgrad(integers(0, 24), x, offs=offs),
                   moesaic.grouped_mm(integers(0, 24).T, x, offs=offs)):
            self.same(dw, np.zeros((2, 24, 16)))
        y = moesaic.swiglu_mlp(x, integers(2, 16, 16), integers(2, 16, 8), offs=offs, order="up_gate",
                               row_weights=np.zeros(0, np.float32))
        self.assertEqual(y.shape, (0, 16))

    def test_wgrad_and_two_by_two(self):
        for name, counts in COUNTS.items():
            with self.subTest(counts=name):
                rows = sum(counts)
                dy, x = integers(rows + 5, 24, seed=7), integers(rows + 5, 16, seed=8)
                dy[rows:], x[rows:] = np.nan, np.inf
                want = weight_gradient(dy[:rows], x[:rows], counts)
                self.same(moesaic.wgrad(dy, x, offs=offsets(counts)), want)
                self.same(moesaic.grouped_mm(dy.T, x, offs=offsets(counts)), want)

    def test_wgrad_accumulates(self):
        counts = [3, 0, 9]
        dy, x = integers(12, 24, seed=9), integers(12, 16, seed=10)
        want = weight_gradient(dy, x, counts)
        main = np.full((3, 24, 16), 5.0, np.float32)
        moesaic.wgrad(dy, x, offs=offsets(counts), out=main, accumulate=True)
        np.testing.assert_array_equal(main, 5 + want)
        stale = np.full((3, 24, 16), np.nan, np.float32)
        moesaic.wgrad(dy, x, offs=offsets(counts), out=stale)
        np.testing.assert_array_equal(stale, want)
        turned = np.zeros((3, 16, 24), np.float32)  # [E, K, N] storage
        moesaic.wgrad(dy, x, offs=offsets(counts), out=turned.swapaxes(1, 2))
        np.testing.assert_array_equal(turned, want.swapaxes(1, 2))

    def test_swiglu_in_three_orders(self):
        counts, rng = [5, 0, 8], np.random.default_rng(11)
        x = rng.standard_normal((15, 16)).astype(np.float32)
        w_ug = rng.standard_normal((3, 48, 16)).astype(np.float32)
        w_down = rng.standard_normal((3, 16, 24)).astype(np.float32)
        u = forward(x, w_ug, counts)
        for order, up, gate in (("up_gate", u[:, :24], u[:, 24:]), ("gate_up", u[:, 24:], u[:, :24]),
                                ("interleaved", u[:, ::2], u[:, 1::2])):
            y = moesaic.swiglu_mlp(x, w_ug, w_down, offs=offsets(counts), order=order)
            want = forward(up * gate / (1 + np.exp(-gate)), w_down, counts)
            np.testing.assert_allclose(y[:13], want[:13], rtol=1e-4, atol=1e-3)
            np.testing.assert_array_equal(y[13:], 0)

    def test_row_weights(self):
        counts, (d, h), rng = [5, 0, 6, 2], (64, 16), np.random.default_rng(5)
        x, w_ug = integers(16, d, seed=1, dtype=np.float32), integers(4, 2 * h, d, seed=2, dtype=np.float32)
        w_down = integers(4, d, h, seed=3, dtype=np.float32)
        weights = rng.standard_normal(16).astype(np.float32)
        weights[13:] = np.nan
        plain = moesaic.swiglu_mlp(x, w_ug, w_down, offs=offsets(counts), order="up_gate")
        y = moesaic.swiglu_mlp(x, w_ug, w_down, offs=offsets(counts), order="up_gate", row_weights=weights)
        np.testing.assert_allclose(y[:13], weights[:13, None] * plain[:13], rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(y[13:], 0)
        kept = np.full_like(y, 7)
        moesaic.swiglu_mlp(x, w_ug, w_down, offs=offsets(counts), order="up_gate", row_weights=weights,
                           out=kept)
        np.testing.assert_array_equal(kept[:13], y[:13])
        np.testing.assert_array_equal(kept[13:], 7)

    def tokens(self, dtype, generator):
        """9 tokens and which each of 16 rows is: again and again, backwards, two outside; the last token is
        NaN and nobody's, what lies behind the 13 routed rows wild."""
        x = generator.standard_normal((9, 64)).astype(dtype)
        x[8] = np.nan
        x_rows = np.array([7, 6, 5, 4, 3, 0, 0, 0, -1, 9, 2, 7, 0, 8, 2 ** 31 - 1, -2 ** 31], np.int32)
        rows = np.full((16, 64), np.nan, dtype)
        rows[:13] = np.where((x_rows[:13, None] < 0) | (x_rows[:13, None] > 8), 0, x[x_rows[:13] % 9])
        return x, x_rows, rows

    def test_x_rows(self):
        counts, h, rng = [5, 0, 6, 2], 16, np.random.default_rng(6)
        weights = rng.standard_normal(16).astype(np.float32)
        weights[3] = 0
        weights[13:] = np.nan
        for dtype in (BF16, np.dtype(np.float32)):
            x, x_rows, rows = self.tokens(dtype, rng)
            w_ug = (rng.standard_normal((4, 2 * h, 64)) / 8).astype(dtype)
            w_down = (rng.standard_normal((4, 64, h)) / 4).astype(dtype)
            for order, row_weights in (("up_gate", None), ("gate_up", weights), ("interleaved", weights)):
                rest = {"offs": offsets(counts), "order": order, "row_weights": row_weights}
                with self.subTest(dtype=dtype, order=order):
                    y = moesaic.swiglu_mlp(x, w_ug, w_down, x_rows=x_rows, **rest)
                    self.same(y, moesaic.swiglu_mlp(rows, w_ug, w_down, **rest), dtype)
                    self.assertTrue(np.isfinite(y.astype(np.float32)).all())
                    nobody = [8, 9, 13, 14, 15] + ([] if row_weights is None else [3])
                    np.testing.assert_array_equal(np.flatnonzero(~y.astype(bool).any(1)), sorted(nobody))
                    kept = np.full_like(y, 7)
                    apart = np.full((9, 96), np.nan, dtype)[:, 16:80]
                    apart[:] = x
                    moesaic.swiglu_mlp(apart, w_ug, w_down, x_rows=x_rows, out=kept, **rest)
                    self.same(kept[:13], y[:13], dtype)
                    self.same(kept[13:], np.full((3, 64), 7), dtype)

    def test_x_rows_against_a_loop(self):
        counts, h, rng = [5, 0, 6, 2], 16, np.random.default_rng(7)
        x, x_rows, rows = self.tokens(np.float32, rng)
        w_ug = rng.standard_normal((4, 2 * h, 64)).astype(np.float32)
        w_down = rng.standard_normal((4, 64, h)).astype(np.float32)
        u = forward(rows[:13], w_ug, counts)
        want = forward(u[:, :h] * u[:, h:] / (1 + np.exp(-u[:, h:])), w_down, counts)
        y = moesaic.swiglu_mlp(x, w_ug, w_down, offs=offsets(counts), order="up_gate", x_rows=x_rows)
        np.testing.assert_allclose(y[:13], want, rtol=1e-4, atol=1e-3)

    def test_x_rows_of_no_tokens(self):
        w_ug, w_down = integers(2, 32, 64, seed=1), integers(2, 64, 16, seed=2)
        y = moesaic.swiglu_mlp(integers(0, 64), w_ug, w_down, offs=offsets([2, 1]), order="up_gate",
                               x_rows=np.zeros(4, np.int32))
        self.same(y, np.zeros((4, 64)))


class Faults(unittest.TestCase):
    def test_wrong_offsets_are_reported_once(self):
        x, w = integers(20, 16, seed=1), integers(3, 8, 16, seed=2)
        moesaic.read_fault()
        moesaic.grouped_mm(x, w.swapaxes(1, 2), offs=np.array([9, 4, 20], np.int32))
        moesaic.grouped_mm(x, w.swapaxes(1, 2), offs=np.array([9, 10, 21], np.int32))
        self.assertEqual(moesaic.read_fault(), ("offs_not_monotonic", 1, 4))
        self.assertIsNone(moesaic.read_fault())

    def test_faults_of_other_threads_are_seen(self):
        x, w = integers(20, 16, seed=1), integers(1, 8, 16, seed=2)
        worker = threading.Thread(target=lambda: moesaic.grouped_mm(
            x, w.swapaxes(1, 2), offs=np.array([-3], np.int32)))
        worker.start()
        worker.join()
        self.assertEqual(moesaic.read_fault(), ("offs_out_of_range", 0, -3))

    def test_of_an_expert_with_x_rows(self):
        x, w_ug, w_down = integers(3, 16, seed=1), integers(3, 16, 16, seed=2), integers(3, 16, 8, seed=3)
        moesaic.read_fault()
        y = moesaic.swiglu_mlp(x, w_ug, w_down, offs=np.array([4, 2, 99], np.int32), order="up_gate",
                               x_rows=np.array([2, 1, 0, 2, 9, 9], np.int32))
        self.assertEqual(moesaic.read_fault(), ("offs_not_monotonic", 1, 2))
        rows = moesaic.swiglu_mlp(x[[2, 1, 0, 2]], w_ug[:1], w_down[:1], offs=offsets([4]), order="up_gate")
        np.testing.assert_array_equal(y[:4].astype(np.float32), rows.astype(np.float32))
        self.assertIsNone(moesaic.read_fault())


if __name__ == "__main__":
    unittest.main()
