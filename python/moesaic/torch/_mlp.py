# SPDX-License-Identifier: Apache-2.0
"""The SwiGLU expert for tensors: what a call must be."""

import torch

from .. import _mlp
from .._errors import refuse
from . import _arguments, _execute, _mlp_execute, _mlp_ops, _routing


def swiglu_mlp(x, w_up_gate, w_down, *, offs, order, recompute=False, x_rows=None, row_weights=None,
               out=None, input_grad_out=None, w_up_gate_grad_out=None, w_down_grad_out=None,
               accumulate_wgrad=False):
    """The SwiGLU expert, (up * silu(gate)) W_down^T with [up gate] = x W_up_gate^T, differentiable.

    x [M, d], w_up_gate [E, 2h, d], w_down [E, d, h], both row-major, offs int32 [E] on the same
    device -> [M, d]. offs[e] is the end row of expert e; rows at or past offs[-1] are never read,
    and are zero in a tensor that is made here, output or input gradient, and left in one that is
    given.

    order            which lines of w_up_gate are up: "up_gate" (the first h), "gate_up" (the last
                     h) or "interleaved" (the even ones). There is no default.
    recompute        keep x alone for backward and compute U [M, 2h] again there, instead of keeping
                     U: the same bits, 2*M*2h bytes less in BF16, 4*M*d*h more FLOPs.
    x_rows           integers [M]: which row of x, now [T, d], each row is. On CUDA rows are read
                     where they lie, elsewhere copied while a call runs; backward keeps x and not
                     the M rows. A row of x may come any number of times; an index outside of x is
                     a row of zeros without a gradient.
    row_weights      float32, bfloat16 or float16 [M]: what each row of the result is multiplied by,
                     in FP32 and before it is rounded. Differentiable; those of rows at or past
                     offs[-1] are never read and have a gradient of zero. Under autocast they stay as
                     they are. On the CPU they cost 4*M*d bytes while forward runs.
    out              receives the result; what comes back shares its memory.
    input_grad_out   receives the gradient of x in backward; may be the memory of x.
    w_up_gate_grad_out, w_down_grad_out
                     receive the gradients of the weights, bfloat16 or float32, both of one type;
                     the weights themselves then get none.
    accumulate_wgrad adds to these buffers instead.

    A gradient that nothing requires is not computed. A buffer for one that nothing requires is
    refused, unless gradients are off altogether (torch.no_grad()). The result can be differentiated
    once. Wrong offsets harm nothing; read_fault() tells of them. Raises InvalidArgument by the
    argument's name before anything is launched.
    """
    _arguments.check_tensors(x=x, w_up_gate=w_up_gate, w_down=w_down, offs=offs)
    if x_rows is not None:
        _check_x_rows(x_rows, x)
    if row_weights is not None:
        row_weights = _as_row_weights(row_weights, x if x_rows is None else x_rows)
    buffers = _mlp_ops.Buffers(out, input_grad_out, w_up_gate_grad_out, w_down_grad_out)
    return run((x, w_up_gate, w_down, offs, row_weights), _routing.Gather(x_rows), order, recompute,
               buffers, accumulate_wgrad)


def _check_x_rows(x_rows, x):
    _arguments.check_tensors(x_rows=x_rows)
    if x_rows.dtype not in (torch.int32, torch.int64) or x_rows.dim() != 1:
        refuse("x_rows", "int32 or int64 [M]", _execute.view("x_rows", x_rows))
    if x_rows.device != x.device:
        refuse("x_rows", f"memory on {x.device}", f"memory on {x_rows.device}")
    if x.dim() != 2:
        refuse("x", "2 dimensions, [T, d]", _execute.view("x", x))


def _as_row_weights(row_weights, rows):
    """As the kernels read them, one for each of `rows`."""
    _arguments.check_tensors(row_weights=row_weights)
    if (row_weights.dtype not in (torch.float32, torch.bfloat16, torch.float16) or
            row_weights.shape != rows.shape[:1]):
        refuse("row_weights", f"float32, bfloat16 or float16 {list(rows.shape[:1])}, one for each row",
               _execute.view("row_weights", row_weights))
    if row_weights.device != rows.device:
        refuse("row_weights", f"memory on {rows.device}", f"memory on {row_weights.device}")
    return row_weights.to(torch.float32).contiguous()


def run(inputs, gather, order, recompute, buffers, accumulate_wgrad):
    """swiglu_mlp where `gather` may come from a routing."""
    x, w_up_gate, w_down = _arguments.autocast(*inputs[:3])
    offs, row_weights = inputs[3:]
    inputs = (x, w_up_gate, w_down, offs, row_weights)
    gather = _routing.as_kernels_read(gather, x.shape[0])
    if accumulate_wgrad and buffers.w_up_gate_grad is None and buffers.w_down_grad is None:
        refuse("w_up_gate_grad_out", "a buffer, or one for w_down_grad_out, since accumulate_wgrad "
               "is True", None)
    if any(buffer is not None for buffer in buffers):
        _check_buffers(inputs, gather, buffers, order)
    differentiable = inputs[:3] if row_weights is None else (*inputs[:3], row_weights)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in differentiable):
        return _mlp_ops.SwigluMlp.apply(*inputs, gather, order, bool(recompute), buffers,
                                        bool(accumulate_wgrad))
    y, _ = _mlp_ops.forward((*inputs, gather.token_of_row), buffers.out, order, False,
                            buffers.out is None)
    return y


def _check_buffers(inputs, gather, buffers, order):
    """All of them, those of backward too."""
    x, w_up_gate, w_down, offs, _ = inputs
    _mlp_execute.describe(x, w_up_gate, w_down, offs, order, x_rows=gather.token_of_row)
    if buffers.out is not None:
        rows = x.shape[0] if gather.token_of_row is None else gather.token_of_row.shape[0]
        _arguments.check_buffer("out", buffers.out, x)
        _arguments.check_rows_like("out", buffers.out, "x", x, rows)
    if buffers.input_grad is not None:
        _arguments.check_input_grad_out(buffers.input_grad, "x", x)
    dtypes = {}
    for argument, buffer, weights in (
            ("w_up_gate_grad_out", buffers.w_up_gate_grad, w_up_gate),
            ("w_down_grad_out", buffers.w_down_grad, w_down)):
        if buffer is not None:
            view = _arguments.check_weight_grad_out(argument, buffer, x)
            _mlp.check_weights(argument, view, tuple(weights.shape))
            dtypes[argument] = view
    if len({view.dtype for view in dtypes.values()}) == 2:
        refuse("w_down_grad_out", f"{dtypes['w_up_gate_grad_out'].dtype}, the type of "
               "w_up_gate_grad_out", dtypes["w_down_grad_out"])
    if torch.is_grad_enabled():
        _arguments.refuse_unused("input_grad_out", buffers.input_grad, "x", x)
        _arguments.refuse_unused("w_up_gate_grad_out", buffers.w_up_gate_grad, "w_up_gate", w_up_gate)
        _arguments.refuse_unused("w_down_grad_out", buffers.w_down_grad, "w_down", w_down)
