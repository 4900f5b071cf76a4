# SPDX-License-Identifier: Apache-2.0
"""Expert parallelism: tokens to the ranks that hold their experts, and back, differentiable.

    group = ep.ExpertParallelGroup.from_environment()          # one process per GPU, under torchrun
    exchange = ep.Exchange(group, num_experts=64, topk=8, max_tokens=8192, hidden_size=4096)
    maps = exchange.route_maps(expert_ids)
    rows = ep.dispatch(tokens, maps, exchange)                 # [max_rows, hidden_size], sorted
    y = moesaic.torch.swiglu_mlp(rows, w_up_gate, w_down, offs=maps.offs, order="up_gate",
                                 out=exchange.lease_rows(), input_grad_out=rows.detach())
    out = ep.combine(y, maps, probs, exchange)

or MoELayer, which is these lines behind a router. On a simulated group the same calls take and
return lists, one entry for each rank. Every call is collective.
"""

import torch

from .._errors import refuse
from . import _ep_autograd, _execute, _mlp
from ._ep_exchange import Exchange, RouteFault, RouteMaps, transfer_options
from ._ep_group import ExpertParallelGroup, PoolUsage
from .experts import SwiGLUExperts

__all__ = ["Exchange", "ExpertParallelGroup", "MoELayer", "PoolUsage", "RouteFault", "RouteMaps",
           "combine", "dispatch", "rowwise_combine_get", "rowwise_combine_get_fused",
           "rowwise_dispatch_put", "rowwise_gather_get"]


def _check_tokens(exchange, argument, tensors):
    for one in tensors:
        view = _execute.view(argument, one)
        if one.dtype != exchange.dtype or one.dim() != 2 or one.shape[1] != exchange.hidden_size:
            refuse(argument, f"{exchange.dtype} [rows, {exchange.hidden_size}]", view)


def _maps_list(exchange, maps):
    return [maps] if isinstance(maps, RouteMaps) else exchange.as_list("maps", maps)


@torch.compiler.disable
def dispatch(tokens, maps, exchange, *, nblocks=0):
    """tokens [T, d] -> [max_rows, d] on each rank: by local expert, then source rank, then route.
    Rows past maps.offs[-1] are stale. Its gradient sums what the rows of each token got."""
    inputs = exchange.as_list("tokens", tokens)
    _check_tokens(exchange, "tokens", inputs)
    inputs = [one.contiguous() for one in inputs]
    return exchange.as_given(_ep_autograd.Dispatch.apply(
        exchange, _maps_list(exchange, maps), nblocks, *inputs))


@torch.compiler.disable
def combine(rows, maps, probs, exchange, *, nblocks=0, fused=True):
    """rows [max_rows, d], probs [T, topk] -> [T, d]: each token's rows, weighted and summed in FP32,
    slots ascending, rounded once. Rows that lie in memory of exchange.lease_rows() are fetched from
    there; others are copied to such memory first.

    Where probs require a gradient the fetched rows [T, topk, d] are kept for it. `fused` fetches and
    sums in one kernel: the same bits.
    """
    given = exchange.as_list("rows", rows)
    _check_tokens(exchange, "rows", given)
    weights = [one.float().contiguous() for one in exchange.as_list("probs", probs)]
    return exchange.as_given(_ep_autograd.Combine.apply(
        exchange, _maps_list(exchange, maps), nblocks, fused, *given, *weights))


# The operations themselves, without derivatives. `out` of PUT and `expert_out` of GET are of
# exchange.lease_rows().


def _optional(exchange, argument, value):
    if value is None:
        return [None] * exchange.group.num_local_ranks
    return exchange.as_list(argument, value)


@torch.compiler.disable
@torch.no_grad()
def rowwise_dispatch_put(input, out, dst_ranks, dst_rows, exchange, *, probs=None, nblocks=0,
                         pre_barrier=False, post_barrier=True):
    """Writes each routed row of input, weighted by probs where they are given, into `out` of its
    rank. A row that is out of range is a fault; read_fault() tells of it."""
    named = (("input", input), ("out", out), ("dst_ranks", dst_ranks), ("dst_rows", dst_rows))
    exchange.put(*(exchange.as_list(*one) for one in named), _optional(exchange, "probs", probs),
                 transfer_options(nblocks, pre_barrier, post_barrier))


@torch.compiler.disable
@torch.no_grad()
def rowwise_combine_get(expert_out, out, src_ranks, src_rows, exchange, *, probs=None, nblocks=0,
                        gathered_out=None, pre_barrier=True, post_barrier=False, fused=False):
    """Fetches the rows that the maps name, and sums them per token into out, weighted by probs where
    they are given. gathered_out [T, topk, d] keeps the rows."""
    named = (("expert_out", expert_out), ("out", out), ("src_ranks", src_ranks),
             ("src_rows", src_rows))
    exchange.combine(*(exchange.as_list(*one) for one in named),
                     _optional(exchange, "probs", probs),
                     _optional(exchange, "gathered_out", gathered_out),
                     transfer_options(nblocks, pre_barrier, post_barrier), fused)


def rowwise_combine_get_fused(*args, **options):
    """rowwise_combine_get in one kernel: the same bits."""
    rowwise_combine_get(*args, **options, fused=True)


@torch.compiler.disable
@torch.no_grad()
def rowwise_gather_get(expert_out, gathered_out, src_ranks, src_rows, exchange, *, nblocks=0,
                       pre_barrier=True, post_barrier=False):
    """Fetches the rows that the maps name into gathered_out [T, topk, d]; zeros where there is
    none."""
    named = (("expert_out", expert_out), ("gathered_out", gathered_out), ("src_ranks", src_ranks),
             ("src_rows", src_rows))
    exchange.gather(*(exchange.as_list(*one) for one in named),
                    transfer_options(nblocks, pre_barrier, post_barrier))


class MoELayer(torch.nn.Module):
    """Router, dispatch, SwiGLU experts, combine.

    exchange           its shapes are the layer's: num_experts, topk, hidden_size, dtype.
    intermediate_size  h of each expert.
    order              of the lines of w_up_gate; see SwiGLUExperts.
    normalize          the topk probabilities of a token are divided by their sum.

    The router is a torch.nn.Linear, computed in FP32, whose weights have to be the same on all ranks,
    as data parallelism keeps them; `experts` hold this rank's share. On a simulated group `experts`
    is a ModuleList with an entry for each rank, and a call takes and returns lists.
    """

    def __init__(self, exchange, intermediate_size, *, order, normalize=True, recompute=False):
        super().__init__()
        self.exchange, self.normalize = exchange, normalize
        where = {"device": exchange.group.device, "dtype": exchange.dtype}
        self.router = torch.nn.Linear(exchange.hidden_size, exchange.num_experts, bias=False, **where)
        experts = [SwiGLUExperts(exchange.local_experts, exchange.hidden_size, intermediate_size,
                                 order=order, recompute=recompute, **where)
                   for _ in range(exchange.group.num_local_ranks)]
        self.experts = experts[0] if len(experts) == 1 else torch.nn.ModuleList(experts)

    def route(self, tokens):
        """Probabilities [T, topk] in FP32 and expert ids of one rank's tokens."""
        logits = torch.nn.functional.linear(tokens.float(), self.router.weight.float())
        probs, ids = logits.softmax(-1).topk(self.exchange.topk, -1)
        if self.normalize:
            probs = probs / probs.sum(-1, keepdim=True)
        return probs, ids

    def forward(self, hidden_states):
        """[..., hidden_size] -> the same shape; of each rank."""
        exchange = self.exchange
        given = exchange.as_list("hidden_states", hidden_states)
        tokens = [one.reshape(-1, one.shape[-1]) for one in given]
        routed = [self.route(one) for one in tokens]
        maps = exchange.route_maps(exchange.as_given([ids for _, ids in routed]))
        rows = dispatch(exchange.as_given(tokens), maps, exchange)
        outs = self._apply_experts(exchange.as_list("rows", rows), _maps_list(exchange, maps))
        summed = combine(exchange.as_given(outs), maps,
                         exchange.as_given([probs for probs, _ in routed]), exchange)
        return exchange.as_given([one.view(shaped.shape) for one, shaped in
                                  zip(exchange.as_list("out", summed), given)])

    def _apply_experts(self, rows, maps):
        experts = [self.experts] if isinstance(self.experts, SwiGLUExperts) else self.experts
        leased = self.exchange.as_list("rows", self.exchange.lease_rows())
        outs = []
        for one, own, expert, out in zip(rows, maps, experts, leased):
            # The gradient of the rows takes their place: peers fetch it from there.
            grad_out = one.detach() if one.requires_grad and torch.is_grad_enabled() else None
            outs.append(_mlp.swiglu_mlp(one, expert.w_up_gate, expert.w_down, offs=own.offs,
                                        order=expert.order, recompute=expert.recompute, out=out,
                                        input_grad_out=grad_out))
        return outs
