# SPDX-License-Identifier: Apache-2.0
"""What the tests of moesaic.torch share: routed layers with their results, bit for bit on small
integers; the device to run on; the skip where there is no torch."""

import sys
import unittest

try:
    import torch
except ImportError as error:
    print(f"SKIPPED: {error} (scripts/setup.sh --torch adds it to .venv)")
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


def _mlp_device():
    """CUDA once its kernels of the expert are there, or else the CPU."""
    if not CUDA:
        return "cpu"
    tensors = (torch.zeros(shape, dtype=BF16, device="cuda") for shape in ((8, 8), (1, 16, 8), (1, 8, 8)))
    try:
        m.swiglu_mlp(*tensors, offs=offsets([8]), order="up_gate")
    except m.Unsupported:
        return "cpu"
    return "cuda"


MLP_DEVICE = _mlp_device()
MLP_CUDA = MLP_DEVICE == "cuda"
needs_mlp_cuda = unittest.skipUnless(MLP_CUDA, "needs a CUDA device and CUDA kernels of the expert")
MLP_DTYPES = (BF16,) if MLP_CUDA else (BF16, torch.float32)
ORDERS = ("up_gate", "gate_up", "interleaved")
# Error allowed to an element: a share of the RMS of its row or expert's matrix (U, H and dU are
# rounded), and two ulps of its own.
SHARES = {BF16: (0.06, 2.0 ** -7), torch.float32: (2e-5, 2.0 ** -20)}


class MlpCase:
    """A routed SwiGLU expert with a tail of NaN rows, and its FP64 results of the rows before it.
    With `weighted` the rows have weights, NaN in the tail."""

    def __init__(self, counts=(9, 0, 21), tail=6, d=64, h=48, order="up_gate", dtype=BF16,
                 weighted=False):
        self.counts, self.used, self.order, self.dtype = list(counts), sum(counts), order, dtype
        self.rows = self.used + tail
        generator = torch.Generator().manual_seed(5)

        def normal(*shape, scale=1.0):
            values = torch.randn(shape, generator=generator) * scale
            return values.to(dtype).to(MLP_DEVICE)
        self.x, self.dy = normal(self.rows, d), normal(self.rows, d)
        self.x[self.used:] = self.dy[self.used:] = float("nan")
        self.w_up_gate = normal(len(self.counts), 2 * h, d, scale=d ** -0.5)
        self.w_down = normal(len(self.counts), d, h, scale=h ** -0.5)
        self.offs = offsets(self.counts).to(MLP_DEVICE)
        self.row_weights = None
        if weighted:
            self.row_weights = torch.randn(self.rows, generator=generator).to(MLP_DEVICE)
            self.row_weights[2:3] = 0
            self.row_weights[self.used:] = float("nan")

    @property
    def inputs(self):
        tensors = (self.x, self.w_up_gate, self.w_down)
        return tensors if self.row_weights is None else (*tensors, self.row_weights)

    def leaves(self):
        return [tensor.clone().requires_grad_() for tensor in self.inputs]

    def run(self, x, w_up_gate, w_down, row_weights=None, **options):
        return m.swiglu_mlp(x, w_up_gate, w_down, offs=self.offs, order=self.order,
                            row_weights=row_weights, **options)

    def forward(self, **options):
        return self.run(*self.inputs, **options)

    def train(self, leaves, **options):
        """y; the gradients of dy are left with the leaves that want one."""
        y = self.run(*leaves, **options)
        y.backward(self.dy)
        return y.detach()

    def _exact(self):
        leaves = [tensor.double().requires_grad_() for tensor in self.inputs]
        x, w_up_gate, w_down, *row_weights = leaves
        x = leaves[0] = x.detach()[:self.used].requires_grad_()
        if row_weights:
            leaves[3] = row_weights[0].detach()[:self.used].requires_grad_()
        h = w_down.shape[2]
        rows = [x[:0] @ w_down[0] @ w_down[0].t()]  # a graph also where no expert has rows
        for expert, low, high in segments(self.counts):
            u = x[low:high] @ w_up_gate[expert].t()
            up, gate = {"up_gate": (u[:, :h], u[:, h:]), "gate_up": (u[:, h:], u[:, :h]),
                        "interleaved": (u[:, ::2], u[:, 1::2])}[self.order]
            rows.append((up * torch.nn.functional.silu(gate)) @ w_down[expert].t())
        y = torch.cat(rows)
        return leaves, y * leaves[3][:, None] if row_weights else y

    @property
    def y(self):
        return self._exact()[1].detach()

    @property
    def gradients(self):
        """Of x, w_up_gate and w_down, and of row_weights where there are some."""
        leaves, y = self._exact()
        found = torch.autograd.grad(y, leaves, self.dy[:self.used].double(), allow_unused=True)
        return [torch.zeros_like(leaf) if gradient is None else gradient
                for gradient, leaf in zip(found, leaves)]

    def near(self, test, got, want, what=""):
        """Every element of the rows before the tail within its allowance."""
        share, ulps = SHARES[self.dtype]
        test.assertEqual(got.dim(), want.dim(), what)
        got = got[:len(want)].double()
        test.assertEqual(tuple(got.shape), tuple(want.shape), what)
        rms = want.pow(2).mean((-1,) if want.dim() <= 2 else (-2, -1), keepdim=True).sqrt()
        allowed = share * rms + ulps * want.abs() + 1e-9
        worst = ((got - want).abs() / allowed).nan_to_num(1e9).max().item() if want.numel() else 0
        test.assertLess(worst, 1, what)

    def near_gradients(self, test, leaves, what=""):
        """That of every leaf, in the order of `inputs`."""
        for leaf, want in zip(leaves, self.gradients):
            self.near(test, leaf.grad, want, what)


def weighted(*arguments, **options):
    return MlpCase(*arguments, weighted=True, **options)


class MoesaicTest(unittest.TestCase):
    def setUp(self):
        m.read_fault()

    def same(self, got, want, what=""):
        self.assertEqual(tuple(got.shape), tuple(want.shape), what)
        self.assertTrue(torch.equal(got.float(), want.float()), what)


def saved_bytes(call):
    """Bytes of all that autograd keeps of a call, each storage once."""
    storages = {}

    def keep(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        call()
    return sum(storages.values())
