#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of several, each with a GPU: MoELayer over all of them against the same layer on one GPU,
outputs and gradients within BF16 rounding. scripts/run_ranks.sh N python3 tests/python/ep_ranks.py"""

import os
import sys
import unittest

try:
    import torch
except ImportError as error:
    print(f"SKIPPED: {error} (scripts/setup.sh --torch adds it to .venv)")
    sys.exit(0)

from moesaic.torch import ep

D, H, EXPERTS, TOP_K, TOKENS = 512, 256, 16, 4, 384
BF16 = torch.bfloat16


def make_groups(rank, ranks, folder):
    """The group of all ranks, then one of this rank alone."""
    store = torch.distributed.FileStore(folder + "/python_store", ranks)
    torch.cuda.set_device(rank)
    # A short time-out: a rank that fails is to end the others soon.
    world = ep.ExpertParallelGroup.from_store(torch.distributed.PrefixStore("world", store), rank,
                                              ranks, heap_bytes=1 << 30, timeout=20)
    alone = ep.ExpertParallelGroup.from_store(torch.distributed.PrefixStore(f"alone/{rank}", store),
                                              0, 1, timeout=20)
    return world, alone


def make_layer(group, capacity_factor, dispatch="direct"):
    exchange = ep.Exchange(group, num_experts=EXPERTS, topk=TOP_K, max_tokens=TOKENS, hidden_size=D,
                           capacity_factor=capacity_factor, dispatch=dispatch)
    return ep.MoELayer(exchange, H, order="up_gate")


def weights_of(layer, rank, ranks):
    """The same on every rank: the router, and this rank's share of all experts."""
    generator = torch.Generator().manual_seed(5)
    router = torch.randn(EXPERTS, D, generator=generator) / D ** 0.5
    up_gate = torch.randn(EXPERTS, 2 * H, D, generator=generator) / D ** 0.5
    down = torch.randn(EXPERTS, D, H, generator=generator) / H ** 0.5
    share = slice(rank * EXPERTS // ranks, (rank + 1) * EXPERTS // ranks)
    with torch.no_grad():
        layer.router.weight.copy_(router)
        layer.experts.w_up_gate.copy_(up_gate[share])
        layer.experts.w_down.copy_(down[share])


def tokens_of(rank, seed):
    """Uneven over the ranks."""
    generator = torch.Generator().manual_seed(100 * seed + rank)
    return torch.randn(TOKENS - 37 * rank, D, generator=generator).to(BF16)


class Layers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rank, cls.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        cls.world, cls.alone = make_groups(cls.rank, cls.ranks, os.environ["MOESAIC_RENDEZVOUS"])

    def near(self, got, want, what):
        scale = want.float().pow(2).mean().sqrt()
        worst = ((got.float() - want.float()).abs() / (scale + want.float().abs())).max().item()
        self.assertLess(worst, 0.05, what)

    def test_ranks_do_not_change_the_layer(self):
        for dispatch in ("direct", "fan_out"):
            with self.subTest(dispatch=dispatch):
                self.compare_layers(dispatch)

    def compare_layers(self, dispatch):
        many, one = make_layer(self.world, float(self.ranks), dispatch), make_layer(self.alone, float(TOP_K))
        weights_of(many, self.rank, self.ranks)
        weights_of(one, 0, 1)
        for step in range(5):
            many.zero_grad()
            one.zero_grad()
            x = tokens_of(self.rank, step).to(self.world.device).requires_grad_()
            same = x.detach().clone().requires_grad_()
            dy = torch.randn(x.shape, generator=torch.Generator().manual_seed(step)).to(x)
            out = many(x)
            out.backward(dy)
            self.world.check()
            # Alone, the experts see this rank's tokens only: outputs and their gradients agree.
            want = one(same)
            want.backward(dy)
            self.alone.check()
            self.near(out, want, f"output, step {step}")
            self.near(x.grad, same.grad, f"gradient of the tokens, step {step}")
            self.near(many.router.weight.grad, one.router.weight.grad, f"of the router, step {step}")
            self.assertIsNone(many.exchange.read_fault())
            self.assertEqual(many.exchange.dropped_routes(), 0)
            del out, want
        self.weight_gradients(many, one)

    def weight_gradients(self, many, one):
        """Those of this rank's experts are of the tokens of all ranks."""
        one.zero_grad()
        for rank in range(self.ranks):
            x = tokens_of(rank, 4).to(self.world.device)
            dy = torch.randn(x.shape, generator=torch.Generator().manual_seed(4)).to(x)
            one(x).backward(dy)
        share = slice(self.rank * EXPERTS // self.ranks, (self.rank + 1) * EXPERTS // self.ranks)
        for name in ("w_up_gate", "w_down"):
            self.near(getattr(many.experts, name).grad, getattr(one.experts, name).grad[share], name)

    def test_leases_come_back(self):
        layer = make_layer(self.world, 2.0)
        weights_of(layer, self.rank, self.ranks)
        for _ in range(3):
            layer(tokens_of(self.rank, 9).to(self.world.device).requires_grad_()).sum().backward()
            self.world.check()
        self.assertEqual(self.world.pool_usage().leases, 0)


if __name__ == "__main__":
    unittest.main(failfast=True)
