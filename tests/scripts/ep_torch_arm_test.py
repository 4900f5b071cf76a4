#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of ep_torch_arm.py without PyTorch: flags, order, rows, refusals. A made-up site stands for ranks and arms."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "ep_torch_arm.py"
sys.path.insert(0, str(SCRIPT.parent))
import ep_torch_arm  # noqa: E402


class MadeUpSite:
    """Two ranks, of which this is one; the other is twice as slow. Arm torch takes three times moesaic's."""
    num_ranks, max_rows, dispatch = 2, 99, "fan_out"
    circumstances = {"device": {"name": "NVIDIA H200", "ranks": 2, "transport": "nvshmem", "driver": "1.2.3", "cuda": "CUDA 13.0"},
                     "toolchain": {"torch": "2.11", "nccl": "2.28"}}
    traffic = {"routes": 64, "max_rows_used": 40, "remote_out_rows": 20, "remote_in_rows": 24}

    def __init__(self, writes=True, wrong=()):
        self.writes, self.wrong, self.sampled = writes, wrong, []

    def prepare(self, comparison, routing):
        self.now = comparison, routing.name
        return {"moesaic": "ours", "torch": "theirs"}

    def check(self):
        return {"reference": "made up", "elements": 8, "mismatches": 3 if self.now in self.wrong else 0, "worst_element": 0.5}

    def sample(self, arm, calls):
        self.sampled.append((arm, calls))
        return {"moesaic": 1e-3, "torch": 3e-3}[arm]

    def share(self, value):
        return [value, 2 * value]


class EpTorchArm(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "rows.jsonl")

    def flags(self, *words):
        return ep_torch_arm.parse(["--output", str(self.path), "--git", "abc", *words])

    def run_on(self, site, *words):
        told = io.StringIO()
        with contextlib.redirect_stderr(told):
            wrong = ep_torch_arm.run(site, self.flags(*words), told)
        return wrong, told.getvalue()

    def rows(self):
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()] if self.path.exists() else []

    def test_rows(self):
        wrong, told = self.run_on(MadeUpSite(), "--samples", "4", "--calls", "2", "--tokens", "16", "--git", "abc,dirty")
        self.assertEqual(wrong, 0)
        rows = self.rows()
        self.assertEqual([(row["comparison"], row["routing"]["name"], row["arm"]) for row in rows],
                         [(what, routing, arm) for what in ("exchange", "layer") for routing in ("uniform", "zipf:1")
                          for arm in ("moesaic", "torch")])
        row = rows[1]
        self.assertEqual((row["schema"], row["git"], row["implementation"]), ("moesaic.ep_arm/1", {"sha": "abc", "dirty": True}, "theirs"))
        self.assertEqual((row["device"], row["toolchain"]), tuple(MadeUpSite.circumstances.values()))
        self.assertEqual(row["problem"], {"dtype": "bf16", "experts": 64, "topk": 8, "tokens": 16, "d": 4096,
                                          "capacity_factor_millionths": 2_000_000, "max_rows": 99, "dispatch": "fan_out"})
        self.assertEqual(rows[-1]["problem"]["h"], 1536)
        self.assertEqual(row["timing"], {"regime": "short_burst", "warm_ups": 3, "samples": 4, "calls_per_sample": 2,
                                         "median_s": [3e-3, 6e-3], "p05_s": 3e-3, "p95_s": 3e-3, "slowest_s": 6e-3})
        self.assertAlmostEqual(row["derived"]["ratio_to_moesaic"], 3)
        self.assertEqual(rows[0]["derived"]["ratio_to_moesaic"], 1)
        self.assertRegex(row["date"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertIn("NVIDIA H200, 2 ranks", told)
        self.assertRegex(told, r"exchange  uniform   torch +6\.000 ms   3\.00")

    def test_arms_alternate(self):
        site = MadeUpSite()
        self.run_on(site, "--samples", "3", "--calls", "2", "--what", "layer", "--routing", "uniform")
        self.assertEqual(site.sampled, [("moesaic", 3), ("torch", 3), ("moesaic", 2), ("torch", 2), ("torch", 2), ("moesaic", 2),
                                        ("moesaic", 2), ("torch", 2)])
        arms = ["a", "b", "c"]
        self.assertEqual([ep_torch_arm.in_turn(arms, sample)[0] for sample in range(6)], arms * 2)

    def test_what_is_wrong_is_not_timed(self):
        site = MadeUpSite(wrong=[("exchange", "zipf:1")])
        wrong, told = self.run_on(site)
        self.assertEqual(wrong, 1)
        self.assertIn("exchange, zipf:1: 3 of 8 elements wrong", told)
        self.assertNotIn(("exchange", "zipf:1"), {(row["comparison"], row["routing"]["name"]) for row in self.rows()})
        self.assertEqual(len(self.rows()), 6)

    def test_only_rank_0_writes(self):
        self.assertEqual(self.run_on(MadeUpSite(writes=False)), (0, ""))
        self.assertEqual(self.rows(), [])

    def test_refusals(self):
        for words, message in ((("--what", "all"), "--what: expected some of exchange, layer, got 'all'"),
                               (("--routing", "uniform,pareto:1"), "--routing: .*got 'pareto:1'"),
                               (("--routing", "zipf:11"), "--routing: .*zipf:S with S from 0 to 10"),
                               (("--routing", "zipf:x"), "--routing: .*'zipf:x'"),
                               (("--git", ",dirty"), "--git: expected a commit"), (("--git", "a,clean"), "--git: expected a commit"),
                               (("--tokens", "0"), "--tokens: expected a number from 1 on, got '0'"),
                               (("--samples", "2"), "--samples: expected a number from 3 on"),
                               (("--topk", "65"), "--topk: expected at most the 64 experts, got 65")):
            with self.subTest(words=words), self.assertRaisesRegex(ep_torch_arm.Refused, message) as refused:
                self.flags(*words)
            self.assertEqual(refused.exception.code, 2)

    def test_what_is_missing_is_named(self):
        environment = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE", "MOESAIC_RENDEZVOUS")}
        done = subprocess.run([sys.executable, "-B", SCRIPT, "--output", self.path], env=environment, capture_output=True, text=True)
        if "expected PyTorch" in done.stderr:
            self.assertEqual(done.returncode, 3)
        else:
            self.assertIn("RANK, WORLD_SIZE, MOESAIC_RENDEZVOUS", done.stderr)
            self.assertIn("--simulated", done.stderr)
            self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main()
