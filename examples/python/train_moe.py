#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small Mixture-of-Experts model twice from the same start, with moesaic's experts and with
a loop over torch.nn.Linear, and compares the two loss curves. The task: after tokens a and b comes
(3a + b) mod 32. BF16 under autocast, FP32 parameters; half a minute on two cores.

    python3 examples/python/train_moe.py [--steps N] [--device cpu|cuda] [--curves FILE]
"""

import argparse
import math
import sys

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError as error:
    print(f"SKIPPED: {error} (scripts/setup.sh --torch adds it to .venv)")
    sys.exit(0)

import moesaic.torch as mt

VOCABULARY, D, H, EXPERTS, TOP_K, BATCH = 32, 64, 32, 8, 2, 256


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--steps", type=int, default=200, metavar="N")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--curves", metavar="FILE", help="both curves as CSV")
    options = parser.parse_args()
    if options.steps < 1:
        parser.error(f"--steps: expected at least 1, got {options.steps}")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: expected a CUDA device that PyTorch sees, got none")
    return options


OPTIONS = parse()


class LoopExperts(nn.Module):
    """The same experts one after the other, each over the tokens that chose it."""

    def __init__(self, source):
        super().__init__()
        self.gate_up = nn.ParameterList(weight.clone() for weight in source.w_up_gate.detach())
        self.down = nn.ParameterList(weight.clone() for weight in source.w_down.detach())

    def forward(self, tokens, top_k_index, top_k_weights):
        result = torch.zeros(tokens.shape, dtype=torch.float32, device=tokens.device)
        for expert, (gate_up, down) in enumerate(zip(self.gate_up, self.down)):
            token, place = torch.where(top_k_index == expert)
            gate, up = functional.linear(tokens[token], gate_up).chunk(2, -1)
            hidden = functional.linear(functional.silu(gate) * up, down)
            result = result.index_add(0, token, top_k_weights[token, place, None] * hidden.float())
        return result.to(tokens.dtype)


# [model]
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, D // 2)
        self.router = nn.Linear(D, EXPERTS, bias=False)
        self.experts = mt.SwiGLUExperts(EXPERTS, D, H, order="gate_up", recompute=True)
        self.head = nn.Linear(D, VOCABULARY, bias=False)

    def forward(self, pairs):  # [tokens, 2]
        x = self.embedding(pairs).flatten(1)
        weights, index = self.router(x).softmax(-1).topk(TOP_K)
        return self.head(functional.rms_norm(x + self.experts(x, index, weights), (D,)))
# [/model]


def make(kind):
    torch.manual_seed(1)
    model = Model()
    if kind == "loop":
        model.experts = LoopExperts(model.experts)
    return model.to(OPTIONS.device)


def train(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0)
    draw, losses = torch.Generator().manual_seed(2), []
    for _ in range(OPTIONS.steps):
        pairs = torch.randint(VOCABULARY, (BATCH, 2), generator=draw).to(OPTIONS.device)
        with torch.autocast(OPTIONS.device, dtype=torch.bfloat16):
            logits = model(pairs)
        loss = functional.cross_entropy(logits.float(), (3 * pairs[:, 0] + pairs[:, 1]) % VOCABULARY)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    curves = {kind: train(make(kind)) for kind in ("moesaic", "loop")}
    print("step  moesaic     loop")
    steps = OPTIONS.steps
    for step in [*range(0, steps, max(1, steps // 10)), steps - 1]:
        print(f"{step:4d}  {curves['moesaic'][step]:7.4f}  {curves['loop'][step]:7.4f}")
    if OPTIONS.curves:
        with open(OPTIONS.curves, "w", encoding="utf-8") as file:
            file.write("step,moesaic,loop\n")
            for step, pair in enumerate(zip(*curves.values())):
                file.write(f"{step},{pair[0]:.5f},{pair[1]:.5f}\n")
    ours, theirs = (torch.tensor(curve) for curve in curves.values())
    difference = (ours - theirs).abs()
    early, mean = difference[:20].max().item(), difference.mean().item()
    print(f"largest difference of the first 20 steps {early:.4f}, mean of all {mean:.4f}")
    if not ours[0] > 0.9 * math.log(VOCABULARY):
        sys.exit("train_moe: expected the first loss to be that of a guess")
    if not (early < 0.05 and mean < 0.05):
        sys.exit("train_moe: the two curves part")
    if steps >= 200 and not max(ours[-1], theirs[-1]) < 0.1 * ours[0]:
        sys.exit("train_moe: the loss did not fall")


main()
