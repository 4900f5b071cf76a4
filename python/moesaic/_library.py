# SPDX-License-Identifier: Apache-2.0
"""Finds and loads libmoesaic.so; mirrors the structs of include/moesaic/c_api*.h for ctypes."""

import ctypes
import os
import re
import threading
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int, c_int32, c_int64,
                    c_size_t, c_uint64, c_void_p)
from pathlib import Path

from ._errors import BY_STATUS, Error

ABI_VERSION = 5
FILE_NAME = "libmoesaic.so"


class Device(Structure):
    _fields_ = [("kind", c_int32), ("index", c_int32)]


class DeviceInfo(Structure):
    _fields_ = [("device", Device), ("compute_capability", c_int32), ("num_sms", c_int32),
                ("smem_bytes_per_block", c_int64), ("l2_bytes", c_int64),
                ("dram_bytes_per_second", c_double), ("bf16_flops_per_second", c_double),
                ("name", ctypes.c_char * 128)]


class Tensor(Structure):
    _fields_ = [("data", c_void_p), ("shape", c_int64 * 3), ("stride", c_int64 * 3),
                ("dtype", c_int32), ("rank", c_int32), ("device", Device)]


class GemmProblem(Structure):
    # "pass" is a keyword of Python; the place in the struct is what counts.
    _fields_ = [("pass_", c_int32), ("format", c_int32), ("d_dtype", c_int32), ("weights", c_int32),
                ("tail", c_int32), ("strategy", c_int32), ("accumulate", c_int32),
                ("num_experts", c_int32), ("max_rows", c_int64), ("n", c_int64), ("k", c_int64),
                ("capacity_rule", c_int32), ("reserved", c_int32),
                ("capacity_factor_millionths", c_int64), ("capacity_source_ranks", c_int64)]


class PlanOptions(Structure):
    _fields_ = [("implementation", c_char_p), ("num_sms", c_int32), ("batch_invariant", c_int32)]


class Operand(Structure):
    _fields_ = [("qdata", Tensor), ("scales", Tensor)]


class GemmArgs(Structure):
    _fields_ = [("a", Operand), ("b", Operand), ("offs", Tensor), ("d", Tensor),
                ("packed_b", c_void_p)]


class Workspace(Structure):
    _fields_ = [("data", c_void_p), ("size_bytes", c_size_t)]


class FaultRecord(Structure):
    _fields_ = [("kind", c_int32), ("expert", c_int32), ("value", c_int64)]


class ExpertMlpProblem(Structure):
    _fields_ = [("format", c_int32), ("order", c_int32), ("activations", c_int32),
                ("tail", c_int32), ("wgrad_dtype", c_int32), ("accumulate_wgrad", c_int32),
                ("strategy", c_int32), ("num_experts", c_int32), ("max_rows", c_int64), ("d", c_int64), ("h", c_int64),
                ("capacity_rule", c_int32), ("reserved", c_int32),
                ("capacity_factor_millionths", c_int64), ("capacity_source_ranks", c_int64),
                ("row_weights", c_int32), ("x_rows", c_int32)]


class ExpertMlpForwardArgs(Structure):
    _fields_ = [(name, Tensor) for name in ("x", "w_up_gate", "w_down", "offs", "y", "u")] + [
        ("packed_up_gate", c_void_p), ("packed_down", c_void_p), ("scratch", Workspace),
        ("row_weights", Tensor), ("x_rows", Tensor)]


class ExpertMlpBackwardArgs(Structure):
    _fields_ = [(name, Tensor) for name in ("dy", "x", "w_up_gate", "w_down", "offs", "u", "dx",
                                            "dw_up_gate", "dw_down")] + [
        ("scratch", Workspace), ("row_weights", Tensor), ("drow_weights", Tensor),
        ("x_rows", Tensor)]


# Expert parallelism: c_api_exchange.h.

_SET = CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t)
_GET = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int64, c_void_p, c_size_t, POINTER(c_size_t))


class Rendezvous(Structure):
    _fields_ = [("state", c_void_p), ("set", _SET), ("get", _GET)]


class EpGroupOptions(Structure):
    _fields_ = [("rank", c_int32), ("num_ranks", c_int32), ("device", Device),
                ("heap_bytes", c_uint64), ("timeout_seconds", c_double), ("rendezvous", Rendezvous)]


class EpPoolUsage(Structure):
    _fields_ = [("leases", c_int64), ("leased_bytes", c_uint64), ("high_water_bytes", c_uint64),
                ("pooled_bytes", c_uint64)]


class EpProblem(Structure):
    _fields_ = [("format", c_int32), ("num_experts", c_int32), ("topk", c_int32),
                ("dispatch", c_int32), ("max_tokens", c_int64), ("d", c_int64),
                ("capacity_factor_millionths", c_int64)]


class EpOptions(Structure):
    _fields_ = [("nblocks", c_int32), ("pre_barrier", c_int32), ("post_barrier", c_int32)]


def _ep_args(name, tensors, workspace=True):
    fields = [(field, Tensor) for field in tensors.split()]
    return type(name, (Structure,), {
        "_fields_": fields + ([("workspace", Workspace)] if workspace else [])})


EpRouteMapsArgs = _ep_args(
    "EpRouteMapsArgs", "expert_ids dst_ranks dst_rows offs kept src_ranks src_routes")
EpDispatchPutArgs = _ep_args("EpDispatchPutArgs", "input out dst_ranks dst_rows probs")
EpCombineGetArgs = _ep_args(
    "EpCombineGetArgs", "expert_out out src_ranks src_rows probs gathered")
EpGatherGetArgs = _ep_args("EpGatherGetArgs", "expert_out gathered src_ranks src_rows")
EpProbsGradArgs = _ep_args("EpProbsGradArgs", "gathered dout src_ranks src_rows dprobs", False)


class EpRouteFault(Structure):
    _fields_ = [("kind", c_int32), ("slot", c_int32), ("token", c_int64), ("value", c_int64)]


_OPTIONS = POINTER(PlanOptions)
_TRANSFER = [c_size_t, POINTER(EpOptions), c_void_p]
_WORKSPACE = POINTER(Workspace)
# name: (result, arguments); a result of c_int is a status.
_FUNCTIONS = {
    "moesaic_abi_version": (c_int32, []),
    "moesaic_version": (c_char_p, []),
    "moesaic_last_error": (c_char_p, []),
    "moesaic_query_device": (c_int, [Device, POINTER(DeviceInfo)]),
    "moesaic_gemm_create": (c_int, [POINTER(GemmProblem), Device, _OPTIONS, POINTER(c_void_p)]),
    "moesaic_gemm_destroy": (None, [c_void_p]),
    "moesaic_gemm_workspace_bytes": (c_size_t, [c_void_p]),
    "moesaic_gemm_implementation": (c_char_p, [c_void_p]),
    "moesaic_gemm_execute_at": (c_int, [c_void_p] * 7 + [c_size_t, c_void_p]),
    "moesaic_gemm_candidates": (c_int, [POINTER(GemmProblem), Device, _OPTIONS, POINTER(c_void_p)]),
    "moesaic_candidate_count": (c_size_t, [c_void_p]),
    "moesaic_candidate_name": (c_char_p, [c_void_p, c_size_t]),
    "moesaic_candidate_reason": (c_char_p, [c_void_p, c_size_t]),
    "moesaic_candidate_list_destroy": (None, [c_void_p]),
    "moesaic_read_fault": (c_int, [_WORKSPACE, Device, c_void_p, POINTER(FaultRecord)]),
    "moesaic_expert_mlp_create": (
        c_int, [POINTER(ExpertMlpProblem), Device, _OPTIONS, POINTER(c_void_p)]),
    "moesaic_expert_mlp_destroy": (None, [c_void_p]),
    "moesaic_expert_mlp_forward_workspace_bytes": (c_size_t, [c_void_p]),
    "moesaic_expert_mlp_backward_workspace_bytes": (c_size_t, [c_void_p]),
    "moesaic_expert_mlp_forward_scratch_bytes": (c_size_t, [c_void_p]),
    "moesaic_expert_mlp_backward_scratch_bytes": (c_size_t, [c_void_p]),
    "moesaic_expert_mlp_forward": (
        c_int, [c_void_p, POINTER(ExpertMlpForwardArgs), _WORKSPACE, c_void_p]),
    "moesaic_expert_mlp_backward": (
        c_int, [c_void_p, POINTER(ExpertMlpBackwardArgs), _WORKSPACE, c_void_p]),
    "moesaic_ep_group_simulated": (c_int, [c_int32, POINTER(c_void_p)]),
    "moesaic_ep_group_nvshmem": (c_int, [POINTER(EpGroupOptions), POINTER(c_void_p)]),
    "moesaic_ep_group_destroy": (None, [c_void_p]),
    "moesaic_ep_group_num_ranks": (c_int32, [c_void_p]),
    "moesaic_ep_group_num_local_ranks": (c_int32, [c_void_p]),
    "moesaic_ep_group_barriers": (c_int64, [c_void_p]),
    "moesaic_ep_group_lease": (c_int, [c_void_p, c_uint64, POINTER(c_int64), POINTER(c_void_p)]),
    "moesaic_ep_group_release": (c_int, [c_void_p, c_int64]),
    "moesaic_ep_group_pool_usage": (c_int, [c_void_p, POINTER(EpPoolUsage)]),
    "moesaic_ep_group_barrier": (c_int, [c_void_p, c_void_p]),
    "moesaic_ep_group_check": (c_int, [c_void_p, c_void_p]),
    "moesaic_ep_create": (c_int, [POINTER(EpProblem), c_void_p, POINTER(c_void_p)]),
    "moesaic_ep_destroy": (None, [c_void_p]),
    "moesaic_ep_implementation": (c_char_p, [c_void_p]),
    "moesaic_ep_dispatch_form": (c_int32, [c_void_p]),
    "moesaic_ep_max_rows": (c_int64, [c_void_p]),
    "moesaic_ep_workspace_bytes": (c_size_t, [c_void_p]),
    "moesaic_ep_route_maps": (c_int, [c_void_p, POINTER(EpRouteMapsArgs), c_size_t, c_void_p]),
    "moesaic_ep_dispatch_put": (c_int, [c_void_p, POINTER(EpDispatchPutArgs), *_TRANSFER]),
    "moesaic_ep_combine_get": (c_int, [c_void_p, POINTER(EpCombineGetArgs), *_TRANSFER]),
    "moesaic_ep_combine_get_fused": (c_int, [c_void_p, POINTER(EpCombineGetArgs), *_TRANSFER]),
    "moesaic_ep_gather_get": (c_int, [c_void_p, POINTER(EpGatherGetArgs), *_TRANSFER]),
    "moesaic_ep_probs_grad": (c_int, [c_void_p, POINTER(EpProbsGradArgs), c_size_t, c_void_p]),
    "moesaic_ep_read_fault": (c_int, [c_void_p, _WORKSPACE, c_void_p, POINTER(EpRouteFault)]),
    "moesaic_ep_read_dropped_routes": (c_int, [c_void_p, _WORKSPACE, c_void_p, POINTER(c_int64)]),
}

_lock = threading.Lock()
_loaded = None


def _places():
    """Where the library may be, in order: the variable alone when it is set."""
    named = os.environ.get("MOESAIC_LIBRARY")
    if named:
        return [Path(named)]
    package = Path(__file__).resolve().parent
    places = [package / FILE_NAME]
    source = package.parent.parent
    if (source / "include/moesaic/c_api.h").is_file():
        built = [path for path in source.glob("build/*/src/c_api/" + FILE_NAME)]
        built.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        places += built or [source / "build/release/src/c_api" / FILE_NAME]
    return places


def _open():
    places = _places()
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise Error(f"{FILE_NAME} was not found; looked at: " + ", ".join(map(str, places)) +
                    ". Build it (make build) or set MOESAIC_LIBRARY to its path")
    try:
        library = ctypes.CDLL(str(found))
    except OSError as error:
        raise Error(f"{found} could not be loaded: {error}") from error
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name, None)
        if function is None:
            raise Error(f"{found} is no moesaic library of this version: it lacks {name}")
        function.restype, function.argtypes = result, arguments
    abi = library.moesaic_abi_version()
    if abi != ABI_VERSION:
        raise Error(f"{found}: expected ABI version {ABI_VERSION}, got {abi}")
    return library


def load():
    """The loaded library; loads it on the first call."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = _open()
    return _loaded


def error(status, names=None):
    """The exception for a status; `names` maps the C argument names to the caller's."""
    message = load().moesaic_last_error().decode()
    # "d: expected memory apart from a, got …" is "out: expected memory apart from mat_a, got …".
    message = re.sub(r"^\w+(?=:)|(?<=memory apart from )\w+",
                     lambda found: (names or {}).get(found[0], found[0]), message)
    return BY_STATUS.get(status, Error)(message)


def check(status, names=None):
    if status != 0:
        raise error(status, names)


def version():
    """Version, commit and what the loaded library was built with."""
    return load().moesaic_version().decode()
