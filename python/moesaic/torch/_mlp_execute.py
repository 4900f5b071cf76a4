# SPDX-License-Identifier: Apache-2.0
"""The SwiGLU expert from tensors to its planned launches, as _execute has it for the product.

Intermediates come from torch's allocator for each call, so that they are counted and reused like
every other tensor, by graphs too; the workspace, which keeps records, is that of the stream.
"""

import torch

from .. import _host, _library, _mlp
from . import _execute, _workspace

_NAMES = {"y": "out", "dy": "grad_out", "dx": "input_grad_out", "dw_up_gate": "w_up_gate_grad_out",
          "dw_down": "w_down_grad_out"}

GRADIENTS = ("dx", "dw_up_gate", "dw_down", "drow_weights")


def describe(x, w_up_gate, w_down, offs, order, row_weights=None, x_rows=None):
    """The checked call; works on fake tensors too."""
    tensors = dict(zip(_mlp.INPUTS, (x, w_up_gate, w_down, offs)))
    tensors.update(_mlp.of_rows(row_weights, x_rows)[0])
    return _mlp.check({name: _execute.view(name, tensor) for name, tensor in tensors.items()}, order)


class _Entry:
    """A plan, the layout of its arguments, and whose memory its intermediates come from."""

    def __init__(self, call, tensors, args_type, **options):
        views = {name: _execute.view(_NAMES.get(name, name), tensor)
                 for name, tensor in tensors.items()}
        self.plan = _mlp.Plan(call, num_sms=_execute.num_sms(), names=_NAMES, **options)
        self.layout = _mlp.layout(args_type, views)
        self.index = call.device[1] if call.device[0] == "cuda" else -1


def _entry(kind, tensors, call_tensors, order, args_type, **options):
    key = (kind, order, *options.values(), _execute.num_sms(),
           *((name, tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
             for name, tensor in tensors.items()))
    entry = _execute.plans.get(key)
    if entry is None:
        call = describe(*call_tensors, order, tensors.get("row_weights"), tensors.get("x_rows"))
        entry = _execute.remember(key, _Entry(call, tensors, args_type, **options))
    return entry


def _launch(entry, run, tensors, workspace_bytes, scratch_bytes):
    addresses = {name: tensor.data_ptr() for name, tensor in tensors.items()}
    device = tensors["x"].device
    intermediates = torch.empty(scratch_bytes + _host.ALIGNMENT, dtype=torch.uint8, device=device)
    scratch = _host.aligned(intermediates.data_ptr(), scratch_bytes)
    if entry.index < 0:
        held = _host.workspace(workspace_bytes)
        run(entry.layout, addresses, (held.data, held.size_bytes), scratch)
        return _host.collect_fault(held)
    stream = _execute.raw_stream(entry.index)
    workspace = _workspace.address(entry.index, stream, workspace_bytes)
    return run(entry.layout, addresses, workspace, scratch, stream)


def rows_of(x, x_rows):
    """How many rows the layer has."""
    return (x if x_rows is None else x_rows).shape[0]


def forward(x, w_up_gate, w_down, offs, out, order, save, zero_tail, row_weights=None, x_rows=None):
    """(y, u): y is `out` or a fresh tensor, u [M, 2h] what backward reads, or None unless saved."""
    inputs = (x, w_up_gate, w_down, offs)
    if x.dim() != 2 or w_up_gate.dim() != 3:
        describe(*inputs, order)  # raises
    rows = rows_of(x, x_rows)
    tensors = dict(zip(_mlp.INPUTS, inputs))
    tensors["y"] = (torch.empty((rows, x.shape[1]), dtype=x.dtype, device=x.device) if out is None
                    else out)
    u = None
    if save:
        u = tensors["u"] = torch.empty((rows, w_up_gate.shape[1]), dtype=x.dtype, device=x.device)
    present, options = _mlp.of_rows(row_weights, x_rows)
    tensors.update(present)
    entry = _entry("mlp", tensors, inputs, order, _library.ExpertMlpForwardArgs, save=save,
                   tail="zero" if zero_tail else "leave", **options)
    if out is not None:
        _execute.increment_version(out)
    plan = entry.plan
    _launch(entry, plan.forward, tensors, plan.forward_bytes, plan.forward_scratch_bytes)
    return tensors["y"], u


def backward(grad, x, w_up_gate, w_down, offs, u, gradients, order, zero_tail, accumulate,
             row_weights=None, x_rows=None):
    """Writes those of `gradients` (dx, dw_up_gate, dw_down, drow_weights) that are not None."""
    inputs = (x, w_up_gate, w_down, offs)
    tensors = dict(zip(_mlp.INPUTS, inputs))
    tensors["dy"] = grad
    if u is not None:
        tensors["u"] = u
    present, options = _mlp.of_rows(row_weights, x_rows)
    tensors.update(present)
    written = {name: tensor for name, tensor in zip(GRADIENTS, gradients) if tensor is not None}
    tensors.update(written)
    weights = [tensor for name, tensor in written.items() if name.startswith("dw_")]
    dtype = weights[0].dtype if weights else x.dtype
    entry = _entry("mlp backward", tensors, inputs, order, _library.ExpertMlpBackwardArgs,
                   save=u is not None, tail="zero" if zero_tail else "leave", **options,
                   wgrad_dtype=_execute.dtype_name(dtype), accumulate=accumulate)
    for tensor in written.values():
        _execute.increment_version(tensor)
    plan = entry.plan
    _launch(entry, plan.backward, tensors, plan.backward_bytes, plan.backward_scratch_bytes)
