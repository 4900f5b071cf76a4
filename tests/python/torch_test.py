#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""moesaic.torch on CUDA where there is a device for it, on the CPU elsewhere: bit for bit on small
integers, gradients, buffers, tracing, refusals."""

import subprocess
import sys
import threading
import unittest

try:
    import torch
    import torch.utils.checkpoint
except ImportError as error:
    print(f"SKIPPED: {error} (pip install torch into the Python that runs this)")
    sys.exit(0)

import moesaic.torch as m

CUDA = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
DEVICE = "cuda" if CUDA else "cpu"
BF16 = torch.bfloat16
COUNTS = ([16, 16, 16], [0, 0, 0], [0, 21, 0], [5, 7, 9], [1] * 40, [130, 1, 0, 65])
needs_cuda = unittest.skipUnless(CUDA, "needs a CUDA device of compute capability 9.0")


def integers(*shape, seed=0, dtype=BF16):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-1, 2, shape, generator=generator).to(dtype).to(DEVICE)


def offsets(counts):
    return torch.tensor(counts).cumsum(0).to(torch.int32).to(DEVICE)


def segments(counts):
    low = 0
    for expert, count in enumerate(counts):
        yield expert, low, low + count
        low += count


def forward(x, w_enk, counts):
    y = torch.zeros(x.shape[0], w_enk.shape[1], device=DEVICE)
    for expert, low, high in segments(counts):
        y[low:high] = x[low:high].float() @ w_enk[expert].float().t()
    return y


def weight_gradient(dy, x, counts):
    dw = torch.zeros(len(counts), dy.shape[1], x.shape[1], device=DEVICE)
    for expert, low, high in segments(counts):
        dw[expert] = dy[low:high].float().t() @ x[low:high].float()
    return dw


class Case:
    """One routed layer of three experts with a tail of NaN rows."""

    def __init__(self, counts=(9, 0, 21), tail=6, k=64, n=72):
        self.counts, self.used = list(counts), sum(counts)
        self.x = integers(self.used + tail, k, seed=1)
        self.x[self.used:] = float("nan")
        self.w = integers(len(self.counts), n, k, seed=2)
        self.dy = integers(self.used + tail, n, seed=3)
        self.dy[self.used:] = float("inf")
        self.offs = offsets(self.counts)
        self.y = forward(self.x[:self.used], self.w, self.counts).to(BF16)
        self.dw = weight_gradient(self.dy[:self.used], self.x[:self.used], self.counts)
        self.dx = torch.zeros(self.used, k, device=DEVICE)
        for expert, low, high in segments(self.counts):
            self.dx[low:high] = self.dy[low:high].float() @ self.w[expert].float()


class MoesaicTest(unittest.TestCase):
    def setUp(self):
        m.read_fault()

    def same(self, got, want, what=""):
        self.assertEqual(tuple(got.shape), tuple(want.shape), what)
        self.assertTrue(torch.equal(got.float(), want.float()), what)


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

    def test_no_rows(self):
        w = integers(2, 8, 16)
        empty = torch.empty(0, 16, dtype=BF16, device=DEVICE)
        self.assertEqual(m.grouped_mm(empty, w.transpose(-2, -1), offs=offsets([0, 0])).shape, (0, 8))
        self.same(m.wgrad(empty, empty, offs=offsets([0, 0])), torch.zeros(2, 16, 16, device=DEVICE))

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
        torch.library.opcheck(ops.grouped_mm, (x, w.transpose(-2, -1), case.offs))
        torch.library.opcheck(ops.wgrad, (dy, x, case.offs))
        torch.library.opcheck(ops.grouped_mm_out, (x.detach(), plain, case.offs, out))
        torch.library.opcheck(ops.wgrad_out, (dy.detach(), x.detach(), case.offs, main, True))

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

    @needs_cuda
    def test_graphs_replay_new_offsets_and_keep_faults(self):
        case = Case([8, 8, 8])
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            m.grouped_mm(case.x, case.w.transpose(-2, -1), offs=case.offs)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = m.grouped_mm(case.x, case.w.transpose(-2, -1), offs=case.offs)
        for counts in ([24, 0, 0], [1, 2, 3], [0, 0, 0]):
            case.offs.copy_(offsets(counts))
            graph.replay()
            used = sum(counts)
            self.same(y[:used], forward(case.x[:used], case.w, counts).to(BF16), counts)
        case.offs.copy_(torch.tensor([4, 99, 5], dtype=torch.int32))
        graph.replay()
        self.assertEqual(m.read_fault(), ("offs_out_of_range", 1, 99))
        self.assertIsNone(m.read_fault())

    @needs_cuda
    def test_a_graph_captured_before_any_eager_call(self):
        code = ("import torch, moesaic.torch as m\n"
                "x = torch.ones(8, 64, device='cuda', dtype=torch.bfloat16)\n"
                "w = torch.ones(1, 64, 64, device='cuda', dtype=torch.bfloat16)\n"
                "offs = torch.tensor([8], device='cuda', dtype=torch.int32)\n"
                "graph = torch.cuda.CUDAGraph()\n"
                "with torch.cuda.graph(graph):\n"
                "    y = m.grouped_mm(x, w, offs=offs)\n"
                "graph.replay(); assert (y == 64).all(); offs.fill_(9); graph.replay()\n"
                "print(m.read_fault())\n")
        done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True,
                              check=False)
        self.assertIn("expert=0, value=9", done.stdout, done.stderr)


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
            "mat_a: expected row-major": dict(mat_a=integers(64, 30).t()),
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
            "input_grad_out: expected": dict(input_grad_out=integers(30, 72)),
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

    @needs_cuda
    def test_a_device_that_is_not_current(self):
        if torch.cuda.device_count() < 2:
            self.skipTest("one CUDA device here")
        case = Case()
        x, w, offs = (tensor.to("cuda:1") for tensor in (case.x, case.w, case.offs))
        y = m.grouped_mm(x, w.transpose(-2, -1), offs=offs)
        self.assertEqual((y.device.index, torch.cuda.current_device()), (1, 0))
        self.same(y[:30].to(DEVICE), case.y)

    @needs_cuda
    def test_devices(self):
        case = Case()
        with self.assertRaisesRegex(m.InvalidArgument, "offs: expected memory on cuda:0"):
            m.grouped_mm(case.x, case.w.transpose(-2, -1), offs=case.offs.cpu())

    def test_candidates_say_why(self):
        found = m.candidates(num_experts=4, max_rows=64, n=64, k=64, device=DEVICE)
        self.assertTrue(any(candidate.ok for candidate in found), found)
        self.assertTrue(all(candidate.ok or candidate.reason for candidate in found))


if __name__ == "__main__":
    unittest.main()
