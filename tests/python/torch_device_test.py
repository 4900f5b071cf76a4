#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/torch_device.py and compare_bench.py with a made-up NVML and made-up looks: clocks of rows, the power limit, regions."""

import subprocess
import sys
import types
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import torch_cases  # noqa: E402, F401: says where there is no torch

import compare_bench  # noqa: E402
import compare_cases  # noqa: E402
import torch_device  # noqa: E402

POWER_CAP = 0x4


def look(at, sm_mhz, power_w=600.0, reasons=0):
    return at, sm_mhz, 3201, power_w, 50, reasons


class MadeUpLooks:
    """Gives the looks of one region after the other."""

    def __init__(self, regions):
        self.regions = iter(regions)

    def stop(self, last_seconds=None):
        return next(self.regions)


class NvmlError(Exception):
    """As in pynvml, no RuntimeError."""


def made_up_nvml(limit_mw):
    def limit(handle):
        if limit_mw is None:
            raise NvmlError("not supported")
        return limit_mw
    return types.SimpleNamespace(NVMLError=NvmlError, nvmlDeviceGetEnforcedPowerLimit=limit), "handle"


class MadeUpCuda:
    """torch.cuda of a device whose queue holds `depth` pieces, on a clock of its own: a host that enqueues a piece in `enqueue_s`
    seconds, a device that needs `run_s`."""

    def __init__(self, enqueue_s, run_s, depth=1000):
        self.host, self.free_at, self.ends, self.gates = 0.0, 0.0, [], []
        self.enqueue_s, self.run_s, self.depth = enqueue_s, run_s, depth
        cuda = self

        class Event:
            def __init__(self, enable_timing):
                self.at = None

            def record(self):
                self.at = max(cuda.free_at, cuda.host)

            def query(self):
                return self.at <= cuda.host

            def elapsed_time(self, later):
                return 1000 * (later.at - self.at)
        self.Event = Event

    def piece(self):
        self.host += self.enqueue_s
        if len(self.ends) >= self.depth:
            self.host = max(self.host, self.ends[-self.depth])
        self.free_at = max(self.free_at, self.host) + self.run_s
        self.ends.append(self.free_at)

    def synchronize(self):
        self.host = max(self.host, self.free_at)

    def _sleep(self, cycles):
        self.gates.append(cycles / torch_device.GATE_CYCLES_PER_SECOND)
        self.free_at = self.host + self.gates[-1]

    def timed(self, pieces):
        device = torch_device.Device("cpu")
        device.cuda = True
        with mock.patch.object(torch_device.torch, "cuda", self):
            return device.timed([self.piece] * pieces)


class TorchDevice(unittest.TestCase):
    def test_a_full_queue_is_no_late_host(self):
        """Sustained work: the host waits for room most of the time."""
        cuda = MadeUpCuda(enqueue_s=1e-5, run_s=0.05, depth=16)
        for second in cuda.timed(100):
            self.assertAlmostEqual(second, 0.05)
        self.assertEqual(len(cuda.gates), 1)

    def test_a_late_host_is_given_a_longer_gate(self):
        cuda = MadeUpCuda(enqueue_s=5e-4, run_s=1e-5)
        for second in cuda.timed(100):
            self.assertAlmostEqual(second, 1e-5)
        self.assertEqual(len(cuda.gates), 2)

    def test_one_piece_that_comes_late_is_seen(self):
        cuda = MadeUpCuda(enqueue_s=0.006, run_s=1e-5)
        self.assertAlmostEqual(cuda.timed(1)[0], 1e-5)
        self.assertEqual(len(cuda.gates), 2)

    def test_a_host_that_never_is_in_time_is_refused(self):
        cuda = MadeUpCuda(enqueue_s=0.1, run_s=1e-5)
        with self.assertRaisesRegex(RuntimeError, r"expected work to be enqueued before the device comes to it, got \d+ of 100 pieces later"):
            cuda.timed(100)
        self.assertEqual(len(cuda.gates), torch_device.GATE_TRIES)

    def test_sustained_clocks_are_of_all_passes(self):
        case, = compare_cases.sustained_cases(compare_cases.TINY)
        device = torch_device.Device("cpu")
        bench = compare_bench.Bench(device, 1, "none")
        bench.prepare(case)
        # moesaic, torch, dense, dense, torch, moesaic: the limit is met in torch's second pass alone.
        regions = [[look(1, 1900), look(2, 1800)], [look(3, 1700)], [], [look(4, 1750)], [look(5, 1200, 700.5, POWER_CAP)], [look(6, 1600)]]
        given = MadeUpLooks(regions)
        with mock.patch.object(device, "looks", lambda: given):
            times = bench.time(case)
        self.assertEqual(times["clocks"], {"samples": 6, "sm_mhz": {"min": 1200, "median": 1750}, "mem_mhz": 3201, "temp_c": 50,
                                           "power_w": 700.5, "throttled": True, "throttle_reasons": ["sw_power_cap"]})
        passes = {arm: [one and one["throttled"] for one in own["clocks"]] for arm, own in times["arms"].items()}
        self.assertEqual(passes, {"moesaic": [False, False], "torch": [False, True], "dense": [None, False]})
        given = MadeUpLooks([[]] * 6)
        with mock.patch.object(device, "looks", lambda: given):
            self.assertIsNone(bench.time(case)["clocks"])

    def test_looks(self):
        looks = torch_device.Looks("no such device")
        looks.samples = [look(1.0, 1900, reasons=0x1), look(1.5, 1800), look(2.0, 1700)]
        self.assertEqual([sample[0] for sample in looks.stop(0.5)], [1.5, 2.0])
        self.assertEqual(len(looks.stop()), 3)
        self.assertFalse(torch_device.clocks_of(looks.samples)["throttled"])  # idle is no throttling
        self.assertEqual(torch_device.telemetry_of(looks.samples)["interval_ms"], 500)
        self.assertIsNone(torch_device.telemetry_of(looks.samples[:1]))

    def test_the_power_limit(self):
        def limit(nvml, says):
            def run(words, **options):
                if says is None:
                    raise subprocess.CalledProcessError(1, words)
                return types.SimpleNamespace(stdout=says)
            with mock.patch.object(torch_device, "nvml_device", lambda uuid: nvml), mock.patch.object(torch_device.subprocess, "run", run):
                return torch_device.power_limit_w("GPU-1")
        self.assertEqual(limit(made_up_nvml(700_000), "650.00\n"), 700)
        self.assertEqual(limit(made_up_nvml(None), "650.00\n"), 650)
        self.assertEqual(limit((None, None), "650.00\n"), 650)
        self.assertIsNone(limit(made_up_nvml(None), None))
        self.assertIsNone(limit(made_up_nvml(None), "[N/A]\n"))

    def test_sustained_work_without_a_pilot(self):
        device = torch_device.Device("cpu")
        device.prepare({"routing": {"offs": [8, 16]}, "n": 16, "k": 16, "repeated_rows": False, "seed": 1})
        times = device.sustained({"warm_ups": 1, "unit_s": 1e-4, "pilot_s": 0, "conditioning_s": 1e-3, "measured_s": 1e-3})
        self.assertGreaterEqual(len(times["samples_s"]), 5)


if __name__ == "__main__":
    unittest.main()
