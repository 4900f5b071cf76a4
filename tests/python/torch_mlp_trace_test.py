#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""moesaic.torch.swiglu_mlp under what traces, casts, repeats or captures it, and what it refuses."""

import threading
import unittest
import warnings

from torch_cases import BF16, MLP_DEVICE, MlpCase, MoesaicTest, integers, needs_mlp_cuda, offsets
from torch_mlp_properties import MlpTest

import torch
from torch import library

import moesaic.torch as m


class Tracing(MlpTest):
    def test_opcheck(self):
        case = MlpCase(tail=0)
        ops, inputs = torch.ops.moesaic, (case.x, case.w_up_gate, case.w_down, case.offs)
        for save in (False, True):
            library.opcheck(ops.swiglu_mlp, (*case.leaves(), case.offs, "gate_up", save))
            library.opcheck(ops.swiglu_mlp_out,
                            (*inputs, torch.zeros_like(case.x), "gate_up", save))
            _, u = ops.swiglu_mlp(*inputs, "gate_up", save)
            u = u if save else None
            for wanted in ((True, True, True, False), (False, True, False, False)):
                library.opcheck(ops.swiglu_mlp_backward,
                                (case.dy, *inputs, u, "gate_up", wanted))
            main = torch.zeros(case.w_down.shape, device=MLP_DEVICE)
            library.opcheck(ops.swiglu_mlp_backward_out,
                            (case.dy, *inputs, u, torch.zeros_like(case.x), None, main,
                             "gate_up", False, True))

    def test_compile(self):
        for recompute in (False, True):
            case = MlpCase()
            plain, traced = case.leaves(), case.leaves()

            @torch.compile(fullgraph=True)
            def layer(x, w_up_gate, w_down, offs):
                return m.swiglu_mlp(x * 2, w_up_gate, w_down, offs=offs, order="up_gate",
                                    recompute=recompute) + 1
            y = m.swiglu_mlp(plain[0] * 2, *plain[1:], offs=case.offs, order="up_gate") + 1
            got = layer(*traced, case.offs)
            self.same(got, y)
            y.backward(case.dy)
            got.backward(case.dy)
            for mine, want in zip(traced, plain):
                self.same(mine.grad, want.grad)

    def test_compile_once_for_any_number_of_rows(self):
        self.one_compilation_serves_any_number_of_rows(MlpCase)

    def test_compile_with_buffers(self):
        case = MlpCase(tail=0)
        x, w_up_gate, w_down = case.leaves()
        out, dx = torch.zeros_like(case.x), torch.zeros_like(case.x)
        up, down = (torch.zeros(w.shape, device=MLP_DEVICE) for w in (w_up_gate, w_down))

        @torch.compile(fullgraph=True)
        def layer(x, w_up_gate, w_down, offs, out, dx, up, down):
            return m.swiglu_mlp(x, w_up_gate, w_down, offs=offs, order="up_gate", out=out,
                                input_grad_out=dx, w_up_gate_grad_out=up, w_down_grad_out=down,
                                accumulate_wgrad=True)
        for step in (1, 2):
            layer(x, w_up_gate, w_down, case.offs, out, dx, up, down).backward(case.dy)
            case.near(self, out, case.y)
            case.near(self, dx, case.gradients[0])
            case.near(self, up / step, case.gradients[1])
            case.near(self, down / step, case.gradients[2])

    def test_autocast(self):
        self.autocast_computes_in_bf16(MlpCase())

    def test_compile_with_a_gather(self):
        case = MlpCase()
        x_rows = torch.arange(case.rows, device=MLP_DEVICE).flip(0) // 2
        plain, traced = case.leaves(), case.leaves()
        case.run(*plain, x_rows=x_rows).backward(case.dy)
        torch.compile(case.run, fullgraph=True)(*traced, x_rows=x_rows).backward(case.dy)
        for got, want in zip(traced, plain):
            self.same(got.grad.nan_to_num(), want.grad.nan_to_num())

    def test_inference_mode_and_checkpoint(self):
        self.checkpoint_and_inference_mode_change_nothing(MlpCase())

    def test_threads(self):
        case, wrong = MlpCase(), []
        plain = case.leaves()
        case.run(*plain).backward(case.dy)

        def work():
            for _ in range(10):
                leaves = case.leaves()
                case.run(*leaves).backward(case.dy)
                wrong.extend(1 for got, want in zip(leaves, plain)
                             if not torch.equal(got.grad, want.grad))
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class OnCuda(MoesaicTest):
    @needs_mlp_cuda
    def test_a_device_that_is_not_current(self):
        if torch.cuda.device_count() < 2:
            self.skipTest("one CUDA device here")
        case = MlpCase()
        y = case.forward()
        for name in ("x", "w_up_gate", "w_down", "offs"):
            setattr(case, name, getattr(case, name).to("cuda:1"))
        self.same(case.forward().to(MLP_DEVICE), y)

    @needs_mlp_cuda
    def test_a_graph_replays_forward_and_backward_on_other_routings(self):
        case = MlpCase([40, 0, 20], tail=0)
        leaves = case.leaves()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            case.run(*leaves).backward(case.dy)
        torch.cuda.current_stream().wait_stream(side)
        for leaf in leaves:
            leaf.grad = None
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = case.run(*leaves)
            y.backward(case.dy)
        for counts in ([40, 0, 20], [0, 60, 0], [1, 2, 3], [0, 0, 0]):
            for leaf in leaves:
                leaf.grad.zero_()
            case.counts, case.used = counts, sum(counts)
            case.offs.copy_(offsets(counts))
            graph.replay()
            case.near(self, y.detach(), case.y, counts)
            for leaf, want in zip(leaves, case.gradients):
                case.near(self, leaf.grad, want, counts)
        self.assertIsNone(m.read_fault())

    @needs_mlp_cuda
    def test_nothing_waits_for_the_device(self):
        case = MlpCase()
        for recompute in (False, True):
            leaves = case.leaves()
            case.run(*leaves, recompute=recompute).backward(case.dy)
            torch.cuda.set_sync_debug_mode("error")
            try:
                case.run(*leaves, recompute=recompute).backward(case.dy)
            finally:
                torch.cuda.set_sync_debug_mode("default")


class Refusals(MoesaicTest):
    def test_each_names_its_argument(self):
        case = MlpCase(tail=0)
        x, w_up_gate, w_down, offs = case.x, case.w_up_gate, case.w_down, case.offs
        trained = [tensor.clone().requires_grad_() for tensor in (x, w_up_gate, w_down)]
        up, down = (torch.zeros(w.shape, device=MLP_DEVICE) for w in (w_up_gate, w_down))
        odd = torch.zeros(30 * 64 + 1, dtype=BF16, device=MLP_DEVICE)[1:].view(30, 64)
        turned = w_up_gate.transpose(1, 2).contiguous().transpose(1, 2)
        grads = dict(x=trained[0], w_up_gate=trained[1], w_down=trained[2])
        cases = {
            "order: expected 'up_gate' or 'gate_up' or 'interleaved', got 'gate'": dict(order="gate"),
            "x: expected a tensor": dict(x=[1]),
            "x: expected 2 dimension": dict(x=x[0]),
            "x: expected bf16": dict(x=x.half()),
            "x: expected row-major": dict(x=integers(64, 30).t().to(MLP_DEVICE)),
            "x: expected a 16-byte aligned": dict(x=odd),
            "w_up_gate: expected \\[3, 96, 64\\]": dict(w_up_gate=w_up_gate[:, :48]),
            "w_up_gate: expected bf16, the type of x": dict(w_up_gate=w_up_gate.double()),
            "w_up_gate: expected row-major .*\\(.contiguous\\(\\) makes.*never copied in silence": dict(w_up_gate=turned),
            "w_down: expected 3 dimension": dict(w_down=w_down[0]),
            "w_down: expected \\[3, 64, 48\\]": dict(w_down=w_down[:2]),
            "w_down: expected \\[3, 64, 48\\] .*, got bf16 \\[3, 48, 64\\]": dict(w_down=w_down.transpose(1, 2).contiguous()),
            "offs: expected i32": dict(offs=offs.long()),
            "offs: expected \\[3\\]": dict(offs=offs[:2]),
            "x_rows: expected int32 or int64 \\[M\\]": dict(x_rows=x[:, 0]),
            "x_rows: expected int32": dict(x_rows=offs[None]),
            "x_rows: expected a tensor": dict(x_rows=[0, 1]),
            "out: expected \\[3, 64\\]": dict(x_rows=offs, out=x.clone()),
            "row_weights: expected a tensor": dict(row_weights=[1.0] * 30),
            "row_weights: expected float32, bfloat16 or float16 \\[30\\], one for each row": dict(
                row_weights=x[:29, 0]),
            "row_weights: expected float32, bfloat16 or float16 \\[3\\]": dict(
                x_rows=offs, row_weights=x[:, 0]),
            "row_weights: expected .* got bf16 \\[30, 1\\]": dict(row_weights=x[:, :1]),
            "row_weights: expected float32, bfloat16 or float16 .* got float64": dict(
                row_weights=x[:, 0].double()),
            "row_weights: expected memory on": dict(row_weights=torch.empty(30, device="meta")),
            "out: expected \\[30, 64\\]": dict(out=x[:20].clone()),
            "out: expected memory apart from x": dict(out=x),
            "out: expected a tensor that requires no": dict(out=trained[0]),
            "input_grad_out: expected None, since x requires no gradient": dict(
                x=x, w_down=trained[2], input_grad_out=x.clone()),
            "w_down_grad_out: expected None, since w_down requires no": dict(
                x=trained[0], w_down_grad_out=down),
            "input_grad_out: expected \\[30, 64\\] of torch.bfloat16": dict(
                **grads, input_grad_out=x.float()),
            "w_up_gate_grad_out: expected \\[3, 96, 64\\]": dict(**grads, w_up_gate_grad_out=down),
            "w_down_grad_out: expected float32, or bfloat16": dict(**grads, w_down_grad_out=down.half()),
            "w_down_grad_out: expected f32, the type of w_up_gate_grad_out": dict(
                **grads, w_up_gate_grad_out=up, w_down_grad_out=down.to(BF16)),
            "w_down_grad_out: expected row-major": dict(
                **grads, w_down_grad_out=down.transpose(1, 2).contiguous().transpose(1, 2)),
            "w_up_gate_grad_out: expected a buffer": dict(**grads, accumulate_wgrad=True),
        }
        for message, given in cases.items():
            arguments = dict(x=x, w_up_gate=w_up_gate, w_down=w_down, offs=offs, order="up_gate") | given
            with self.subTest(message), self.assertRaisesRegex(m.InvalidArgument, "^" + message):
                m.swiglu_mlp(**arguments)
        with self.assertRaisesRegex(TypeError, "order"):
            m.swiglu_mlp(x, w_up_gate, w_down, offs=offs)

    def test_autocast_to_another_type(self):
        case = MlpCase()
        with torch.autocast(MLP_DEVICE, dtype=torch.float16):
            with self.assertRaisesRegex(m.InvalidArgument, "^autocast: expected dtype torch.bfloat16"):
                case.forward()

    @needs_mlp_cuda
    def test_fp32_on_cuda(self):
        case = MlpCase(dtype=torch.float32)
        with self.assertRaisesRegex(m.InvalidArgument, "^x: expected bf16 on CUDA"):
            case.forward()


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    unittest.main()
