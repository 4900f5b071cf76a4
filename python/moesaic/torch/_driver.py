# SPDX-License-Identifier: Apache-2.0
"""The few CUDA driver calls that workspaces need and torch does not offer.

They work while a graph is captured, on this thread or another, and leave nothing in the graph:
torch's allocator would take the memory from the pool of that graph, and its zeroing would be
captured.
"""

import contextlib
import ctypes
import threading
from ctypes import POINTER, byref, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p

from .._errors import DeviceFailure

_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_ACTIVE = 1  # CU_STREAM_CAPTURE_STATUS_ACTIVE
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
_CAPTURE_IMPLICIT = 906  # of the legacy stream, which cannot be captured, beside a capture

_FUNCTIONS = {
    "cuGetErrorName": [c_int, POINTER(ctypes.c_char_p)],
    "cuDeviceGet": [POINTER(c_int), c_int],
    "cuDevicePrimaryCtxRetain": [POINTER(c_void_p), c_int],
    "cuCtxPushCurrent_v2": [c_void_p],
    "cuCtxPopCurrent_v2": [POINTER(c_void_p)],
    "cuThreadExchangeStreamCaptureMode": [POINTER(c_int)],
    "cuStreamCreate": [POINTER(c_void_p), c_uint],
    "cuStreamSynchronize": [c_void_p],
    "cuStreamDestroy_v2": [c_void_p],
    "cuStreamGetCaptureInfo_v2": [c_void_p, POINTER(c_int), POINTER(c_uint64)] + [c_void_p] * 3,
    "cuMemAlloc_v2": [POINTER(c_uint64), c_size_t],
    "cuMemsetD8Async": [c_uint64, c_ubyte, c_size_t, c_void_p],
    "cuMemcpyDtoHAsync_v2": [c_void_p, c_uint64, c_size_t, c_void_p],
}

_lock = threading.Lock()
_loaded = None
_contexts = {}  # device index -> its primary context, retained for the life of the process


def _driver():
    global _loaded
    with _lock:
        if _loaded is None:
            library = ctypes.CDLL("libcuda.so.1")
            for name, arguments in _FUNCTIONS.items():
                getattr(library, name).argtypes = arguments
            _loaded = library
    return _loaded


def _call(name, *arguments):
    status = getattr(_driver(), name)(*arguments)
    if status:
        text = ctypes.c_char_p()
        _driver().cuGetErrorName(status, byref(text))
        raise DeviceFailure(f"{name}: {(text.value or b'').decode()} ({status})")


@contextlib.contextmanager
def _on(index):
    """The device's context is current, which a fresh thread does not have."""
    if index not in _contexts:
        device, context = c_int(), c_void_p()
        _call("cuDeviceGet", byref(device), index)
        _call("cuDevicePrimaryCtxRetain", byref(context), device)
        _contexts[index] = context
    _call("cuCtxPushCurrent_v2", _contexts[index])
    try:
        yield
    finally:
        _call("cuCtxPopCurrent_v2", byref(c_void_p()))


@contextlib.contextmanager
def _outside_captures():
    """This thread may allocate and wait, whatever is captured; gives a stream to do it on."""
    mode, stream = c_int(_RELAXED), c_void_p()
    _call("cuThreadExchangeStreamCaptureMode", byref(mode))
    try:
        _call("cuStreamCreate", byref(stream), _NON_BLOCKING)
        try:
            yield stream
            _call("cuStreamSynchronize", stream)
        finally:
            _call("cuStreamDestroy_v2", stream)
    finally:
        _call("cuThreadExchangeStreamCaptureMode", byref(mode))


def capture_id(index, stream):
    """The number of the capture that a stream of the device takes part in; 0 without one."""
    status, number = c_int(), c_uint64()
    with _on(index):
        result = _driver().cuStreamGetCaptureInfo_v2(stream, byref(status), byref(number), None,
                                                     None, None)
    if result and result != _CAPTURE_IMPLICIT:
        raise DeviceFailure(f"cuStreamGetCaptureInfo: error {result}")
    return number.value if status.value == _ACTIVE and not result else 0


def allocate_zeroed(index, size_bytes):
    """The address of device memory that is zero by the time of return. It is never freed."""
    address = c_uint64()
    with _on(index), _outside_captures() as stream:
        _call("cuMemAlloc_v2", byref(address), size_bytes)
        _call("cuMemsetD8Async", address, 0, size_bytes, stream)
    return address.value


def read_words(index, address, count):
    """`count` 64-bit words of device memory."""
    words = (c_uint64 * count)()
    with _on(index), _outside_captures() as stream:
        _call("cuMemcpyDtoHAsync_v2", words, address, 8 * count, stream)
    return words
