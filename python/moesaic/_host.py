# SPDX-License-Identifier: Apache-2.0
"""Runs products on the CPU: one workspace per thread, and the faults that executes left."""

import ctypes
import threading

from . import _library
from ._gemm import CPU, read_workspace_fault

ALIGNMENT = 256
_threads = threading.local()
_lock = threading.Lock()
_fault = None


def aligned(address, size_bytes):
    """(address, bytes) at the next aligned address; the memory has ALIGNMENT bytes to spare."""
    return address + -address % ALIGNMENT, size_bytes


class _HostWorkspace:
    def __init__(self, size_bytes):
        self._memory = (ctypes.c_char * (size_bytes + ALIGNMENT))()  # zeroed by ctypes
        self.data, self.size_bytes = aligned(ctypes.addressof(self._memory), size_bytes)
        self.fault_word = ctypes.c_uint64.from_address(self.data)


def workspace(size_bytes):
    """This thread's workspace, grown when it is too small."""
    held = getattr(_threads, "workspace", None)
    if held is None or held.size_bytes < size_bytes:
        held = _threads.workspace = _HostWorkspace(size_bytes)
    return held


def collect_fault(scratch):
    """Keeps the fault of the execute that has just returned: the lowest expert wins."""
    global _fault
    if scratch.fault_word.value == 0:
        return
    found = read_workspace_fault(scratch.data, scratch.size_bytes, CPU)
    with _lock:
        if found is not None and (_fault is None or found.expert < _fault.expert):
            _fault = found


def execute(plan, a, b, offs, d):
    """Runs a plan on addresses; returns when the work is done."""
    scratch = workspace(plan.workspace_bytes)
    status = plan.execute(plan.handle, plan.layout, a, b, offs, d, scratch.data, scratch.size_bytes,
                          None)
    if status:
        raise _library.error(status, plan.names)
    collect_fault(scratch)


def read_fault():
    """The fault of all CPU products since the last call, cleared; None when there was none."""
    global _fault
    with _lock:
        found, _fault = _fault, None
    return found
