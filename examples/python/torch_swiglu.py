#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""moesaic.torch: the SwiGLU expert as a function and as a module, rows and weights that a router chose,
the caller's buffers, what save and recompute keep, and weights from and to Hugging Face. Checked against
plain loops."""

import sys

try:
    import torch
except ImportError as error:
    print(f"SKIPPED: {error} (scripts/setup.sh --torch adds it to .venv)")
    sys.exit(0)

torch.manual_seed(1)

# [mlp]
import moesaic.torch as mt

# Four experts of width h = 32 over tokens of width d = 64; routing filled 13 of the 16 rows.
x = torch.randn(16, 64, dtype=torch.bfloat16, requires_grad=True)
w_up_gate = torch.randn(4, 2 * 32, 64, dtype=torch.bfloat16).mul_(0.1).requires_grad_()
w_down = torch.randn(4, 64, 32, dtype=torch.bfloat16).mul_(0.1).requires_grad_()
offs = torch.tensor([5, 5, 11, 13], dtype=torch.int32)  # end row of every expert

y = mt.swiglu_mlp(x, w_up_gate, w_down, offs=offs, order="up_gate", recompute=True)
y.backward(torch.ones_like(y))  # x.grad, w_up_gate.grad, w_down.grad
# [/mlp]


def exactly(x, w_up_gate, w_down):
    rows = []
    for expert, (low, high) in enumerate(zip([0, *offs[:-1].tolist()], offs.tolist())):
        up, gate = (x[low:high] @ w_up_gate[expert].t()).chunk(2, -1)
        rows.append((up * torch.nn.functional.silu(gate)) @ w_down[expert].t())
    return torch.cat(rows)


def check(what, got, want):
    torch.testing.assert_close(got.double(), want, rtol=0.03, atol=0.05, msg=lambda text: f"{what}: {text}")


leaves = [tensor.detach().double().requires_grad_() for tensor in (x, w_up_gate, w_down)]
want = exactly(*leaves)
dx, dw_up_gate, dw_down = torch.autograd.grad(want.sum(), leaves)
check("y", y[:13], want)
check("x.grad", x.grad, dx)
check("w_up_gate.grad", w_up_gate.grad, dw_up_gate)
check("w_down.grad", w_down.grad, dw_down)
assert not y[13:].any() and not x.grad[13:].any()

# [row_weights]
row_weights = torch.rand(16, requires_grad=True)  # float32; bfloat16 and float16 are converted
y = mt.swiglu_mlp(x, w_up_gate, w_down, offs=offs, order="up_gate", row_weights=row_weights)
y.backward(torch.ones_like(y))  # row_weights.grad too; zero in the tail
# [/row_weights]
check("y, weighted", y[:13], row_weights[:13, None].detach() * want.detach())
check("row_weights.grad", row_weights.grad[:13], want.detach().sum(1))
assert not row_weights.grad[13:].any()

# [x_rows]
tokens = torch.randn(8, 64, dtype=torch.bfloat16, requires_grad=True)
top_k_weights, top_k_index = torch.randn(8, 4).softmax(-1).topk(2)  # [T, topk], of a router

# A row of the layer for each of the 16 routes, those of expert 0 first.
expert_ids, routes = top_k_index.flatten().sort(stable=True)
ends = torch.searchsorted(expert_ids, torch.arange(4), right=True).int()  # no wait of the host
x_rows = routes // 2  # the token of every row
rows = mt.swiglu_mlp(tokens, w_up_gate, w_down, offs=ends, order="up_gate", x_rows=x_rows,
                     row_weights=top_k_weights.flatten()[routes])  # [16, 64]
mixed = torch.zeros(8, 64).index_add(0, x_rows, rows.float())  # each token's two rows together
mixed.sum().backward()  # tokens.grad [8, 64]
# [/x_rows]
exact_tokens = tokens.detach().double().requires_grad_()
want_mixed = []
for line, share, index in zip(exact_tokens, top_k_weights.double(), top_k_index):
    halves = [(leaves[1][expert] @ line).chunk(2) for expert in index]
    want_mixed.append(sum(weight * (leaves[2][expert] @ (up * torch.nn.functional.silu(gate)))
                          for weight, expert, (up, gate) in zip(share, index, halves)))
want_mixed = torch.stack(want_mixed)
check("mixed", mixed.double(), want_mixed)
check("tokens.grad", tokens.grad, torch.autograd.grad(want_mixed.sum(), exact_tokens)[0])

# [main_grad]
up_gate_main, down_main = (torch.zeros(w.shape) for w in (w_up_gate, w_down))  # float32
y = mt.swiglu_mlp(x, w_up_gate, w_down, offs=offs, order="up_gate",
                  input_grad_out=x.detach(),  # dX takes the place of X
                  w_up_gate_grad_out=up_gate_main, w_down_grad_out=down_main,
                  accumulate_wgrad=True)
y.backward(torch.ones_like(y))
# [/main_grad]
check("main_grad of w_up_gate", up_gate_main, dw_up_gate)
check("main_grad of w_down", down_main, dw_down)
check("x, now its gradient", x.detach()[:13], dx[:13])

# [module]
experts = mt.SwiGLUExperts(num_experts=8, hidden_size=64, intermediate_size=32, order="gate_up")
router = torch.nn.Linear(64, 8, bias=False)

tokens = torch.randn(2, 10, 64)  # [batch, sequence, d], in any number of dimensions
top_k_weights, top_k_index = router(tokens).softmax(-1).topk(2)
mixed = experts(tokens, top_k_index, top_k_weights)  # [2, 10, 64]; gradients reach the router too
# [/module]
for line, share, index, result in zip(tokens.view(20, 64), top_k_weights.view(20, 2),
                                      top_k_index.view(20, 2), mixed.view(20, 64)):
    plain = 0
    for weight, expert in zip(share, index):
        gate, up = (experts.w_up_gate[expert] @ line).chunk(2)
        plain = plain + weight * (experts.w_down[expert] @ (up * torch.nn.functional.silu(gate)))
    torch.testing.assert_close(result, plain)
mixed.sum().backward()
assert router.weight.grad.any() and experts.w_down.grad.any()

model = {f"model.layers.{layer}.mlp.{name}": tensor for layer in (0, 1)
         for name, tensor in experts.to_hugging_face().items()}
# [hugging_face]
loaded = mt.SwiGLUExperts.from_hugging_face(model, prefix="model.layers.1.mlp.experts.")
one_by_one = loaded.to_hugging_face(fused=False)  # "experts.0.gate_proj.weight", …
# [/hugging_face]
torch.testing.assert_close(loaded(tokens, top_k_index, top_k_weights), mixed)
assert len(one_by_one) == 3 * 8


def saved_bytes(recompute):
    found = {}

    def keep(tensor):
        found[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        mt.swiglu_mlp(x, w_up_gate, w_down, offs=offs, order="up_gate", recompute=recompute)
    return sum(found.values())


u_bytes = 16 * 2 * 32 * 2  # [M, 2h] in BF16
assert saved_bytes(recompute=False) - saved_bytes(recompute=True) == u_bytes
print(f"moesaic {mt.version()}: all as expected; recompute keeps {u_bytes} bytes less")
