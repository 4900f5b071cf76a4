# SPDX-License-Identifier: Apache-2.0
"""Grouped products for PyTorch tensors: `import moesaic.torch`.

Differentiable operators that torch.compile, opcheck and CUDA graphs take, on CUDA (BF16) and on the
CPU (BF16 and FP32).
"""

import torch

from .. import _gemm, _host
from .._errors import DeviceFailure, Error, InvalidArgument, Unsupported, refuse
from .._gemm import Candidate, Fault
from .._library import version
from . import _arguments, _execute, _ops, _workspace
from ._execute import set_num_sms
from ._mlp import swiglu_mlp
from .experts import SwiGLUExperts

__all__ = ["Candidate", "DeviceFailure", "Error", "Fault", "InvalidArgument", "SwiGLUExperts",
           "Unsupported", "candidates", "grouped_mm", "read_fault", "set_num_sms", "swiglu_mlp",
           "version", "wgrad"]

_TAILS = (None, "zero", "leave")


def grouped_mm(mat_a, mat_b, *, offs, bias=None, out_dtype=None, out=None, input_grad_out=None,
               wgrad_out=None, accumulate_wgrad=False, tail=None):
    """Multiplies each row of mat_a with the matrix of its expert.

    mat_a [M, K], mat_b [E, K, N], offs int32 [E] on the same device -> [M, N]. offs[e] is the end
    row of expert e; rows at or past offs[-1] are never read. mat_b is read as it lies: a transposed
    view of [E, N, K] storage (the usual call) or [E, K, N] storage, never a copy.
    2-D times 2-D contracts the rows of each expert: mat_a [N, M], a transposed view of [M, N], and
    mat_b [M, K] give [E, N, K]; that is wgrad(mat_a.t(), mat_b), which also accumulates. It takes
    out and out_dtype, and refuses what has no meaning for it.

    bias             None; anything else is refused.
    out_dtype        bfloat16 or float32; by default that of mat_a.
    out              receives the result; what comes back shares its memory.
    input_grad_out   receives the gradient of mat_a in backward; may be the memory of mat_a.
    wgrad_out        receives the gradient of mat_b in backward as [E, N, K], bfloat16 or float32,
                     or a transposed view of [E, K, N]; mat_b itself then gets no gradient.
    accumulate_wgrad adds to wgrad_out instead.
    tail             what happens to output rows past offs[-1]: "zero", "leave", or None: zero in a
                     tensor that is made here, left in one that is given.

    With a buffer given, the result can be differentiated once. A buffer for the gradient of an
    operand that requires none is refused, unless gradients are off altogether (torch.no_grad()).
    Wrong offsets harm nothing; read_fault() tells of them. Raises InvalidArgument by the argument's
    name before anything is launched.
    """
    if bias is not None:
        refuse("bias", "None (no kernel here adds one)", type(bias).__name__)
    if tail not in _TAILS:
        refuse("tail", "None, 'zero' or 'leave'", repr(tail))
    zero_tail = tail == "zero" or (tail is None and out is None)
    buffers = input_grad_out is not None or wgrad_out is not None
    if (not buffers and not accumulate_wgrad and _execute.is_plain(mat_a, mat_b, offs, out) and
            mat_b.ndim == 3):
        if not _execute.wants_grad(mat_a, mat_b):
            return _execute.forward(mat_a, mat_b, offs, out, out_dtype, zero_tail)
        if out is None:
            return _ops.GroupedMm.apply(mat_a, mat_b, offs, out_dtype, zero_tail)
    _arguments.check_tensors(mat_a=mat_a, mat_b=mat_b, offs=offs)
    mat_a, mat_b = _arguments.autocast(mat_a, mat_b)
    if mat_a.dim() == 2 and mat_b.dim() == 2:
        _refuse_for_two_by_two(input_grad_out=input_grad_out, wgrad_out=wgrad_out, tail=tail,
                               accumulate_wgrad=accumulate_wgrad or None)
        return _wgrad(mat_a.t(), mat_b, offs, out, False, out_dtype, ("mat_a", "mat_b"))
    if accumulate_wgrad and wgrad_out is None:
        refuse("wgrad_out", "a buffer, since accumulate_wgrad is True", None)
    if not buffers and out is None:
        return _ops.grouped_mm(mat_a, mat_b, offs, out_dtype, zero_tail)
    return _managed(mat_a, mat_b, offs, (out, input_grad_out, wgrad_out), out_dtype, zero_tail,
                    bool(accumulate_wgrad))


def _refuse_for_two_by_two(**arguments):
    for argument, value in arguments.items():
        if value is not None:
            wanted = "False" if argument == "accumulate_wgrad" else "None"
            instead = "; moesaic.torch.wgrad accumulates into its out" if "wgrad" in argument else ""
            refuse(argument, f"{wanted} for 2-D times 2-D{instead}",
                   "a tensor" if isinstance(value, torch.Tensor) else repr(value))


def _managed(mat_a, mat_b, offs, buffers, out_dtype, zero_tail, accumulate):
    """Checks all buffers, those of backward too, then runs what is to be run now."""
    out, input_grad_out, wgrad_out = buffers
    _execute.describe_forward(mat_a, mat_b, offs, out, out_dtype, zero_tail)
    if out is not None:
        _arguments.check_buffer("out", out, mat_a)
    if input_grad_out is not None:
        _arguments.check_input_grad_out(input_grad_out, "mat_a", mat_a)
    if wgrad_out is not None:
        described = _arguments.check_weight_grad_out("wgrad_out", wgrad_out, mat_a)
        experts, k, n = mat_b.shape
        _gemm.check_weight_gradient("wgrad_out", described, experts, n, k)
    if torch.is_grad_enabled():
        _arguments.refuse_unused("input_grad_out", input_grad_out, "mat_a", mat_a)
        _arguments.refuse_unused("wgrad_out", wgrad_out, "mat_b", mat_b)
    if _execute.wants_grad(mat_a, mat_b):
        return _ops.Managed.apply(mat_a, mat_b, offs, buffers, out_dtype, zero_tail, accumulate)
    if out is None:
        return _ops.grouped_mm(mat_a, mat_b, offs, out_dtype, zero_tail)
    torch.ops.moesaic.grouped_mm_out(mat_a, mat_b, offs, out, zero_tail)
    return out


def wgrad(grad_out, mat_a, *, offs, out=None, accumulate=False, out_dtype=None):
    """grad_out [M, N] and mat_a [M, K], contracted over the rows of each expert -> [E, N, K].

    An expert without rows gives zeros. `out` (bfloat16 or float32, [E, N, K] or a transposed view
    of [E, K, N]) receives the result; with accumulate the result is added to it. Differentiable
    without `out`.
    """
    if not _execute.is_plain(grad_out, mat_a, offs):
        _arguments.check_tensors(grad_out=grad_out, mat_a=mat_a, offs=offs)
        grad_out, mat_a = _arguments.autocast(grad_out, mat_a)
    return _wgrad(grad_out, mat_a, offs, out, bool(accumulate), out_dtype, ("grad_out", "mat_a"))


def _wgrad(grad_out, mat_a, offs, out, accumulate, out_dtype, names):
    if _execute.is_plain(grad_out, mat_a, offs, out) and not _execute.wants_grad(grad_out, mat_a):
        return _execute.wgrad(grad_out, mat_a, offs, out, out_dtype, accumulate, names)
    _execute.describe_wgrad(grad_out, mat_a, offs, out, out_dtype, accumulate, names)
    if out is None:
        return torch.ops.moesaic.wgrad(grad_out, mat_a, offs, out_dtype)
    if _execute.wants_grad(grad_out, mat_a):
        refuse("out", "None where a gradient is wanted (or a call under torch.no_grad())", "a tensor")
    torch.ops.moesaic.wgrad_out(grad_out, mat_a, offs, out, accumulate)
    return out


def read_fault(device=None):
    """What was wrong with offsets since the last call, cleared; None when nothing was.

    Waits for the device: for tests and debugging, not for every step. `device` None means every
    device; the fault of the lowest expert is returned.
    """
    if device is None:
        faults = [_host.read_fault(), *map(_workspace.read_fault, _workspace.devices())]
    else:
        device = torch.device(device)
        if device.type == "cpu":
            return _host.read_fault()
        if device.type != "cuda":
            refuse("device", "cpu or cuda", device)
        index = torch.cuda.current_device() if device.index is None else device.index
        faults = [_workspace.read_fault(index)]
    return min((fault for fault in faults if fault), key=lambda fault: fault.expert, default=None)


def candidates(pass_="forward", *, num_experts, max_rows, n, k, device=None, **options):
    """As moesaic.candidates; `device` is by default the current CUDA device, or else the CPU."""
    if device is None:
        device = f"cuda:{torch.cuda.current_device()}" if torch.cuda.is_available() else "cpu"
    return _gemm.candidates(pass_, num_experts=num_experts, max_rows=max_rows, n=n, k=k,
                            device=device, **options)
