# SPDX-License-Identifier: Apache-2.0
"""Problems, plans and layouts of the grouped product, for arrays and tensors alike.

Only shapes, strides and type names here: no NumPy, no torch. The numbers may be symbolic ones of a
tracing compiler, so a size is compared only where it matters.
"""

import ctypes
from typing import NamedTuple

from . import _library
from ._errors import refuse

DTYPES = {"f32": 0, "bf16": 1, "i32": 4}
DTYPE_BYTES = {"f32": 4, "bf16": 2, "i32": 4}
PASSES = {"forward": 0, "dgrad": 1, "wgrad": 2}
FORMATS = {"bf16": 0, "f32": 1, "mxfp8": 2}
STORAGES = {"enk": 0, "ekn": 1}
TAILS = {"leave": 0, "zero": 1}
STRATEGIES = {"grouped": 0, "padded_bmm": 1, "host_loop": 2}
DEVICE_KINDS = {"cpu": 0, "cuda": 1}
FAULT_KINDS = ("none", "offs_not_monotonic", "offs_out_of_range")
CPU = ("cpu", 0)


class Fault(NamedTuple):
    """The lowest expert whose end offset was wrong, and what was read."""
    kind: str
    expert: int
    value: int


class Candidate(NamedTuple):
    """One implementation: whether it takes the problem, and the reason when it does not."""
    implementation: str
    ok: bool
    reason: str


class View(NamedTuple):
    """What the contract says about an argument. Strides count elements; device is (kind, index);
    copied_by is what the caller's library makes row-major storage by."""
    shape: tuple
    stride: tuple
    dtype: str
    device: tuple
    copied_by: str = ".contiguous()"

    def __str__(self):
        index = f":{self.device[1]}" if self.device[0] != "cpu" else ""
        return (f"{self.dtype} {list(self.shape)} stride {list(self.stride)} "
                f"on {self.device[0]}{index}")


class Call(NamedTuple):
    """A product ready to be planned: the problem's fields and a view each of a, b, offs and d."""
    problem: dict
    a: View
    b: View
    offs: View
    d: View


def check_word(argument, word, words):
    if word not in words:
        refuse(argument, " or ".join(map(repr, words)), repr(word))
    return word


def _check_type(argument, view, dtypes, device, why=""):
    if view.dtype not in dtypes:
        refuse(argument, " or ".join(dtypes) + why, view)
    if view.device != device:
        kind, index = device
        refuse(argument, f"memory on {kind}" + (f":{index}" if kind != "cpu" else ""), view)


def _fits_16(elements, dtype):
    return elements * DTYPE_BYTES[dtype] % 16 == 0


def check_rows(argument, view, columns=None):
    """A row-major [rows, columns] matrix whose row stride is a multiple of 16 bytes."""
    if len(view.shape) != 2 or (columns is not None and view.shape[1] != columns):
        refuse(argument, f"[M, {'columns' if columns is None else columns}]", view)
    if view.shape[1] % 8 != 0:
        refuse(argument, "a multiple of 8 columns", view)
    if view.stride[1] != 1 and view.shape[0] > 0:  # NumPy's strides of no rows are zero
        refuse(argument, f"row-major storage (last stride 1; {view.copied_by} makes it so)", view)
    fits = view.stride[0] >= view.shape[1] and _fits_16(view.stride[0], view.dtype)
    if not fits and view.shape[0] > 1:  # the stride of a single row is never used
        refuse(argument, "a row stride that covers the row and is a multiple of 16 bytes", view)


def weight_storage(argument, view, shape_text):
    """How a [E, P, Q] stack lies in memory: "rows" (Q last) or "columns" (P last, a transposed
    view). Nothing is ever copied to make it fit."""
    experts, p, q = view.shape
    for axis, size in ((1, p), (2, q)):
        if size % 8 != 0 or size == 0:
            refuse(argument, f"{shape_text} with both widths positive multiples of 8", view)
    for storage, row, width in (("rows", view.stride[1], q), ("columns", view.stride[2], p)):
        unit = view.stride[2] if storage == "rows" else view.stride[1]
        if unit == 1 and row >= width and _fits_16(row, view.dtype):
            if experts > 1 and not _fits_16(view.stride[0], view.dtype):
                refuse(argument, "an expert stride that is a multiple of 16 bytes", view)
            return storage
    return refuse(argument, f"{shape_text} with a unit stride in one of the last two dimensions and "
                  "a multiple of 16 bytes in the other; weights are never copied in silence", view)


def transposed(view):
    (e, p, q), (se, sp, sq) = view.shape, view.stride
    return view._replace(shape=(e, q, p), stride=(se, sq, sp))


def check_operand_types(a_name, a, b_name, b):
    allowed = ("bf16",) if a.device[0] == "cuda" else ("bf16", "f32")
    _check_type(a_name, a, allowed, a.device, " on CUDA" if a.device[0] == "cuda" else "")
    if b.dtype != a.dtype:
        refuse(b_name, f"{a.dtype}, the type of {a_name}", b)
    _check_type(b_name, b, (a.dtype,), a.device)


def check_offs(offs, experts, device):
    _check_type("offs", offs, ("i32",), device)
    if len(offs.shape) != 1 or (experts is not None and offs.shape[0] != experts):
        refuse("offs", f"[{'E' if experts is None else experts}], one end row per expert", offs)
    if offs.shape[0] == 0:
        refuse("offs", "at least one expert", offs)
    if offs.stride[0] != 1 and offs.shape[0] > 1:
        refuse("offs", "stride [1]", offs)


def _d_dtype(operand_dtype, out_dtype):
    dtype = out_dtype or operand_dtype
    allowed = ("bf16", "f32") if operand_dtype == "bf16" else ("f32",)
    if dtype not in allowed:
        refuse("out_dtype", " or ".join(allowed) + f" for {operand_dtype} operands", dtype)
    return dtype


def forward_call(mat_a, mat_b, offs, *, out=None, out_dtype=None, tail="leave"):
    """mat_a [M, K] x mat_b [E, K, N] -> [M, N]; mat_b in either storage."""
    if len(mat_a.shape) != 2:
        refuse("mat_a", "two dimensions, [M, K]", mat_a)
    if len(mat_b.shape) != 3:
        refuse("mat_b", "three dimensions, [E, K, N]", mat_b)
    check_operand_types("mat_a", mat_a, "mat_b", mat_b)
    experts, k, n = mat_b.shape
    if mat_a.shape[1] != k:
        refuse("mat_a", f"[M, {k}] to fit mat_b {list(mat_b.shape)}", mat_a)
    enk = weight_storage("mat_b", mat_b, "[E, K, N]") == "columns"
    check_rows("mat_a", mat_a, k)
    check_offs(offs, experts, mat_a.device)
    rows = mat_a.shape[0]
    if out is None:
        d = View((rows, n), (n, 1), _d_dtype(mat_a.dtype, out_dtype), mat_a.device)
    else:
        d = _check_out(out, mat_a.dtype, out_dtype, mat_a.device)
        if len(d.shape) != 2 or d.shape[0] != rows or d.shape[1] != n:
            refuse("out", f"[{rows}, {n}]", d)
        check_rows("out", d, n)
    problem = dict(pass_="forward", dtype=mat_a.dtype, d_dtype=d.dtype, num_experts=experts,
                   max_rows=rows, n=n, k=k, weights="enk" if enk else "ekn", tail=tail)
    return Call(problem, mat_a, transposed(mat_b) if enk else mat_b, offs, d)


def _check_out(out, operand_dtype, out_dtype, device):
    dtypes = ("bf16", "f32") if operand_dtype == "bf16" else ("f32",)
    _check_type("out", out, (out_dtype,) if out_dtype else dtypes, device)
    return out


def wgrad_call(grad_out, mat_a, offs, *, out=None, out_dtype=None, accumulate=False,
               names=("grad_out", "mat_a")):
    """grad_out [M, N] and mat_a [M, K] -> [E, N, K], contracted over the rows of each expert."""
    dy_name, x_name = names
    for name, view in ((dy_name, grad_out), (x_name, mat_a)):
        if len(view.shape) != 2:
            refuse(name, "two dimensions", view)
    check_operand_types(dy_name, grad_out, x_name, mat_a)
    check_rows(dy_name, grad_out)
    check_rows(x_name, mat_a)
    rows, n = grad_out.shape
    k = mat_a.shape[1]
    if mat_a.shape[0] != rows:
        refuse(x_name, f"{rows} rows, as many as {dy_name}", mat_a)
    check_offs(offs, None, grad_out.device)
    experts = offs.shape[0]
    enk = True
    if out is None:
        if accumulate:
            refuse("out", "a buffer to accumulate into", None)
        d = View((experts, n, k), (n * k, k, 1), _d_dtype(grad_out.dtype, out_dtype),
                 grad_out.device)
    else:
        d = _check_out(out, grad_out.dtype, out_dtype, grad_out.device)
        enk = check_weight_gradient("out", d, experts, n, k)
    problem = dict(pass_="wgrad", dtype=grad_out.dtype, d_dtype=d.dtype, num_experts=experts,
                   max_rows=rows, n=n, k=k, weights="enk" if enk else "ekn", accumulate=accumulate)
    return Call(problem, grad_out, mat_a, offs, d if enk else transposed(d))


def check_weight_gradient(argument, view, experts, n, k):
    """True for [E, N, K] storage, False for a transposed view of [E, K, N] storage."""
    shape = view.shape
    if len(shape) != 3 or shape[0] != experts or shape[1] != n or shape[2] != k:
        refuse(argument, f"[{experts}, {n}, {k}]", view)
    return weight_storage(argument, view, "[E, N, K]") == "rows"


def to_device(device):
    kind, index = device
    return _library.Device(DEVICE_KINDS[check_word("device", kind, DEVICE_KINDS)], index)


def to_struct(view, data=None):
    tensor = _library.Tensor(data=data, dtype=DTYPES[view.dtype], rank=len(view.shape),
                             device=to_device(view.device))
    tensor.shape[:len(view.shape)] = view.shape
    tensor.stride[:len(view.stride)] = view.stride
    return tensor


def _to_problem(*, pass_, dtype, num_experts, max_rows, n, k, d_dtype=None, weights="enk",
                tail="leave", accumulate=False, strategy="grouped"):
    return _library.GemmProblem(
        pass_=PASSES[check_word("pass_", pass_, PASSES)],
        format=FORMATS[check_word("dtype", dtype, FORMATS)],
        d_dtype=DTYPES[check_word("d_dtype", d_dtype or dtype, DTYPES)],
        weights=STORAGES[check_word("weights", weights, STORAGES)],
        tail=TAILS[check_word("tail", tail, TAILS)],
        strategy=STRATEGIES[check_word("strategy", strategy, STRATEGIES)],
        accumulate=int(accumulate), num_experts=num_experts, max_rows=max_rows, n=n, k=k)


class Plan:
    """A planned product with its layout; shared freely between threads."""

    def __init__(self, call, num_sms=0, names=None):
        self._library = _library.load()
        handle = ctypes.c_void_p()
        options = _library.PlanOptions(num_sms=num_sms)
        _library.check(self._library.moesaic_gemm_create(
            _to_problem(**call.problem), to_device(call.a.device), options, handle), names)
        self.handle = handle.value
        self.execute = self._library.moesaic_gemm_execute_at
        self.workspace_bytes = self._library.moesaic_gemm_workspace_bytes(handle)
        self.names = names
        self._layout = _library.GemmArgs(offs=to_struct(call.offs), d=to_struct(call.d))
        self._layout.a.qdata = to_struct(call.a)
        self._layout.b.qdata = to_struct(call.b)
        self.layout = ctypes.addressof(self._layout)

    def __del__(self):
        if getattr(self, "handle", None):
            self._library.moesaic_gemm_destroy(self.handle)

    @property
    def implementation(self):
        return self._library.moesaic_gemm_implementation(self.handle).decode()


def parse_device(device):
    """("cuda", 1) from "cuda:1"."""
    kind, _, index = str(device).partition(":")
    if kind not in DEVICE_KINDS or not (index or "0").isdigit():
        refuse("device", "'cpu', 'cuda' or 'cuda:INDEX'", repr(device))
    return kind, int(index or 0)


def candidates(pass_="forward", *, num_experts, max_rows, n, k, device="cpu", dtype="bf16",
               d_dtype=None, weights="enk", tail="leave", accumulate=False, strategy="grouped",
               num_sms=0):
    """Every implementation for this kind of device, best first, with the reason when it cannot run.

    Names as in the C++ API: forward, dgrad or wgrad; bf16 or f32; enk or ekn; leave or zero;
    grouped, padded_bmm or host_loop. max_rows is M, the capacity of the buffers.
    """
    library = _library.load()
    problem = _to_problem(pass_=pass_, dtype=dtype, d_dtype=d_dtype, num_experts=num_experts,
                          max_rows=max_rows, n=n, k=k, weights=weights, tail=tail,
                          accumulate=accumulate, strategy=strategy)
    listed = ctypes.c_void_p()
    _library.check(library.moesaic_gemm_candidates(
        problem, to_device(parse_device(device)), _library.PlanOptions(num_sms=num_sms), listed))
    try:
        found = []
        for index in range(library.moesaic_candidate_count(listed)):
            reason = library.moesaic_candidate_reason(listed, index).decode()
            name = library.moesaic_candidate_name(listed, index).decode()
            found.append(Candidate(name, not reason, reason))
        return found
    finally:
        library.moesaic_candidate_list_destroy(listed)


def read_workspace_fault(data, size_bytes, device, stream=None):
    """Reads and clears the record of one workspace; None when there is none."""
    record = _library.FaultRecord()
    _library.check(_library.load().moesaic_read_fault(
        _library.Workspace(data, size_bytes), to_device(device), stream, record))
    return Fault(FAULT_KINDS[record.kind], record.expert, record.value) if record.kind else None
