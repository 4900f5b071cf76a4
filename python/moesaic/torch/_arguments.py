# SPDX-License-Identifier: Apache-2.0
"""What every public function of moesaic.torch asks of its arguments."""

import torch

from .. import _gemm
from .._errors import refuse
from . import _execute


def autocast(*tensors):
    """Under autocast the operands become BF16, the one 16-bit type of the kernels."""
    kind = tensors[0].device.type
    if not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    if dtype != torch.bfloat16:
        refuse("autocast", f"dtype torch.bfloat16 for {kind}", dtype)
    return tuple(tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor
                 for tensor in tensors)


def check_tensors(**tensors):
    for argument, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            refuse(argument, "a tensor", type(tensor).__name__)


def refuse_unused(argument, buffer, operand_name, operand):
    """A buffer that backward would never write must not look as if it had been written."""
    if buffer is not None and not operand.requires_grad:
        refuse(argument, f"None, since {operand_name} requires no gradient", "a tensor")


def check_buffer(argument, buffer, like):
    """What every buffer of the caller has to be, as far as its shape is not concerned."""
    check_tensors(**{argument: buffer})
    if buffer.requires_grad:
        refuse(argument, "a tensor that requires no gradient (.detach() it)", "one that does")
    if buffer.device != like.device:
        refuse(argument, f"memory on {like.device}", f"memory on {buffer.device}")
    if not torch.compiler.is_compiling():
        _execute.check_address(argument, buffer)


def check_rows_like(argument, buffer, operand_name, operand, rows=None):
    """Of the shape and type of an operand of rows; of `rows` rows if it says so."""
    described = _execute.view(argument, buffer)
    rows = operand.shape[0] if rows is None else rows
    if buffer.dtype != operand.dtype or buffer.shape[0] != rows:
        refuse(argument, f"{[rows, operand.shape[1]]} of {operand.dtype}, as {operand_name}", described)
    _gemm.check_rows(argument, described, operand.shape[1])


def check_input_grad_out(buffer, operand_name, operand):
    check_buffer("input_grad_out", buffer, operand)
    check_rows_like("input_grad_out", buffer, operand_name, operand)


def check_weight_grad_out(argument, buffer, operand):
    """Its view, once it is of a type that a weight gradient of `operand` rows can have."""
    check_buffer(argument, buffer, operand)
    described = _execute.view(argument, buffer)
    if described.dtype not in (("f32",) if operand.dtype == torch.float32 else ("bf16", "f32")):
        refuse(argument, "float32, or bfloat16 for bfloat16 operands", described)
    return described
