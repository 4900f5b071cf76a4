#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MoELayer over several ranks equals the layer of one rank within BF16 rounding, outputs and all
gradients, on skewed histograms and on recorded routing: on simulated ranks, or, where
scripts/run_ranks.sh starts it, between GPUs.

MOESAIC_EP_ROUTES names recordings, .npy files of bytes [tokens, layers, topk], with a colon between
them; a number of experts may follow after «=» (else the largest id says it): routes.npy=64:other.npy"""

import os
import unittest

from torch_cases import BF16

import torch

from moesaic.torch import ep

from ep_routing import GivenRoutes, ids_of, read_routes, shares, skewed_counts

ON_GPUS = "MOESAIC_RENDEZVOUS" in os.environ
D, H, MOST_TOKENS = (512, 256, 8192) if ON_GPUS else (64, 32, 192)
# Two roundings to BF16, of the value or, where it is small, of what is usual among its neighbours.
TOLERANCE = 2 ** -6


def groups():
    """Pairs of a group with several ranks and one of a single rank."""
    if not ON_GPUS:
        return [(ep.ExpertParallelGroup.simulated(ranks), ep.ExpertParallelGroup.simulated(1)) for ranks in (2, 4)]
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    store = torch.distributed.FileStore(os.environ["MOESAIC_RENDEZVOUS"] + "/routing_store", ranks)
    made = [ep.ExpertParallelGroup.from_store(torch.distributed.PrefixStore(prefix, store), own, count,
                                              heap_bytes=2 << 30, timeout=20)
            for prefix, own, count in (("world", rank, ranks), (f"alone/{rank}", 0, 1))]
    return [tuple(made)]


def recordings():
    """(name, experts, ids [tokens, topk]) of the first, a middle and the last layer of each file."""
    for word in filter(None, os.environ.get("MOESAIC_EP_ROUTES", "").split(":")):
        path, _, experts = word.partition("=")
        routes = read_routes(path)
        experts = int(experts) if experts else int(routes.max()) + 1
        for layer in sorted({0, routes.shape[1] // 2, routes.shape[1] - 1}):
            yield f"{os.path.basename(path)} layer {layer}", experts, routes[:MOST_TOKENS, layer]


class Whole:
    """Tokens, probabilities, weights and a gradient of the output, of all ranks; made on the CPU, so
    that every rank has the same."""

    def __init__(self, ids, experts):
        generator = torch.Generator().manual_seed(3)

        def normal(*shape, scale=1.0):
            return (torch.randn(shape, generator=generator) * scale).to(BF16)
        tokens = ids.shape[0]
        self.ids, self.x, self.dy = ids, normal(tokens, D), normal(tokens, D)
        self.probs = torch.rand(ids.shape, generator=generator)
        self.probs /= self.probs.sum(1, keepdim=True)
        self.weights = {"w_up_gate": normal(experts, 2 * H, D, scale=D ** -0.5),
                        "w_down": normal(experts, D, H, scale=H ** -0.5)}


class Routing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.groups = groups()

    def step(self, whole, experts, group, max_tokens, parts, capacity_factor, dispatch="direct"):
        """One forward and backward. parts: of each rank, its tokens. Results by name, of local ranks."""
        exchange = ep.Exchange(group, num_experts=experts, topk=whole.ids.shape[1], max_tokens=max_tokens,
                               hidden_size=D, capacity_factor=capacity_factor, dispatch=dispatch)
        layer = GivenRoutes(exchange, H, order="up_gate")
        modules = [layer.experts] if group.num_local_ranks == 1 else layer.experts
        leaves, local = [], exchange.local_experts
        for rank, module in zip(group.local_ranks, modules):
            for name, weight in whole.weights.items():
                getattr(module, name).data.copy_(weight[rank * local:(rank + 1) * local])
            x, probs = (value[parts[rank]].to(group.device).requires_grad_() for value in (whole.x, whole.probs))
            leaves.append((x, probs, whole.ids[parts[rank]].to(group.device)))
        layer.given = [(probs, ids) for _, probs, ids in leaves]
        outs = exchange.as_list("outs", layer(exchange.as_given([x for x, _, _ in leaves])))
        torch.autograd.backward(outs, [whole.dy[parts[rank]].to(group.device) for rank in group.local_ranks])
        group.check()
        self.assertEqual(exchange.read_fault(), exchange.as_given([None] * group.num_local_ranks))
        self.assertEqual(exchange.dropped_routes(), exchange.as_given([0] * group.num_local_ranks))
        results = {"output": [out.detach() for out in outs],
                   "gradient of tokens": [x.grad for x, _, _ in leaves],
                   "gradient of probs": [probs.grad for _, probs, _ in leaves],
                   "gradient of w_up_gate": [module.w_up_gate.grad for module in modules],
                   "gradient of w_down": [module.w_down.grad for module in modules]}
        del outs
        exchange.destroy()
        return results

    def near(self, got, want, what):
        self.assertEqual(got.shape, want.shape, what)
        self.assertTrue(bool(got.isfinite().all()), f"{what}: not finite")
        if not got.numel():
            return 0
        got, want = got.float(), want.float()
        scale = want.pow(2).mean().sqrt()
        worst = float(((got - want).abs() / (scale + want.abs()).clamp_min(1e-30)).max())
        self.assertLess(worst, TOLERANCE, what)
        return int((got != want).sum())

    def check(self, name, experts, ids):
        whole = Whole(ids, experts)
        tokens = ids.shape[0]
        for many, one in self.groups:
            ranks = many.num_ranks
            if experts % ranks:
                continue  # every rank holds as many experts
            sizes = shares(tokens, ranks)
            parts = [slice(sum(sizes[:rank]), sum(sizes[:rank + 1])) for rank in range(ranks)]
            want = self.step(whole, experts, one, tokens, [slice(0, tokens)], 1.0)
            for dispatch in ("direct", "fan_out"):
                with self.subTest(name, ranks=ranks, dispatch=dispatch):
                    got = self.step(whole, experts, many, max(sizes), parts, float(ranks), dispatch)
                    local, other = experts // ranks, 0
                    for what, pieces in got.items():
                        for rank, piece in zip(many.local_ranks, pieces):
                            part = slice(rank * local, (rank + 1) * local) if "w_" in what else parts[rank]
                            other += self.near(piece, want[what][0][part], f"{what} of rank {rank}")
                    total = sum(piece.numel() for pieces in got.values() for piece in pieces)
                    print(f"{name}, {ranks} ranks, {dispatch}: {tokens} tokens, {experts} experts; {other} of {total} "
                          "elements have other bits than on one rank")

    def test_a_skewed_histogram(self):
        for experts, topk, tokens in ((16, 4, MOST_TOKENS), (32, 8, MOST_TOKENS // 2)):
            counts = skewed_counts(experts, tokens, topk)
            ids = ids_of(counts, topk)
            self.assertEqual(torch.bincount(ids.flatten(), minlength=experts).tolist(), counts)
            self.assertTrue(bool((ids.sort(1).values.diff(dim=1) > 0).all()), "an expert twice in a token")
            self.check(f"skewed {experts}x{topk}", experts, ids)

    def test_recorded_routing(self):
        cases = list(recordings())
        if not cases:
            print("SKIPPED the recorded routing: MOESAIC_EP_ROUTES names no file")
            self.skipTest("MOESAIC_EP_ROUTES names no file")
        for name, experts, ids in cases:
            self.check(name, experts, ids)


if __name__ == "__main__":
    unittest.main(failfast=True)
