#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of torch_arm.py without PyTorch: reading of cases, rows, resuming, refusals. A made-up device stands for it."""

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "torch_arm.py"
sys.path.insert(0, str(SCRIPT.parent))
import torch_arm  # noqa: E402


def case(order, regime="short_burst", **changes):
    return {"schema": "moesaic.experiment_case/1", "experiment": "fig38", "protocol": "full", "case": f"rows={8 << order}", "process": 0,
            "order": order, "factors": {"rows": 8 << order}, "arms": ["grouped", "torch"], "seed": 1,
            "routing": {"name": "uniform", "label": "made", "layer": 0, "step": 0, "offs": [4 << order, 4 << order, 8 << order]},
            "proj": "square", "d": 16, "h": 16, "n": 16, "k": 32, "repeated_rows": False,
            "timing": {"regime": regime, "warm_ups": 10, "samples": 4, "pilot_s": 3.0, "conditioning_s": 8.0, "measured_s": 1.5,
                       "unit_s": 0.1}, **changes}


class MadeUpDevice:
    """Takes a known time; wrong on the cases that it is told to be wrong on."""

    def __init__(self, name="NVIDIA H200", wrong=()):
        self.circumstances = {"device": {"kind": "cuda", "name": name}, "toolchain": {"cuda": "CUDA 13.0", "torch": "2.11"}}
        self.wrong, self.prepared = wrong, []

    def prepare(self, one):
        self.prepared.append(one["case"])

    def check(self, one):
        return {"worst_element": 0.5, "elements": 8, "mismatches": 3 if one["case"] in self.wrong else 0}

    def burst(self, timing):
        return {"samples_s": [4e-6, 1e-6, 2e-6, 3e-6], "gated": True, "clocks": None, "telemetry": None}

    def sustained(self, timing):
        return {"samples_s": [2e-6] * 5, "calls_per_sample": 100, "gated": True, "clocks": None, "telemetry": {"sm_mhz": [1000]}}


class TorchArmTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "rows.jsonl")

    def run_cases(self, cases, device=None, told=None, budget=None):
        told = told or io.StringIO()
        with contextlib.redirect_stderr(told):
            wrong = torch_arm.run_cases(cases, device or MadeUpDevice(), self.path, told, budget)
        return wrong, told.getvalue()

    def rows(self):
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def test_rows_have_the_schema_of_the_command(self):
        self.run_cases([case(0)])
        row, = self.rows()
        self.assertEqual(list(row), ["schema", "date", "git", "command", "device", "toolchain", "clocks", "problem", "routing", "implementation",
                                     "regimes", "timing", "work", "derived", "check", "experiment", "telemetry", "profile"])
        self.assertEqual(row["experiment"], {"name": "fig38", "protocol": "full", "case": "rows=8", "arm": "torch", "process": 0, "order": 0,
                                             "factors": {"rows": 8}})
        timing = row["timing"]
        for name, seconds in (("median_s", 2.5e-6), ("mean_s", 2.5e-6), ("min_s", 1e-6)):
            self.assertAlmostEqual(timing[name] / seconds, 1)
        self.assertAlmostEqual(timing["p95_s"] / 3.85e-6, 1)
        self.assertEqual(row["work"], {"useful_flops": 2 * 8 * 16 * 32, "executed_flops": 2 * 8 * 16 * 32,
                                       "min_bytes": 2 * (8 * 48 + 2 * 16 * 32)})
        self.assertEqual((row["routing"]["active_experts"], row["routing"]["max_rows"], row["routing"]["effective_experts"]), (2, 4, 2))
        self.assertAlmostEqual(row["derived"]["tflops_useful"] / (2 * 8 * 16 * 32 / 2.5e-6 * 1e-12), 1)

    def test_it_says_where_the_time_went(self):
        _, told = self.run_cases([case(0), case(1)])
        self.assertRegex(told, r"2 rows appended .*, 0 were there\ntorch_arm: \d+\.\d s: prepare 0\.0 s, check 0\.0 s, timing 0\.0 s\n$")
        _, told = self.run_cases([case(0)])
        self.assertNotIn("prepare", told)

    def test_a_terminal_sees_what_is_left(self):
        terminal = io.StringIO()
        terminal.isatty = lambda: True
        _, told = self.run_cases([case(0), case(1)], told=terminal)
        self.assertRegex(told, r"torch 2/2, 0 s left: rows=16")
        self.assertEqual(len(self.rows()), 2)

    def test_a_budget_stops_before_a_case_and_says_what_is_left(self):
        class Slow(MadeUpDevice):
            def burst(self, timing):
                time.sleep(0.2)
                return super().burst(timing)
        _, told = self.run_cases([case(0), case(1), case(2), case(3)], Slow(), budget=0.5)
        self.assertEqual([row["experiment"]["case"] for row in self.rows()], ["rows=8", "rows=16"])
        self.assertIn("2 rows appended", told)
        self.assertIn("stopped by --budget before rows=32; 2 rows are left", told)
        _, told = self.run_cases([case(4, "sustained")], Slow(), budget=12)
        self.assertIn("0 rows appended", told)  # 12.5 s of regions
        for text in ("0", "-1", "soon", "nan", "inf"):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as refused:
                torch_arm.main(["--output", str(self.path), "--budget", text])
            self.assertIn(f"--budget: expected seconds above 0, got {text}", refused.getvalue())

    def test_sustained_rows_say_their_regions(self):
        self.run_cases([case(0, "sustained")])
        row, = self.rows()
        self.assertEqual({name: row["timing"][name] for name in ("pilot_s", "conditioning_s", "measured_s", "calls_per_sample")},
                         {"pilot_s": 3.0, "conditioning_s": 8.0, "measured_s": 1.5, "calls_per_sample": 100})
        self.assertEqual(row["telemetry"], {"sm_mhz": [1000]})

    def test_rows_that_are_there_are_not_run_again(self):
        self.run_cases([case(0), case(1)])
        once = self.path.read_text()
        self.path.write_text(once[:-30])  # killed while writing
        device = MadeUpDevice()
        _, told = self.run_cases([case(0), case(1), case(2)], device)
        self.assertEqual(device.prepared, ["rows=16", "rows=32"])
        self.assertIn("line 2: left out, a row that was cut off", told)
        lines = self.path.read_text().splitlines()
        self.assertEqual(len(lines), 4)
        self.assertEqual([json.loads(line)["experiment"]["case"] for line in (lines[0], *lines[2:])], ["rows=8", "rows=16", "rows=32"])

    def test_a_wrong_case_has_no_row(self):
        wrong, told = self.run_cases([case(0), case(1)], MadeUpDevice(wrong=("rows=8",)))
        self.assertEqual(wrong, 1)
        self.assertIn("rows=8: 3 of 8 elements wrong, not timed", told)
        self.assertEqual([row["experiment"]["case"] for row in self.rows()], ["rows=16"])

    def test_rows_of_another_device_or_protocol_are_refused(self):
        self.run_cases([case(0)])
        for cases, device, word in (([case(1)], MadeUpDevice("NVIDIA H100"), "NVIDIA H200"),
                                    ([case(1, protocol="reduced")], MadeUpDevice(), "full")):
            with self.assertRaises(torch_arm.Refused) as refused:
                self.run_cases(cases, device)
            self.assertIn(word, str(refused.exception))
            self.assertEqual(refused.exception.code, 2)

    def test_cases_are_read_and_refused_by_line(self):
        listed = [json.dumps(case(0)), "", json.dumps(case(1, arms=["grouped"]))]
        self.assertEqual([one["case"] for one in torch_arm.read_cases(listed)], ["rows=8"])
        for lines, words in ((['{"schema": "other/1"}'], "cases line 1: expected a JSON object of schema"), (["no JSON"], "cases line 1"),
                             ([json.dumps(case(0, arms=["dense"]))], "--arms torch")):
            with self.assertRaisesRegex(torch_arm.Refused, words):
                torch_arm.read_cases(lines)

    def test_absent_pytorch_is_named(self):
        done = subprocess.run([sys.executable, "-I", "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"])
        if done.returncode == 0:
            self.skipTest("PyTorch is here")
        done = subprocess.run([sys.executable, str(SCRIPT), "--output", str(self.path)], input=json.dumps(case(0)), capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, r"^torch_arm: torch: expected PyTorch with grouped_mm to be importable by .*No module named 'torch'")
        self.assertFalse(self.path.exists())


if __name__ == "__main__":
    unittest.main()
