#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SwiGLUExperts beside the blocks of `transformers` with random weights: output and every gradient,
in FP32 and BF16, and beside FP64. Runs with the fused experts of 5.x and the single ones of 4.x."""

import sys
import unittest

from torch_cases import BF16, MLP_CUDA, MLP_DEVICE, MoesaicTest

import torch

import moesaic.torch as m

try:
    import transformers
    from transformers.models.olmoe import modeling_olmoe
    from transformers.models.qwen2_moe import modeling_qwen2_moe
    from transformers.models.qwen3_moe import modeling_qwen3_moe
except ImportError as error:
    print(f"SKIPPED: {error} (scripts/setup.sh --torch adds it to .venv)")
    sys.exit(0)

E, D, H, TOP_K = 12, 64, 40, 3
COMMON = dict(hidden_size=D, num_experts_per_tok=TOP_K, num_hidden_layers=1, num_attention_heads=4,
              num_key_value_heads=4, vocab_size=16)
FAMILIES = {
    "OLMoE": lambda: modeling_olmoe.OlmoeSparseMoeBlock(configured(
        transformers.OlmoeConfig, num_experts=E, intermediate_size=H, norm_topk_prob=False)),
    "Qwen2-MoE": lambda: modeling_qwen2_moe.Qwen2MoeSparseMoeBlock(configured(
        transformers.Qwen2MoeConfig, num_experts=E, moe_intermediate_size=H,
        shared_expert_intermediate_size=48, norm_topk_prob=False)),
    "Qwen3-MoE": lambda: modeling_qwen3_moe.Qwen3MoeSparseMoeBlock(configured(
        transformers.Qwen3MoeConfig, num_experts=E, moe_intermediate_size=H, norm_topk_prob=True)),
}
FUSED = int(transformers.__version__.split(".")[0]) >= 5
# Shares of a tensor's RMS: of the RMS of all differences, and of the worst one. In BF16 the block
# rounds after every step: it is itself 0.5 to 0.8 % from FP64, its worst element 3 to 18 %.
SHARES = {BF16: (0.012, 0.3), torch.float32: (3e-6, 3e-5)}


def configured(kind, **options):
    config = kind(**COMMON, **options)
    config._experts_implementation = "eager"  # the modelling code itself, not its grouped products
    return config


def make_block(family, dtype):
    torch.manual_seed(8)
    block = FAMILIES[family]()
    for parameter in block.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return block.to(dtype).to(MLP_DEVICE)


def run_block(block, x):
    y = block(x)
    return y[0] if isinstance(y, tuple) else y  # 4.x gives the router's logits too


def route(block, tokens):
    """The block's own routing: (top_k_index, top_k_weights)."""
    if FUSED:
        _, weights, index = block.gate(tokens)
        return index, weights
    scores = torch.nn.functional.softmax(block.gate(tokens), dim=1, dtype=torch.float)
    weights, index = torch.topk(scores, block.top_k, dim=-1)
    if block.norm_topk_prob:
        weights = weights / weights.sum(-1, keepdim=True)
    return index, weights.to(tokens.dtype)


def run_ours(block, experts, x):
    """What the block returns, its experts replaced by ours."""
    tokens = x.view(-1, D)
    y = experts(tokens, *route(block, tokens))
    if hasattr(block, "shared_expert"):
        y = y + torch.sigmoid(block.shared_expert_gate(tokens)) * block.shared_expert(tokens)
    return y.view(x.shape)


def expert_gradients(block):
    """Of gate and up [E, 2h, d], and of down, in either layout."""
    experts = block.experts
    if FUSED:
        return experts.gate_up_proj.grad.clone(), experts.down_proj.grad.clone()

    def stacked(name):
        weights = [getattr(expert, name).weight for expert in experts]
        return torch.stack([torch.zeros_like(w) if w.grad is None else w.grad for w in weights])
    return torch.cat([stacked("gate_proj"), stacked("up_proj")], 1), stacked("down_proj")


def shared_gradients(block):
    """Of Qwen2-MoE's expert for all tokens; none elsewhere."""
    shared = getattr(block, "shared_expert", None)
    return () if shared is None else tuple(
        getattr(shared, name).weight.grad.clone() for name in ("gate_proj", "up_proj", "down_proj"))


class Blocks(MoesaicTest):
    def near(self, got, want, dtype, what):
        rms = want.double().pow(2).mean().sqrt()
        difference = (got.double() - want.double()) / rms
        average, worst = SHARES[dtype]
        self.assertLess(difference.pow(2).mean().sqrt().item(), average, what)
        self.assertLess(difference.abs().max().item(), worst, what)

    def results(self, block, run, x):
        """y, dx and the router's gradient."""
        block.zero_grad(set_to_none=True)
        x = x.clone().requires_grad_()
        y = run(x)
        y.backward(torch.linspace(-1, 1, y.numel(), device=y.device).view(y.shape).to(y.dtype))
        return y.detach(), x.grad, block.gate.weight.grad.clone()

    def everything(self, family, dtype):
        """(ours, the block's, the FP64 block's): y and all gradients, from one input."""
        block, oracle = make_block(family, dtype), make_block(family, torch.float64)
        oracle.load_state_dict(block.state_dict())
        experts = m.SwiGLUExperts.from_hugging_face(block)
        torch.manual_seed(9)
        tokens = torch.randn(100, D, device=MLP_DEVICE).to(dtype)
        with torch.no_grad():  # a rounding may flip a choice: tokens that all route alike
            alike = route(block, tokens)[0] == route(oracle, tokens.double())[0]
        x = tokens[alike.all(-1)].view(1, -1, D)
        self.assertGreater(x.shape[1], 80)
        ours = self.results(block, lambda t: run_ours(block, experts, t), x)
        ours += experts.w_up_gate.grad, experts.w_down.grad, *shared_gradients(block)
        found = [ours]
        for other in (block, oracle):
            found.append(self.results(other, lambda t, b=other: run_block(b, t), x.to(
                next(other.parameters()).dtype)))
            found[-1] += *expert_gradients(other), *shared_gradients(other)
        return found

    def compare(self, family, dtype):
        ours, theirs, exact = self.everything(family, dtype)
        self.assertEqual(len(ours), 8 if family == "Qwen2-MoE" else 5)
        names = ("y", "dx", "router", "w_up_gate", "w_down", "shared gate", "shared up", "shared down")
        for name, mine, block, fp64 in zip(names, ours, theirs, exact):
            self.near(mine, block, dtype, f"{family} {dtype} {name}")
            self.near(mine, fp64, dtype, f"{family} {dtype} {name} beside FP64")

    def test_bf16(self):
        for family in FAMILIES:
            self.compare(family, BF16)

    @unittest.skipIf(MLP_CUDA, "the CUDA kernels take no FP32 operands")
    def test_fp32(self):
        for family in FAMILIES:
            self.compare(family, torch.float32)

    def test_weights_go_back(self):
        for family in FAMILIES:
            block = make_block(family, BF16)
            experts = m.SwiGLUExperts.from_hugging_face(block)
            other = make_block(family, BF16)
            for parameter in other.parameters():
                torch.nn.init.zeros_(parameter)
            state = {**block.state_dict(), **experts.to_hugging_face(fused=FUSED)}
            other.load_state_dict(state)  # strict: every name fits
            x = torch.randn(1, 9, D, device=MLP_DEVICE).to(BF16)
            self.same(run_block(other, x), run_block(block, x))

    def test_a_layer_of_a_whole_model(self):
        config = configured(transformers.OlmoeConfig, num_experts=E, intermediate_size=H)
        config.num_hidden_layers = 2
        model = transformers.OlmoeForCausalLM(config)
        with self.assertRaisesRegex(m.InvalidArgument, "prefix: expected .*2 layers"):
            m.SwiGLUExperts.from_hugging_face(model.state_dict())
        experts = m.SwiGLUExperts.from_hugging_face(model.state_dict(),
                                                    prefix="model.layers.1.mlp.experts.")
        alone = m.SwiGLUExperts.from_hugging_face(model.model.layers[1].mlp)
        self.same(experts.w_up_gate, alone.w_up_gate)

    @unittest.skipUnless(FUSED, "4.x blocks call each expert by itself")
    def test_in_the_place_of_the_block_s_experts(self):
        for family in FAMILIES:
            block = make_block(family, BF16)
            x = torch.randn(2, 20, D, device=MLP_DEVICE).to(BF16)
            want = run_block(block, x)
            block.experts = m.SwiGLUExperts.from_hugging_face(block)
            self.near(run_block(block, x), want, BF16, family)

    def test_another_activation_is_refused(self):
        config = configured(transformers.OlmoeConfig, num_experts=E, intermediate_size=H,
                            hidden_act="gelu")
        with self.assertRaisesRegex(m.InvalidArgument, "act_fn: expected SiLU"):
            m.SwiGLUExperts.from_hugging_face(modeling_olmoe.OlmoeSparseMoeBlock(config))


if __name__ == "__main__":
    unittest.main()
