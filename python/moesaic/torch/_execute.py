# SPDX-License-Identifier: Apache-2.0
"""From tensors to a planned product and its launch. Plans are kept by all that they depend on.

The path of a call that was seen before is short on purpose: look up the plan, look at the
addresses, call.
"""

import torch

from .. import _gemm, _host, _library
from .._errors import refuse
from .._gemm import View
from . import _workspace

_DTYPE_NAMES = {torch.bfloat16: "bf16", torch.float32: "f32", torch.int32: "i32"}
_DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
_MOST_PLANS = 8192  # a plan is small; more than this many come from shapes that never repeat

plans = {}
_num_sms = 0
raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
# What compiled code allocates with, on the current device: a quarter of torch.empty_strided's time,
# without the values that deterministic algorithms find in memory that nobody wrote.
_empty_cuda = getattr(getattr(getattr(torch._C, "_dynamo", None), "guards", None),
                      "_empty_strided_cuda", None)

# A buffer that autograd saved elsewhere must not change unnoticed.
increment_version = torch.autograd.graph.increment_version
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_is_compiling = torch.compiler.is_compiling
_deterministic = torch._C._get_deterministic_algorithms
_any_autocast = torch._C._is_any_autocast_enabled
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_functorch = torch._C._functorch.peek_interpreter_stack


def is_plain(a, b, offs, out=None):
    """True when only autograd may want to see this call, so that the dispatcher can be passed by:
    plain tensors, no tracing, no mode, no transform, no forward-mode derivative."""
    return (not _is_compiling() and type(a) in _PLAIN and type(b) in _PLAIN and
            type(offs) in _PLAIN and (out is None or type(out) in _PLAIN) and
            not _any_autocast() and _dispatch_modes() == 0 and _function_modes() == 0 and
            _functorch() is None and torch.autograd.forward_ad._current_level < 0)


def wants_grad(a, b):
    return (a.requires_grad or b.requires_grad) and torch.is_grad_enabled()


def set_num_sms(num_sms):
    global _num_sms
    if isinstance(num_sms, bool) or not isinstance(num_sms, int) or num_sms < 0:
        refuse("n", "0 for all, or a positive number of SMs", repr(num_sms))
    _num_sms = num_sms


def num_sms():
    return _num_sms


def dtype_name(dtype):
    return _DTYPE_NAMES.get(dtype, str(dtype).replace("torch.", ""))


def view(argument, tensor):
    """What the contract says about a tensor; works on fake tensors too."""
    if not isinstance(tensor, torch.Tensor):
        refuse(argument, "a tensor", type(tensor).__name__)
    if tensor.layout is not torch.strided:
        refuse(argument, "a strided tensor", tensor.layout)
    device = tensor.device
    return View(tuple(tensor.shape), tuple(tensor.stride()), dtype_name(tensor.dtype),
                (device.type, device.index or 0))


def describe_forward(mat_a, mat_b, offs, out, out_dtype, zero_tail):
    """The checked call and the type of its output."""
    call = _gemm.forward_call(
        view("mat_a", mat_a), view("mat_b", mat_b), view("offs", offs),
        out=None if out is None else view("out", out),
        out_dtype=None if out_dtype is None else dtype_name(out_dtype),
        tail="zero" if zero_tail else "leave")
    return call, _DTYPES[call.d.dtype]


def describe_wgrad(grad_out, mat_a, offs, out, out_dtype, accumulate, names):
    call = _gemm.wgrad_call(
        view(names[0], grad_out), view(names[1], mat_a), view("offs", offs),
        out=None if out is None else view("out", out), accumulate=accumulate, names=names,
        out_dtype=None if out_dtype is None else dtype_name(out_dtype))
    return call, _DTYPES[call.d.dtype]


def check_address(argument, tensor):
    if tensor.data_ptr() % 16:
        refuse(argument, "a 16-byte aligned address",
               f"one that is off by {tensor.data_ptr() % 16}")


class _Entry:
    """A plan and what a call of it needs; immutable."""

    def __init__(self, call, dtype, names, num_sms):
        if call.a.device[0] not in _gemm.DEVICE_KINDS:
            refuse(names["a"], "memory on cpu or cuda", call.a)
        self.plan = _gemm.Plan(call, num_sms, names)
        self.index = call.a.device[1] if call.a.device[0] == "cuda" else -1
        self.shape, self.stride = call.d.shape, call.d.stride
        self.dtype = dtype


def remember(key, entry):
    if len(plans) >= _MOST_PLANS:
        plans.clear()
    plans[key] = entry
    return entry


def _fresh(entry, device):
    if (entry.index >= 0 and _empty_cuda is not None and
            entry.index == _workspace.current_device() and not _deterministic()):
        return _empty_cuda(entry.shape, entry.stride, entry.dtype)
    return torch.empty_strided(entry.shape, entry.stride, dtype=entry.dtype, device=device)


def _launch(entry, a, b, offs, d, tensors):
    addresses = a.data_ptr(), b.data_ptr(), offs.data_ptr(), d.data_ptr()
    if (addresses[0] | addresses[1] | addresses[3]) & 15:
        for argument, tensor in tensors:
            check_address(argument, tensor)
    plan, index = entry.plan, entry.index
    if index < 0:
        return _host.execute(plan, *addresses)
    stream = raw_stream(index)
    workspace, size_bytes = _workspace.address(index, stream, plan.workspace_bytes)
    status = plan.execute(plan.handle, plan.layout, *addresses, workspace, size_bytes, stream)
    if status:
        raise _library.error(status, plan.names)


_FORWARD_NAMES = {"a": "mat_a", "b": "mat_b", "d": "out"}


def forward(mat_a, mat_b, offs, out=None, out_dtype=None, zero_tail=True):
    """mat_a [M, K] x mat_b [E, K, N] -> [M, N], into `out` or a fresh tensor."""
    key = (mat_a.shape, mat_a.stride(), mat_a.dtype, mat_a.device, mat_b.shape, mat_b.stride(),
           mat_b.dtype, mat_b.device, offs.shape, offs.stride(), offs.dtype, offs.device, out_dtype,
           zero_tail, _num_sms) if out is None else (
        "out", mat_a.shape, mat_a.stride(), mat_a.dtype, mat_a.device, mat_b.shape, mat_b.stride(),
        mat_b.dtype, mat_b.device, offs.shape, offs.stride(), offs.dtype, offs.device, out_dtype,
        zero_tail, _num_sms, out.shape, out.stride(), out.dtype, out.device)
    entry = plans.get(key)
    if entry is None:
        call, dtype = describe_forward(mat_a, mat_b, offs, out, out_dtype, zero_tail)
        entry = remember(key, _Entry(call, dtype, _FORWARD_NAMES, _num_sms))
    if out is None:
        out = _fresh(entry, mat_a.device)
    else:
        increment_version(out)
    _launch(entry, mat_a, mat_b, offs, out, (("mat_a", mat_a), ("mat_b", mat_b), ("out", out)))
    return out


def wgrad(grad_out, mat_a, offs, out=None, out_dtype=None, accumulate=False,
          names=("grad_out", "mat_a")):
    """grad_out [M, N], mat_a [M, K] -> [E, N, K], into `out` or a fresh tensor."""
    key = ("wgrad", grad_out.shape, grad_out.stride(), grad_out.dtype, grad_out.device, mat_a.shape,
           mat_a.stride(), mat_a.dtype, mat_a.device, offs.shape, offs.stride(), offs.dtype,
           offs.device, out_dtype, accumulate, names, _num_sms,
           None if out is None else (out.shape, out.stride(), out.dtype, out.device))
    entry = plans.get(key)
    if entry is None:
        call, dtype = describe_wgrad(grad_out, mat_a, offs, out, out_dtype, accumulate, names)
        mapped = {"a": names[0], "b": names[1], "d": "out"}
        entry = remember(key, _Entry(call, dtype, mapped, _num_sms))
    if out is None:
        out = _fresh(entry, mat_a.device)
    else:
        increment_version(out)
    _launch(entry, grad_out, mat_a, offs, out,
            ((names[0], grad_out), (names[1], mat_a), ("out", out)))
    return out
