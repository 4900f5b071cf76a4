# SPDX-License-Identifier: Apache-2.0
"""torch.ops.moesaic.*: schemas, kernels, fake kernels and derivatives.

Two products that return a new tensor and are differentiable, and two that write into a buffer of
the caller, over which `Managed` is the differentiable form.
"""

import torch
from torch import library

from . import _execute

TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)
OPERATORS = library.Library("moesaic", "DEF")
OPERATORS.define("grouped_mm(Tensor mat_a, Tensor mat_b, Tensor offs, ScalarType? out_dtype=None, "
                 "bool zero_tail=True) -> Tensor", tags=TAGS)
OPERATORS.define("grouped_mm_out(Tensor mat_a, Tensor mat_b, Tensor offs, Tensor(a!) out, "
                 "bool zero_tail=False) -> ()", tags=TAGS)
OPERATORS.define("wgrad(Tensor grad_out, Tensor mat_a, Tensor offs, ScalarType? out_dtype=None) "
                 "-> Tensor", tags=TAGS)
OPERATORS.define("wgrad_out(Tensor grad_out, Tensor mat_a, Tensor offs, Tensor(a!) out, "
                 "bool accumulate=False) -> ()", tags=TAGS)


def _grouped_mm(mat_a, mat_b, offs, out_dtype=None, zero_tail=True):
    return _execute.forward(mat_a, mat_b, offs, None, out_dtype, zero_tail)


def _grouped_mm_out(mat_a, mat_b, offs, out, zero_tail=False):
    _execute.forward(mat_a, mat_b, offs, out, None, zero_tail)


def _wgrad(grad_out, mat_a, offs, out_dtype=None):
    return _execute.wgrad(grad_out, mat_a, offs, None, out_dtype)


def _wgrad_out(grad_out, mat_a, offs, out, accumulate=False):
    _execute.wgrad(grad_out, mat_a, offs, out, None, accumulate)


for _name, _kernel in (("grouped_mm", _grouped_mm), ("grouped_mm_out", _grouped_mm_out),
                       ("wgrad", _wgrad), ("wgrad_out", _wgrad_out)):
    for _key in ("CPU", "CUDA"):
        OPERATORS.impl(_name, _kernel, _key)


@library.register_fake("moesaic::grouped_mm", lib=OPERATORS)
def _(mat_a, mat_b, offs, out_dtype=None, zero_tail=True):
    call, dtype = _execute.describe_forward(mat_a, mat_b, offs, None, out_dtype, zero_tail)
    return mat_a.new_empty(call.d.shape, dtype=dtype)


@library.register_fake("moesaic::grouped_mm_out", lib=OPERATORS)
def _(mat_a, mat_b, offs, out, zero_tail=False):
    _execute.describe_forward(mat_a, mat_b, offs, out, None, zero_tail)


@library.register_fake("moesaic::wgrad", lib=OPERATORS)
def _(grad_out, mat_a, offs, out_dtype=None):
    call, dtype = _execute.describe_wgrad(grad_out, mat_a, offs, None, out_dtype, False,
                                          ("grad_out", "mat_a"))
    return mat_a.new_empty(call.d.shape, dtype=dtype)


@library.register_fake("moesaic::wgrad_out", lib=OPERATORS)
def _(grad_out, mat_a, offs, out, accumulate=False):
    _execute.describe_wgrad(grad_out, mat_a, offs, out, None, accumulate, ("grad_out", "mat_a"))


def _per_16_bytes(tensor):
    return 16 // tensor.element_size()


def _is_aligned(tensor, unit):
    # Dynamo cannot trace storage_offset(); what compiled code hands over starts a storage.
    return torch.compiler.is_compiling() or tensor.storage_offset() % unit == 0


def as_rows(grad, dtype):
    """A gradient as the kernels read it: autograd may hand in any type and stride (0 after sum)."""
    grad = grad.to(dtype)
    unit = _per_16_bytes(grad)
    fits = (grad.stride(-1) == 1 and grad.stride(0) >= grad.shape[-1] and
            grad.stride(0) % unit == 0 and _is_aligned(grad, unit))
    return grad if fits else grad.clone(memory_format=torch.contiguous_format)


def _as_weights(grad, dtype):
    grad = grad.to(dtype)
    unit = _per_16_bytes(grad)
    rows, columns = grad.stride(-2), grad.stride(-1)
    fits = ((columns == 1 and rows >= grad.shape[-1] and rows % unit == 0) or
            (rows == 1 and columns >= grad.shape[-2] and columns % unit == 0))
    fits = fits and grad.stride(0) % unit == 0 and _is_aligned(grad, unit)
    return grad if fits else grad.clone(memory_format=torch.contiguous_format)


def grouped_mm(mat_a, mat_b, offs, out_dtype=None, zero_tail=True):
    """The differentiable product into a new tensor, by the shortest way there is."""
    if not _execute.is_plain(mat_a, mat_b, offs):
        return torch.ops.moesaic.grouped_mm(mat_a, mat_b, offs, out_dtype, zero_tail)
    if _execute.wants_grad(mat_a, mat_b):
        return GroupedMm.apply(mat_a, mat_b, offs, out_dtype, zero_tail)
    return _execute.forward(mat_a, mat_b, offs, None, out_dtype, zero_tail)


def wgrad(grad_out, mat_a, offs, out_dtype=None, names=("grad_out", "mat_a")):
    """The same for wgrad."""
    if _execute.is_plain(grad_out, mat_a, offs) and not _execute.wants_grad(grad_out, mat_a):
        return _execute.wgrad(grad_out, mat_a, offs, None, out_dtype, False, names)
    return torch.ops.moesaic.wgrad(grad_out, mat_a, offs, out_dtype)


def _weight_grad(grad, mat_a, mat_b, offs):
    """The gradient of mat_b [E, K, N], laid out as mat_b is."""
    if mat_b.stride(-1) == 1:
        return wgrad(mat_a, grad, offs)
    return wgrad(grad, mat_a, offs).transpose(-2, -1)


def _save(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:3])


def _grouped_mm_backward(ctx, grad):
    mat_a, mat_b, offs = ctx.saved_tensors
    grad = as_rows(grad, mat_a.dtype)
    grad_a = grad_b = None
    if ctx.needs_input_grad[1]:
        grad_b = _weight_grad(grad, mat_a, mat_b, offs)
    if ctx.needs_input_grad[0]:
        grad_a = grouped_mm(grad, mat_b.transpose(-2, -1), offs)
    return grad_a, grad_b, None, None, None


def _wgrad_backward(ctx, grad):
    grad_out, mat_a, offs = ctx.saved_tensors
    grad = _as_weights(grad, mat_a.dtype)  # [E, N, K]
    grad_dy = grad_x = None
    if ctx.needs_input_grad[0]:
        grad_dy = grouped_mm(mat_a, grad.transpose(-2, -1), offs)
    if ctx.needs_input_grad[1]:
        grad_x = grouped_mm(grad_out, grad, offs)
    return grad_dy, grad_x, None, None


class GroupedMm(torch.autograd.Function):
    """What the dispatcher makes of torch.ops.moesaic.grouped_mm, without its host cost."""

    @staticmethod
    def forward(ctx, mat_a, mat_b, offs, out_dtype, zero_tail):
        ctx.save_for_backward(mat_a, mat_b, offs)
        return _execute.forward(mat_a, mat_b, offs, None, out_dtype, zero_tail)

    backward = staticmethod(_grouped_mm_backward)


library.register_autograd("moesaic::grouped_mm", _grouped_mm_backward, setup_context=_save,
                          lib=OPERATORS)
library.register_autograd("moesaic::wgrad", _wgrad_backward, setup_context=_save,
                          lib=OPERATORS)


class Managed(torch.autograd.Function):
    """grouped_mm over buffers of the caller: out, input_grad_out, wgrad_out (each may be None).

    What comes back shares the memory of the buffer, but the buffers themselves take no part in
    autograd.
    """

    @staticmethod
    def forward(ctx, mat_a, mat_b, offs, buffers, out_dtype, zero_tail, accumulate):
        out, ctx.input_grad_out, ctx.wgrad_out = buffers
        ctx.accumulate = accumulate
        ctx.save_for_backward(mat_a, mat_b, offs)
        if out is None:
            return grouped_mm(mat_a, mat_b, offs, out_dtype, zero_tail)
        torch.ops.moesaic.grouped_mm_out(mat_a, mat_b, offs, out, zero_tail)
        return out.detach()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        mat_a, mat_b, offs = ctx.saved_tensors
        ops = torch.ops.moesaic
        grad = as_rows(grad, mat_a.dtype)
        grad_a = grad_b = None
        # First the weights' gradient: input_grad_out may be the memory of mat_a.
        if ctx.wgrad_out is not None:
            ops.wgrad_out(grad, mat_a, offs, ctx.wgrad_out, ctx.accumulate)
        elif ctx.needs_input_grad[1]:
            grad_b = _weight_grad(grad, mat_a, mat_b, offs)
        if ctx.needs_input_grad[0]:
            if ctx.input_grad_out is None:
                grad_a = grouped_mm(grad, mat_b.transpose(-2, -1), offs)
            else:
                ops.grouped_mm_out(grad, mat_b.transpose(-2, -1), offs, ctx.input_grad_out, False)
                grad_a = ctx.input_grad_out.detach()
        return grad_a, grad_b, None, None, None, None, None
