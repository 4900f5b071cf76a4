#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""moesaic.torch.swiglu_mlp: results and gradients against FP64, tails, the caller's buffers, what is
saved and what is computed."""

import unittest
from unittest import mock

from torch_cases import (BF16, MLP_CUDA, MLP_DEVICE, MLP_DTYPES, ORDERS, MlpCase, MoesaicTest,
                         saved_bytes)
from torch_mlp_properties import MlpTest

import torch

import moesaic.torch as m
from moesaic.torch import _mlp_execute


class Forward(MoesaicTest):
    def test_three_orders(self):
        # Gate and up interleaved against concatenated: sonic-moe#45, ROCm/ATOM#885.
        for dtype in MLP_DTYPES:
            for order in ORDERS:
                case = MlpCase(order=order, dtype=dtype)
                case.near(self, case.forward(), case.y, f"{order} {dtype}")

    def test_a_fresh_output_has_zero_tail_rows(self):
        for counts in ([9, 0, 21], [0, 0, 0], [1] * 9):
            case = MlpCase(counts)
            freed = [torch.full((case.rows, 64), float("nan"), dtype=BF16, device=MLP_DEVICE)
                     for _ in range(8)]
            del freed
            y = case.forward()
            self.same(y[case.used:], torch.zeros(6, 64, device=MLP_DEVICE), counts)

    def test_out_keeps_its_tail_and_its_neighbours(self):
        case = MlpCase()
        wide = torch.full((56, 192), 7.0, dtype=BF16, device=MLP_DEVICE)
        out = wide[10:46, 64:128]
        result = case.forward(out=out)
        self.assertEqual(result.data_ptr(), out.data_ptr())
        case.near(self, out, case.y)
        out[:case.used] = 7.0
        self.same(wide, torch.full_like(wide, 7.0), "a row past offs[-1] or outside out")

    def test_columns_of_a_wider_x(self):
        case = MlpCase()
        plain = case.forward()
        case.x = torch.cat([case.x * float("nan"), case.x], 1)[:, 64:]
        self.same(case.forward(), plain)

    def test_no_tokens(self):
        # A rank without tokens has experts all the same: pytorch#192497.
        case = MlpCase([0, 0, 0], tail=0)
        x, w_up_gate, w_down = case.leaves()
        y = m.swiglu_mlp(x, w_up_gate, w_down, offs=case.offs, order="up_gate")
        y.sum().backward()
        self.assertEqual((tuple(y.shape), tuple(x.grad.shape)), ((0, 64), (0, 64)))
        self.same(w_up_gate.grad, torch.zeros_like(w_up_gate))
        self.same(w_down.grad, torch.zeros_like(w_down))

    def test_rows_do_not_depend_on_their_neighbours(self):
        case = MlpCase([9, 0, 21], tail=0)
        y = case.forward()
        case.x[9:] = float("nan")
        self.same(case.forward()[:9], y[:9])

    def test_wrong_offsets_are_reported_and_contained(self):
        case = MlpCase()
        y = case.forward()
        wrong = torch.tensor([9, 4, 30], dtype=torch.int32, device=MLP_DEVICE)
        got = m.swiglu_mlp(case.x, case.w_up_gate, case.w_down, offs=wrong, order="up_gate")
        self.assertEqual(m.read_fault(), m.Fault("offs_not_monotonic", 1, 4))
        self.assertIsNone(m.read_fault())
        self.same(got[:4], y[:4], "rows of expert 0 alone")

    def test_a_part_of_the_device(self):
        case = MlpCase()
        y = case.forward()
        try:
            m.set_num_sms(1)
            case.near(self, case.forward(), case.y)
        finally:
            m.set_num_sms(0)
        self.same(case.forward(), y)


class Gradients(MlpTest):
    def test_against_fp64_with_nan_tails(self):
        # Three leaks of the tail: transformers#45621, #48205; torchtitan#1237.
        for dtype in MLP_DTYPES:
            for order in ORDERS:
                for recompute in (False, True):
                    case = MlpCase(order=order, dtype=dtype)
                    leaves = case.leaves()
                    case.train(leaves, recompute=recompute)
                    what = f"{order} {dtype} recompute {recompute}"
                    case.near_gradients(self, leaves, what)
                    self.same(leaves[0].grad[case.used:], torch.zeros(6, 64, device=MLP_DEVICE), what)

    def test_routings_that_have_broken_kernels(self):
        for counts in ([0, 0, 0], [0, 21, 0], [5, 7, 9, 11], [1] * 40, [130, 1, 0, 65],
                       [150, 64, 0, 200, 0]):
            case = MlpCase(counts)
            leaves = case.leaves()
            case.near(self, case.train(leaves), case.y, counts)
            case.near_gradients(self, leaves, counts)
            for expert in (expert for expert, count in enumerate(counts) if count == 0):
                self.assertFalse(leaves[1].grad[expert].any() or leaves[2].grad[expert].any(), counts)

    def test_recompute_gives_the_bits_of_save(self):
        self.recompute_gives_the_bits_of_save(MlpCase())

    def test_freed_nan_reaches_no_gradient(self):
        # Blocks that the caching allocator hands out again, in a second backward: pytorch#193633.
        case = MlpCase()
        first = None
        for number in range(2):
            freed = [torch.full((size,), float("nan"), dtype=BF16, device=MLP_DEVICE)
                     for size in (36 * 64, 36 * 96, 36 * 48, 3 * 96 * 64) for _ in range(4)]
            del freed
            leaves = case.leaves()
            case.train(leaves, recompute=number == 1)
            found = [leaf.grad for leaf in leaves]
            first = first or found
            for got, want in zip(found, first):
                self.same(got, want, number)

    def test_expanded_gradient(self):
        # sum() hands in strides of 0: torchtitan#1265, pytorch#155466.
        case = MlpCase(tail=0)
        case.dy = torch.ones_like(case.dy)
        leaves = case.leaves()
        case.run(*leaves).sum().backward()
        case.near_gradients(self, leaves)

    def test_frozen_parts_are_not_computed(self):
        self.frozen_parts_are_not_computed(MlpCase())

    def test_a_second_derivative_is_refused_by_name(self):
        case = MlpCase(tail=0)
        x, w_up_gate, w_down = case.leaves()
        main = torch.zeros_like(w_down)
        for buffers in ({}, {"w_down_grad_out": main}):
            y = case.run(x, w_up_gate, w_down, **buffers)
            (dx,) = torch.autograd.grad(y.sum(), x, create_graph=True)
            with self.assertRaisesRegex(m.Unsupported, "^swiglu_mlp: expected to be differentiated once"):
                dx.sum().backward()

    @unittest.skipIf(MLP_CUDA, "the CUDA kernels take no FP32 operands")
    def test_against_differences(self):
        case = MlpCase([3, 0, 4], tail=1, d=16, h=8, dtype=torch.float32)
        case.x[case.used:] = 0  # of rows that reach no result the difference is zero as well
        torch.autograd.gradcheck(case.run, case.leaves(), eps=1e-2, atol=5e-2, rtol=5e-2)

    def test_writing_into_a_saved_tensor_is_noticed(self):
        case = MlpCase(tail=0)
        x, w_up_gate, w_down = case.leaves()
        hidden = x * 1
        y = case.run(hidden, w_up_gate, w_down)
        with torch.no_grad():
            case.run(case.x, case.w_up_gate, case.w_down, out=hidden.detach())
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            y.backward(case.dy)


class Buffers(MlpTest):
    def test_all_of_them(self):
        for recompute in (False, True):
            self.all_buffers_take_their_results(MlpCase(), recompute)

    def test_input_gradient_may_take_the_place_of_x(self):
        for recompute in (False, True):
            case = MlpCase(tail=0)
            x, w_up_gate, w_down = case.leaves()
            y = case.run(x, w_up_gate, w_down, recompute=recompute, input_grad_out=x.detach())
            y.backward(case.dy, retain_graph=True)
            case.near(self, x.detach(), case.gradients[0])
            case.near(self, w_up_gate.grad, case.gradients[1], "it must see the old x")
            case.near(self, w_down.grad, case.gradients[2], "it must see the old x")
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                y.backward(case.dy)  # x is gone

    def test_old_content_is_not_read_without_accumulation(self):
        case = MlpCase()
        up, down = (torch.full(w.shape, float("nan"), device=MLP_DEVICE)
                    for w in (case.w_up_gate, case.w_down))
        case.run(*case.leaves(), w_up_gate_grad_out=up, w_down_grad_out=down).backward(case.dy)
        case.near(self, up, case.gradients[1])
        case.near(self, down, case.gradients[2])

    def test_steps_accumulate_in_fp32(self):
        # BF16 in, FP32 main_grad: torchao#4473, Primus-Turbo#454.
        case = MlpCase(tail=0)
        up, down = (torch.zeros(w.shape, device=MLP_DEVICE) for w in (case.w_up_gate, case.w_down))
        for _ in range(3):
            case.run(*case.leaves(), w_up_gate_grad_out=up, w_down_grad_out=down,
                     accumulate_wgrad=True).backward(case.dy)
        case.near(self, up / 3, case.gradients[1])
        case.near(self, down / 3, case.gradients[2])

    def test_a_buffer_for_one_weight_alone(self):
        for accumulate in (False, True):
            case = MlpCase()
            x, w_up_gate, w_down = case.leaves()
            up = torch.full(w_up_gate.shape, 5.0, device=MLP_DEVICE)
            case.run(x, w_up_gate, w_down, w_up_gate_grad_out=up,
                     accumulate_wgrad=accumulate).backward(case.dy)
            case.near(self, up - 5 if accumulate else up, case.gradients[1])
            self.assertIsNone(w_up_gate.grad)
            self.assertEqual(w_down.grad.dtype, w_down.dtype)
            case.near(self, w_down.grad, case.gradients[2])

    def test_a_layer_need_not_know_that_it_is_evaluated(self):
        case = MlpCase()
        main = torch.full(case.w_down.shape, 5.0, device=MLP_DEVICE)
        with torch.no_grad():
            y = case.run(*case.leaves(), input_grad_out=torch.empty_like(case.x),
                         w_down_grad_out=main, accumulate_wgrad=True)
        case.near(self, y, case.y)
        self.same(main, torch.full_like(main, 5.0))


class Memory(MoesaicTest):
    def test_recompute_saves_u_and_nothing_else(self):
        case = MlpCase([40, 0, 56], tail=0)
        save = saved_bytes(lambda: case.run(*case.leaves()))
        recompute = saved_bytes(lambda: case.run(*case.leaves(), recompute=True))
        u = 96 * 2 * 48 * 2
        self.assertEqual(save - recompute, u)
        inputs = (case.x, case.w_up_gate, case.w_down, case.offs)
        self.assertEqual(recompute, sum(tensor.untyped_storage().nbytes() for tensor in inputs))

    def peak_bytes(self, call):
        """The most that tensors made by `call` held at once."""
        activities = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=activities, profile_memory=True, acc_events=True) as profile:
            call()
        live = peak = 0
        events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
        for event in sorted(events, key=lambda event: event.start_ns()):
            live += event.nbytes()
            peak = max(peak, live)
        return peak

    @unittest.skipIf(MLP_CUDA, "the table of the guide is that of the CPU")
    def test_peaks_are_those_of_the_guide(self):
        rows, d, h = 4096, 64, 48
        case = MlpCase([1000, 0, 3096], tail=0, d=d, h=h)
        leaves = case.leaves()
        weights = sum(leaf.numel() * 2 for leaf in leaves[1:])
        unit = rows * h * 2  # a matrix as large as H
        with torch.no_grad():
            self.assertAlmostEqual(self.peak_bytes(lambda: case.run(*leaves)) / unit,
                                   rows * d * 2 / unit + 3, places=2)
        for recompute, intermediates in ((False, 6), (True, 6)):
            peak = self.peak_bytes(lambda: case.run(*leaves, recompute=recompute).backward(case.dy))
            results = 2 * rows * d * 2 + weights  # y, dx and both weight gradients
            self.assertAlmostEqual((peak - results) / unit, intermediates, places=2, msg=recompute)
            for leaf in leaves:
                leaf.grad = None

    def test_u_is_not_made_where_no_gradient_is_wanted(self):
        case = MlpCase()
        with mock.patch.object(_mlp_execute, "forward", wraps=_mlp_execute.forward) as spy:
            case.run(case.x, case.w_up_gate, case.w_down)
            with torch.no_grad():
                case.run(*case.leaves())
            case.run(*case.leaves())
        self.assertEqual([call.args[6] for call in spy.call_args_list], [False, False, True])


if __name__ == "__main__":
    unittest.main()
