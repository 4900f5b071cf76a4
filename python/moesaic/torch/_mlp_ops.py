# SPDX-License-Identifier: Apache-2.0
"""torch.ops.moesaic.swiglu_mlp*: the SwiGLU expert as operators, and its derivative.

U, where it is saved, is a result of the forward operators, [0, 2h] where it is not. A gradient that
is not wanted is an empty tensor.
"""

from typing import NamedTuple, Optional

import torch

from .._errors import Unsupported
from . import _execute, _mlp_execute, _ops, _routing

_INPUTS = "Tensor x, Tensor w_up_gate, Tensor w_down, Tensor offs"
_library = _ops.library
_library.define(f"swiglu_mlp({_INPUTS}, str order, bool save, bool zero_tail=True) "
                "-> (Tensor, Tensor)", tags=_ops.TAGS)
_library.define(f"swiglu_mlp_out({_INPUTS}, Tensor(a!) out, str order, bool save) -> Tensor",
                tags=_ops.TAGS)
_library.define(f"swiglu_mlp_backward(Tensor grad_out, {_INPUTS}, Tensor? u, str order, "
                "bool[3] wanted) -> (Tensor, Tensor, Tensor)", tags=_ops.TAGS)
_library.define(f"swiglu_mlp_backward_out(Tensor grad_out, {_INPUTS}, Tensor? u, Tensor(a!)? dx, "
                "Tensor(b!)? dw_up_gate, Tensor(c!)? dw_down, str order, bool zero_tail=False, "
                "bool accumulate=False) -> ()", tags=_ops.TAGS)


class Buffers(NamedTuple):
    """The caller's memory for results; None where the call makes a tensor."""
    out: Optional[torch.Tensor] = None
    input_grad: Optional[torch.Tensor] = None
    w_up_gate_grad: Optional[torch.Tensor] = None
    w_down_grad: Optional[torch.Tensor] = None


def _unsaved(x, w_up_gate):
    return x.new_empty((0, w_up_gate.shape[1]))


def _swiglu_mlp(x, w_up_gate, w_down, offs, order, save, zero_tail=True):
    y, u = _mlp_execute.forward(x, w_up_gate, w_down, offs, None, order, save, zero_tail)
    return y, _unsaved(x, w_up_gate) if u is None else u


def _swiglu_mlp_out(x, w_up_gate, w_down, offs, out, order, save):
    _, u = _mlp_execute.forward(x, w_up_gate, w_down, offs, out, order, save, False)
    return _unsaved(x, w_up_gate) if u is None else u


def _gradients_like(x, w_up_gate, w_down, wanted):
    """Fresh dense gradients of (x, w_up_gate, w_down); None where none is wanted."""
    return tuple(torch.empty(like.shape, dtype=like.dtype, device=like.device) if want else None
                 for like, want in zip((x, w_up_gate, w_down), wanted))


def _backward(grad_out, x, w_up_gate, w_down, offs, u, order, wanted):
    gradients = _gradients_like(x, w_up_gate, w_down, wanted)
    _mlp_execute.backward(grad_out, x, w_up_gate, w_down, offs, u, gradients, order, True, False)
    return tuple(x.new_empty(0) if gradient is None else gradient for gradient in gradients)


def _backward_out(grad_out, x, w_up_gate, w_down, offs, u, dx, dw_up_gate, dw_down, order,
                  zero_tail=False, accumulate=False):
    _mlp_execute.backward(grad_out, x, w_up_gate, w_down, offs, u, (dx, dw_up_gate, dw_down), order,
                          zero_tail, accumulate)


for _name, _kernel in (("swiglu_mlp", _swiglu_mlp), ("swiglu_mlp_out", _swiglu_mlp_out),
                       ("swiglu_mlp_backward", _backward),
                       ("swiglu_mlp_backward_out", _backward_out)):
    for _key in ("CPU", "CUDA"):
        _library.impl(_name, _kernel, _key)


def _fake_u(x, w_up_gate, save):
    return x.new_empty((x.shape[0], w_up_gate.shape[1])) if save else _unsaved(x, w_up_gate)


@torch.library.register_fake("moesaic::swiglu_mlp", lib=_library)
def _(x, w_up_gate, w_down, offs, order, save, zero_tail=True):
    _mlp_execute.describe(x, w_up_gate, w_down, offs, order)
    return x.new_empty(x.shape), _fake_u(x, w_up_gate, save)


@torch.library.register_fake("moesaic::swiglu_mlp_out", lib=_library)
def _(x, w_up_gate, w_down, offs, out, order, save):
    _mlp_execute.describe(x, w_up_gate, w_down, offs, order)
    return _fake_u(x, w_up_gate, save)


@torch.library.register_fake("moesaic::swiglu_mlp_backward", lib=_library)
def _(grad_out, x, w_up_gate, w_down, offs, u, order, wanted):
    _mlp_execute.describe(x, w_up_gate, w_down, offs, order)
    return tuple(x.new_empty(0) if gradient is None else gradient
                 for gradient in _gradients_like(x, w_up_gate, w_down, wanted))


@torch.library.register_fake("moesaic::swiglu_mlp_backward_out", lib=_library)
def _(grad_out, x, w_up_gate, w_down, offs, u, dx, dw_up_gate, dw_down, order, zero_tail=False,
      accumulate=False):
    _mlp_execute.describe(x, w_up_gate, w_down, offs, order)


def _refuse_second(*_):
    raise Unsupported("swiglu_mlp: expected to be differentiated once (no second derivative is "
                      "written), got a backward through its backward")


def _run_backward(grad, inputs, wanted, order):
    """Fresh gradients, None where none is wanted."""
    x, w_up_gate, w_down, offs, u = inputs
    grad = _ops.as_rows(grad, x.dtype)
    found = torch.ops.moesaic.swiglu_mlp_backward(grad, x, w_up_gate, w_down, offs, u, order,
                                                  list(wanted))
    return tuple(gradient if want else None for gradient, want in zip(found, wanted))


def _save(ctx, inputs, output):
    x, w_up_gate, w_down, offs, ctx.order, ctx.saved_u, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(x, w_up_gate, w_down, offs, *(output[1:] if ctx.saved_u else ()))


def _swiglu_mlp_backward(ctx, grad, _):
    gradients = None, None, None
    if grad is not None:
        inputs = ctx.saved_tensors if ctx.saved_u else (*ctx.saved_tensors, None)
        gradients = _run_backward(grad, inputs, ctx.needs_input_grad[:3], ctx.order)
    return *gradients, None, None, None, None


torch.library.register_autograd("moesaic::swiglu_mlp", _swiglu_mlp_backward, setup_context=_save,
                                lib=_library)
torch.library.register_autograd("moesaic::swiglu_mlp_backward", _refuse_second, lib=_library)


def forward(inputs, out, order, save, zero_tail):
    """(y, u), by the shortest way there is; u is None unless saved."""
    if _execute.is_plain(*inputs[:2], inputs[3], out) and _execute.is_plain(*inputs[1:]):
        return _mlp_execute.forward(*inputs, out, order, save, zero_tail)
    if out is None:
        y, u = torch.ops.moesaic.swiglu_mlp(*inputs, order, save, zero_tail)
    else:
        u = torch.ops.moesaic.swiglu_mlp_out(*inputs, out, order, save)
        y = out
    return y, u if save else None


class SwigluMlp(torch.autograd.Function):
    """The differentiable expert, over buffers of the caller too, which take no part in autograd."""

    @staticmethod
    def forward(ctx, x, w_up_gate, w_down, offs, gather, order, recompute, buffers, accumulate):
        ctx.order, ctx.buffers, ctx.accumulate = order, buffers, accumulate
        inputs = (_routing.take(x, gather), w_up_gate, w_down, offs)
        y, u = forward(inputs, buffers.out, order, not recompute, buffers.out is None)
        ctx.top_k = gather.top_k
        ctx.save_for_backward(x, w_up_gate, w_down, offs, u, gather.token_of_row, gather.row_of_route)
        return y if buffers.out is None else buffers.out.detach()

    @staticmethod
    def backward(ctx, grad):
        x, *others, token_of_row, row_of_route = ctx.saved_tensors
        gather = _routing.Gather(token_of_row, row_of_route, ctx.top_k)
        inputs = (_routing.take(x, gather), *others)
        buffers, wanted = ctx.buffers, ctx.needs_input_grad[:3]
        if all(buffer is None for buffer in buffers[1:]):
            dx, *dw = _run_backward(grad, inputs, wanted, ctx.order)
        else:
            given = buffers if token_of_row is None else buffers._replace(input_grad=None)
            dx, *dw = Managed.apply(grad, *inputs, wanted, ctx.order, given, ctx.accumulate)
        if dx is not None and token_of_row is not None:
            dx = _routing.sum_rows(dx, gather, x.shape[0])
            if buffers.input_grad is not None:
                dx = buffers.input_grad.copy_(dx).detach()
        return dx, *dw, None, None, None, None, None, None


class Managed(torch.autograd.Function):
    """The backward that writes into buffers of the caller; a Function only to refuse a second."""

    @staticmethod
    def forward(ctx, grad, x, w_up_gate, w_down, offs, u, wanted, order, buffers, accumulate):
        grad = _ops.as_rows(grad, x.dtype)
        given = buffers[1:]
        # One launch writes both weight gradients: beside a buffer, a fresh one is of its type.
        dtype = next((buffer.dtype for buffer in given[1:] if buffer is not None), x.dtype)
        targets = []
        for like, want, buffer in zip((x, w_up_gate, w_down), wanted, given):
            if want and buffer is None:
                make = torch.zeros if accumulate and like is not x else torch.empty
                buffer = make(like.shape, dtype=x.dtype if like is x else dtype, device=x.device)
            targets.append(buffer if want else None)
        torch.ops.moesaic.swiglu_mlp_backward_out(grad, x, w_up_gate, w_down, offs, u, *targets,
                                                  order, given[0] is None, accumulate)
        dx, dw_up_gate, dw_down = targets
        return (None if dx is None else dx.detach(),
                dw_up_gate.to(x.dtype) if wanted[1] and given[1] is None else None,
                dw_down.to(x.dtype) if wanted[2] and given[2] is None else None)

    backward = staticmethod(_refuse_second)
