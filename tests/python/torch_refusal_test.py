#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What moesaic.torch refuses before anything is launched, by the argument's name."""

import subprocess
import sys
import unittest

from torch_cases import BF16, DEVICE, Case, MoesaicTest, integers, needs_cuda

import torch

import moesaic.torch as m


class Refusals(MoesaicTest):
    def test_each_names_its_argument(self):
        case = Case(tail=0)
        x, b, offs = case.x, case.w.transpose(-2, -1), case.offs
        odd = torch.zeros(30 * 64 + 1, dtype=BF16, device=DEVICE)[1:].view(30, 64)
        grad = torch.zeros(30, 72, dtype=BF16, device=DEVICE, requires_grad=True)
        trained = x.clone().requires_grad_()
        cases = {
            "bias: expected None": dict(bias=x),
            "tail: expected": dict(tail="keep"),
            "mat_a: expected a tensor": dict(mat_a=[1]),
            "mat_a: expected \\[M, 64\\]": dict(mat_a=integers(30, 128)),
            "mat_a: expected bf16": dict(mat_a=x.half()),
            "mat_a: expected row-major.*; .contiguous\\(\\) makes": dict(mat_a=integers(64, 30).t()),
            "mat_a: expected a 16-byte aligned": dict(mat_a=odd),
            "mat_b: expected bf16": dict(mat_b=b.half()),
            "mat_b: expected three": dict(mat_b=b[None]),
            "mat_b: .*multiples of 8": dict(mat_b=integers(3, 63, 64).transpose(-2, -1)),
            "mat_b: .*unit stride": dict(mat_b=integers(3, 64, 144)[:, :, ::2]),
            "offs: expected a tensor": dict(offs=None),
            "offs: expected i32": dict(offs=offs.long()),
            "offs: expected \\[3\\]": dict(offs=offs[:2]),
            "out: expected \\[30, 72\\]": dict(out=integers(30, 80)),
            "out: expected memory apart from mat_a": dict(mat_b=integers(3, 64, 64), out=x),
            "out: expected a tensor that requires no": dict(mat_a=trained, out=grad),
            "out_dtype: expected": dict(out_dtype=torch.float16),
            "input_grad_out: expected \\[30, 64\\]": dict(input_grad_out=integers(29, 64)),
            "input_grad_out: expected .*64": dict(input_grad_out=integers(30, 72)),
            "wgrad_out: expected \\[3, 72, 64\\]": dict(wgrad_out=integers(3, 64, 72)),
            "wgrad_out: expected float32": dict(wgrad_out=integers(3, 72, 64).half()),
            "wgrad_out: expected a buffer": dict(accumulate_wgrad=True),
        }
        for message, given in cases.items():
            arguments = {"mat_a": x, "mat_b": b, "offs": offs, **given}
            with self.subTest(message=message), self.assertRaisesRegex(m.InvalidArgument, message):
                m.grouped_mm(arguments.pop("mat_a"), arguments.pop("mat_b"), **arguments)
        with self.assertRaisesRegex(m.InvalidArgument, "out: expected None where a gradient"):
            m.wgrad(trained, x, offs=offs, out=integers(3, 64, 64))

    def test_two_by_two_refuses_what_it_would_ignore(self):
        case = Case()
        buffer = torch.full_like(case.dw, 5.0)
        cases = {
            "accumulate_wgrad: expected False for 2-D times 2-D": dict(out=buffer, accumulate_wgrad=True),
            "wgrad_out: expected None for 2-D times 2-D": dict(wgrad_out=buffer),
            "input_grad_out: expected None for 2-D times 2-D": dict(input_grad_out=case.x),
            "tail: expected None for 2-D times 2-D, got 'zero'": dict(tail="zero"),
            "tail: expected None for 2-D times 2-D, got 'leave'": dict(out=buffer, tail="leave"),
            "bias: expected None": dict(bias=case.x),
        }
        for message, given in cases.items():
            with self.subTest(message=message), self.assertRaisesRegex(m.InvalidArgument, message):
                m.grouped_mm(case.dy.t(), case.x, offs=case.offs, **given)
        self.same(buffer, torch.full_like(case.dw, 5.0))
        m.grouped_mm(case.dy.t(), case.x, offs=case.offs, out=buffer, accumulate_wgrad=False)
        self.same(buffer, case.dw)

    def test_buffers_that_backward_would_not_write(self):
        case = Case(tail=0)
        x, w = case.x.clone().requires_grad_(), case.w.clone().requires_grad_()
        mat_b, frozen = w.transpose(-2, -1), case.w.transpose(-2, -1)
        dx, main = torch.zeros_like(case.x), torch.zeros_like(case.dw)
        cases = (("input_grad_out", "mat_a", case.x, mat_b, dict(input_grad_out=dx, wgrad_out=main)),
                 ("wgrad_out", "mat_b", x, frozen, dict(input_grad_out=dx, wgrad_out=main)),
                 ("input_grad_out", "mat_a", case.x, frozen, dict(input_grad_out=dx)),
                 ("wgrad_out", "mat_b", case.x, frozen, dict(wgrad_out=main, accumulate_wgrad=True)))
        for argument, operand, mat_a, weights, buffers in cases:
            message = f"^{argument}: expected None, since {operand} requires no gradient"
            with self.subTest(argument, buffers=list(buffers)):
                with self.assertRaisesRegex(m.InvalidArgument, message):
                    m.grouped_mm(mat_a, weights, offs=case.offs, **buffers)
        # Where gradients are off, as in evaluation, the same call of a layer is legal.
        with torch.no_grad():
            self.same(m.grouped_mm(case.x, mat_b, offs=case.offs, input_grad_out=dx, wgrad_out=main),
                      case.y)
        # Each buffer alone is fine where its operand alone is trained.
        m.grouped_mm(x, frozen, offs=case.offs, input_grad_out=dx).backward(case.dy)
        m.grouped_mm(case.x, mat_b, offs=case.offs, wgrad_out=main).backward(case.dy)
        self.same(dx, case.dx.to(BF16))
        self.same(main, case.dw)

    def test_autocast_to_another_type(self):
        case = Case()
        x, mat_b = case.x.float(), case.w.float().transpose(-2, -1)
        message = f"^autocast: expected dtype torch.bfloat16 for {DEVICE}, got torch.float16"
        with torch.autocast(DEVICE, dtype=torch.float16):
            with self.assertRaisesRegex(m.InvalidArgument, message):
                m.grouped_mm(x, mat_b, offs=case.offs)
            with self.assertRaisesRegex(m.InvalidArgument, message):
                m.wgrad(case.dy.float(), x, offs=case.offs)
        with torch.autocast(DEVICE, dtype=torch.float16, enabled=False):
            self.same(m.grouped_mm(case.x, case.w.transpose(-2, -1), offs=case.offs)[:30], case.y)

    @needs_cuda
    def test_devices(self):
        case = Case()
        with self.assertRaisesRegex(m.InvalidArgument, "offs: expected memory on cuda:0"):
            m.grouped_mm(case.x, case.w.transpose(-2, -1), offs=case.offs.cpu())

    def test_candidates_say_why(self):
        found = m.candidates(num_experts=4, max_rows=64, n=64, k=64, device=DEVICE)
        self.assertTrue(any(candidate.ok for candidate in found), found)
        self.assertTrue(all(candidate.ok or candidate.reason for candidate in found))

    def test_candidates_of_an_empty_problem(self):
        # In a process of its own: a division by zero in the library would end this one.
        code = ("import moesaic.torch as m, sys\n"
                "for pass_ in ('forward', 'dgrad', 'wgrad'):\n"
                "    for sizes in ((0, 64, 64), (4, 0, 64), (0, 0, 0)):\n"
                "        found = m.candidates(pass_, num_experts=sizes[0], max_rows=sizes[1],\n"
                "                             n=sizes[2], k=64, device=sys.argv[1])\n"
                "        assert found and all(c.ok != bool(c.reason) for c in found), found\n"
                "        assert sizes[0] or not any(c.ok for c in found), found\n"
                "print('alive')\n")
        done = subprocess.run([sys.executable, "-B", "-c", code, DEVICE], capture_output=True,
                              text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "alive\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
