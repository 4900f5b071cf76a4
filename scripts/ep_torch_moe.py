# SPDX-License-Identifier: Apache-2.0
"""Expert parallelism in PyTorch alone, what ep_torch_arm.py times moesaic against: sort by expert, all_to_all_single,
sort by local expert, and the same way back. Everything takes and returns lists with an entry for each rank of this process."""
from typing import NamedTuple

import torch

GROUPED_MM = getattr(torch.nn.functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, sends, receives):
        ctx.splits = sends, receives
        out = rows.new_empty((sum(receives), *rows.shape[1:]))
        torch.distributed.all_to_all_single(out, rows.contiguous(), receives, sends)
        return out

    @staticmethod
    def backward(ctx, grad):
        sends, receives = ctx.splits
        return _AllToAll.apply(grad, receives, sends), None, None


class ProcessPeers:
    """One rank in this process; the others are those of torch.distributed's default group."""

    def __init__(self):
        self.num_ranks = torch.distributed.get_world_size()
        self.local_ranks = [torch.distributed.get_rank()]

    def all_to_all(self, rows, sends, receives):
        """rows[i]: of local rank i, in the order of their destinations; sends[i][r] of them go to rank r, receives[i][r] come from it."""
        return [_AllToAll.apply(rows[0], sends[0], receives[0])]


class LocalPeers:
    """All ranks in this process, on the CPU: what ProcessPeers does, for tests."""

    def __init__(self, num_ranks):
        self.num_ranks = num_ranks
        self.local_ranks = list(range(num_ranks))

    def all_to_all(self, rows, sends, receives):
        pieces = [one.split(counts) for one, counts in zip(rows, sends)]
        outs = [torch.cat([pieces[source][rank] for source in self.local_ranks]) for rank in self.local_ranks]
        for rank, out in enumerate(outs):
            if out.shape[0] != sum(receives[rank]):
                raise ValueError(f"receives[{rank}]: expected {out.shape[0]} rows in all, got {receives[rank]}")
        return outs


class _Permute(torch.autograd.Function):
    """rows[index] of a permutation, whose gradient is rows[back]: no atomics."""

    @staticmethod
    def forward(ctx, rows, index, back):
        ctx.save_for_backward(index, back)
        return rows.index_select(0, index)

    @staticmethod
    def backward(ctx, grad):
        index, back = ctx.saved_tensors
        return _Permute.apply(grad, back, index), None, None


class _Spread(torch.autograd.Function):
    """Tokens to the routes in the order of `order`; back, each token's rows are summed."""

    @staticmethod
    def forward(ctx, tokens, order, back, topk):
        ctx.save_for_backward(back)
        ctx.topk = topk
        return tokens.index_select(0, order // topk)

    @staticmethod
    def backward(ctx, grad):
        (back,) = ctx.saved_tensors
        return grad.index_select(0, back).view(-1, ctx.topk, grad.shape[1]).sum(1), None, None, None


class Routes(NamedTuple):
    """Where the routes of one rank go, and which rows its experts get."""
    order: torch.Tensor  # [T * topk]: routes by expert
    back: torch.Tensor  # its inverse
    by_expert: torch.Tensor  # received rows by local expert
    by_source: torch.Tensor  # its inverse
    offs: torch.Tensor  # int32 [E / R]
    sends: list
    receives: list


def _inverse(permutation):
    return torch.empty_like(permutation).scatter_(0, permutation, torch.arange(permutation.numel(), device=permutation.device))


def find_routes(peers, ids, num_experts):
    """ids[i]: [T, topk] of local rank i, all in range. Waits for the device once: all_to_all_single wants its splits on the host."""
    local = num_experts // peers.num_ranks
    sorted_ids, orders, counts = [], [], []
    for one in ids:
        by_expert, order = torch.sort(one.flatten(), stable=True)
        ends = torch.searchsorted(by_expert, torch.arange(num_experts, device=one.device), right=True)
        counts.append(torch.diff(ends, prepend=ends.new_zeros(1)).view(peers.num_ranks, local))
        sorted_ids.append(by_expert)
        orders.append(order)
    ones = [[1] * peers.num_ranks] * len(ids)
    received = peers.all_to_all(counts, ones, ones)
    made = []
    for order, sent, got in zip(orders, counts, received):
        sends, receives = torch.stack([sent.sum(1), got.sum(1)]).tolist()
        experts = torch.arange(local, device=got.device).repeat(peers.num_ranks)
        experts = torch.repeat_interleave(experts, got.flatten(), output_size=sum(receives))
        by_expert = torch.argsort(experts, stable=True)
        made.append(Routes(order, _inverse(order), by_expert, _inverse(by_expert), got.sum(0).cumsum(0).to(torch.int32), sends,
                           receives))
    return made


def dispatch(peers, tokens, routes, topk):
    """[T, d] of each rank -> rows by local expert, then source rank, then route."""
    rows = [_Spread.apply(one, own.order, own.back, topk) for one, own in zip(tokens, routes)]
    rows = peers.all_to_all(rows, [own.sends for own in routes], [own.receives for own in routes])
    return [_Permute.apply(one, own.by_expert, own.by_source) for one, own in zip(rows, routes)]


def combine(peers, rows, routes, probs):
    """Rows and probs [T, topk] -> [T, d], summed by one batched product, probs rounded to the rows' type."""
    rows = [_Permute.apply(one, own.by_source, own.by_expert) for one, own in zip(rows, routes)]
    rows = peers.all_to_all(rows, [own.receives for own in routes], [own.sends for own in routes])
    rows = [_Permute.apply(one, own.back, own.order) for one, own in zip(rows, routes)]
    return [torch.bmm(p.to(one.dtype).unsqueeze(1), one.view(*p.shape, one.shape[1])).squeeze(1) for one, p in zip(rows, probs)]


def exchange_plainly(peers, tokens, ids, probs, num_experts):
    """Out and back as it is written first: rows are put back by assignment to an index, weighted, then summed. Returns the
    sums and the rows as the experts would get them."""
    local, topk = num_experts // peers.num_ranks, ids[0].shape[1]
    orders = [torch.argsort(one.flatten(), stable=True) for one in ids]
    counts = [torch.bincount(one.flatten(), minlength=num_experts).view(peers.num_ranks, local) for one in ids]
    ones = [[1] * peers.num_ranks] * len(ids)
    received = peers.all_to_all(counts, ones, ones)
    sends, receives = ([one.sum(1).tolist() for one in some] for some in (counts, received))
    rows = peers.all_to_all([one[order // topk] for one, order in zip(tokens, orders)], sends, receives)
    by_expert = [torch.argsort(torch.repeat_interleave(torch.arange(local, device=one.device).repeat(peers.num_ranks), one.flatten()),
                               stable=True) for one in received]
    rows = [one[index] for one, index in zip(rows, by_expert)]
    back = []
    for one, index in zip(rows, by_expert):
        back.append(torch.empty_like(one))
        back[-1][index] = one
    outs = []
    for one, order, p in zip(peers.all_to_all(back, receives, sends), orders, probs):
        routed = torch.empty_like(one)
        routed[order] = one
        outs.append((routed.view(*p.shape, one.shape[1]) * p.to(one.dtype).unsqueeze(-1)).sum(1))
    return outs, rows


class Layer(torch.nn.Module):
    """Router, dispatch, SwiGLU experts by grouped_mm, combine. `route(tokens)` gives probs and ids of the next local rank.
    Weights are copies of those of a moesaic.torch.ep.MoELayer whose order is up_gate."""

    def __init__(self, peers, layer, route):
        super().__init__()
        self.peers, self.route = peers, route
        self.num_experts, self.topk = layer.exchange.num_experts, layer.exchange.topk
        self.router = torch.nn.Parameter(layer.router.weight.detach().clone())
        experts = [layer.experts] if len(peers.local_ranks) == 1 else layer.experts
        self.w_up_gate = torch.nn.ParameterList([one.w_up_gate.detach().clone() for one in experts])
        self.w_down = torch.nn.ParameterList([one.w_down.detach().clone() for one in experts])

    def _expert(self, index, rows, offs):
        u = GROUPED_MM(rows, self.w_up_gate[index].transpose(-2, -1), offs=offs)
        up, gate = u.chunk(2, -1)
        return GROUPED_MM(torch.nn.functional.silu(gate) * up, self.w_down[index].transpose(-2, -1), offs=offs)

    def forward(self, tokens):
        routed = [self.route(one, self.router) for one in tokens]
        routes = find_routes(self.peers, [ids for _, ids in routed], self.num_experts)
        rows = dispatch(self.peers, tokens, routes, self.topk)
        outs = [self._expert(index, one, own.offs) for index, (one, own) in enumerate(zip(rows, routes))]
        return combine(self.peers, outs, routes, [probs for probs, _ in routed])
