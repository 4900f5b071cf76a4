# SPDX-License-Identifier: Apache-2.0
"""What tests of compare_torch.py without PyTorch share: a made-up bench that stands for the device, and calls of the script."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "compare_torch.py"
sys.path.insert(0, str(SCRIPT.parent))
import compare_routing  # noqa: E402
import compare_torch  # noqa: E402

SECONDS = {"moesaic": 2e-4, "accumulate": 2.5e-4, "balanced": 1.9e-4, "torch": 3e-4, "padded": 4e-4, "dense": 1e-4, "loop": 5e-4,
           "batched": 6e-4, "eager": 7e-4, "compiled": 6e-4}
WORST = {"moesaic": 0.5, "balanced": 0.6, "accumulate": 0.4}  # of its bound


class MadeUpBench:
    """Arms take known times; one arm of the cases that it is told is wrong."""
    reference = "made up"

    def __init__(self, name="NVIDIA H200", wrong=(), throttled=False):
        self.circumstances = {"method": "none", "toolchain": {"cuda": "13.0", "torch": "2.11", "moesaic": "0.1"},
                              "device": {"name": name, "sms": 132, "power_limit_w": 700, "driver": "580"}}
        self.wrong, self.clocks, self.prepared, self.timed = wrong, {"throttled": throttled}, [], []

    def prepare(self, case):
        self.case = case
        self.prepared.append(case.rows[0].name)

    def check(self, arm):
        wrong = (self.case.rows[0].name, arm) in self.wrong
        return {"elements": 8, "mismatches": 3 if wrong else 0, "worst_element": WORST.get(arm, 0.9)}

    def time(self, case):
        self.timed.append(case.rows[0].name)
        return {"gated": True, "clocks": self.clocks,
                "arms": {arm: {"samples_s": [0.5 * SECONDS[arm], SECONDS[arm], 3 * SECONDS[arm]]} for arm in case.arms}}


class CompareTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = self.folder / "rows.jsonl"

    def main(self, *words, bench=None, real=()):
        out, told = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told), \
             mock.patch.object(compare_torch, "open_bench", lambda args: bench or MadeUpBench()), \
             mock.patch.object(compare_routing, "read_cases", lambda args: list(real)):
            code = compare_torch.main(["--git", "0123456789ab", *([] if "--output" in words else ["--output", str(self.path)]), *words])
        return code, out.getvalue(), told.getvalue()

    def rows(self):
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()] if self.path.exists() else []
