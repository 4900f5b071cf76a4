# SPDX-License-Identifier: Apache-2.0
"""A planned exchange: the operations on rows, without derivatives."""

import ctypes
from typing import NamedTuple

import torch

from .. import _gemm, _library
from .._errors import refuse
from . import _execute
from ._ep_group import check_status

_FAULTS = ("none", "expert_out_of_range", "rank_out_of_range", "row_out_of_range")
_DISPATCH_FORMS = {"auto": 0, "direct": 1, "fan_out": 2}
_INT32_MAX = 2**31 - 1


class RouteMaps(NamedTuple):
    """Where one rank's routes go, and which rows its own experts get."""
    dst_ranks: torch.Tensor  # int32 [tokens, topk]; -1: no route, or dropped
    dst_rows: torch.Tensor  # int32 [tokens, topk]
    offs: torch.Tensor  # int32 [E / R]: end row of each local expert
    kept: torch.Tensor  # int32 [E / R]: rows of each local expert


class RouteFault(NamedTuple):
    """The lowest bad route of a rank."""
    kind: str
    token: int
    slot: int
    value: int


class Exchange:
    """An exchange of rows among the ranks of `group`: shapes, a plan, a workspace. Collective.

    num_experts      of all ranks, a multiple of their number.
    topk             slots of a token.
    max_tokens       T: no rank has more tokens in a call; each may have fewer, also none.
    hidden_size      elements of a row, a multiple of 8.
    capacity_factor  every rank has room for ceil(capacity_factor * T * topk) rows, `max_rows`;
                     routes past it are dropped.
    dtype            torch.bfloat16 or torch.float32.
    dispatch         "direct": a token travels once for each of its rows; "fan_out": once to each
                     rank, which copies it there; "auto": whichever is expected to be faster for
                     these sizes. The same bits. `exchange.dispatch` is then the form taken.

    Operations of one group must not overlap in time: one stream, or events between streams.
    """

    def __init__(self, group, *, num_experts, topk, max_tokens, hidden_size, capacity_factor=1.25,
                 dtype=torch.bfloat16, dispatch="auto"):
        name = _execute.dtype_name(dtype)
        if name not in ("bf16", "f32"):
            refuse("dtype", "torch.bfloat16 or torch.float32", dtype)
        _gemm.check_word("dispatch", dispatch, _DISPATCH_FORMS)
        self.group, self.dtype = group, dtype
        self.num_experts, self.topk, self.max_tokens = num_experts, topk, max_tokens
        self.hidden_size = hidden_size
        problem = _library.EpProblem(
            format=_gemm.FORMATS[name], num_experts=num_experts, topk=topk, max_tokens=max_tokens,
            d=hidden_size, dispatch=_DISPATCH_FORMS[dispatch],
            capacity_factor_millionths=round(capacity_factor * 1e6) or -1)
        self._native, handle = group.native, ctypes.c_void_p()
        check_status(group.rendezvous, group.native.moesaic_ep_create(problem, group.handle, handle))
        self._handle = handle.value
        form = self._native.moesaic_ep_dispatch_form(handle)
        self.dispatch = next(word for word, number in _DISPATCH_FORMS.items() if number == form)
        self.max_rows = self._native.moesaic_ep_max_rows(handle)
        self.local_experts = num_experts // group.num_ranks
        self.implementation = self._native.moesaic_ep_implementation(handle).decode()
        size = self._native.moesaic_ep_workspace_bytes(handle)
        self._memory = [torch.zeros(size + 256, dtype=torch.uint8, device=group.device)
                        for _ in range(group.num_local_ranks)]
        self._workspaces = [_library.Workspace(memory.data_ptr() + -memory.data_ptr() % 256, size)
                            for memory in self._memory]
        if group.device.type == "cuda":  # zeroed before any other stream uses them
            torch.cuda.current_stream(group.device).synchronize()

        group.exchanges.add(self)

    def destroy(self):
        """Ends the plan; group.close() does it too."""
        if getattr(self, "_handle", None):
            handle, self._handle = self._handle, None
            self._native.moesaic_ep_destroy(handle)

    def __del__(self):
        if getattr(self, "group", None) is not None and self.group.handle:
            self.destroy()

    # One tensor where this process has one rank, a list of one per rank where it has several.

    def as_list(self, argument, value):
        if self.group.num_local_ranks == 1 and isinstance(value, torch.Tensor):
            return [value]
        if not isinstance(value, (list, tuple)) or len(value) != self.group.num_local_ranks:
            refuse(argument, f"a list with an entry for each of the {self.group.num_local_ranks} "
                   "local ranks", f"{len(value)} entries" if isinstance(value, (list, tuple))
                   else type(value).__name__)
        return list(value)

    def as_given(self, values):
        return values[0] if self.group.num_local_ranks == 1 else list(values)

    def lease_rows(self):
        """Uninitialized [max_rows, hidden_size] that peers can reach, for each local rank."""
        return self.as_given(self.group.lease((self.max_rows, self.hidden_size), self.dtype))

    # Operations on lists.

    def _run(self, function, args_type, entries, *more):
        names = [name for name, _ in args_type._fields_ if name != "workspace"]
        args = (args_type * len(entries))()
        for rank, (target, entry) in enumerate(zip(args, entries)):
            for name in names:
                tensor = entry.get(name)
                if tensor is not None:
                    argument = name if len(entries) == 1 else f"{name}[{rank}]"
                    setattr(target, name, _gemm.to_struct(_view(argument, tensor),
                                                          tensor.data_ptr()))
            if hasattr(target, "workspace"):
                target.workspace = self._workspaces[rank]
        if not self.group.handle:
            self.group.call("group_check", None)  # says that it is closed
        status = getattr(self._native, "moesaic_ep_" + function)(
            self._handle, args, len(entries), *more, self.group.stream)
        check_status(self.group.rendezvous, status)

    def _maps(self, expert_ids):
        made = []
        for ids in expert_ids:
            if ids.is_floating_point() or ids.dtype == torch.bool or ids.dim() != 2:
                refuse("expert_ids", f"integers [tokens, {self.topk}]",
                       _execute.view("expert_ids", ids))
            # An id that no int32 holds stays a fault.
            ids = ids.clamp(max=_INT32_MAX).to(torch.int32).contiguous()
            empty = [torch.empty(n, dtype=torch.int32, device=ids.device)
                     for n in (ids.shape, ids.shape, self.local_experts, self.local_experts)]
            made.append((ids, RouteMaps(*empty)))
        self._run("route_maps", _library.EpRouteMapsArgs,
                  [{"expert_ids": ids, **maps._asdict()} for ids, maps in made])
        return [maps for _, maps in made]

    def route_maps(self, expert_ids):
        """The maps of a layer from the ids of all ranks, integers [tokens, topk]; collective, one
        barrier, nothing on the host. A negative id is no route; one from num_experts on is a fault
        and no route."""
        return self.as_given(self._maps(self.as_list("expert_ids", expert_ids)))

    def put(self, inputs, outs, ranks, rows, probs, options):
        self._run("dispatch_put", _library.EpDispatchPutArgs,
                  [dict(zip(("input", "out", "dst_ranks", "dst_rows", "probs"), entry))
                   for entry in zip(inputs, outs, ranks, rows, probs)], options)

    def combine(self, rows_in, outs, ranks, rows, probs, gathered, options, fused):
        self._run("combine_get_fused" if fused else "combine_get", _library.EpCombineGetArgs,
                  [dict(zip(("expert_out", "out", "src_ranks", "src_rows", "probs", "gathered"),
                            entry)) for entry in zip(rows_in, outs, ranks, rows, probs, gathered)],
                  options)

    def gather(self, rows_in, gathered, ranks, rows, options):
        self._run("gather_get", _library.EpGatherGetArgs,
                  [dict(zip(("expert_out", "gathered", "src_ranks", "src_rows"), entry))
                   for entry in zip(rows_in, gathered, ranks, rows)], options)

    def probs_grad(self, gathered, dout, ranks, rows, dprobs):
        self._run("probs_grad", _library.EpProbsGradArgs,
                  [dict(zip(("gathered", "dout", "src_ranks", "src_rows", "dprobs"), entry))
                   for entry in zip(gathered, dout, ranks, rows, dprobs)])

    # What operations left for the host. Each waits for the stream.

    def read_fault(self):
        """The lowest bad route since the last call, cleared; None where there was none."""
        found = []
        for workspace in self._workspaces:
            fault = _library.EpRouteFault()
            check_status(self.group.rendezvous, self._native.moesaic_ep_read_fault(
                self._handle, workspace, self.group.stream, fault))
            found.append(RouteFault(_FAULTS[fault.kind], fault.token, fault.slot, fault.value)
                         if fault.kind else None)
        return self.as_given(found)

    def dropped_routes(self):
        """Routes of this rank that found no room in the last route_maps."""
        found = []
        for workspace in self._workspaces:
            dropped = ctypes.c_int64()
            check_status(self.group.rendezvous, self._native.moesaic_ep_read_dropped_routes(
                self._handle, workspace, self.group.stream, dropped))
            found.append(dropped.value)
        return self.as_given(found)


def _view(argument, tensor):
    view = _execute.view(argument, tensor)
    if view.dtype not in _gemm.DTYPES:
        refuse(argument, "bfloat16, float32 or int32", view)
    return view


def transfer_options(nblocks, pre_barrier, post_barrier):
    return _library.EpOptions(nblocks, int(pre_barrier), int(post_barrier))
