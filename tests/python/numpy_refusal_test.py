#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the products refuse of NumPy arrays."""

import unittest

from numpy_test import BF16, integers, offsets  # first: it skips where there is no NumPy

import moesaic
import numpy as np


class Refusals(unittest.TestCase):
    def test_each_names_its_argument(self):
        x, w, offs = integers(8, 16), integers(2, 24, 16), offsets([4, 4])
        b = w.swapaxes(1, 2)
        frozen = np.zeros((8, 24), BF16)
        frozen.flags.writeable = False
        memory = np.zeros(8 * 16 * 2 + 72, np.uint8)
        odd = memory[-memory.ctypes.data % 64 + 2:][:256].view(BF16).reshape(8, 16)

        def expert(row_weights=None, **rest):
            return moesaic.swiglu_mlp(x, integers(2, 16, 16), integers(2, 16, 8), offs=offs,
                                      order="up_gate", row_weights=row_weights, **rest)
        index = np.zeros(12, np.int32)
        shared = np.zeros((12, 16), BF16)
        cases = {
            "mat_a: expected a NumPy array": lambda: moesaic.grouped_mm([1], b, offs=offs),
            "mat_a: expected \\[M, 16\\]": lambda: moesaic.grouped_mm(integers(8, 24), b, offs=offs),
            "mat_a: expected bf16 or f32": lambda: moesaic.grouped_mm(x.astype(np.float16), b, offs=offs),
            "mat_a: expected row-major.*; numpy.ascontiguousarray makes": lambda: moesaic.grouped_mm(
                integers(16, 8).T, b, offs=offs),
            "grad_out: expected row-major.*; numpy.ascontiguousarray makes": lambda: moesaic.wgrad(
                integers(8, 32)[:, ::2], x, offs=offs),
            "w_down: expected row-major.*\\(numpy.ascontiguousarray makes": lambda: moesaic.swiglu_mlp(
                x, integers(2, 16, 16), integers(2, 8, 16).swapaxes(1, 2), offs=offs, order="up_gate"),
            "mat_a: expected a row stride.* stride \\[-16, 1\\]": lambda: moesaic.grouped_mm(x[::-1], b, offs=offs),
            "mat_a: expected a row stride.* stride \\[0, 1\\]": lambda: moesaic.grouped_mm(
                np.broadcast_to(x[:1], (8, 16)), b, offs=offs),
            "mat_b: expected an expert stride": lambda: moesaic.grouped_mm(x, b[::-1], offs=offs),
            "mat_a: expected a 16-byte aligned": lambda: moesaic.grouped_mm(odd, b, offs=offs),
            "mat_b: expected bf16": lambda: moesaic.grouped_mm(x, b.astype(np.float32), offs=offs),
            "mat_b: expected three": lambda: moesaic.grouped_mm(x, b[None], offs=offs),
            "mat_b: .*multiples of 8": lambda: moesaic.grouped_mm(x, integers(2, 16, 23), offs=offs),
            "mat_b: .*unit stride": lambda: moesaic.grouped_mm(x, integers(2, 16, 48)[:, :, ::2], offs=offs),
            "offs: expected i32": lambda: moesaic.grouped_mm(x, b, offs=offs.astype(np.int64)),
            "offs: expected \\[2\\]": lambda: moesaic.grouped_mm(x, b, offs=offs[:1]),
            "out: expected \\[8, 24\\]": lambda: moesaic.grouped_mm(x, b, offs=offs, out=np.zeros((8, 32), BF16)),
            "out: expected a writable": lambda: moesaic.grouped_mm(x, b, offs=offs, out=frozen),
            "out: expected memory apart from mat_a": lambda: moesaic.grouped_mm(
                x, integers(2, 16, 16), offs=offs, out=x),
            "out_dtype: expected": lambda: moesaic.grouped_mm(x, b, offs=offs, out_dtype=np.float16),
            "tail: expected 'leave'": lambda: moesaic.grouped_mm(x, b, offs=offs, tail="keep"),
            "tail: expected None": lambda: moesaic.grouped_mm(x.T, x, offs=offs, tail="zero"),
            "grad_out: expected two": lambda: moesaic.wgrad(b, x, offs=offs),
            "mat_a: expected 8 rows": lambda: moesaic.wgrad(x, integers(9, 16), offs=offs),
            "out: expected a buffer": lambda: moesaic.wgrad(x, x, offs=offs, accumulate=True),
            "order: expected": lambda: moesaic.swiglu_mlp(x, w, w, offs=offs, order="gate"),
            "row_weights: expected f32 \\[8\\] on cpu, got bf16": lambda: expert(np.ones(8, BF16)),
            "row_weights: expected f32 \\[8\\] on cpu": lambda: expert(np.ones(9, np.float32)),
            "row_weights: expected stride \\[1\\]": lambda: expert(np.ones(16, np.float32)[::2]),
            "row_weights: expected a NumPy array": lambda: expert([1.0] * 8),
            "row_weights: expected f32 \\[12\\]": lambda: expert(np.ones(8, np.float32), x_rows=index),
            "x_rows: expected a NumPy array, got list": lambda: expert(x_rows=[0] * 12),
            "x_rows: expected i32 \\[M\\].* got int64 \\[12\\]": lambda: expert(x_rows=index.astype(np.int64)),
            "x_rows: expected i32 \\[M\\].* got i32 \\[3, 4\\]": lambda: expert(x_rows=index.reshape(3, 4)),
            "x_rows: expected stride \\[1\\]": lambda: expert(x_rows=index[::2]),
            "x_rows: expected stride \\[1\\].* stride \\[-1\\]": lambda: expert(x_rows=index[::-1]),
            "row_weights: expected stride \\[1\\].* stride \\[-1\\]": lambda: expert(
                np.ones(8, np.float32)[::-1]),
            "row_weights: expected a 4-byte aligned": lambda: expert(
                np.zeros(36, np.uint8)[1:33].view(np.float32)),
            "x_rows: expected native byte order": lambda: expert(x_rows=index.astype(">i4")),
            "x_rows: expected a 4-byte aligned": lambda: expert(
                x_rows=np.zeros(52, np.uint8)[1:49].view(np.int32)),
            "out: expected bf16 \\[12, 16\\]": lambda: expert(x_rows=index, out=np.zeros((8, 16), BF16)),
            "out: expected memory apart from x_rows": lambda: expert(
                x_rows=shared.reshape(-1).view(np.int32)[:12], out=shared),
        }
        for message, call in cases.items():
            with self.subTest(message=message), self.assertRaisesRegex(moesaic.InvalidArgument, message):
                call()


if __name__ == "__main__":
    unittest.main()
