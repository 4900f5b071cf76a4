# SPDX-License-Identifier: Apache-2.0
"""What the tests of moesaic.torch share: routed layers with their results, bit for bit on small
integers; the device to run on; the skip where there is no torch."""

import sys
import unittest

try:
    import torch
except ImportError as error:
    print(f"SKIPPED: {error} (pip install torch into the Python that runs this)")
    sys.exit(0)

import moesaic.torch as m

CUDA = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
DEVICE = "cuda" if CUDA else "cpu"
BF16 = torch.bfloat16
COUNTS = ([16, 16, 16], [0, 0, 0], [0, 21, 0], [5, 7, 9], [1] * 40, [130, 1, 0, 65])
needs_cuda = unittest.skipUnless(CUDA, "needs a CUDA device of compute capability 9.0")


def integers(*shape, seed=0, dtype=BF16):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-1, 2, shape, generator=generator).to(dtype).to(DEVICE)


def offsets(counts):
    return torch.tensor(counts).cumsum(0).to(torch.int32).to(DEVICE)


def segments(counts):
    low = 0
    for expert, count in enumerate(counts):
        yield expert, low, low + count
        low += count


def forward(x, w_enk, counts):
    y = torch.zeros(x.shape[0], w_enk.shape[1], device=DEVICE)
    for expert, low, high in segments(counts):
        y[low:high] = x[low:high].float() @ w_enk[expert].float().t()
    return y


def weight_gradient(dy, x, counts):
    dw = torch.zeros(len(counts), dy.shape[1], x.shape[1], device=DEVICE)
    for expert, low, high in segments(counts):
        dw[expert] = dy[low:high].float().t() @ x[low:high].float()
    return dw


class Case:
    """One routed layer of three experts with a tail of NaN rows."""

    def __init__(self, counts=(9, 0, 21), tail=6, k=64, n=72):
        self.counts, self.used = list(counts), sum(counts)
        self.x = integers(self.used + tail, k, seed=1)
        self.x[self.used:] = float("nan")
        self.w = integers(len(self.counts), n, k, seed=2)
        self.dy = integers(self.used + tail, n, seed=3)
        self.dy[self.used:] = float("inf")
        self.offs = offsets(self.counts)
        self.y = forward(self.x[:self.used], self.w, self.counts).to(BF16)
        self.dw = weight_gradient(self.dy[:self.used], self.x[:self.used], self.counts)
        self.dx = torch.zeros(self.used, k, device=DEVICE)
        for expert, low, high in segments(self.counts):
            self.dx[low:high] = self.dy[low:high].float() @ self.w[expert].float()


class MoesaicTest(unittest.TestCase):
    def setUp(self):
        m.read_fault()

    def same(self, got, want, what=""):
        self.assertEqual(tuple(got.shape), tuple(want.shape), what)
        self.assertTrue(torch.equal(got.float(), want.float()), what)
