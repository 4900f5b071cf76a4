# SPDX-License-Identifier: Apache-2.0
"""The SwiGLU expert for arrays and tensors alike: what a call must be, and its plan."""

import ctypes
from typing import NamedTuple

from . import _gemm, _library
from ._errors import refuse
from ._gemm import View

ORDERS = {"up_gate": 1, "gate_up": 2, "interleaved": 3}
ACTIVATIONS = {"save": 0, "recompute": 1}
X_ROWS = {"in_order": 0, "indexed": 1, "copied": 2}
INPUTS = ("x", "w_up_gate", "w_down", "offs")


class Call(NamedTuple):
    """An expert's shapes, ready to be planned."""
    dtype: str
    device: tuple
    experts: int
    rows: int
    d: int
    h: int
    order: str

    def rows_of(self, columns):
        """A dense [M, columns] matrix of the operands' type."""
        return View((self.rows, columns), (columns, 1), self.dtype, self.device)


def of_rows(row_weights, x_rows):
    """What there is of both, by name, and what a plan must know of it."""
    found = {"row_weights": row_weights, "x_rows": x_rows}
    return ({name: array for name, array in found.items() if array is not None},
            {"row_weights": row_weights is not None,
             "x_rows": "in_order" if x_rows is None else "indexed"})


def check(views, order):
    """The call that these views of x, w_up_gate, w_down and offs describe, and of row_weights and
    x_rows where there are some: x is then [T, d]."""
    _gemm.check_word("order", order, ORDERS)
    for name, rank in zip(INPUTS, (2, 3, 3, 1)):
        if len(views[name].shape) != rank:
            refuse(name, f"{rank} dimension(s)", views[name])
    x, w_up_gate, w_down, offs = (views[name] for name in INPUTS)
    rows, d = x.shape
    if "x_rows" in views:
        rows = _check_x_rows(views["x_rows"], x)
    # What two of the tensors say tells which is wrong.
    same_experts = w_up_gate.shape[0] == w_down.shape[0]
    experts = w_down.shape[0] if same_experts else offs.shape[0]
    h = w_down.shape[2] if tuple(w_down.shape[:2]) == (experts, d) else w_up_gate.shape[1] // 2
    for name, view, shape in (("w_up_gate", w_up_gate, (experts, 2 * h, d)),
                              ("w_down", w_down, (experts, d, h))):
        _gemm.check_operand_types("x", x, name, view)
        check_weights(name, view, shape, " ([E, 2h, d] and [E, d, h] of d columns of x)")
    _gemm.check_rows("x", x, d)
    _gemm.check_offs(offs, experts, x.device)
    call = Call(x.dtype, x.device, experts, rows, d, h, order)
    if "row_weights" in views:
        _check_row_weights(views["row_weights"], call)
    return call


def _check_x_rows(view, x):
    """How many rows they are."""
    if view.dtype != "i32" or len(view.shape) != 1 or view.device != x.device:
        refuse("x_rows", "i32 [M] where x is", view)
    if view.stride[0] != 1 and view.shape[0] > 1:
        refuse("x_rows", "stride [1]", view)
    return view.shape[0]


def _check_row_weights(view, call):
    """One number for each row of the call."""
    if view.dtype != "f32" or tuple(view.shape) != (call.rows,) or view.device != call.device:
        kind, index = call.device
        refuse("row_weights", f"f32 [{call.rows}] on {kind}" + (f":{index}" if kind != "cpu" else ""),
               view)
    if view.stride[0] != 1 and call.rows > 1:
        refuse("row_weights", "stride [1]", view)


def check_weights(name, view, shape, why=""):
    """Row-major [E, rows, columns] storage, of weights or of their gradient."""
    if tuple(view.shape) != shape:
        refuse(name, f"{list(shape)}{why}", view)
    if _gemm.weight_storage(name, view, str(list(shape))) != "rows":
        refuse(name, f"row-major storage ({view.copied_by} makes it so); weights are never copied "
               "in silence", view)


def layout(args_type, views):
    """The arguments of a call without their addresses, to be shared by calls that run at once."""
    args = args_type()
    for name, view in views.items():
        setattr(args, name, _gemm.to_struct(view))
    return args


class Plan:
    """A planned expert; shared freely between threads."""

    def __init__(self, call, *, save, tail, row_weights=False, x_rows="in_order", wgrad_dtype=None,
                 accumulate=False, num_sms=0, names=None):
        self._library = library = _library.load()
        self._names = names
        problem = _library.ExpertMlpProblem(
            format=_gemm.FORMATS[call.dtype], order=ORDERS[call.order],
            activations=ACTIVATIONS["save" if save else "recompute"], tail=_gemm.TAILS[tail],
            wgrad_dtype=_gemm.DTYPES[wgrad_dtype or call.dtype], accumulate_wgrad=int(accumulate),
            num_experts=call.experts, max_rows=call.rows, d=call.d, h=call.h,
            row_weights=int(row_weights), x_rows=X_ROWS[x_rows])
        handle = ctypes.c_void_p()
        _library.check(library.moesaic_expert_mlp_create(
            problem, _gemm.to_device(call.device), _library.PlanOptions(num_sms=num_sms), handle),
            names)
        self._handle = handle.value
        # Workspaces keep records between calls; the scratch, their larger part, keeps nothing.
        self.forward_scratch_bytes = library.moesaic_expert_mlp_forward_scratch_bytes(handle)
        self.backward_scratch_bytes = library.moesaic_expert_mlp_backward_scratch_bytes(handle)
        self.forward_bytes = (library.moesaic_expert_mlp_forward_workspace_bytes(handle) -
                              self.forward_scratch_bytes)
        self.backward_bytes = (library.moesaic_expert_mlp_backward_workspace_bytes(handle) -
                               self.backward_scratch_bytes)

    def __del__(self):
        if getattr(self, "_handle", None):
            self._library.moesaic_expert_mlp_destroy(self._handle)

    def _run(self, function, shared, addresses, workspace, scratch, stream):
        args = type(shared).from_buffer_copy(shared)
        for name, address in addresses.items():
            getattr(args, name).data = address
        args.scratch.data, args.scratch.size_bytes = scratch
        status = function(self._handle, args, _library.Workspace(*workspace), stream)
        if status:
            raise _library.error(status, self._names)

    def forward(self, shared, addresses, workspace, scratch, stream=None):
        """`shared`: a layout of x, w_up_gate, w_down, offs, y, of u where it is saved, and of
        row_weights and x_rows where there are some, whose addresses come by the same names.
        `workspace`, `scratch`: (address, bytes)."""
        self._run(self._library.moesaic_expert_mlp_forward, shared, addresses, workspace, scratch,
                  stream)

    def backward(self, shared, addresses, workspace, scratch, stream=None):
        """The same with dy, x, w_up_gate, w_down, offs, u, row_weights, x_rows, and those of dx,
        dw_up_gate, dw_down and drow_weights that are wanted."""
        self._run(self._library.moesaic_expert_mlp_backward, shared, addresses, workspace, scratch,
                  stream)
