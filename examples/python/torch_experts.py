#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""moesaic.torch: a routed layer forward and backward, the caller's buffers, tails, faults, autocast,
candidates, and a CUDA graph where there is a Hopper GPU. Checked against plain loops."""

import sys

try:
    import torch
except ImportError as error:
    print(f"SKIPPED: {error} (scripts/setup.sh --torch adds it to .venv)")
    sys.exit(0)

HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
device = "cuda" if HOPPER else "cpu"
torch.manual_seed(1)

# [layer]
import moesaic.torch as mt

# Four experts and a buffer of 16 rows. Routing filled 13 of them: 5, 0, 6 and 2.
x = torch.randint(-4, 5, (16, 64), device=device).bfloat16().requires_grad_()
w = torch.randint(-4, 5, (4, 32, 64), device=device).bfloat16().requires_grad_()  # [E, N, K]
offs = torch.tensor([5, 5, 11, 13], dtype=torch.int32, device=device)  # end row of every expert

y = mt.grouped_mm(x, w.transpose(-2, -1), offs=offs)  # [16, 32]; rows 13 to 15 are zero
y.backward(torch.ones_like(y))  # x.grad [16, 64] with zero tail rows, w.grad [4, 32, 64]
# [/layer]


def check(what, got, want):
    if not torch.equal(got.float(), want.float()):
        sys.exit(f"torch_experts: {what} differs")


ends = offs.tolist()
segments = list(zip(range(4), [0, *ends[:-1]], ends))
plain = torch.cat([x[low:high].float() @ w[e].float().t() for e, low, high in segments]).bfloat16()
ones = torch.ones(16, 32, device=device)
plain_dw = torch.stack([ones[low:high].t() @ x[low:high].float() for _, low, high in segments])
plain_dx = torch.cat([ones[low:high] @ w[e].float() for e, low, high in segments]).bfloat16()
check("y", y, torch.cat([plain, torch.zeros(3, 32, device=device)]))
check("w.grad", w.grad, plain_dw)
check("x.grad", x.grad, torch.cat([plain_dx, torch.zeros(3, 64, device=device)]))

# [buffers]
out = torch.empty(16, 32, dtype=torch.bfloat16, device=device)
main_grad = torch.zeros(4, 32, 64, device=device)  # float32 [E, N, K]; w.grad stays as it is
y = mt.grouped_mm(x, w.transpose(-2, -1), offs=offs, out=out, tail="zero",
                  input_grad_out=x.detach(),  # dX takes the place of X: X is not needed after it
                  wgrad_out=main_grad, accumulate_wgrad=True)
y.backward(torch.ones_like(y))
# [/buffers]
check("out", out[:13], plain)
check("main_grad", main_grad, plain_dw)
check("x, now its gradient", x[:13], plain_dx)

x = x.detach()
# [wgrad]
dw = mt.wgrad(y.detach(), x, offs=offs, out_dtype=torch.float32)  # [E, N, K], of no autograd graph
mt.wgrad(y.detach(), x, offs=offs, out=dw, accumulate=True)  # once more, added
# [/wgrad]
torch.testing.assert_close(
    dw, 2 * torch.stack([y[low:high].float().t() @ x[low:high].float() for _, low, high in segments]))

# [autocast]
with torch.autocast(device, dtype=torch.bfloat16):
    low = mt.grouped_mm(x.float(), w.float().transpose(-2, -1), offs=offs)  # bfloat16
# [/autocast]
assert low.dtype == torch.bfloat16

# [faults]
with torch.no_grad():
    wrong = torch.tensor([5, 8, 7, 13], dtype=torch.int32, device=device)
    mt.grouped_mm(x, w.transpose(-2, -1), offs=wrong)  # raises nothing, harms nothing
fault = mt.read_fault()  # Fault(kind='offs_not_monotonic', expert=2, value=7)
# [/faults]
assert fault == ("offs_not_monotonic", 2, 7), fault

# [candidates]
for candidate in mt.candidates("wgrad", num_experts=4, max_rows=16, n=32, k=64, device=device):
    print(candidate.implementation, "takes it" if candidate.ok else candidate.reason)
# [/candidates]


def graphs():
    # [graph]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        y = mt.grouped_mm(x, w.transpose(-2, -1), offs=offs)
    offs.copy_(torch.tensor([1, 9, 9, 16], dtype=torch.int32))  # the next step's routing
    graph.replay()  # multiplies the rows that offs now tells of
    fault = mt.read_fault()  # of all replays since the last call
    # [/graph]
    assert fault is None
    check("replay", y[1:9], (x[1:9].float() @ w[1].float().t()).bfloat16())


if HOPPER:
    graphs()
print(f"moesaic {mt.version()} on {device}: all as expected")
