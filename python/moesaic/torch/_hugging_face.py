# SPDX-License-Identifier: Apache-2.0
"""Weights of experts as `transformers` keeps them, which it has done in two ways.

Fused (from 5.0 on): gate_up_proj [E, 2h, d] with the gate first, down_proj [E, d, h]; some models
store both transposed. One by one (up to 4.x): torch.nn.Linear gate_proj, up_proj, down_proj per
expert. `transformers` itself is not needed here.
"""

import re
from typing import NamedTuple

import torch

from .. import _gemm
from .._errors import refuse
from .._mlp import ORDERS

_FUSED = re.compile(r"(?P<prefix>(?:.*\.)?)(?P<part>gate_up_proj|down_proj)")
_SINGLE = re.compile(r"(?P<prefix>(?:.*\.)?)(?P<expert>\d+)\.(?P<part>gate_proj|up_proj|down_proj)"
                     r"\.weight")
_PARTS = ("gate_proj", "up_proj", "down_proj")
_NO_LAYOUT = ("gate_up_proj and down_proj, or gate_proj, up_proj and down_proj of each expert")


class Weights(NamedTuple):
    """Copies, row-major: w_up_gate [E, 2h, d], its lines in `order`, and w_down [E, d, h]."""
    w_up_gate: torch.Tensor
    w_down: torch.Tensor
    order: str


def read(source, prefix, order):
    """The experts' weights of a module or a state dict."""
    if order is not None:
        _gemm.check_word("order", order, ORDERS)
    if isinstance(source, torch.nn.Module):
        source = getattr(source, "experts", source)
        _check_module(source)
        source = source.state_dict()
    if not hasattr(source, "items"):
        refuse("source", "a module or a state dict", type(source).__name__)
    tensors = {name: tensor for name, tensor in source.items() if isinstance(tensor, torch.Tensor)}
    prefix = _find(tensors, prefix)
    mine = {name[len(prefix):]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    with torch.no_grad():
        if "gate_up_proj" in mine or "down_proj" in mine:
            return _read_fused(mine, prefix, order or "gate_up")
        if order not in (None, "gate_up"):
            refuse("order", "None: gate_proj and up_proj are told apart by name", repr(order))
        return _read_single(mine, prefix)


def _check_module(experts):
    """What weights alone do not show: the activation, and how a fused product is gated."""
    for name, module in experts.named_modules():
        where = f"source.{name}" if name else "source"
        activation = getattr(module, "act_fn", None)
        if activation is not None and not _is_silu(activation):
            refuse(f"{where}.act_fn", "SiLU", activation)
        for flag, expected in (("is_concatenated", True), ("has_gate", True), ("has_bias", False),
                               ("has_post_expert_norm", False)):
            if getattr(module, flag, expected) != expected:
                refuse(f"{where}.{flag}", f"{expected}, as in Qwen-MoE and OLMoE", not expected)


def _is_silu(activation):
    return (activation is torch.nn.functional.silu or isinstance(activation, torch.nn.SiLU) or
            type(activation).__name__ in ("SiLUActivation", "SiLU"))


def _find(tensors, prefix):
    """Where the experts are: the names before gate_up_proj or the experts' numbers."""
    found = sorted({match["prefix"] for name in tensors
                    if (match := _FUSED.fullmatch(name) or _SINGLE.fullmatch(name))})
    if prefix is not None:
        if prefix not in found:
            refuse("prefix", _one_of(found) if found else _NO_LAYOUT, repr(prefix))
        return prefix
    if not found:
        refuse("source", _NO_LAYOUT, f"{len(tensors)} other tensors" if tensors else "no tensors")
    if len(found) > 1:
        refuse("prefix", _one_of(found) + f", since source has {len(found)} layers", None)
    return found[0]


def _one_of(names):
    return " or ".join(map(repr, names[:3])) + (" or …" if len(names) > 3 else "")


def _refuse_others(mine, prefix, expected):
    for name in mine:
        if name not in expected:
            refuse(prefix + name, "no other tensor beside the weights of the experts (biases and "
                   "quantized weights are not read)", list(mine[name].shape))


def _check_alike(named, shape_text, shapes):
    """Tensors of one floating type and device, each of its shape."""
    first = next(iter(named.values()))
    for (name, tensor), shape in zip(named.items(), shapes):
        if tuple(tensor.shape) != tuple(shape):
            refuse(name, f"{list(shape)} ({shape_text})", list(tensor.shape))
        if not tensor.is_floating_point() or tensor.dtype != first.dtype:
            refuse(name, "one floating type for all weights", f"{tensor.dtype} beside {first.dtype}")
        if tensor.device != first.device:
            refuse(name, f"memory on {first.device}, as the others", tensor.device)


def _read_fused(mine, prefix, order):
    _refuse_others(mine, prefix, ("gate_up_proj", "down_proj"))
    for name in ("gate_up_proj", "down_proj"):
        if name not in mine:
            refuse(prefix + name, "a tensor beside the other one", "none")
        if mine[name].dim() != 3:
            refuse(prefix + name, "[E, out, in] or [E, in, out]", list(mine[name].shape))
    gate_up, down = mine["gate_up_proj"], mine["down_proj"]
    experts, first, second = down.shape
    # [E, 2h, d] beside [E, d, h], or both transposed; no two sizes can be read both ways.
    plain = tuple(gate_up.shape) == (experts, 2 * second, first)
    if not plain and tuple(gate_up.shape) != (experts, second, 2 * first):
        refuse(prefix + "gate_up_proj", f"{[experts, 2 * second, first]} beside down_proj "
               f"{list(down.shape)}, or {[experts, second, 2 * first]} where both are transposed",
               list(gate_up.shape))
    _check_alike({prefix + "gate_up_proj": gate_up, prefix + "down_proj": down}, "fused",
                 (gate_up.shape, down.shape))
    if not plain:
        gate_up, down = gate_up.transpose(1, 2), down.transpose(1, 2)
    return Weights(_copy(gate_up), _copy(down), order)


def _copy(tensor):
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def _read_single(mine, prefix):
    numbers = sorted({int(match["expert"]) for name in mine if (match := _SINGLE.fullmatch(name))})
    expected = [f"{expert}.{part}.weight" for expert in range(numbers[-1] + 1) for part in _PARTS]
    _refuse_others(mine, prefix, set(expected))
    for name in expected:
        if name not in mine:
            refuse(prefix + name, f"a tensor for each of {numbers[-1] + 1} experts", "none")
        if mine[name].dim() != 2:
            refuse(prefix + name, "[out, in]", list(mine[name].shape))
    h, d = mine["0.gate_proj.weight"].shape
    _check_alike({prefix + name: mine[name] for name in expected},
                 f"as {prefix}0.gate_proj.weight is [h, d] = {[h, d]}",
                 [(d, h) if "down" in name else (h, d) for name in expected])
    experts = range(numbers[-1] + 1)
    up_gate = torch.stack([torch.cat([mine[f"{expert}.gate_proj.weight"],
                                      mine[f"{expert}.up_proj.weight"]]) for expert in experts])
    down = torch.stack([mine[f"{expert}.down_proj.weight"] for expert in experts])
    return Weights(up_gate.detach(), down.detach(), "gate_up")


def write(w_up_gate, w_down, order, fused, prefix):
    """A state dict of copies in either layout."""
    h = w_down.shape[2]
    gate, up = {"gate_up": (w_up_gate[:, :h], w_up_gate[:, h:]),
                "up_gate": (w_up_gate[:, h:], w_up_gate[:, :h]),
                "interleaved": (w_up_gate[:, 1::2], w_up_gate[:, ::2])}[order]
    if fused:
        return {f"{prefix}gate_up_proj": torch.cat([gate, up], 1), f"{prefix}down_proj": _copy(w_down)}
    return {f"{prefix}{expert}.{part}.weight": _copy(stack[expert])
            for expert in range(w_down.shape[0])
            for part, stack in zip(_PARTS, (gate, up, w_down))}
