# SPDX-License-Identifier: Apache-2.0
"""The products on NumPy arrays, on the CPU. BF16 arrays have the dtype ml_dtypes.bfloat16."""

import numpy as np

from . import _gemm, _host, _library, _mlp
from ._errors import refuse
from ._gemm import CPU, View

__all__ = ["grouped_mm", "read_fault", "swiglu_mlp", "wgrad"]

read_fault = _host.read_fault


def _dtype_name(dtype):
    known = {"float32": "f32", "bfloat16": "bf16", "int32": "i32"}
    return known.get(np.dtype(dtype).name, np.dtype(dtype).name)


def _dtype(name):
    if name == "f32":
        return np.dtype(np.float32)
    import ml_dtypes  # BF16 alone needs it
    return np.dtype(ml_dtypes.bfloat16)


def _view(argument, array):
    if not isinstance(array, np.ndarray):
        refuse(argument, "a NumPy array", type(array).__name__)
    if not array.dtype.isnative:
        refuse(argument, "native byte order", array.dtype.str)
    size = array.dtype.itemsize
    if any(stride % size for stride in array.strides):
        refuse(argument, "strides that are whole elements", array.strides)
    return View(array.shape, tuple(stride // size for stride in array.strides),
                _dtype_name(array.dtype), CPU, "numpy.ascontiguousarray")


def _empty(view):
    """An array at a 64-byte aligned address, which NumPy itself does not promise."""
    dtype = _dtype(view.dtype)
    size = int(np.prod(view.shape)) * dtype.itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start:start + size].view(dtype).reshape(view.shape)


def _writable(argument, array):
    if array is not None and not array.flags.writeable:
        refuse(argument, "a writable array", "a read-only one")


def _run(call, names, a, b, offs, d):
    plan = _gemm.Plan(call, names=names)
    _host.execute(plan, a.ctypes.data, b.ctypes.data, offs.ctypes.data, d.ctypes.data)
    return d


def grouped_mm(mat_a, mat_b, *, offs, out_dtype=None, out=None, tail=None):
    """mat_a [M, K] times mat_b [E, K, N], each row with its expert's matrix -> [M, N].

    offs is int32 [E], the end row of every expert. mat_b may be a transposed view of [E, N, K].
    2-D times 2-D contracts each expert's rows: mat_a [N, M] (a transposed view) and mat_b [M, K]
    give [E, N, K]. Rows at or past offs[-1] are zero in a new array and left as they are in `out`,
    unless tail ("zero" or "leave") says otherwise.
    """
    a, b = _view("mat_a", mat_a), _view("mat_b", mat_b)
    if tail is not None:
        _gemm.check_word("tail", tail, _gemm.TAILS)
    if len(a.shape) == 2 and len(b.shape) == 2:
        if tail is not None:
            refuse("tail", "None for 2-D times 2-D", repr(tail))
        return _wgrad(mat_a.T, mat_b, offs, out, False, out_dtype, ("mat_a", "mat_b"))
    _writable("out", out)
    call = _gemm.forward_call(
        a, b, _view("offs", offs), out=None if out is None else _view("out", out),
        out_dtype=_dtype_name(out_dtype) if out_dtype else None,
        tail=tail or ("zero" if out is None else "leave"))
    names = {"a": "mat_a", "b": "mat_b", "d": "out"}
    return _run(call, names, mat_a, mat_b, offs, _empty(call.d) if out is None else out)


def wgrad(grad_out, mat_a, *, offs, out=None, accumulate=False, out_dtype=None):
    """grad_out [M, N] and mat_a [M, K], contracted over the rows of each expert -> [E, N, K].

    An expert without rows gives zeros. With accumulate the result is added into `out`.
    """
    return _wgrad(grad_out, mat_a, offs, out, accumulate, out_dtype, ("grad_out", "mat_a"))


def _wgrad(grad_out, mat_a, offs, out, accumulate, out_dtype, names):
    _writable("out", out)
    call = _gemm.wgrad_call(
        _view(names[0], grad_out), _view(names[1], mat_a), _view("offs", offs),
        out=None if out is None else _view("out", out), accumulate=bool(accumulate), names=names,
        out_dtype=_dtype_name(out_dtype) if out_dtype else None)
    mapped = {"a": names[0], "b": names[1], "d": "out"}
    return _run(call, mapped, grad_out, mat_a, offs, _empty(call.d) if out is None else out)


def swiglu_mlp(x, w_up_gate, w_down, *, offs, order, x_rows=None, row_weights=None, out=None):
    """The SwiGLU expert: x [M, d], w_up_gate [E, 2h, d], w_down [E, d, h] -> [M, d].

    order says which lines of w_up_gate are up: "up_gate" (the first h), "gate_up" (the last h) or
    "interleaved" (the even ones). Rows at or past offs[-1] are zero in a new array and left as they
    are in `out`.

    x_rows, int32 [M], says which row of x, now [T, d], each row is. A row of x may come any number
    of times; an index outside of x is a row of zeros. The rows are copied while the call runs.
    row_weights, float32 [M], are what the rows of the result are multiplied by before they are
    rounded. Neither is read at or past offs[-1].
    """
    of_rows, options = _mlp.of_rows(row_weights, x_rows)
    arrays = dict(zip(_mlp.INPUTS, (x, w_up_gate, w_down, offs)), **of_rows)
    views = {name: _view(name, array) for name, array in arrays.items()}
    call = _mlp.check(views, order)
    tail = "zero" if out is None else "leave"
    _writable("out", out)
    out = _empty(call.rows_of(call.d)) if out is None else out
    arrays["y"], views["y"] = out, _view("out", out)
    plan = _mlp.Plan(call, save=False, tail=tail, names={"y": "out"}, **options)
    workspace = _host.workspace(plan.forward_bytes)
    intermediates = _empty(View((plan.forward_scratch_bytes // 4 + 64,), (1,), "f32", CPU))
    plan.forward(_mlp.layout(_library.ExpertMlpForwardArgs, views),
                 {name: array.ctypes.data for name, array in arrays.items()},
                 (workspace.data, workspace.size_bytes),
                 _host.aligned(intermediates.ctypes.data, plan.forward_scratch_bytes))
    _host.collect_fault(workspace)
    return out
