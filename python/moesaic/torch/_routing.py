# SPDX-License-Identifier: Apache-2.0
"""Between tokens and rows sorted by expert, on the device alone: nothing is read by the host."""

from typing import NamedTuple

import torch


class Routing(NamedTuple):
    """T tokens with k routes each; route r = token * k + place. Rows of no expert come last."""
    offs: torch.Tensor  # int32 [E]
    route_of_row: torch.Tensor  # int64 [T * k]
    row_of_route: torch.Tensor  # int64 [T * k]
    top_k: int

    @property
    def token_of_row(self):
        return self.route_of_row // self.top_k


def sort_routes(top_k_index, num_experts):
    """The routing of top_k_index [T, k]. Ids below 0 and from num_experts on are routes of no
    expert. Within an expert, rows keep the order of their tokens."""
    ids = top_k_index.reshape(-1)
    ids = torch.where(ids < 0, num_experts, ids).clamp(max=num_experts)
    sorted_ids, route_of_row = torch.sort(ids, stable=True)
    experts = torch.arange(num_experts, device=ids.device, dtype=sorted_ids.dtype)
    offs = torch.searchsorted(sorted_ids, experts, right=True, out_int32=True)
    rows = torch.arange(route_of_row.numel(), device=ids.device)
    row_of_route = torch.empty_like(route_of_row).scatter_(0, route_of_row, rows)
    return Routing(offs, route_of_row, row_of_route, top_k_index.shape[-1])


class _Gather(torch.autograd.Function):
    """source[index], whose every row is taken `repeats` times; `back` finds the takers of a row, so
    that its gradient is one sum of them, in FP32 and in the same order each time, with no atomics."""

    @staticmethod
    def forward(ctx, source, index, back, repeats):
        ctx.save_for_backward(back)
        ctx.repeats = repeats
        return source.index_select(0, index)

    @staticmethod
    def backward(ctx, grad):
        (back,) = ctx.saved_tensors
        taken = grad.index_select(0, back)
        if ctx.repeats > 1:
            taken = taken.view(-1, ctx.repeats, grad.shape[-1]).sum(1)
        return taken, None, None, None


def to_rows(tokens, routing):
    """[T, d] -> [T * k, d], sorted by expert."""
    return _Gather.apply(tokens, routing.token_of_row, routing.row_of_route, routing.top_k)


def to_tokens(rows, weights, routing):
    """[T * k, d] and weights [T, k] -> [T, d], each token the weighted sum of its rows."""
    routes = _Gather.apply(rows, routing.row_of_route, routing.route_of_row, 1)
    routes = routes.view(-1, routing.top_k, rows.shape[-1])
    dtype = torch.promote_types(routes.dtype, weights.dtype)
    return torch.bmm(weights.to(dtype).unsqueeze(1), routes.to(dtype)).squeeze(1)
