# SPDX-License-Identifier: Apache-2.0
"""What ep_torch_arm.py needs of PyTorch and moesaic: the ranks of this process, their operands, the arms, whether they agree, times."""
import os
import time
from pathlib import Path

import torch

import ep_torch_moe as moe
from moesaic.torch import ep
from torch_device import compare

BF16 = torch.bfloat16
# Of an element, against it and what is usual beside it: some roundings to BF16 more in one arm than in the other.
LAYER_TOLERANCE = 0.05
# Rows carry one sign of each token, so that roundings of probabilities, products and the sum alone remain.
SUM_TOLERANCE = 2 ** -6


def draw_ids(exponent, tokens, topk, num_experts, seed, rank):
    """[tokens, topk], expert e with weight (e + 1) ** -exponent, none twice in a token; the same on every process."""
    weights = torch.arange(1, num_experts + 1, dtype=torch.float64) ** -exponent
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    return torch.multinomial(weights.expand(tokens, num_experts), topk, generator=generator)


def traffic_of(ids, num_experts):
    """What travels, of the ids of all ranks."""
    ranks = len(ids)
    owners = [torch.bincount((one // (num_experts // ranks)).flatten(), minlength=ranks) for one in ids]
    sent = torch.stack(owners)
    remote = sent - torch.diag(sent.diag())
    return {"routes": int(sent.sum()), "max_rows_used": int(sent.sum(0).max()), "remote_out_rows": int(remote.sum(1).max()),
            "remote_in_rows": int(remote.sum(0).max())}


class GivenRoutes(ep.MoELayer):
    """The layer with given ids: the router says how much each counts."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.ids, self.next = [], 0

    def probs_of(self, tokens, router):
        """Of the next local rank, with its ids."""
        ids = self.ids[self.next % len(self.ids)]
        self.next += 1
        logits = torch.nn.functional.linear(tokens.float(), router.float())
        probs = logits.softmax(-1).gather(1, ids)
        return probs / probs.sum(-1, keepdim=True), ids

    def route(self, tokens):
        return self.probs_of(tokens, self.router.weight)


class Site:
    """The ranks of this process: one GPU of several processes, or, with flags.simulated, all on the CPU."""

    def __init__(self, flags):
        self.flags = flags
        self.cuda = not flags.simulated
        if self.cuda:
            self._join()
        else:
            self.group, self.peers = ep.ExpertParallelGroup.simulated(flags.simulated), moe.LocalPeers(flags.simulated)
        self.writes = self.peers.local_ranks[0] == 0
        self.device = self.group.device
        self.num_ranks = self.peers.num_ranks
        # No route is dropped: PyTorch drops none either.
        self.exchange = ep.Exchange(self.group, num_experts=flags.experts, topk=flags.topk, max_tokens=flags.tokens,
                                    hidden_size=flags.d, capacity_factor=float(self.num_ranks), dispatch=flags.dispatch)
        self.dispatch = self.exchange.dispatch  # the form taken
        self.circumstances = self._circumstances()

    def _join(self):
        rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", rank)))
        torch.cuda.set_device(device)
        store = torch.distributed.FileStore(os.environ["MOESAIC_RENDEZVOUS"] + "/torch_arm", ranks)
        torch.distributed.init_process_group("nccl", store=torch.distributed.PrefixStore("nccl", store), rank=rank,
                                             world_size=ranks, device_id=device)
        flags = self.flags
        heap_bytes = (1 << 30) + 6 * ranks * flags.tokens * flags.topk * flags.d * BF16.itemsize
        self.group = ep.ExpertParallelGroup.from_store(torch.distributed.PrefixStore("moesaic", store), rank, ranks, device=device,
                                                       heap_bytes=heap_bytes, timeout=30)
        self.peers = moe.ProcessPeers()

    def _circumstances(self):
        version = Path("/proc/driver/nvidia/version")
        words = version.read_text(encoding="utf-8").split() if self.cuda and version.exists() else []
        return {"device": {"name": torch.cuda.get_device_name(self.device) if self.cuda else "CPU", "ranks": self.num_ranks,
                           "transport": "nvshmem" if self.cuda else "simulated",
                           "driver": next((word for word in words if word.count(".") == 2 and word.replace(".", "").isdigit()), ""),
                           "cuda": f"CUDA {torch.version.cuda}" if self.cuda else ""},
                "toolchain": {"torch": torch.__version__,
                              "nccl": ".".join(map(str, torch.cuda.nccl.version())) if self.cuda else ""}}

    def share(self, value):
        """A number from every process, in their order."""
        if not self.cuda:
            return [float(value)]
        own = torch.tensor([float(value)], dtype=torch.float64, device=self.device)
        all_of_them = own.new_empty(self.num_ranks)
        torch.distributed.all_gather_into_tensor(all_of_them, own)
        return all_of_them.tolist()

    def prepare(self, comparison, routing):
        """Operands of a comparison on a routing; returns {arm: implementation}."""
        self._forget()
        flags = self.flags
        ids = [draw_ids(routing.exponent, flags.tokens, flags.topk, flags.experts, flags.seed, rank) for rank in range(self.num_ranks)]
        self.traffic = traffic_of(ids, flags.experts)
        self.max_rows = self.exchange.max_rows
        self.ids = [ids[rank].to(self.device) for rank in self.peers.local_ranks]
        self.x, self.dy, self.probs = [], [], []
        for rank in self.peers.local_ranks:
            generator = torch.Generator(self.device).manual_seed(77 + rank)
            where = {"generator": generator, "device": self.device}
            self.x.append(torch.randn(flags.tokens, flags.d, dtype=BF16, **where))
            self.dy.append(torch.randn(flags.tokens, flags.d, dtype=BF16, **where))
            self.probs.append(torch.rand(flags.tokens, flags.topk, **where))
        return getattr(self, "_prepare_" + comparison)()

    # Rows out to the ranks of their experts and back, without experts between.

    def _prepare_exchange(self):
        exchange = self.exchange
        self.torch_rows, self.rows = None, exchange.lease_rows()
        self.outs = exchange.as_given([torch.empty_like(one) for one in self.x])
        put = "dispatch_put_fan_out" if self.dispatch == "fan_out" else "dispatch_put"
        self.arms = {"moesaic": (self._moesaic_exchange, f"maps+{put}+combine_get_fused"),
                     "torch": (self._torch_exchange, "all_to_all_single, rows back by index assignment, product and sum"),
                     "torch_lean": (self._torch_lean_exchange, "all_to_all_single, rows back by inverse permutations, bmm")}
        self.check = self._check_exchange
        return {arm: words for arm, (_, words) in self.arms.items()}

    @torch.no_grad()
    def _moesaic_exchange(self):
        exchange, given = self.exchange, self.exchange.as_given
        self.maps = exchange.route_maps(given(self.ids))
        maps = [self.maps] if self.group.num_local_ranks == 1 else self.maps
        columns = given([one.dst_ranks for one in maps]), given([one.dst_rows for one in maps])
        ep.rowwise_dispatch_put(given(self.x), self.rows, *columns, exchange)
        ep.rowwise_combine_get_fused(self.rows, self.outs, *columns, exchange, probs=given(self.probs))
        return exchange.as_list("outs", self.outs)

    @torch.no_grad()
    def _torch_exchange(self):
        outs, self.torch_rows = moe.exchange_plainly(self.peers, self.x, self.ids, self.probs, self.flags.experts)
        return outs

    @torch.no_grad()
    def _torch_lean_exchange(self):
        self.routes = moe.find_routes(self.peers, self.ids, self.flags.experts)
        self.torch_rows = moe.dispatch(self.peers, self.x, self.routes, self.flags.topk)
        return moe.combine(self.peers, self.torch_rows, self.routes, self.probs)

    def _check_exchange(self):
        """Rows bit for bit where they arrive; sums against the tokens themselves, since nothing changed the rows."""
        sums, arrived = [], {}
        for arm, (call, _) in self.arms.items():
            sums += [(out, x.double() * probs.double().sum(1, keepdim=True)) for out, x, probs in zip(call(), self.x, self.probs)]
            arrived[arm] = self.torch_rows
        maps = [self.maps] if self.group.num_local_ranks == 1 else self.maps
        own = [rows[:int(one.offs[-1])] for one, rows in zip(maps, self.exchange.as_list("rows", self.rows))]
        check = compare(sums, SUM_TOLERANCE)
        same = [(rows, wanted) for arm in ("torch", "torch_lean") for rows, wanted in zip(own, arrived[arm])]
        same += [(one.offs, routes.offs) for one, routes in zip(maps, self.routes)]
        for rows, wanted in same:
            check["elements"] += wanted.numel()
            check["mismatches"] += int((rows != wanted).sum()) if rows.shape == wanted.shape else wanted.numel()
        self.torch_rows = self.routes = None
        return self._of_all(check)

    def _of_all(self, check):
        return {"reference": self.REFERENCES[self.check.__name__], "elements": int(sum(self.share(check["elements"]))),
                "mismatches": int(sum(self.share(check["mismatches"]))), "worst_element": max(self.share(check["worst_element"]))}

    REFERENCES = {"_check_exchange": "rows bit for bit against PyTorch's, sums against the tokens",
                  "_check_layer": "outputs and gradients against PyTorch's"}

    # A layer, forward and backward.

    def _prepare_layer(self):
        torch.manual_seed(5)
        layer = GivenRoutes(self.exchange, self.flags.h, order="up_gate")
        with torch.no_grad():  # of all ranks alike
            router = torch.randn(layer.router.weight.shape, generator=torch.Generator().manual_seed(6)) / self.flags.d ** 0.5
            layer.router.weight.copy_(router)
        layer.ids = self.ids
        other = moe.Layer(self.peers, layer, layer.probs_of)
        self.x = [one.requires_grad_() for one in self.x]
        self.layers = {"moesaic": (layer, lambda: self.exchange.as_list("outs", layer(self.exchange.as_given(self.x)))),
                       "torch": (other, lambda: other(self.x))}
        self.arms = {arm: (lambda arm=arm: self._step(arm), words) for arm, words in
                     (("moesaic", "moesaic.torch.ep.MoELayer"), ("torch", "all_to_all_single, grouped_mm, silu * up"))}
        self.check = self._check_layer
        return {arm: words for arm, (_, words) in self.arms.items()}

    def _step(self, arm):
        module, call = self.layers[arm]
        for leaf in (*module.parameters(), *self.x):
            leaf.grad = None
        outs = call()
        torch.autograd.backward(outs, self.dy)
        return outs

    def _check_layer(self):
        results = {}
        for arm, (module, _) in self.layers.items():
            outs = [out.detach() for out in self._step(arm)]
            # Parameters in the order router, w_up_gate of all local ranks, w_down of all.
            names = sorted(module.named_parameters(), key=lambda one: ("router" not in one[0], "w_down" in one[0]))
            results[arm] = outs + [one.grad for one in self.x] + [parameter.grad for _, parameter in names]
            for leaf in (*module.parameters(), *self.x):
                leaf.grad = None
        return self._of_all(compare(list(zip(results["moesaic"], results["torch"])), LAYER_TOLERANCE))

    # Times.

    def meet(self):
        if self.cuda:
            torch.cuda.synchronize()
            torch.distributed.barrier(device_ids=[self.device.index])
            torch.cuda.synchronize()

    def sample(self, arm, calls):
        """Seconds of each of `calls` calls without a gap; ranks begin together."""
        call, _ = self.arms[arm]
        self.meet()
        if not self.cuda:
            begin = time.perf_counter()
            for _ in range(calls):
                call()
            return (time.perf_counter() - begin) / calls
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        for _ in range(calls):
            call()
        after.record()
        torch.cuda.synchronize()
        self.group.check()
        return before.elapsed_time(after) / 1000 / calls

    def _forget(self):
        self.x = self.dy = self.probs = self.rows = self.outs = self.torch_rows = self.layers = self.arms = None

    def close(self):
        self._forget()
        self.group.close()
        if self.cuda:
            torch.distributed.destroy_process_group()
