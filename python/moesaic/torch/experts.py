# SPDX-License-Identifier: Apache-2.0
"""SwiGLUExperts: the experts of a Mixture-of-Experts block as an nn.Module."""

import math

import torch

from .. import _gemm
from .._errors import refuse
from .._mlp import ORDERS
from . import _arguments, _hugging_face, _mlp, _mlp_ops, _routing


class SwiGLUExperts(torch.nn.Module):
    """E SwiGLU experts of width h over tokens of width d.

    w_up_gate is [E, 2h, d], its lines as `order` says ("up_gate", "gate_up" or "interleaved"; no
    default), w_down [E, d, h]. With `recompute` backward computes U again instead of keeping it.

    Called with rows already sorted by expert, it is swiglu_mlp and takes its buffers, x_rows and
    row_weights:
        experts(x, offs=offs) -> [M, d]
    Called with tokens and where they go, it sorts them, without a host synchronization, and returns
    the sum of each token's experts, weighted. This is the call of the experts of a Hugging Face
    block, in whose place it can stand:
        experts(hidden_states, top_k_index, top_k_weights) -> like hidden_states
    Routes to ids below 0 or from E on go to no expert and add nothing.
    """

    def __init__(self, num_experts, hidden_size, intermediate_size, *, order, recompute=False,
                 device=None, dtype=None):
        super().__init__()
        for argument, value in (("hidden_size", hidden_size), ("intermediate_size", intermediate_size)):
            if value <= 0 or value % 8:
                refuse(argument, "a positive multiple of 8", value)
        if num_experts <= 0:
            refuse("num_experts", "at least one", num_experts)
        self.order = _gemm.check_word("order", order, ORDERS)
        self.recompute = bool(recompute)
        where = {"device": device, "dtype": dtype}
        self.w_up_gate = torch.nn.Parameter(
            torch.empty(num_experts, 2 * intermediate_size, hidden_size, **where))
        self.w_down = torch.nn.Parameter(
            torch.empty(num_experts, hidden_size, intermediate_size, **where))
        self.reset_parameters()

    @property
    def num_experts(self):
        return self.w_down.shape[0]

    @property
    def hidden_size(self):
        return self.w_down.shape[1]

    @property
    def intermediate_size(self):
        return self.w_down.shape[2]

    def reset_parameters(self):
        """Each expert as torch.nn.Linear does it."""
        for weight in (self.w_up_gate, self.w_down):
            bound = 1 / math.sqrt(weight.shape[-1])
            torch.nn.init.uniform_(weight, -bound, bound)

    def extra_repr(self):
        return (f"num_experts={self.num_experts}, hidden_size={self.hidden_size}, "
                f"intermediate_size={self.intermediate_size}, order={self.order!r}, "
                f"recompute={self.recompute}")

    def forward(self, hidden_states, top_k_index=None, top_k_weights=None, *, offs=None, **buffers):
        if offs is not None:
            for argument, value in (("top_k_index", top_k_index), ("top_k_weights", top_k_weights)):
                if value is not None:
                    refuse(argument, "None where offs tells of rows that are sorted", "a tensor")
            return _mlp.swiglu_mlp(hidden_states, self.w_up_gate, self.w_down, offs=offs, order=self.order,
                              recompute=self.recompute, **buffers)
        for argument in buffers:
            refuse(argument, "offs beside it: it is for rows that are sorted", "no offs")
        return self._routed(hidden_states, top_k_index, top_k_weights)

    def _routed(self, hidden_states, top_k_index, top_k_weights):
        _arguments.check_tensors(hidden_states=hidden_states, top_k_index=top_k_index,
                                 top_k_weights=top_k_weights)
        tokens = hidden_states.reshape(-1, hidden_states.shape[-1])
        if tokens.shape[-1] != self.hidden_size:
            refuse("hidden_states", f"[..., {self.hidden_size}]", list(hidden_states.shape))
        if top_k_index.is_floating_point() or top_k_index.dtype == torch.bool:
            refuse("top_k_index", "integers", top_k_index.dtype)
        top_k = top_k_index.shape[-1]
        if top_k_index.numel() != tokens.shape[0] * top_k:
            refuse("top_k_index", f"[{tokens.shape[0]}, k], a line for every token",
                   list(top_k_index.shape))
        if top_k_weights.shape != top_k_index.shape:
            refuse("top_k_weights", f"{list(top_k_index.shape)}, as top_k_index",
                   list(top_k_weights.shape))
        routing = _routing.sort_routes(top_k_index, self.num_experts)
        rows = _mlp.run((tokens, self.w_up_gate, self.w_down, routing.offs, None), routing.gather,
                        self.order, self.recompute, _mlp_ops.Buffers(), False)
        summed = _routing.to_tokens(rows, top_k_weights.reshape(-1, top_k), routing)
        return summed.to(hidden_states.dtype).view(hidden_states.shape)

    @classmethod
    def from_hugging_face(cls, source, *, prefix=None, order=None, recompute=False):
        """The experts of a Qwen2-MoE, Qwen3-MoE or OLMoE block of `transformers`.

        source   the block, its experts, or a state dict of these or of a whole model. Their weights
                 may be fused (gate_up_proj and down_proj, as [E, out, in] or transposed: their
                 shapes tell) or one by one (gate_proj, up_proj, down_proj of torch.nn.Linear).
        prefix   where in a state dict of several layers: "model.layers.3.mlp.experts."
        order    of the lines of a fused gate_up_proj; by default "gate_up", as these models have it.

        The weights are copied. Biases, another activation than SiLU and names that are not those of
        experts are refused by name.
        """
        weights = _hugging_face.read(source, prefix, order)
        experts, d, h = weights.w_down.shape
        made = cls(experts, d, h, order=weights.order, recompute=recompute,
                   device="meta", dtype=weights.w_down.dtype)
        made.w_up_gate = torch.nn.Parameter(weights.w_up_gate)
        made.w_down = torch.nn.Parameter(weights.w_down)
        return made

    def to_hugging_face(self, *, fused=True, prefix="experts."):
        """The weights as a state dict of `transformers`: gate_up_proj and down_proj, or, not fused,
        gate_proj, up_proj and down_proj of each expert. Copies."""
        return _hugging_face.write(self.w_up_gate.detach(), self.w_down.detach(), self.order, fused,
                                   prefix)
