# SPDX-License-Identifier: Apache-2.0
"""CUDA workspaces: one per device and stream and one per captured graph, zeroed once, kept for the
life of the process."""

import threading

import torch

from .._errors import Error
from .._gemm import read_workspace_fault
from . import _driver

SLOT_BYTES = 256  # a workspace that holds nothing but its header
_SLOTS = 256

_lock = threading.Lock()
_known = {}  # (device index, stream, under capture) -> (address, bytes, capture)
_slabs = {}  # device index -> [(address, slots, bytes of a slot)]
_free = {}  # device index -> addresses of zeroed slots that nobody has
_capturing = getattr(torch._C, "_cuda_isCurrentStreamCapturing", None)
current_device = getattr(torch._C, "_cuda_getDevice", None)


def _capture(index, stream):
    if not _capturing() and current_device() == index:
        return 0  # the usual case, without the driver's answer
    return _driver.capture_id(index, stream)


def address(index, stream, size_bytes):
    """The workspace of `stream` on device `index`: (address, bytes).

    Work that a graph captures has a workspace of its own: replays may overlap with eager work on
    the stream that it was captured on, and with those of other graphs captured there.
    """
    capture = _capture(index, stream)
    key = (index, stream, capture != 0)
    found = _known.get(key)
    if found is None or found[2] != capture or found[1] < size_bytes:
        with _lock:
            found = _known[key] = (*_take(index, size_bytes), capture)
    return found[:2]


def _take(index, size_bytes):
    """Zeroed memory, never a zeroing that a graph would repeat: replays keep what others found."""
    if size_bytes > SLOT_BYTES:
        size_bytes = -(-size_bytes // SLOT_BYTES) * SLOT_BYTES
        return _new_slab(index, 1, size_bytes), size_bytes
    free = _free.setdefault(index, [])
    if not free:
        slab = _new_slab(index, _SLOTS, SLOT_BYTES)
        free.extend(slab + slot * SLOT_BYTES for slot in range(_SLOTS))
    return free.pop(), SLOT_BYTES


def _new_slab(index, slots, slot_bytes):
    slab = _driver.allocate_zeroed(index, slots * slot_bytes)
    _slabs.setdefault(index, []).append((slab, slots, slot_bytes))
    return slab


def devices():
    return list(_slabs)


def read_fault(index):
    """Waits for the device; returns the fault of the lowest expert and clears all records."""
    if index not in _slabs:
        return None
    stream = torch._C._cuda_getCurrentRawStream(index)
    if _capture(index, stream):
        raise Error("read_fault: expected a stream that is not captured, since it waits for the "
                    f"device, got the captured current stream of cuda:{index}")
    torch.cuda.synchronize(index)
    lowest = None
    for slab, slots, slot_bytes in list(_slabs[index]):
        words = _driver.read_words(index, slab, slots * slot_bytes // 8)
        for slot, word in enumerate(words[::slot_bytes // 8]):
            if word == 0:
                continue
            fault = read_workspace_fault(slab + slot * slot_bytes, slot_bytes, ("cuda", index),
                                         stream)
            if fault is not None and (lowest is None or fault.expert < lowest.expert):
                lowest = fault
    return lowest
