#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/compare_torch.py on the CPU, small: every kind of case runs, its rows make the page, a wrong arm is not timed."""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from statistics import median
from unittest import mock

# Threads that spin for one another stand still when the machine is busy with other tests.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import torch_cases  # noqa: E402, F401: says where there is no torch

import torch  # noqa: E402

import compare_arms  # noqa: E402
import compare_cases  # noqa: E402
import compare_routing  # noqa: E402
import compare_torch  # noqa: E402
import moesaic.torch as mt  # noqa: E402
import torch_device  # noqa: E402

REAL = [compare_cases.real_case(f"made layer {layer}", counts, 48, 32, {"name": "made"})
        for layer, counts in enumerate(((0, 5, 1), (8192, 0, 2)))]


def as_written(call, **options):
    """In place of torch.compile, which takes half a minute."""
    return call


class Blocks:
    """In place of a caching allocator: hands out the last block that torch.full had, or else one with a right result in it."""

    def __init__(self):
        self.made, self.call = [], torch.full

    def full(self, *args, **options):
        self.made.append(self.call(*args, **options))
        return self.made[-1]

    def handed_out(self, right):
        return next((one for one in reversed(self.made) if one.shape == right.shape), right)


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = self.folder / "rows.jsonl"

    def main(self, *words, compiler=as_written, real=()):
        out, told = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told), mock.patch.object(torch, "compile", compiler), \
             mock.patch.object(compare_routing, "read_cases", lambda args: list(real)):
            code = compare_torch.main(["--device", "cpu", "--tiny", "--git", "abc", "--output", str(self.path), *words])
        return code, out.getvalue(), told.getvalue()

    def rows(self):
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()] if self.path.exists() else []

    def test_every_case_and_the_page(self):
        for name in ("scripts", "docs/guide", "bench/results"):
            (self.folder / name).mkdir(parents=True)
        shutil.copy(ROOT / "scripts/performance_tables.py", self.folder / "scripts")
        page, readme = self.folder / "docs/guide/performance.md", self.folder / "README.md"
        for one in (page, readme):
            one.write_text("<!-- tables: begin -->\n<!-- tables: end -->\n", encoding="utf-8")
        self.path = self.folder / "bench/results/tiny.jsonl"
        code, out, told = self.main("--routing", "made", real=REAL)
        self.assertEqual((code, told), (0, ""))
        rows = self.rows()
        cases = compare_cases.all_cases(compare_cases.TINY, REAL)
        self.assertEqual([row["case"] for row in rows], [row.name for case in cases for row in case.rows])
        self.assertEqual([line.split("  ")[-1] for line in out.splitlines()], [row["case"] for row in rows])
        for row in rows:
            regime, gated, arms = row["timing"].pop("regime"), row["timing"].pop("gated"), row["timing"]
            self.assertEqual((regime, gated), ("sustained" if row["case"].startswith("sustained") else "short_burst", False))
            self.assertEqual((row["device"]["kind"], row["git"]["sha"], row["check"]["passed"]), ("cpu", "abc", True))
            self.assertGreater(row["check"]["elements"], 100)
            self.assertLess(row["check"]["worst_element"], 1)
            if len(arms) == 2:  # ours, then the other
                ours, other = (own["samples_s"] for own in arms.values())
                want = median(other) / median(ours) if regime == "sustained" else median(b / a for a, b in zip(ours, other))
                self.assertAlmostEqual(row["ratio"] / want, 1, 3, row["case"])
            for words in ("units of 1 ms, 0.01 s of conditioning and 0.005 s measured", "on a CPU"):
                self.assertIn(words, row["method"])
            for own in arms.values():
                self.assertTrue(0 < own["min_s"] <= own["median_s"] <= own["p95_s"], row["case"])
        self.assertEqual([len(rows[0]["timing"][arm]["samples_s"]) for arm in ("moesaic", "torch")], [20, 20])
        self.assertGreaterEqual(rows[-1]["timing"]["moesaic"]["samples"], 10)  # there and back, five each at least
        command = [sys.executable, str(self.folder / "scripts/performance_tables.py")]
        made = subprocess.run([*command, str(self.path)], capture_output=True, text=True)
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        self.assertEqual(subprocess.run([*command, "--check"], capture_output=True).returncode, 0)
        for line in ("| made layer 1 |", "| tiny |", "| zipf |", "| 4x64x32x48 |"):
            self.assertIn(line, page.read_text(encoding="utf-8"))
        text = readme.read_text(encoding="utf-8")  # of the widths of FULL alone, which tiny cases do not have
        self.assertIn(f"One {rows[0]['device']['name']}, ", text)
        self.assertIn("| rows | µs | TFLOP/s |", text)

    def wrong(self, where, name, *words, arm, real=(), scale=1.5):
        """Results of a function are too large by a half: no row, exit code 1, the arm named."""
        call = getattr(where, name)

        def scaled(*args, out=None, **options):
            if out is None:
                return call(*args, **options) * scale
            return call(*args, out=out, **options).mul_(scale)
        with mock.patch.object(where, name, scaled):
            code, out, told = self.main(*words, real=real)
        self.assertEqual((code, out), (1, ""), told)
        self.assertEqual(self.rows(), [])
        ours = [line for line in told.splitlines() if line.startswith("compare_torch: ")]  # PyTorch may warn of its own
        for line in ours:
            self.assertRegex(line, rf"arm ({arm}): \d+ of \d+ elements wrong")
        self.assertEqual({line.split("arm ")[1].split(":")[0] for line in ours}, set(arm.split("|")))

    def test_an_arm_that_is_wrong_is_not_timed(self):
        ours = 1.02  # the bound of the contract is narrower than what others are allowed
        self.wrong(mt, "grouped_mm", "--groups", "fwd,split,dgrad,sustained", arm="moesaic", scale=ours)
        self.wrong(mt, "grouped_mm", "--groups", "skew", arm="moesaic|balanced", scale=ours)
        self.wrong(mt, "wgrad", "--groups", "wgrad", arm="moesaic|accumulate", scale=ours)
        self.wrong(mt, "swiglu_mlp", "--groups", "mlp", arm="moesaic")
        self.wrong(compare_arms, "GROUPED_MM", "--groups", "fwd,split,skew,dgrad,wgrad,sustained", arm="torch")
        self.wrong(compare_arms, "GROUPED_MM", "--groups", "mlp", arm="eager|compiled")
        self.wrong(torch, "bmm", "--groups", "wgrad", arm="batched")
        self.wrong(torch, "bmm", "--groups", "fwd", arm="padded")
        self.wrong(torch, "mm", "--cases", "fwd 64 M=64 *", arm="dense|loop")
        self.wrong(torch, "mm", "--groups", "split,dgrad,sustained", arm="dense")
        self.wrong(mt, "grouped_mm", "--groups", "real", "--routing", "made", real=REAL, arm="moesaic", scale=ours)

    def test_gradients_of_the_expert_are_looked_at(self):
        """Each of dx, dw_up_gate and dw_down alone."""
        case = list(compare_cases.expert_cases(compare_cases.TINY))[1]
        with mock.patch.object(torch, "compile", as_written):
            step = compare_arms.ExpertStep(case, "cpu", 1)
        for place in range(3):
            call = step.arms["eager"]

            def changed(place=place, call=call):
                y = call()
                step.leaves[place].grad.mul_(1.3)
                return y
            with self.subTest(place=place), mock.patch.dict(step.arms, eager=changed):
                self.assertGreater(step.check("eager")["mismatches"], 0)
        self.assertEqual(step.check("eager")["mismatches"], 0)

    def test_an_arm_that_writes_nothing_is_found(self):
        """Though the right result of another arm, or its own, lies where it would have written."""
        for case in compare_cases.all_cases(compare_cases.TINY):
            with mock.patch.object(torch, "compile", as_written):
                operands = compare_arms.KINDS[case.kind](case, "cpu", 1)
            blocks = Blocks()
            for arm in case.arms:
                result = operands.arms[arm]()
                if arm == "accumulate":
                    result.zero_()  # as it is to be when it is checked
                gradients = [leaf.grad for leaf in getattr(operands, "leaves", [])]

                def idle():
                    for leaf, gradient in zip(getattr(operands, "leaves", []), gradients):
                        leaf.grad = None if gradient is None else blocks.handed_out(gradient)
                    return result if arm == "accumulate" or any(result is one for one in operands.outputs) else blocks.handed_out(result)
                with self.subTest(case=case.rows[0].name, arm=arm), mock.patch.object(torch, "full", blocks.full), \
                     mock.patch.dict(operands.arms, {arm: idle}):
                    blocks.made.clear()
                    check = operands.check(arm)
                    self.assertGreater(check["mismatches"], 0.9 * check["elements"])

    def test_sampled_pairs_keep_no_graph(self):
        for case in compare_cases.expert_cases(compare_cases.TINY):
            with mock.patch.object(torch, "compile", as_written):
                expert = compare_arms.KINDS[case.kind](case, "cpu", 1)
            wanted = [want for _, want in expert.sampled_pairs(expert.arms["eager"]())]
            self.assertEqual({want.dtype for want in wanted}, {torch.float64})
            self.assertFalse(any(want.requires_grad for want in wanted))

    def test_compiled(self):
        """With torch.compile itself."""
        code, _, told = self.main("--cases", "mlp fwd tiny", compiler=torch.compile)
        self.assertEqual(code, 0, told)
        row, = self.rows()
        self.assertEqual(set(row["timing"]), {"regime", "gated", "moesaic", "eager", "compiled"})

    def test_other_widths_are_refused_by_name(self):
        code, _, told = self.main("--groups", "real", "--routing", "made", real=[compare_cases.real_case("odd", (3, 5), 20, 12, {})])
        self.assertEqual(code, 2)
        self.assertRegex(told, r"compare_torch: .*expected .*multiple")

    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_without_a_gpu(self):
        code, _, told = self.main("--device", "cuda")
        self.assertEqual(code, 3)
        self.assertIn("--device cuda: expected a CUDA device that PyTorch sees, got none", told)
        self.assertFalse(self.path.exists())


class Bounds(unittest.TestCase):
    def test_one_rounding_is_within_the_bound(self):
        a, b = torch.randn(6, 96), torch.randn(96, 5)
        for dtype, too_far in ((torch.bfloat16, 1.01), (torch.float32, 1.0001)):
            check = torch_device.BoundCheck("cpu")
            check.add((a.double() @ b.double()).to(dtype), a, b)
            self.assertEqual((check.result()["elements"], check.result()["mismatches"]), (30, 0))
            check.add((too_far * (a.double() @ b.double())).to(dtype), a, b)
            check.add(torch.full((6, 5), float("nan"), dtype=dtype), a, b)
            self.assertGreater(check.result()["mismatches"], 30)

    def test_sampled_rows(self):
        rows = {expert: index.tolist() for expert, index in torch_device.sampled_rows([0, 1, 1, 9])}
        self.assertEqual((rows[1], rows[3][0], rows[3][-1], len(rows)), ([0], 1, 8, 2))


if __name__ == "__main__":
    unittest.main()
