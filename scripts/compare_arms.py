# SPDX-License-Identifier: Apache-2.0
"""Operands and arms of each kind of case of compare_torch.py, and what their results should be."""
import math

import torch

import moesaic.torch as mt
from compare_cases import OURS
from torch_device import GROUPED_MM, BoundCheck, compare, sampled_rows

F = torch.nn.functional
BF16 = torch.bfloat16
# Ours keep the bound of the contract. Others may round partial sums to BF16, and an expert rounds between its products: those
# are allowed a share of an element and of what is usual beside it.
TOLERANCE = 0.05
REFERENCE = "sampled rows in double precision: moesaic's products by the bound of the contract, others and experts within 5 %"
CHECKED_LINES = 8  # of a weight gradient, first and last of the width
PADDED_CAPACITY = 1.25


def lines_of(width):
    return torch.linspace(0, width - 1, min(CHECKED_LINES, width)).round().long()


class Operands:
    """Draws as moesaic's own: N(0, 1), weights N(0, 0.02). Subclasses make `arms`, {name: call}, and say what a result should be.

    `outputs`: tensors that arms write into; `results`: shapes of those that arms allocate."""

    def __init__(self, case, device, seed):
        self.case, self.device = case, device
        self.generator = torch.Generator(device).manual_seed(seed)
        self.host_offs = case.problem["offs"]
        self.m, self.experts = self.host_offs[-1], len(case.counts)
        self.offs = self.offsets(self.host_offs)
        self.arms, self.outputs, self.results = {}, [], []

    def offsets(self, ends):
        return torch.tensor(ends, dtype=torch.int32, device=self.device)

    def normal(self, *shape, scale=1.0):
        return torch.randn(*shape, generator=self.generator, device=self.device, dtype=BF16).mul_(scale)

    def weights(self):
        return self.normal(self.experts, self.case.n, self.case.k, scale=0.02)

    def sampled(self):
        for expert, rows in sampled_rows(self.host_offs):
            yield expert, rows.to(self.device)

    def wanted(self, arm):
        """(where, a, b) of an arm: result[where] should be a [r, k] times b [k, n]."""
        raise NotImplementedError

    def poison(self):
        """Makes NaN of what an arm that writes nothing would return: an earlier arm's right result in a shared output, or in a freed
        block that the allocator hands out again."""
        for output in self.outputs:
            output.fill_(math.nan)
        blocks = [torch.full(shape, math.nan, dtype=BF16, device=self.device) for shape in self.results]
        del blocks  # all at once: two results of one size need two

    def check(self, arm):
        self.poison()
        result = self.arms[arm]()
        if arm in OURS:
            bound = BoundCheck(self.device)
            for where, a, b in self.wanted(arm):
                bound.add(result[where], a, b)
            return bound.result()
        return compare([(result[where], a.double() @ b.double()) for where, a, b in self.wanted(arm)], TOLERANCE)


class Rows(Operands):
    """y [M, N] from x [M, K] and w [E, N, K]. Dense: all rows by the first expert's weights."""

    def __init__(self, case, device, seed):
        super().__init__(case, device, seed)
        self.x, self.w = self.normal(self.m, case.k), self.weights()
        self.b = self.w.transpose(-2, -1)
        self.out = torch.empty(self.m, case.n, device=device, dtype=BF16)
        self.outputs, self.results = [self.out], [(self.m, case.n)]
        calls = {"moesaic": lambda: mt.grouped_mm(self.x, self.b, offs=self.offs), "dense": self.dense, "loop": self.loop,
                 "torch": lambda: GROUPED_MM(self.x, self.b, offs=self.offs), "padded": self.padded}
        self.arms = {arm: calls[arm] for arm in case.arms}
        if "padded" in self.arms:
            capacity = math.ceil(PADDED_CAPACITY * self.m / self.experts)
            self.batch = self.normal(self.experts, capacity, case.k)
            self.batch_out = torch.empty(self.experts, capacity, case.n, device=device, dtype=BF16)
            self.outputs.append(self.batch_out)

    def dense(self):
        return torch.mm(self.x, self.b[0], out=self.out)

    def padded(self):
        return torch.bmm(self.batch, self.b, out=self.batch_out)

    def loop(self):
        begin = 0
        for expert, end in enumerate(self.host_offs):
            torch.mm(self.x[begin:end], self.b[expert], out=self.out[begin:end])
            begin = end
        return self.out

    def wanted(self, arm):
        for expert, rows in self.sampled():
            if arm == "padded":
                where = expert, torch.tensor([0, -1], device=self.device)
                yield where, self.batch[where], self.b[expert]
            else:
                yield rows, self.x[rows], self.b[0 if arm == "dense" else expert]


class Skew(Rows):
    """Beside the same product with even rows."""

    def __init__(self, case, device, seed):
        super().__init__(case._replace(arms=("moesaic", "torch")), device, seed)
        self.even = [self.m * (expert + 1) // self.experts for expert in range(self.experts)]
        even = self.offsets(self.even)
        self.arms["balanced"] = lambda: mt.grouped_mm(self.x, self.b, offs=even)

    def wanted(self, arm):
        if arm != "balanced":
            yield from super().wanted(arm)
            return
        for expert, rows in sampled_rows(self.even):
            rows = rows.to(self.device)
            yield rows, self.x[rows], self.b[expert]


class Split(Rows):
    """Every expert has the same rows, so that the dense product of the joined weights does all of it at once."""

    def __init__(self, case, device, seed):
        super().__init__(case, device, seed)
        self.each = self.x[:case.counts[0]]
        self.x = self.each.repeat(self.experts, 1)
        self.joined = self.w.view(-1, case.k).t()
        self.out = torch.empty(len(self.each), self.experts * case.n, device=device, dtype=BF16)
        self.outputs = [self.out]

    def dense(self):
        return torch.mm(self.each, self.joined, out=self.out)

    def wanted(self, arm):
        if arm != "dense":
            yield from super().wanted(arm)
            return
        rows = torch.tensor([0, -1], device=self.device)
        yield rows, self.each[rows], self.joined


class InputGradient(Operands):
    """dx [M, K] from dy [M, N] and w [E, N, K]."""

    def __init__(self, case, device, seed):
        super().__init__(case, device, seed)
        self.dy, self.w = self.normal(self.m, case.n), self.weights()
        out = torch.empty(self.m, case.k, device=device, dtype=BF16)
        self.outputs, self.results = [out], [(self.m, case.k)]
        self.arms = {"moesaic": lambda: mt.grouped_mm(self.dy, self.w, offs=self.offs),
                     "torch": lambda: GROUPED_MM(self.dy, self.w, offs=self.offs),
                     "dense": lambda: torch.mm(self.dy, self.w[0], out=out)}

    def wanted(self, arm):
        for expert, rows in self.sampled():
            yield rows, self.dy[rows], self.w[0 if arm == "dense" else expert]


class WeightGradient(Operands):
    """dw [E, N, K] from dy [M, N] and x [M, K], of even rows; `accumulate` adds to FP32, which is zero when it is checked."""

    def __init__(self, case, device, seed):
        super().__init__(case, device, seed)
        self.dy, self.x = self.normal(self.m, case.n), self.normal(self.m, case.k)
        each = self.m // self.experts
        dy, x = self.dy.view(self.experts, each, case.n).transpose(1, 2), self.x.view(self.experts, each, case.k)
        main = torch.zeros(self.experts, case.n, case.k, device=device)
        self.results = [main.shape]
        self.arms = {"moesaic": lambda: mt.wgrad(self.dy, self.x, offs=self.offs),
                     "torch": lambda: GROUPED_MM(self.dy.t(), self.x, offs=self.offs),
                     "batched": lambda: torch.bmm(dy, x),
                     "accumulate": lambda: mt.wgrad(self.dy, self.x, offs=self.offs, out=main, accumulate=True)}

    def wanted(self, arm):
        begin, lines = 0, lines_of(self.case.n).to(self.device)
        for expert, end in enumerate(self.host_offs):
            yield (expert, lines), self.dy[begin:end, lines].t(), self.x[begin:end]
            begin = end


def swiglu(x, up, gate, down):
    return (x @ up.t() * F.silu(x @ gate.t())) @ down.t()


def swiglu_of_products(x, w_up_gate, w_down, offs):
    up, gate = GROUPED_MM(x, w_up_gate.transpose(-2, -1), offs=offs).chunk(2, dim=1)
    return GROUPED_MM(up * F.silu(gate), w_down.transpose(-2, -1), offs=offs)


class Expert(Operands):
    """y [M, d] from x [M, d], w_up_gate [E, 2h, d] and w_down [E, d, h]; PyTorch's arms: two grouped products and silu between."""

    def __init__(self, case, device, seed):
        super().__init__(case, device, seed)
        self.h = case.n // 2
        self.x, self.w_up_gate = self.normal(self.m, case.k), self.weights()
        self.w_down = self.normal(self.experts, case.k, self.h, scale=0.02)
        self.dy = self.normal(self.m, case.k)
        self.leaves = [self.x, self.w_up_gate, self.w_down]
        self.results = [self.x.shape]
        torch.compiler.reset()  # of other sizes
        compiled = torch.compile(swiglu_of_products, dynamic=False)
        calls = {"moesaic": lambda: mt.swiglu_mlp(*self.leaves, offs=self.offs, order="up_gate"),
                 "eager": lambda: swiglu_of_products(*self.leaves, self.offs), "compiled": lambda: compiled(*self.leaves, self.offs)}
        self.arms = {arm: self.arm(call) for arm, call in calls.items()}

    def arm(self, call):
        return torch.no_grad()(call)

    def check(self, arm):
        self.poison()
        return compare(self.sampled_pairs(self.arms[arm]()), TOLERANCE)

    def sampled_pairs(self, y):
        return [(y[rows], swiglu(self.x.detach()[rows].double(), *self.doubles(expert, slice(None)))) for expert, rows in self.sampled()]

    def doubles(self, expert, lines):
        """Up, gate and down of these hidden elements in double precision. They want no gradient: pairs would keep a graph with them."""
        up_gate, down = self.w_up_gate[expert].detach(), self.w_down[expert].detach()
        return [one.double() for one in (up_gate[:self.h][lines], up_gate[self.h:][lines], down[:, lines])]


class ExpertStep(Expert):
    """Forward and backward."""

    def __init__(self, case, device, seed):
        super().__init__(case, device, seed)
        for leaf in self.leaves:
            leaf.requires_grad_()
        self.results = [self.x.shape, *(leaf.shape for leaf in self.leaves)]  # y, then gradients

    def poison(self):
        for leaf in self.leaves:
            leaf.grad = None  # freed here, so that its block is among those that are made NaN
        super().poison()

    def arm(self, call):
        def step():
            for leaf in self.leaves:
                leaf.grad = None
            y = call()
            y.backward(self.dy)
            return y
        return step

    def sampled_pairs(self, y):
        dx, dw_up_gate, dw_down = (leaf.grad for leaf in self.leaves)
        pairs = super().sampled_pairs(y)
        for expert, rows in self.sampled():
            x = self.x.detach()[rows].double().requires_grad_()
            want, = torch.autograd.grad(swiglu(x, *self.doubles(expert, slice(None))), x, self.dy[rows].double())
            pairs.append((dx[rows], want))
        # A hidden element's weights have gradients that no other hidden element's weights enter.
        begin, lines = 0, lines_of(self.h).to(self.device)
        for expert, end in enumerate(self.host_offs):
            if end > begin:
                leaves = [one.requires_grad_() for one in self.doubles(expert, lines)]
                y = swiglu(self.x.detach()[begin:end].double(), *leaves)
                got = dw_up_gate[expert][lines], dw_up_gate[expert][self.h + lines], dw_down[expert][:, lines]
                pairs += zip(got, torch.autograd.grad(y, leaves, self.dy[begin:end].double()))
            begin = end
        return pairs


KINDS = {"forward": Rows, "split": Split, "skew": Skew, "dgrad": InputGradient, "wgrad": WeightGradient, "expert": Expert,
         "expert_step": ExpertStep}
