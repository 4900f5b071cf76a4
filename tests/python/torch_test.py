#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""moesaic.torch on CUDA where there is a device for it, on the CPU elsewhere: results, gradients,
buffers, tracing."""

import threading
import unittest
from types import SimpleNamespace
from unittest import mock

from torch_cases import (BF16, COUNTS, CUDA, DEVICE, Case, MoesaicTest, forward, integers, needs_cuda,
                         offsets, weight_gradient)

import torch
from torch import library
import torch.utils.checkpoint

import moesaic.torch as m
from moesaic.torch import _execute


class Product(MoesaicTest):
    def test_forward_in_both_storages(self):
        for counts in COUNTS:
            case = Case(counts)
            for mat_b in (case.w.transpose(-2, -1), case.w.transpose(-2, -1).contiguous()):
                y = m.grouped_mm(case.x, mat_b, offs=case.offs)
                self.same(y[:case.used], case.y, counts)
                self.same(y[case.used:], torch.zeros(6, 72, device=DEVICE), counts)

    def test_out_keeps_its_tail_unless_told(self):
        case = Case()
        for tail, expected in ((None, 7.0), ("leave", 7.0), ("zero", 0.0)):
            out = torch.full((36, 72), 7.0, dtype=BF16, device=DEVICE)
            result = m.grouped_mm(case.x, case.w.transpose(-2, -1), offs=case.offs, out=out, tail=tail)
            self.assertIs(result, out)
            self.same(out[:30], case.y)
            self.same(out[30:], torch.full((6, 72), expected, device=DEVICE))

    def test_a_fresh_result_lies_as_torch_would_lay_it(self):
        for counts in ([4, 0, 3], [0, 0, 0]):
            case = Case(counts)
            x = case.x[:sum(counts)]
            y = m.grouped_mm(x, case.w.transpose(-2, -1), offs=case.offs)
            dw = m.wgrad(torch.zeros_like(y), x, offs=case.offs)
            for result in (y, dw):
                self.assertEqual(result.stride(), torch.empty(result.shape).stride(), counts)

    def test_deterministic_algorithms_fill_what_is_left(self):
        case = Case()
        torch.use_deterministic_algorithms(True)
        try:
            y = m.grouped_mm(case.x, case.w.transpose(-2, -1), offs=case.offs, tail="leave")
        finally:
            torch.use_deterministic_algorithms(False)
        self.same(y[:30], case.y)
        self.assertTrue(torch.isnan(y[30:]).all())

    def test_the_short_way_to_a_result_is_for_the_current_device_alone(self):
        entry = SimpleNamespace(index=0, shape=(2, 3), stride=(3, 1), dtype=torch.float32)
        for device, deterministic, short in ((0, False, True), (1, False, False), (0, True, False)):
            with mock.patch.object(_execute, "_empty_cuda", lambda *_: "short"), \
                    mock.patch.object(_execute._workspace, "current_device", lambda: device), \
                    mock.patch.object(_execute, "_deterministic", lambda: deterministic):
                result = _execute._fresh(entry, "cpu")
            self.assertEqual(isinstance(result, str), short, (device, deterministic))

    def test_fp32_output(self):
        case = Case()
        y = m.grouped_mm(case.x, case.w.transpose(-2, -1), offs=case.offs, out_dtype=torch.float32)
        self.assertEqual(y.dtype, torch.float32)
        self.same(y[:30], forward(case.x[:30], case.w, case.counts))

    def test_wgrad_writes_and_accumulates(self):
        case = Case()
        self.same(m.wgrad(case.dy, case.x, offs=case.offs), case.dw.to(BF16))
        self.same(m.grouped_mm(case.dy.t(), case.x, offs=case.offs), case.dw.to(BF16))
        main = torch.full_like(case.dw, 5.0)
        m.wgrad(case.dy, case.x, offs=case.offs, out=main, accumulate=True)
        self.same(main, case.dw + 5)
        turned = torch.full((3, 64, 72), float("nan"), device=DEVICE)
        m.wgrad(case.dy, case.x, offs=case.offs, out=turned.transpose(-2, -1))
        self.same(turned, case.dw.transpose(-2, -1))

    def test_columns_of_wider_tensors(self):
        # Strides guessed from shapes: vllm#17604.
        case = Case()
        x = torch.cat([case.x * float("nan"), case.x], 1)[:, 64:]
        both = torch.full((36, 144), 7.0, dtype=BF16, device=DEVICE)
        m.grouped_mm(x, case.w.transpose(-2, -1), offs=case.offs, out=both[:, 72:])
        self.same(both[:30, 72:], case.y)
        self.same(both[:, :72], torch.full((36, 72), 7.0, device=DEVICE))

    def test_no_rows(self):
        w = integers(2, 8, 16)
        empty = torch.empty(0, 16, dtype=BF16, device=DEVICE)
        self.assertEqual(m.grouped_mm(empty, w.transpose(-2, -1), offs=offsets([0, 0])).shape, (0, 8))
        self.same(m.wgrad(empty, empty, offs=offsets([0, 0])), torch.zeros(2, 16, 16, device=DEVICE))

    @needs_cuda
    def test_a_device_that_is_not_current(self):
        if torch.cuda.device_count() < 2:
            self.skipTest("one CUDA device here")
        case = Case()
        x, w, offs = (tensor.to("cuda:1") for tensor in (case.x, case.w, case.offs))
        y = m.grouped_mm(x, w.transpose(-2, -1), offs=offs)
        self.assertEqual((y.device.index, torch.cuda.current_device()), (1, 0))
        self.same(y[:30].to(DEVICE), case.y)

    def test_a_part_of_the_device(self):
        case = Case()
        try:
            for number in (1, 2):
                m.set_num_sms(number)
                y = m.grouped_mm(case.x, case.w.transpose(-2, -1), offs=case.offs)
                self.same(y[:30], case.y)
        finally:
            m.set_num_sms(0)
        with self.assertRaisesRegex(m.InvalidArgument, "^n: expected 0 for all"):
            m.set_num_sms(-1)


class Gradients(MoesaicTest):
    def leaves(self, case, storage="enk"):
        x = case.x.clone().requires_grad_()
        w = case.w if storage == "enk" else case.w.transpose(-2, -1).contiguous()
        w = w.clone().requires_grad_()
        return x, w, w.transpose(-2, -1) if storage == "enk" else w

    def test_both_storages_and_no_leak_from_the_tail(self):
        for storage in ("enk", "ekn"):
            case = Case()
            x, w, mat_b = self.leaves(case, storage)
            m.grouped_mm(x, mat_b, offs=case.offs).backward(case.dy)
            want = case.dw if storage == "enk" else case.dw.transpose(-2, -1)
            self.same(w.grad, want.to(BF16), storage)
            self.assertTrue(w.grad.is_contiguous())
            self.same(x.grad[:30], case.dx.to(BF16))
            self.same(x.grad[30:], torch.zeros(6, 64, device=DEVICE))

    def test_freed_nan_reaches_no_gradient(self):
        # Blocks that the caching allocator hands out again, in a second backward: pytorch#193633.
        case = Case()
        for number in range(2):
            freed = [torch.full((size,), float("nan"), dtype=BF16, device=DEVICE)
                     for size in (36 * 64, 36 * 72, 3 * 72 * 64) for _ in range(4)]
            del freed
            x, w, mat_b = self.leaves(case)
            y = m.grouped_mm(x, mat_b, offs=case.offs)
            y.backward(case.dy)
            self.same(y[30:], torch.zeros(6, 72, device=DEVICE), number)
            self.same(x.grad[30:], torch.zeros(6, 64, device=DEVICE), number)
            self.same(w.grad, case.dw.to(BF16), number)

    def test_no_tokens_give_zero_weight_gradients(self):
        # A rank without tokens has experts all the same: pytorch#192497.
        x = torch.empty(0, 224, dtype=BF16, device=DEVICE, requires_grad=True)
        w = integers(2, 72, 224).requires_grad_()
        y = m.grouped_mm(x, w.transpose(-2, -1), offs=offsets([0, 0]))
        y.sum().backward()
        self.assertEqual((tuple(y.shape), tuple(x.grad.shape)), ((0, 72), (0, 224)))
        self.same(w.grad, torch.zeros(2, 72, 224, device=DEVICE))

    def test_expanded_gradient(self):
        case = Case(tail=0)
        x, w, mat_b = self.leaves(case)
        m.grouped_mm(x, mat_b, offs=case.offs).sum().backward()
        self.same(w.grad, weight_gradient(torch.ones(30, 72, device=DEVICE), case.x, case.counts).to(BF16))

    def test_only_what_needs_a_gradient_gets_one(self):
        case = Case()
        x, w, mat_b = self.leaves(case)
        m.grouped_mm(x, mat_b.detach(), offs=case.offs).backward(case.dy)
        m.grouped_mm(x.detach(), mat_b, offs=case.offs).backward(case.dy)
        self.same(x.grad[:30], case.dx.to(BF16))
        self.same(w.grad, case.dw.to(BF16))

    def test_managed_buffers(self):
        case = Case()
        x, w, mat_b = self.leaves(case)
        out = torch.full((36, 72), 7.0, dtype=BF16, device=DEVICE)
        dx = torch.full((36, 64), 7.0, dtype=BF16, device=DEVICE)
        main = torch.full_like(case.dw, 5.0)
        y = m.grouped_mm(x, mat_b, offs=case.offs, out=out, input_grad_out=dx, wgrad_out=main,
                         accumulate_wgrad=True)
        self.assertEqual(y.data_ptr(), out.data_ptr())
        y.backward(case.dy)
        self.same(out[:30], case.y)
        self.same(out[30:], torch.full((6, 72), 7.0, device=DEVICE))
        self.same(dx[:30], case.dx.to(BF16))
        self.same(dx[30:], torch.full((6, 64), 7.0, device=DEVICE))
        self.same(x.grad, dx)
        self.same(main, case.dw + 5)
        self.assertIsNone(w.grad)

    def test_input_gradient_may_take_the_place_of_mat_a(self):
        case = Case(tail=0)
        x, w, mat_b = self.leaves(case)
        y = m.grouped_mm(x, mat_b, offs=case.offs, input_grad_out=x.detach())
        y.backward(case.dy)
        self.same(w.grad, case.dw.to(BF16))
        self.same(x.detach(), case.dx.to(BF16))

    def test_writing_into_a_saved_tensor_is_noticed(self):
        case = Case(k=64, n=64, tail=0)
        x, _, mat_b = self.leaves(case)
        hidden = x * 1
        m_out = m.grouped_mm(hidden, mat_b, offs=case.offs)
        with torch.no_grad():
            m.grouped_mm(case.x, mat_b, offs=case.offs, out=hidden.detach())
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            m_out.backward(case.dy)

    @unittest.skipIf(CUDA, "the CUDA kernels take no FP32 operands")
    def test_first_and_second_derivatives(self):
        x = torch.randn(20, 16, requires_grad=True)
        w = torch.randn(2, 16, 24, requires_grad=True)
        offs = offsets([7, 13])
        tolerance = dict(eps=1e-2, atol=5e-2, rtol=5e-2)
        torch.autograd.gradcheck(lambda a, b: m.grouped_mm(a, b, offs=offs), (x, w), **tolerance)
        torch.autograd.gradgradcheck(lambda a, b: m.grouped_mm(a, b, offs=offs), (x, w), **tolerance)


class Tracing(MoesaicTest):
    def test_opcheck(self):
        case = Case()
        x, w = case.x.clone().nan_to_num().requires_grad_(), case.w.clone().requires_grad_()
        dy = case.dy.nan_to_num(posinf=0).requires_grad_()
        ops, plain = torch.ops.moesaic, case.w.transpose(-2, -1)
        out, main = torch.zeros(36, 72, dtype=BF16, device=DEVICE), torch.zeros_like(case.dw)
        library.opcheck(ops.grouped_mm, (x, w.transpose(-2, -1), case.offs))
        library.opcheck(ops.wgrad, (dy, x, case.offs))
        library.opcheck(ops.grouped_mm_out, (x.detach(), plain, case.offs, out))
        library.opcheck(ops.wgrad_out, (dy.detach(), x.detach(), case.offs, main, True))

    def test_compile(self):
        case = Case()
        x, w = case.x.clone().requires_grad_(), case.w.clone().requires_grad_()

        @torch.compile(fullgraph=True)
        def layer(x, w, offs):
            return m.grouped_mm(x, w.transpose(-2, -1), offs=offs) * 2
        y = layer(x, w, case.offs)
        self.same(y[:30], case.y * 2)
        y.backward(case.dy)
        self.same(w.grad, (case.dw * 2).to(BF16))
        self.same(x.grad[:30], (case.dx * 2).to(BF16))

    def test_compile_with_buffers(self):
        case = Case()
        x, w = case.x.clone().requires_grad_(), case.w.clone().requires_grad_()
        out = torch.zeros(36, 72, dtype=BF16, device=DEVICE)
        dx, main = torch.zeros_like(case.x), torch.zeros_like(case.dw)

        @torch.compile(fullgraph=True)
        def layer(x, w, offs, out, dx, main):
            return m.grouped_mm(x, w.transpose(-2, -1), offs=offs, out=out, input_grad_out=dx,
                                wgrad_out=main, accumulate_wgrad=True)
        layer(x, w, case.offs, out, dx, main).backward(case.dy)
        self.same(out[:30], case.y)
        self.same(dx[:30], case.dx.to(BF16))
        self.same(main, case.dw)

    def test_autocast(self):
        case = Case()
        x, w = case.x.float().requires_grad_(), case.w.float().requires_grad_()
        with torch.autocast(DEVICE, dtype=BF16):
            y = m.grouped_mm(x, w.transpose(-2, -1), offs=case.offs)
        self.assertEqual(y.dtype, BF16)
        y.backward(case.dy)
        self.assertEqual((x.grad.dtype, w.grad.dtype), (torch.float32, torch.float32))
        self.same(w.grad, case.dw)

    def test_inference_mode_and_checkpoint(self):
        case = Case(tail=0)
        with torch.inference_mode():
            self.same(m.grouped_mm(case.x, case.w.transpose(-2, -1), offs=case.offs), case.y)
        x = case.x.clone().requires_grad_()
        torch.utils.checkpoint.checkpoint(
            lambda x: m.grouped_mm(x, case.w.transpose(-2, -1), offs=case.offs), x,
            use_reentrant=False).backward(case.dy)
        self.same(x.grad, case.dx.to(BF16))


class Faults(MoesaicTest):
    def test_reported_once_lowest_expert_first(self):
        case = Case()
        for ends in ([9, 4, 30], [9, 10, 99]):
            m.grouped_mm(case.x, case.w.transpose(-2, -1),
                         offs=torch.tensor(ends, dtype=torch.int32, device=DEVICE))
        self.assertEqual(m.read_fault(DEVICE), m.Fault("offs_not_monotonic", 1, 4))
        self.assertIsNone(m.read_fault())

    def test_threads(self):
        case, wrong = Case(), []

        def work():
            for _ in range(20):
                y = m.grouped_mm(case.x, case.w.transpose(-2, -1), offs=case.offs)
                if not torch.equal(y[:30], case.y):
                    wrong.append(y)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
