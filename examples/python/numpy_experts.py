#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""moesaic on NumPy arrays, on the CPU: a product, its weight gradient, the SwiGLU expert on what a
router chose, a wrong offset. Every result is checked against a plain loop."""

import importlib.util
import sys

for needed in ("ml_dtypes", "numpy"):
    if importlib.util.find_spec(needed) is None:
        print(f"SKIPPED: No module named {needed!r}")
        sys.exit(0)

# [numpy]
import ml_dtypes
import numpy as np

import moesaic

# Four experts and a buffer of 16 rows. Routing filled 13 of them: 5, 0, 6 and 2.
rng = np.random.default_rng(1)
x = rng.integers(-1, 2, (16, 64)).astype(ml_dtypes.bfloat16)
w = rng.integers(-1, 2, (4, 32, 64)).astype(ml_dtypes.bfloat16)  # [E, N, K]
offs = np.array([5, 5, 11, 13], np.int32)  # end row of every expert

y = moesaic.grouped_mm(x, w.swapaxes(1, 2), offs=offs)  # [16, 32]; rows 13 to 15 are zero

main_grad = np.zeros((4, 32, 64), np.float32)
moesaic.wgrad(y, x, offs=offs, out=main_grad, accumulate=True)  # adds to main_grad
# [/numpy]


def wide(array):
    return array.astype(np.float32)


starts = [0, *offs[:-1]]
for expert, (low, high) in enumerate(zip(starts, offs)):
    product = wide(x[low:high]) @ wide(w[expert]).T
    np.testing.assert_array_equal(wide(y[low:high]), wide(product.astype(ml_dtypes.bfloat16)))
    np.testing.assert_allclose(main_grad[expert], wide(y[low:high]).T @ wide(x[low:high]), rtol=1e-5)
assert not wide(y[13:]).any()

# [numpy_expert]
# Eight tokens of width d = 64, and what a router chose for each: two of four experts of width h = 16,
# and their shares of the result.
tokens = rng.standard_normal((8, 64), np.float32)
top_k_index = rng.random((8, 4)).argsort(1)[:, :2]  # [T, topk]
top_k_weights = rng.random((8, 2), np.float32)
w_up_gate = rng.standard_normal((4, 2 * 16, 64), np.float32)
w_down = rng.standard_normal((4, 64, 16), np.float32)

# A row of the layer for each of the 16 routes, those of expert 0 first.
routes = top_k_index.argsort(axis=None, kind="stable")
ends = np.bincount(top_k_index.ravel(), minlength=4).cumsum(dtype=np.int32)
x_rows = (routes // 2).astype(np.int32)  # the token of every row
rows = moesaic.swiglu_mlp(tokens, w_up_gate, w_down, offs=ends, order="up_gate", x_rows=x_rows,
                          row_weights=top_k_weights.ravel()[routes])  # [16, 64]
mixed = np.zeros_like(tokens)
np.add.at(mixed, x_rows, rows)  # each token's two rows together
# [/numpy_expert]
for token, result in enumerate(mixed):
    want = np.zeros(64)
    for expert, weight in zip(top_k_index[token], top_k_weights[token]):
        up, gate = np.split(w_up_gate[expert] @ tokens[token], 2)
        want += weight * (w_down[expert] @ (up * gate / (1 + np.exp(-gate))))
    np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-3)

# [numpy_fault]
offs = np.array([5, 8, 7, 13], np.int32)  # expert 2 ends before expert 1 does
moesaic.grouped_mm(x, w.swapaxes(1, 2), offs=offs)
fault = moesaic.read_fault()  # Fault(kind='offs_not_monotonic', expert=2, value=7)
# [/numpy_fault]
assert fault == ("offs_not_monotonic", 2, 7), fault
assert moesaic.read_fault() is None
print(f"moesaic {moesaic.version()}: 13 rows right, 3 zero; 8 tokens right; {fault}")
