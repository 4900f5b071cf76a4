#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workspaces of moesaic.torch: which stream and which CUDA graph has which, and what graphs leave in
them. The bookkeeping runs anywhere, the graphs where there is a CUDA device."""

import subprocess
import sys
import unittest
from unittest import mock

from torch_cases import BF16, Case, MoesaicTest, forward, needs_cuda, offsets

import torch

import moesaic.torch as m
from moesaic.torch import _workspace

PRELUDE = """
import ctypes, torch, moesaic.torch as m
x = torch.ones(8, 64, device="cuda", dtype=torch.bfloat16)
w = torch.ones(1, 64, 64, device="cuda", dtype=torch.bfloat16)
offs = torch.tensor([8], device="cuda", dtype=torch.int32)

def capture(stream=None):
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph, stream=stream):
        y = m.grouped_mm(x, w, offs=offs)
    return graph, y

def nodes(graph):
    count = ctypes.c_size_t()
    status = ctypes.CDLL("libcuda.so.1").cuGraphGetNodes(
        ctypes.c_void_p(graph.raw_cuda_graph()), None, ctypes.byref(count))
    assert status == 0, status
    return count.value
"""


class Bookkeeping(unittest.TestCase):
    """`address` over a driver that only counts."""

    def setUp(self):
        self.capture, self.next_slab = 0, 1 << 20
        for name in ("_known", "_slabs", "_free"):
            self.enterContext(mock.patch.dict(getattr(_workspace, name), clear=True))
        self.enterContext(mock.patch.object(_workspace, "_capture", lambda *_: self.capture))
        self.enterContext(mock.patch.object(_workspace._driver, "allocate_zeroed", self.allocate))
        self.allocated = []

    def allocate(self, index, size_bytes):
        self.allocated.append((index, size_bytes))
        self.next_slab += 1 << 30
        return self.next_slab

    def take(self, stream=7, size_bytes=256, index=0, capture=0):
        self.capture = capture
        return _workspace.address(index, stream, size_bytes)

    def test_a_stream_keeps_its_own(self):
        self.assertEqual(self.take(), self.take())
        self.assertNotEqual(self.take(), self.take(stream=8))
        self.assertEqual(len(self.allocated), 1)

    def test_each_capture_on_a_stream_has_its_own(self):
        eager, first = self.take(), self.take(capture=1)
        self.assertEqual(first, self.take(capture=1))
        second = self.take(capture=2)
        self.assertEqual(len({eager, first, second}), 3)
        self.assertEqual(self.take(), eager)
        self.assertEqual(len(self.allocated), 1)

    def test_a_forked_stream_of_a_capture_has_its_own(self):
        self.assertNotEqual(self.take(capture=1), self.take(stream=8, capture=1))

    def test_the_pool_grows_and_hands_nothing_out_twice(self):
        taken = [self.take(capture=number) for number in range(1, 600)]
        self.assertEqual(len(set(taken)), 599)
        self.assertEqual(self.allocated, [(0, 256 * 256)] * 3)

    def test_large_workspaces_and_devices_are_apart(self):
        small, large = self.take(), self.take(size_bytes=1000)
        self.assertEqual(large[1], 1024)
        self.assertNotEqual(small[0], large[0])
        self.assertEqual(self.take(size_bytes=256), large)  # what is large enough is kept
        self.take(index=1)
        self.assertEqual([index for index, _ in self.allocated], [0, 0, 1])
        self.assertEqual(_workspace.devices(), [0, 1])


class Graphs(MoesaicTest):
    def in_fresh_python(self, code):
        done = subprocess.run([sys.executable, "-B", "-c", PRELUDE + code], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split("\n")[:-1]

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
    def test_two_graphs_on_one_stream_before_any_eager_call(self):
        printed = self.in_fresh_python("""
stream = torch.cuda.Stream()
(first, y), (second, z) = capture(stream), capture(stream)
print(m.read_fault(), nodes(first), nodes(second))
first.replay(), second.replay()
assert (y == 64).all() and (z == 64).all()
print(m.read_fault())
for graph, end in ((first, 9), (second, 10)):
    offs.fill_(end)
    graph.replay()
    offs.fill_(8)
    first.replay(), second.replay(), graph.replay()
    print(m.read_fault().value, m.read_fault())
""")
        self.assertEqual(printed, ["None 1 1", "None", "9 None", "10 None"])

    @needs_cuda
    def test_first_call_of_another_thread_during_a_capture(self):
        printed = self.in_fresh_python("""
import threading
def eager():
    with torch.cuda.stream(other):
        m.grouped_mm(x, w, offs=offs, out=out)
graph, other = torch.cuda.CUDAGraph(), torch.cuda.Stream()
out = torch.zeros(8, 64, device="cuda", dtype=x.dtype)
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    thread = threading.Thread(target=eager)
    thread.start()
    thread.join()
    y = m.grouped_mm(x, w, offs=offs)
graph.replay()
torch.cuda.synchronize()
print(bool((y == 64).all()), bool((out == 64).all()), m.read_fault())
""")
        self.assertEqual(printed, ["True True None"])

    @needs_cuda
    def test_reading_faults_is_refused_during_a_capture(self):
        case = Case()
        m.grouped_mm(case.x, case.w.transpose(-2, -1), offs=case.offs)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = m.grouped_mm(case.x, case.w.transpose(-2, -1), offs=case.offs)
            with self.assertRaisesRegex(m.Error, "read_fault: expected a stream that is not captured"):
                m.read_fault()
        graph.replay()
        self.same(y[:30], case.y)

    @needs_cuda
    def test_graphs_that_the_compiler_makes(self):
        # Its pools may hold nothing but what it knows of: no workspace.
        printed = self.in_fresh_python("""
layer = torch.compile(lambda x: m.grouped_mm(x, w, offs=offs) * 2, mode="reduce-overhead")
with torch.no_grad():
    for _ in range(4):
        y = layer(x).clone()
offs.fill_(9)
with torch.no_grad():
    layer(x)
print(bool((y == 128).all()), m.read_fault().value)
""")
        self.assertEqual(printed, ["True 9"])


if __name__ == "__main__":
    unittest.main()
