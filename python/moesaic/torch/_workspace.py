# SPDX-License-Identifier: Apache-2.0
"""CUDA workspaces: one per device and stream, zeroed once, kept for the life of the process."""

import threading

import torch

from .._gemm import read_workspace_fault

SLOT_BYTES = 256  # a workspace that holds nothing but its header
_SLOTS = 256

_lock = threading.Lock()
_known = {}  # (device index, stream, under capture) -> (address, bytes)
_memory = {}  # device index -> [tensor [slots, 32] of int64]; never freed: graphs keep addresses
_free = {}  # device index -> addresses of zeroed slots that no stream has


def _capturing():
    return torch._C._cuda_isCurrentStreamCapturing()


def address(index, stream, size_bytes):
    """The workspace of `stream` on device `index`: (address, bytes).

    Work that a graph captures has a workspace of its own, since a replay may overlap with eager
    work on the stream that it was captured on.
    """
    key = (index, stream, _capturing())
    found = _known.get(key)
    if found is None or found[1] < size_bytes:
        with _lock:
            found = _known[key] = _make(index, stream, size_bytes, key[2])
    return found


def _make(index, stream, size_bytes, capturing):
    if size_bytes > SLOT_BYTES:
        columns = -(-size_bytes // SLOT_BYTES) * SLOT_BYTES // 8
        return _allocate(index, 1, columns).data_ptr(), columns * 8
    free = _free.setdefault(index, [])
    if not free:
        if capturing:
            # No slot is left over from earlier eager work. Zeroing one becomes a node of the graph,
            # so this graph's fault record lasts from one replay to the next.
            return _allocate(index, 1, SLOT_BYTES // 8).data_ptr(), SLOT_BYTES
        slab = _allocate(index, _SLOTS, SLOT_BYTES // 8)
        # Once per device: other streams take slots later and must find them zeroed.
        torch.cuda.current_stream(index).synchronize()
        free.extend(slab.data_ptr() + slot * SLOT_BYTES for slot in range(_SLOTS))
    return free.pop(), SLOT_BYTES


def _allocate(index, slots, columns):
    with torch.inference_mode(False), torch.no_grad():
        tensor = torch.zeros((slots, columns), dtype=torch.int64, device=f"cuda:{index}")
    _memory.setdefault(index, []).append(tensor)
    return tensor


def devices():
    return list(_memory)


def read_fault(index):
    """Waits for the device; returns the fault of the lowest expert and clears all records."""
    torch.cuda.synchronize(index)
    stream = torch._C._cuda_getCurrentRawStream(index)
    lowest = None
    for memory in _memory.get(index, ()):
        words = memory[:, 0].cpu()
        for slot in words.nonzero().flatten().tolist():
            size_bytes = memory.shape[1] * 8
            fault = read_workspace_fault(memory.data_ptr() + slot * size_bytes, size_bytes,
                                         ("cuda", index), stream)
            if fault is not None and (lowest is None or fault.expert < lowest.expert):
                lowest = fault
    return lowest
