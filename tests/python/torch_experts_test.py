#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""moesaic.torch.SwiGLUExperts: rows that are sorted, tokens that are routed, weights in and out of the
layouts of Hugging Face. torch_hugging_face_test.py has the comparison with `transformers` itself."""

import copy
import unittest

from torch_cases import BF16, MLP_CUDA, MLP_DEVICE, MlpCase, MoesaicTest, needs_mlp_cuda

import torch

import moesaic.torch as m

E, D, H, K = 6, 32, 24, 2
DTYPE = BF16 if MLP_CUDA else torch.float32
CLOSE = dict(rtol=0.05, atol=0.05) if MLP_CUDA else dict(rtol=1e-5, atol=1e-5)


def experts_of(order="gate_up", dtype=DTYPE, **options):
    torch.manual_seed(3)
    return m.SwiGLUExperts(E, D, H, order=order, dtype=dtype, device=MLP_DEVICE, **options)


def routed(tokens=11, dtype=DTYPE):
    torch.manual_seed(4)
    x = torch.randn(tokens, D, dtype=dtype, device=MLP_DEVICE)
    scores = torch.randn(tokens, E - 1, device=MLP_DEVICE)  # the last expert gets nothing
    weights, index = scores.softmax(-1).topk(K)
    return x.requires_grad_(), index, weights.to(dtype).requires_grad_()


def plain(experts, x, index, weights):
    """Token by token, in FP64."""
    w_up_gate, w_down = experts.w_up_gate.double(), experts.w_down.double()
    lines = []
    for token, ids, shares in zip(x.double(), index.tolist(), weights.double()):
        line = token * 0
        for expert, share in zip(ids, shares):
            if 0 <= expert < E:
                u = w_up_gate[expert] @ token
                gate, up = (u[:H], u[H:]) if experts.order == "gate_up" else (
                    (u[H:], u[:H]) if experts.order == "up_gate" else (u[1::2], u[::2]))
                line = line + share * (w_down[expert] @ (up * torch.nn.functional.silu(gate)))
        lines.append(line)
    return torch.stack(lines) if lines else x.double()


class Module(MoesaicTest):
    def close(self, got, want):
        torch.testing.assert_close(got.double(), want.double(), **CLOSE)

    def test_sorted_rows_are_swiglu_mlp(self):
        case = MlpCase()
        experts = m.SwiGLUExperts(3, 64, 48, order="up_gate", dtype=BF16, device=MLP_DEVICE)
        with torch.no_grad():
            experts.w_up_gate.copy_(case.w_up_gate)
            experts.w_down.copy_(case.w_down)
        out = torch.empty_like(case.x)
        y = experts(case.x.clone().requires_grad_(), offs=case.offs, out=out)
        self.assertEqual(y.data_ptr(), out.data_ptr())
        self.same(y[:case.used], case.forward()[:case.used])

    def test_routed_tokens_and_all_gradients(self):
        for order in ("up_gate", "gate_up", "interleaved"):
            for recompute in (False, True):
                experts = experts_of(order, recompute=recompute)
                x, index, weights = routed()
                leaves = [x, weights, *experts.parameters()]
                y = experts(x, index, weights)
                want = plain(experts, x, index, weights)
                self.close(y, want)
                dy = torch.randn_like(y)
                found = torch.autograd.grad(y, leaves, dy)
                for got, exact in zip(found, torch.autograd.grad(want, leaves, dy.double())):
                    self.close(got, exact)

    def test_shape_and_type_of_the_tokens_come_back(self):
        experts = experts_of()
        x, index, weights = routed(12)
        y = experts(x.view(3, 4, D), index, weights)
        self.assertEqual(y.shape, (3, 4, D))
        self.same(y.view(12, D), experts(x, index.view(3, 4, K), weights.view(3, 4, K)))

    def test_dropped_routes_add_nothing(self):
        # -1 and an id past the last expert: OLMo-core#742, vllm#46408.
        experts = experts_of()
        x, index, weights = routed()
        index[0, 0], index[1, 1], index[2] = -1, E, torch.tensor([E + 5, -7])
        y = experts(x, index, weights)
        want = plain(experts, x, index, weights)
        self.close(y, want)
        self.same(y[2], torch.zeros(D, device=MLP_DEVICE))
        leaves = [x, weights, *experts.parameters()]
        for got, exact in zip(torch.autograd.grad(y.sum(), leaves),
                              torch.autograd.grad(want.sum(), leaves)):
            self.close(got, exact)

    def test_nobody_and_nothing(self):
        experts = experts_of()
        x, index, weights = routed()
        y = experts(x, torch.full_like(index, -1), weights)
        y.sum().backward()
        self.same(y, torch.zeros_like(y))
        self.same(experts.w_down.grad, torch.zeros_like(experts.w_down))
        empty = experts(x[:0], index[:0], weights[:0])
        self.assertEqual(empty.shape, (0, D))

    def test_the_same_bits_each_time(self):
        # Sums of atomics differ from run to run.
        experts = experts_of(dtype=BF16)
        x, index, weights = routed(300, BF16)
        results = []
        for _ in range(3):
            y = experts(x, index, weights)
            results.append([y, *torch.autograd.grad(y.sum(), [x, weights, *experts.parameters()])])
        for later in results[1:]:
            for got, want in zip(later, results[0]):
                self.same(got, want)

    def test_sorted_tokens_are_not_kept(self):
        experts, kept = experts_of(dtype=BF16, recompute=True), {}
        x, index, weights = routed(300, BF16)

        def keep(tensor):
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            experts(x, index, weights)
        routes = 300 * K
        parameters = sum(parameter.numel() * 2 for parameter in experts.parameters())
        known = x.numel() * 2 + parameters + routes * D * 2 + weights.numel() * 2  # x, rows of y, weights
        self.assertLessEqual(sum(kept.values()), known + 3 * routes * 8 + 4 * E)  # and the routing

    def test_router_weights_in_fp32_beside_bf16_tokens(self):
        experts = experts_of(dtype=BF16)
        x, index, weights = routed(dtype=BF16)
        wide = weights.detach().float().requires_grad_()
        y = experts(x, index, wide)
        self.assertEqual(y.dtype, BF16)
        y.sum().backward()
        self.assertEqual(wide.grad.dtype, torch.float32)

    def test_autocast(self):
        experts = experts_of(dtype=torch.float32)
        x, index, weights = routed(dtype=torch.float32)
        with torch.autocast(MLP_DEVICE, dtype=BF16):
            y = experts(x, index, weights)
        y.sum().backward()
        self.assertEqual((y.dtype, experts.w_down.grad.dtype), (torch.float32, torch.float32))
        torch.testing.assert_close(y.double(), plain(experts, x, index, weights), rtol=0.05, atol=0.05)

    def test_compile(self):
        experts = experts_of()
        x, index, weights = routed()
        y = torch.compile(experts, fullgraph=True)(x, index, weights)
        self.close(y, experts(x, index, weights))
        y.sum().backward()
        want = plain(experts, x, index, weights)
        self.close(x.grad, torch.autograd.grad(want.sum(), x)[0])

    @needs_mlp_cuda
    def test_routing_waits_for_nothing(self):
        experts = experts_of()
        x, index, weights = routed()
        experts(x, index, weights).sum().backward()
        torch.cuda.set_sync_debug_mode("error")
        try:
            experts(x, index, weights).sum().backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")

    def test_state_and_copies(self):
        experts = experts_of()
        x, index, weights = routed()
        other = copy.deepcopy(experts)
        self.same(other(x, index, weights), experts(x, index, weights))
        fresh = m.SwiGLUExperts(E, D, H, order="gate_up", dtype=DTYPE, device=MLP_DEVICE)
        fresh.load_state_dict(experts.state_dict())
        self.same(fresh(x, index, weights), experts(x, index, weights))
        self.assertEqual(list(experts.state_dict()), ["w_up_gate", "w_down"])

    def test_refusals(self):
        experts = experts_of()
        x, index, weights = routed()
        offs = torch.zeros(E, dtype=torch.int32, device=MLP_DEVICE)
        cases = {
            "top_k_index: expected None where offs": lambda: experts(x, index, offs=offs),
            "out: expected offs beside it": lambda: experts(x, index, weights, out=x),
            "top_k_index: expected a tensor": lambda: experts(x),
            "top_k_weights: expected a tensor": lambda: experts(x, index),
            "hidden_states: expected \\[..., 32\\]": lambda: experts(x[:, :16], index, weights),
            "top_k_index: expected integers": lambda: experts(x, weights, weights),
            "top_k_index: expected \\[11, k\\]": lambda: experts(x, index[:5], weights),
            "top_k_weights: expected \\[11, 2\\]": lambda: experts(x, index, weights[:, :1]),
            "order: expected 'up_gate'": lambda: m.SwiGLUExperts(E, D, H, order="up"),
            "hidden_size: expected a positive multiple of 8, got 30": lambda: m.SwiGLUExperts(
                E, 30, H, order="up_gate"),
            "num_experts: expected at least one": lambda: m.SwiGLUExperts(0, D, H, order="up_gate"),
        }
        for message, call in cases.items():
            with self.subTest(message), self.assertRaisesRegex(m.InvalidArgument, message):
                call()


class HuggingFaceLayouts(MoesaicTest):
    """Names and shapes of both layouts, without `transformers`."""

    def setUp(self):
        torch.manual_seed(6)
        self.gate, self.up = torch.randn(E, H, D), torch.randn(E, H, D)
        self.down = torch.randn(E, D, H)
        self.gate_up = torch.cat([self.gate, self.up], 1)

    def single(self, prefix=""):
        return {f"{prefix}{expert}.{name}.weight": stack[expert]
                for expert in range(E) for name, stack in
                (("gate_proj", self.gate), ("up_proj", self.up), ("down_proj", self.down))}

    def test_fused_transposed_and_one_by_one_are_the_same(self):
        fused = {"gate_up_proj": self.gate_up, "down_proj": self.down}
        turned = {name: tensor.transpose(1, 2).contiguous() for name, tensor in fused.items()}
        for source in (fused, turned, self.single()):
            experts = m.SwiGLUExperts.from_hugging_face(source)
            self.assertEqual(experts.order, "gate_up")
            self.same(experts.w_up_gate, self.gate_up)
            self.same(experts.w_down, self.down)
            for weight in (experts.w_up_gate, experts.w_down):
                self.assertTrue(weight.is_contiguous())
                self.assertNotIn(weight.data_ptr(), [tensor.data_ptr() for tensor in source.values()])

    def test_sizes_that_only_both_tensors_together_tell(self):
        # Square experts and 2h = d: neither tensor alone tells how it lies.
        for d, h in ((16, 16), (32, 16), (16, 32)):
            gate_up, down = torch.randn(E, 2 * h, d), torch.randn(E, d, h)
            for source in ({"gate_up_proj": gate_up, "down_proj": down},
                           {"gate_up_proj": gate_up.transpose(1, 2), "down_proj": down.transpose(1, 2)}):
                experts = m.SwiGLUExperts.from_hugging_face(source)
                self.same(experts.w_up_gate, gate_up)
                self.same(experts.w_down, down)

    def test_a_layer_of_a_model(self):
        state = {"model.embed_tokens.weight": torch.zeros(3), "model.layers.0.mlp.gate_proj.weight": self.up[0],
                 "model.layers.1.mlp.shared_expert.gate_proj.weight": self.up[0],
                 "model.layers.1.mlp.gate.weight": torch.zeros(E, D)}
        state |= self.single("model.layers.1.mlp.experts.")
        experts = m.SwiGLUExperts.from_hugging_face(state)
        self.same(experts.w_up_gate, self.gate_up)
        state |= {name.replace(".1.", ".2.", 1): tensor * 2 for name, tensor in state.items()}
        with self.assertRaisesRegex(m.InvalidArgument, "^prefix: expected 'model.layers.1.mlp.experts.' "
                                    "or 'model.layers.2.mlp.experts.', since source has 2 layers"):
            m.SwiGLUExperts.from_hugging_face(state)
        experts = m.SwiGLUExperts.from_hugging_face(state, prefix="model.layers.2.mlp.experts.")
        self.same(experts.w_down, self.down * 2)

    def test_round_trips(self):
        for order in ("up_gate", "gate_up", "interleaved"):
            experts = experts_of(order)
            fused = experts.to_hugging_face(prefix="")
            single = experts.to_hugging_face(fused=False, prefix="layers.0.experts.")
            self.assertEqual(len(single), 3 * E)
            x, index, weights = routed()
            for state in (fused, single):
                back = m.SwiGLUExperts.from_hugging_face(state)
                self.close(back(x, index, weights), experts(x, index, weights))
            again = m.SwiGLUExperts.from_hugging_face(single).to_hugging_face(prefix="")
            for name, tensor in fused.items():
                self.same(again[name], tensor, name)

    close = Module.close

    def test_another_order_can_be_stated(self):
        source = {"gate_up_proj": self.gate_up, "down_proj": self.down}
        self.assertEqual(m.SwiGLUExperts.from_hugging_face(source, order="interleaved").order, "interleaved")
        with self.assertRaisesRegex(m.InvalidArgument, "^order: expected None: gate_proj and up_proj"):
            m.SwiGLUExperts.from_hugging_face(self.single(), order="up_gate")

    def test_what_is_not_clear_is_refused_by_name(self):
        single, fused = self.single(), {"gate_up_proj": self.gate_up, "down_proj": self.down}
        gap = {name: tensor for name, tensor in single.items() if not name.startswith("2.up")}

        class Relu(torch.nn.Module):
            act_fn = torch.nn.ReLU()

        class Interleaved(torch.nn.Module):
            is_concatenated = False
        cases = {
            "source: expected gate_up_proj": {"gate.weight": self.down},
            "source: expected .*no tensors": {},
            "source: expected a module or a state dict": [1],
            "2.up_proj.weight: expected a tensor for each of 6 experts": gap,
            "5.down_proj.weight: expected \\[32, 24\\]": {**single, "5.down_proj.weight": self.gate[0]},
            "0.gate_proj.bias: expected no other": {**single, "0.gate_proj.bias": torch.zeros(H)},
            "gate_up_proj_bias: expected no other": {**fused, "gate_up_proj_bias": torch.zeros(E, 2 * H)},
            "down_proj: expected a tensor beside": {"gate_up_proj": self.gate_up},
            "gate_up_proj: expected \\[6, 48, 32\\] beside": {**fused, "gate_up_proj": self.gate},
            "down_proj: expected \\[E, out": {**fused, "down_proj": self.down[0]},
            "down_proj: expected one floating type": {**fused, "down_proj": self.down.double()},
            "gate_up_proj: expected one floating type": {name: tensor.to(torch.int8)
                                                        for name, tensor in fused.items()},
            "source.act_fn: expected SiLU": Relu(),
            "source.is_concatenated: expected True": Interleaved(),
        }
        for message, source in cases.items():
            with self.subTest(message), self.assertRaisesRegex(m.InvalidArgument, "^" + message):
                m.SwiGLUExperts.from_hugging_face(source)


if __name__ == "__main__":
    unittest.main()
