# SPDX-License-Identifier: Apache-2.0
"""Between tokens and rows sorted by expert, on the device alone: nothing is read by the host."""

from typing import NamedTuple, Optional

import torch


class Gather(NamedTuple):
    """Which token each row is. Where a routing is known, a token has top_k rows, and row_of_route
    [T * k] names them; else any row may be any token, or, out of range, none at all."""
    token_of_row: Optional[torch.Tensor] = None
    row_of_route: Optional[torch.Tensor] = None
    top_k: int = 0


class Routing(NamedTuple):
    """T tokens with k routes each; route r = token * k + place. Rows of no expert come last."""
    offs: torch.Tensor  # int32 [E]
    route_of_row: torch.Tensor  # int64 [T * k]
    row_of_route: torch.Tensor  # int64 [T * k]
    top_k: int

    @property
    def gather(self):
        return Gather(self.route_of_row // self.top_k, self.row_of_route, self.top_k)


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


def _nobody(gather, num_tokens):
    index = gather.token_of_row
    return ((index < 0) | (index >= num_tokens)).unsqueeze(1)


def as_kernels_read(gather, num_tokens):
    """With int32 indices, side by side; what is outside of the tokens stays outside."""
    index = gather.token_of_row
    if index is None:
        return gather
    if index.dtype != torch.int32 and gather.row_of_route is None:
        index = index.clamp(-1, num_tokens)
    return gather._replace(token_of_row=index.to(torch.int32).contiguous())


def zero_rows_of_nobody(row_numbers, gather, num_tokens):
    """One number per row; that of a row of no token depends on nothing."""
    if gather.token_of_row is None or gather.row_of_route is not None:
        return row_numbers
    return row_numbers.masked_fill(_nobody(gather, num_tokens).squeeze(1), 0)


def sum_rows(rows, gather, num_tokens):
    """[T, d]: each token's rows summed, in FP32 and in one order."""
    if gather.row_of_route is not None:
        routes = rows.index_select(0, gather.row_of_route)
        return routes.view(-1, gather.top_k, rows.shape[1]).sum(1)
    if num_tokens == 0:
        return rows[:0]
    rows = rows.masked_fill(_nobody(gather, num_tokens), 0)
    index = gather.token_of_row.clamp(0, num_tokens - 1).long()
    if rows.device.type == "cpu":
        wide = torch.zeros((num_tokens, rows.shape[1]), dtype=torch.float32)
        return wide.index_add_(0, index, rows.float()).to(rows.dtype)
    # On CUDA index_add_ has no order; this sorts. It rounds after each row, hence FP32.
    summed = rows.new_zeros((num_tokens, rows.shape[1]), dtype=torch.float32)
    return summed.index_put_((index,), rows.float(), accumulate=True).to(rows.dtype)


class _Permute(torch.autograd.Function):
    """rows[index] of a permutation; its gradient needs no atomics, since `back` is its inverse."""

    @staticmethod
    def forward(ctx, rows, index, back):
        ctx.save_for_backward(back)
        return rows.index_select(0, index)

    @staticmethod
    def backward(ctx, grad):
        (back,) = ctx.saved_tensors
        return grad.index_select(0, back), None, None


def to_tokens(rows, weights, routing):
    """[T * k, d] and weights [T, k] -> [T, d], each token the weighted sum of its rows."""
    routes = _Permute.apply(rows, routing.row_of_route, routing.route_of_row)
    routes = routes.view(-1, routing.top_k, rows.shape[-1])
    dtype = torch.promote_types(routes.dtype, weights.dtype)
    return torch.bmm(weights.to(dtype).unsqueeze(1), routes.to(dtype)).squeeze(1)
