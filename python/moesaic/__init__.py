# SPDX-License-Identifier: Apache-2.0
"""Grouped GEMM over the rows that Mixture-of-Experts routing produced.

`grouped_mm`, `wgrad` and `swiglu_mlp` take NumPy arrays and run on the CPU; `moesaic.torch` has the
same products for tensors, differentiable and on CUDA. Nothing is loaded before it is used.
"""

import importlib

from ._errors import DeviceFailure, Error, InvalidArgument, Unsupported
from ._gemm import Candidate, Fault, candidates
from ._library import version

_NUMPY = ("grouped_mm", "wgrad", "swiglu_mlp", "read_fault")

__all__ = ["Candidate", "DeviceFailure", "Error", "Fault", "InvalidArgument", "Unsupported",
           "candidates", "version", *_NUMPY]


def __getattr__(name):
    if name in _NUMPY:
        return getattr(importlib.import_module(".numpy", __name__), name)
    if name in ("torch", "numpy"):
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'moesaic' has no attribute {name!r}")
