#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""moesaic on NumPy arrays, on the CPU: a product, its weight gradient, the SwiGLU expert, a wrong
offset. Every result is checked against a plain loop."""

import sys

try:
    import ml_dtypes
    import numpy as np
except ImportError as error:
    print(f"SKIPPED: {error}")
    sys.exit(0)

# [numpy]
import moesaic

# Four experts and a buffer of 16 rows. Routing filled 13 of them: 5, 0, 6 and 2.
rng = np.random.default_rng(1)
x = rng.integers(-1, 2, (16, 64)).astype(ml_dtypes.bfloat16)
w = rng.integers(-1, 2, (4, 32, 64)).astype(ml_dtypes.bfloat16)  # [E, N, K]
offs = np.array([5, 5, 11, 13], np.int32)  # end row of every expert

y = moesaic.grouped_mm(x, w.swapaxes(1, 2), offs=offs)  # [16, 32]; rows 13 to 15 are zero

main_grad = np.zeros((4, 32, 64), np.float32)
moesaic.wgrad(y, x, offs=offs, out=main_grad, accumulate=True)  # adds to main_grad

w_down = rng.integers(-1, 2, (4, 64, 16)).astype(ml_dtypes.bfloat16)  # [E, d, h]
z = moesaic.swiglu_mlp(x, w, w_down, offs=offs, order="up_gate")  # w holds [E, 2h, d]
# [/numpy]


def wide(array):
    return array.astype(np.float32)


starts = [0, *offs[:-1]]
for expert, (low, high) in enumerate(zip(starts, offs)):
    product = wide(x[low:high]) @ wide(w[expert]).T
    np.testing.assert_array_equal(wide(y[low:high]), wide(product.astype(ml_dtypes.bfloat16)))
    np.testing.assert_allclose(main_grad[expert], wide(y[low:high]).T @ wide(x[low:high]), rtol=1e-5)
    up, gate = product[:, :16], product[:, 16:]
    hidden = up * gate / (1 + np.exp(-gate))
    np.testing.assert_allclose(wide(z[low:high]), hidden @ wide(w_down[expert]).T, rtol=0.02, atol=1)
assert not wide(y[13:]).any() and not wide(z[13:]).any()

# [numpy_fault]
offs = np.array([5, 8, 7, 13], np.int32)  # expert 2 ends before expert 1 does
moesaic.grouped_mm(x, w.swapaxes(1, 2), offs=offs)
fault = moesaic.read_fault()  # Fault(kind='offs_not_monotonic', expert=2, value=7)
# [/numpy_fault]
assert fault == ("offs_not_monotonic", 2, 7), fault
assert moesaic.read_fault() is None
print(f"moesaic {moesaic.version()}: 13 rows right, 3 zero; {fault}")
