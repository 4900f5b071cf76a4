# SPDX-License-Identifier: Apache-2.0
"""dispatch and combine as nodes of autograd, over lists with an entry for each local rank.

A buffer of the pool may have been another call's a moment ago, on which a slow rank still works: a
PUT here waits for all ranks before it writes, and so does a copy into leased memory.
"""

import torch

from .._errors import Unsupported
from ._ep_exchange import transfer_options


def _put_options(nblocks):
    return transfer_options(nblocks, True, True)


def _get_options(nblocks):
    return transfer_options(nblocks, True, False)


def _refuse_second(*_):
    raise Unsupported("expert parallelism: expected to be differentiated once, got a backward "
                      "through its backward")


def lease_list(exchange):
    return exchange.group.lease((exchange.max_rows, exchange.hidden_size), exchange.dtype)


def in_leased(exchange, rows):
    """The rows in memory that peers can reach: as they are where they lie in it, else copied."""
    wanted = (exchange.max_rows, exchange.hidden_size)
    if all(tuple(one.shape) == wanted and one.is_contiguous() and exchange.group.owns(index, one)
           for index, one in enumerate(rows)):
        return rows
    leased = lease_list(exchange)
    exchange.group.barrier()
    for target, source in zip(leased, rows):
        target.copy_(source)
    return leased


def _columns(maps):
    return [one.dst_ranks for one in maps], [one.dst_rows for one in maps]


def _rows(grads, shapes, like):
    """Dense gradients; zeros where there is none, since every rank takes part."""
    return [one.new_zeros(shape) if grad is None else grad.to(one.dtype).contiguous()
            for grad, shape, one in zip(grads, shapes, like)]


class Dispatch(torch.autograd.Function):
    """Tokens out to the rows of their experts; back, the sum of what their rows got."""

    @staticmethod
    def forward(ctx, exchange, maps, nblocks, *inputs):
        ctx.exchange, ctx.maps, ctx.nblocks = exchange, maps, nblocks
        ctx.tokens = [one.shape[0] for one in inputs]
        ctx.set_materialize_grads(False)
        outs = lease_list(exchange)
        ranks, rows = _columns(maps)
        exchange.put(inputs, outs, ranks, rows, [None] * len(outs), _put_options(nblocks))
        return tuple(outs)

    @staticmethod
    def backward(ctx, *grads):
        exchange = ctx.exchange
        like = torch.empty(0, dtype=exchange.dtype, device=exchange.group.device)
        shape = (exchange.max_rows, exchange.hidden_size)
        grads = _rows(grads, [shape] * len(grads), [like] * len(grads))
        found = CombineRows.apply(exchange, ctx.maps, ctx.nblocks, ctx.tokens, *grads)
        return None, None, None, *found


class CombineRows(torch.autograd.Function):
    """The gradient of dispatch; a Function only to refuse a second derivative."""

    @staticmethod
    def forward(ctx, exchange, maps, nblocks, tokens, *grads):
        grads = in_leased(exchange, grads)
        outs = [grads[0].new_empty((count, exchange.hidden_size)) for count in tokens]
        nothing = [None] * len(outs)
        exchange.combine(grads, outs, *_columns(maps), nothing, nothing, _get_options(nblocks), True)
        return tuple(outs)

    backward = staticmethod(_refuse_second)


class Combine(torch.autograd.Function):
    """Rows back to their tokens, weighted and summed. First the rows of all ranks, then the probs,
    then out."""

    @staticmethod
    def forward(ctx, exchange, maps, nblocks, fused, *tensors):
        count = exchange.group.num_local_ranks
        rows, probs = tensors[:count], tensors[count:]
        ctx.exchange, ctx.maps, ctx.nblocks = exchange, maps, nblocks
        ctx.set_materialize_grads(False)
        outs = [one.new_empty((p.shape[0], exchange.hidden_size)) for one, p in zip(rows, probs)]
        gathered = [None] * count
        if any(ctx.needs_input_grad[4 + count:]):
            gathered = [one.new_empty((p.shape[0], exchange.topk, exchange.hidden_size))
                        for one, p in zip(rows, probs)]
        exchange.combine(in_leased(exchange, rows), outs, *_columns(maps), probs, gathered,
                         _get_options(nblocks), fused)
        ctx.save_for_backward(*probs, *gathered)
        return tuple(outs)

    @staticmethod
    def backward(ctx, *grads):
        count = len(grads)
        found = CombineGrad.apply(ctx.exchange, ctx.maps, ctx.nblocks, ctx.needs_input_grad[4:],
                                  *grads, *ctx.saved_tensors)
        return None, None, None, None, *(one if wanted else None for one, wanted in
                                         zip(found, ctx.needs_input_grad[4:4 + 2 * count]))


class CombineGrad(torch.autograd.Function):
    """The gradients of combine's rows and probs."""

    @staticmethod
    def forward(ctx, exchange, maps, nblocks, wanted, *tensors):
        count = exchange.group.num_local_ranks
        grads, probs, gathered = (tensors[i * count:(i + 1) * count] for i in range(3))
        like = torch.empty(0, dtype=exchange.dtype, device=exchange.group.device)
        shapes = [(p.shape[0], exchange.hidden_size) for p in probs]
        grads = _rows(grads, shapes, [like] * count)
        ranks, rows = _columns(maps)
        drows, dprobs = [None] * count, [None] * count
        if any(wanted[:count]):
            drows = lease_list(exchange)
            exchange.put(grads, drows, ranks, rows, probs, _put_options(nblocks))
        if any(wanted[count:]):
            dprobs = [torch.empty_like(p) for p in probs]
            exchange.probs_grad(gathered, grads, ranks, rows, dprobs)
        return (*drows, *dprobs)

    backward = staticmethod(_refuse_second)
