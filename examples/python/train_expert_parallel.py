#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a Mixture-of-Experts layer whose experts are spread over ranks.

    torchrun --nproc-per-node=2 examples/python/train_expert_parallel.py    # a GPU for each rank
    python3 examples/python/train_expert_parallel.py                        # two simulated ranks

The task: tokens of four kinds, each with a matrix of its own to be learned.
"""

import os
import sys

try:
    import torch
except ImportError as error:
    print(f"SKIPPED: {error} (scripts/setup.sh --torch adds it to .venv)")
    sys.exit(0)

from moesaic.torch import ep

TOKENS, WIDTH, HIDDEN, EXPERTS, TOP_K, STEPS = 256, 64, 64, 8, 2, 30


def batch(rank, step, targets, device):
    """Tokens of one rank, and what the layer should make of them."""
    generator = torch.Generator().manual_seed(1000 * rank + step)
    x = torch.randn(TOKENS, WIDTH, generator=generator)
    kind = torch.randint(4, (TOKENS,), generator=generator)
    x[torch.arange(TOKENS), kind] += 4  # what the router can tell kinds by
    y = torch.einsum("tij,tj->ti", targets[kind], x)
    return x.to(device, torch.bfloat16), y.to(device, torch.bfloat16)


def reduce_router(layer, spread):
    """Every rank has the same router: its gradients are summed, as data parallelism does it."""
    if spread:
        torch.distributed.all_reduce(layer.router.weight.grad)


def main():
    spread = "RANK" in os.environ
    # [group]
    if spread:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        torch.distributed.init_process_group("nccl")  # for the router alone
        group = ep.ExpertParallelGroup.from_environment()
    else:
        group = ep.ExpertParallelGroup.simulated(2)
    exchange = ep.Exchange(group, num_experts=EXPERTS, topk=TOP_K, max_tokens=TOKENS,
                           hidden_size=WIDTH)
    torch.manual_seed(0)  # the same router everywhere
    layer = ep.MoELayer(exchange, HIDDEN, order="up_gate")
    # [/group]
    targets = torch.randn(4, WIDTH, WIDTH, generator=torch.Generator().manual_seed(1)) / WIDTH ** 0.5
    optimizer = torch.optim.AdamW(layer.parameters(), lr=3e-3)
    losses = []
    for step in range(STEPS):
        batches = [batch(rank, step, targets, group.device) for rank in group.local_ranks]
        # [step]
        outs = layer(exchange.as_given([x for x, _ in batches]))
        loss = sum((out.float() - y.float()).pow(2).mean()
                   for out, (_, y) in zip(exchange.as_list("outs", outs), batches))
        optimizer.zero_grad()
        loss.backward()
        reduce_router(layer, spread)
        optimizer.step()
        # [/step]
        losses.append(float(loss.detach()) / len(batches))
        if step % 10 == 0 or step == STEPS - 1:
            print(f"rank {group.local_ranks[0]} step {step}: loss {losses[-1]:.3f}, dropped "
                  f"{exchange.dropped_routes()}, faults {exchange.read_fault()}")
    del outs, loss  # the last tensors over leased memory
    group.check()
    assert losses[-1] < 0.8 * losses[0], losses
    usage = group.pool_usage()
    print(f"pool: {usage.high_water / 2**20:.1f} MiB at most, {usage.leases} still leased")
    group.close()


if __name__ == "__main__":
    main()
