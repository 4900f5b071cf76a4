# SPDX-License-Identifier: Apache-2.0
"""torch.ops.moesaic.swiglu_mlp*: the SwiGLU expert as operators, and its derivative.

U, where it is saved, is a result of the forward operators, [0, 2h] where it is not. A gradient that
is not wanted is an empty tensor. row_weights are float32 [M], x_rows int32 [M]: x is then [T, d], and
dx still [M, d] where a backward operator writes it.
"""

from typing import NamedTuple, Optional

import torch
from torch import library

from .._errors import Unsupported, refuse
from . import _execute, _mlp_execute, _ops, _routing

_INPUTS = "Tensor x, Tensor w_up_gate, Tensor w_down, Tensor offs"
_ROWS = "Tensor? row_weights=None, Tensor? x_rows=None"
_ops.OPERATORS.define(f"swiglu_mlp({_INPUTS}, str order, bool save, bool zero_tail=True, "
                      f"{_ROWS}) -> (Tensor, Tensor)", tags=_ops.TAGS)
_ops.OPERATORS.define(f"swiglu_mlp_out({_INPUTS}, Tensor(a!) out, str order, bool save, {_ROWS}) -> Tensor",
                      tags=_ops.TAGS)
_ops.OPERATORS.define(f"swiglu_mlp_backward(Tensor grad_out, {_INPUTS}, Tensor? u, str order, "
                      f"bool[4] wanted, {_ROWS}) -> (Tensor, Tensor, Tensor, Tensor)",
                      tags=_ops.TAGS)
_ops.OPERATORS.define(f"swiglu_mlp_backward_out(Tensor grad_out, {_INPUTS}, Tensor? u, Tensor(a!)? dx, "
                      "Tensor(b!)? dw_up_gate, Tensor(c!)? dw_down, str order, bool zero_tail=False, "
                      "bool accumulate=False, Tensor? row_weights=None, Tensor(d!)? drow_weights=None, "
                      "Tensor? x_rows=None) -> ()", tags=_ops.TAGS)


class Buffers(NamedTuple):
    """The caller's memory for results; None where the call makes a tensor."""
    out: Optional[torch.Tensor] = None
    input_grad: Optional[torch.Tensor] = None
    w_up_gate_grad: Optional[torch.Tensor] = None
    w_down_grad: Optional[torch.Tensor] = None


def _unsaved(x, w_up_gate):
    return x.new_empty((0, w_up_gate.shape[1]))


def _swiglu_mlp(x, w_up_gate, w_down, offs, order, save, zero_tail=True, row_weights=None, x_rows=None):
    y, u = _mlp_execute.forward(x, w_up_gate, w_down, offs, None, order, save, zero_tail, row_weights,
                                x_rows)
    return y, _unsaved(x, w_up_gate) if u is None else u


def _swiglu_mlp_out(x, w_up_gate, w_down, offs, out, order, save, row_weights=None, x_rows=None):
    _, u = _mlp_execute.forward(x, w_up_gate, w_down, offs, out, order, save, False, row_weights, x_rows)
    return _unsaved(x, w_up_gate) if u is None else u


def _shape_of_dx(x, x_rows):
    return (_mlp_execute.rows_of(x, x_rows), x.shape[1])


def _gradients_like(x, w_up_gate, w_down, row_weights, x_rows, wanted):
    """Fresh dense gradients of the rows, both weights and row_weights; None where none is wanted."""
    if wanted[3] and row_weights is None:
        refuse("row_weights", "a tensor, since its gradient is wanted", None)
    shapes = (_shape_of_dx(x, x_rows), w_up_gate.shape, w_down.shape, wanted[3] and row_weights.shape)
    return tuple(torch.empty(shape, dtype=like.dtype, device=like.device) if want else None
                 for shape, like, want in zip(shapes, (x, w_up_gate, w_down, row_weights), wanted))


def _backward(grad_out, x, w_up_gate, w_down, offs, u, order, wanted, row_weights=None, x_rows=None):
    gradients = _gradients_like(x, w_up_gate, w_down, row_weights, x_rows, wanted)
    _mlp_execute.backward(grad_out, x, w_up_gate, w_down, offs, u, gradients, order, True, False,
                          row_weights, x_rows)
    return tuple(x.new_empty(0) if gradient is None else gradient for gradient in gradients)


def _backward_out(grad_out, x, w_up_gate, w_down, offs, u, dx, dw_up_gate, dw_down, order,
                  zero_tail=False, accumulate=False, row_weights=None, drow_weights=None,
                  x_rows=None):
    _mlp_execute.backward(grad_out, x, w_up_gate, w_down, offs, u,
                          (dx, dw_up_gate, dw_down, drow_weights), order, zero_tail, accumulate,
                          row_weights, x_rows)


for _name, _kernel in (("swiglu_mlp", _swiglu_mlp), ("swiglu_mlp_out", _swiglu_mlp_out),
                       ("swiglu_mlp_backward", _backward),
                       ("swiglu_mlp_backward_out", _backward_out)):
    for _key in ("CPU", "CUDA"):
        _ops.OPERATORS.impl(_name, _kernel, _key)


def _fake_u(x, w_up_gate, x_rows, save):
    rows = _mlp_execute.rows_of(x, x_rows)
    return x.new_empty((rows, w_up_gate.shape[1])) if save else _unsaved(x, w_up_gate)


@library.register_fake("moesaic::swiglu_mlp", lib=_ops.OPERATORS)
def _(x, w_up_gate, w_down, offs, order, save, zero_tail=True, row_weights=None, x_rows=None):
    _mlp_execute.describe(x, w_up_gate, w_down, offs, order, row_weights, x_rows)
    return x.new_empty(_shape_of_dx(x, x_rows)), _fake_u(x, w_up_gate, x_rows, save)


@library.register_fake("moesaic::swiglu_mlp_out", lib=_ops.OPERATORS)
def _(x, w_up_gate, w_down, offs, out, order, save, row_weights=None, x_rows=None):
    _mlp_execute.describe(x, w_up_gate, w_down, offs, order, row_weights, x_rows)
    return _fake_u(x, w_up_gate, x_rows, save)


@library.register_fake("moesaic::swiglu_mlp_backward", lib=_ops.OPERATORS)
def _(grad_out, x, w_up_gate, w_down, offs, u, order, wanted, row_weights=None, x_rows=None):
    _mlp_execute.describe(x, w_up_gate, w_down, offs, order, row_weights, x_rows)
    return tuple(x.new_empty(0) if gradient is None else gradient
                 for gradient in _gradients_like(x, w_up_gate, w_down, row_weights, x_rows, wanted))


@library.register_fake("moesaic::swiglu_mlp_backward_out", lib=_ops.OPERATORS)
def _(grad_out, x, w_up_gate, w_down, offs, u, dx, dw_up_gate, dw_down, order, zero_tail=False,
      accumulate=False, row_weights=None, drow_weights=None, x_rows=None):
    _mlp_execute.describe(x, w_up_gate, w_down, offs, order, row_weights, x_rows)


def _refuse_second(*_):
    raise Unsupported("swiglu_mlp: expected to be differentiated once (no second derivative is "
                      "written), got a backward through its backward")


def _run_backward(grad, inputs, wanted, order):
    """Fresh gradients of the rows, both weights and row_weights, None where none is wanted."""
    x, w_up_gate, w_down, offs, row_weights, x_rows, u = inputs
    grad = _ops.as_rows(grad, x.dtype)
    found = torch.ops.moesaic.swiglu_mlp_backward(grad, x, w_up_gate, w_down, offs, u, order,
                                                  list(wanted), row_weights, x_rows)
    return tuple(gradient if want else None for gradient, want in zip(found, wanted))


def _save(ctx, inputs, output):
    x, w_up_gate, w_down, offs, ctx.order, ctx.saved_u, _, row_weights, x_rows = inputs
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(x, w_up_gate, w_down, offs, row_weights, x_rows,
                          *(output[1:] if ctx.saved_u else ()))


def _swiglu_mlp_backward(ctx, grad, _):
    gradients = None, None, None, None
    if grad is not None:
        inputs = ctx.saved_tensors if ctx.saved_u else (*ctx.saved_tensors, None)
        needs = ctx.needs_input_grad  # ends where the caller's arguments do
        dx, *others = _run_backward(grad, inputs, (*needs[:3], any(needs[7:8])), ctx.order)
        gradients = _of_tokens(dx, inputs[0], inputs[5]), *others
    return *gradients[:3], None, None, None, None, gradients[3], None


library.register_autograd("moesaic::swiglu_mlp", _swiglu_mlp_backward, setup_context=_save,
                          lib=_ops.OPERATORS)
library.register_autograd("moesaic::swiglu_mlp_backward", _refuse_second, lib=_ops.OPERATORS)


def _of_tokens(dx, x, x_rows):
    """The gradient of x from that of its rows."""
    return dx if dx is None or x_rows is None else _routing.sum_rows(dx, _routing.Gather(x_rows),
                                                                     x.shape[0])


def forward(inputs, out, order, save, zero_tail):
    """(y, u), by the shortest way there is; u is None unless saved."""
    *tensors, row_weights, x_rows = inputs
    plain = (_execute.is_plain(*tensors[:2], tensors[3], out) and
             _execute.is_plain(*tensors[1:], row_weights) and
             (x_rows is None or _execute.is_plain(*tensors[1:3], x_rows)))
    if plain:
        return _mlp_execute.forward(*tensors, out, order, save, zero_tail, row_weights, x_rows)
    if out is None:
        y, u = torch.ops.moesaic.swiglu_mlp(*tensors, order, save, zero_tail, row_weights, x_rows)
    else:
        u = torch.ops.moesaic.swiglu_mlp_out(*tensors, out, order, save, row_weights, x_rows)
        y = out
    return y, u if save else None


class SwigluMlp(torch.autograd.Function):
    """The differentiable expert, over buffers of the caller too, which take no part in autograd."""

    @staticmethod
    def forward(ctx, x, w_up_gate, w_down, offs, row_weights, gather, order, recompute, buffers,
                accumulate):
        ctx.order, ctx.buffers, ctx.accumulate = order, buffers, accumulate
        inputs = (x, w_up_gate, w_down, offs, row_weights, gather.token_of_row)
        y, u = forward(inputs, buffers.out, order, not recompute, buffers.out is None)
        ctx.top_k = gather.top_k
        ctx.save_for_backward(*inputs, u, gather.row_of_route)
        return y if buffers.out is None else buffers.out.detach()

    @staticmethod
    def backward(ctx, grad):
        *inputs, row_of_route = ctx.saved_tensors
        x, token_of_row = inputs[0], inputs[5]
        gather = _routing.Gather(token_of_row, row_of_route, ctx.top_k)
        needs = ctx.needs_input_grad
        buffers, wanted = ctx.buffers, (*needs[:3], needs[4])
        if all(buffer is None for buffer in buffers[1:]):
            dx, *dw, drow_weights = _run_backward(grad, inputs, wanted, ctx.order)
        else:
            given = buffers if token_of_row is None else buffers._replace(input_grad=None)
            dx, *dw, drow_weights = Managed.apply(grad, *inputs, wanted, ctx.order, given,
                                                  ctx.accumulate)
        if dx is not None and token_of_row is not None:
            dx = _routing.sum_rows(dx, gather, x.shape[0])
            if buffers.input_grad is not None:
                dx = buffers.input_grad.copy_(dx).detach()
        if drow_weights is not None:
            drow_weights = _routing.zero_rows_of_nobody(drow_weights, gather, x.shape[0])
        return dx, *dw, None, drow_weights, None, None, None, None, None


class Managed(torch.autograd.Function):
    """The backward that writes into buffers of the caller; a Function only to refuse a second."""

    @staticmethod
    def forward(ctx, grad, x, w_up_gate, w_down, offs, row_weights, x_rows, u, wanted, order,
                buffers, accumulate):
        grad = _ops.as_rows(grad, x.dtype)
        given = buffers[1:]
        # One launch writes both weight gradients: beside a buffer, a fresh one is of its type.
        dtype = next((buffer.dtype for buffer in given[1:] if buffer is not None), x.dtype)
        targets = []
        for like, want, buffer in zip((x, w_up_gate, w_down), wanted, given):
            if want and buffer is None:
                make = torch.zeros if accumulate and like is not x else torch.empty
                shape = _shape_of_dx(x, x_rows) if like is x else like.shape
                buffer = make(shape, dtype=x.dtype if like is x else dtype, device=x.device)
            targets.append(buffer if want else None)
        # The launch leaves the tail of dx in a buffer as it is, and so that of drow_weights.
        drow_weights = torch.zeros_like(row_weights) if wanted[3] else None
        torch.ops.moesaic.swiglu_mlp_backward_out(grad, x, w_up_gate, w_down, offs, u, *targets,
                                                  order, given[0] is None, accumulate, row_weights,
                                                  drow_weights, x_rows)
        dx, dw_up_gate, dw_down = targets
        return (None if dx is None else dx.detach(),
                dw_up_gate.to(x.dtype) if wanted[1] and given[1] is None else None,
                dw_down.to(x.dtype) if wanted[2] and given[2] is None else None,
                drow_weights)

    backward = staticmethod(_refuse_second)
