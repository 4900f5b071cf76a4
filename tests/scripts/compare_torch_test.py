#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of compare_torch.py without PyTorch: cases, rows, the page from them, resuming, refusals. A made-up bench stands for the device."""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "compare_torch.py"
sys.path.insert(0, str(SCRIPT.parent))
import compare_cases  # noqa: E402
import compare_routing  # noqa: E402
import compare_torch  # noqa: E402

SECONDS = {"moesaic": 2e-4, "accumulate": 2.5e-4, "balanced": 1.9e-4, "torch": 3e-4, "padded": 4e-4, "dense": 1e-4, "loop": 5e-4,
           "batched": 6e-4, "eager": 7e-4, "compiled": 6e-4}
WORST = {"moesaic": 0.5, "balanced": 0.6, "accumulate": 0.4}  # of its bound


def recorded():
    """Rows of the file that the page names, by name, in their order."""
    named = re.search(r"From `(\S+)`", (ROOT / "docs/guide/performance.md").read_text(encoding="utf-8"))
    return {row["case"]: row for row in map(json.loads, (ROOT / named[1]).read_text(encoding="utf-8").splitlines())}


def real_cases():
    """Cases named as the recorded ones, each label with its layers, of made-up rows."""
    labels, cases = {}, []
    for name in recorded():
        match = re.fullmatch(r"real (.*) layer (\d+)", name)
        if match:
            labels.setdefault(match[1], []).append(int(match[2]))
    for label, numbers in labels.items():
        layers = [{"source": "made.json", "layer": number, "step": 3, "rank": 0} for number in numbers]
        cases += [compare_cases.real_case(name, [64 * len(label)] * 16, 256, 64, layers[0])
                  for name in compare_routing.names_of(layers, label, False)]
    return cases


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
                "arms": {arm: {"samples_s": [0.5 * SECONDS[arm], SECONDS[arm], 1.5 * SECONDS[arm]]} for arm in case.arms}}


class CompareTorch(unittest.TestCase):
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

    def record_all(self):
        return self.main("--routing", "made.json", real=real_cases())

    # Cases.

    def test_the_recording_has_a_producer(self):
        names = [row.name for case in compare_cases.all_cases(real=real_cases()) for row in case.rows]
        self.assertEqual(names, list(recorded()))

    def test_rows_have_what_recorded_ones_have(self):
        self.assertEqual(self.record_all()[0], 0)
        before = recorded()
        for row in self.rows():
            old = before[row["case"]]
            self.assertEqual(set(old) - set(row), set(), row["case"])
            for part in ("git", "check"):
                self.assertEqual(set(old[part]) - set(row[part]), set(), row["case"])

    def test_sizes(self):
        for sizes in (compare_cases.FULL, compare_cases.TINY):
            rows, width = sizes.skew
            for case in compare_cases.skew_cases(sizes):
                self.assertEqual((len(case.counts), sum(case.counts)), (16, rows), case.rows[0].name)
                self.assertGreaterEqual(min(case.counts), 8)
            for case in compare_cases.all_cases(sizes):
                self.assertEqual((case.n % 8, case.k % 8, case.arms[0]), (0, 0, "moesaic"))
                for row in case.rows:
                    self.assertLessEqual(set(row.arms), set(case.arms))
        counts = {case.rows[0].name: case.counts for case in compare_cases.skew_cases(compare_cases.FULL)}
        self.assertEqual(counts["skew one-hot vs balanced"], (62296, *[216] * 15))
        self.assertEqual([expert for expert, count in enumerate(counts["skew three-hot vs balanced"]) if count > 4096], [0, 5, 10])

    def test_the_method_is_that_of_the_cases(self):
        method = compare_cases.method(compare_cases.FULL)
        for words in ("10 + 20 (fwd),", "4 + 10 (dgrad, wgrad),", "3 + 5 (mlp fwd),", "2 + 5 (mlp fwd+bwd),", "5 + 20 (real);",
                      "units of 50 ms, 3 s of conditioning and 1.5 s measured"):
            self.assertIn(words, method)
        self.assertIn("units of 200 ms", compare_cases.method(compare_cases.FULL._replace(
            regions={**compare_cases.FULL.regions, "unit_s": 0.2})))

    def test_figures(self):
        self.record_all()
        rows = {row["case"]: row for row in self.rows()}
        for name, want in {
                "fwd 4096 M=64 vs torch": {"ratio": 1.5, "us": 200, "tflops": 2 * 64 * 4096 ** 2 / 2e-4 * 1e-12},
                "fwd 4096 M=64 vs bmm1.25": {"ratio": 2, "bmm_us": 400},
                "fwd 4096 M=64 vs dense": {"ratio": 0.5, "dense_tflops": 2 * 64 * 4096 ** 2 / 1e-4 * 1e-12},
                "fwd 4096 M=64 weight TB/s": {"ratio": 2 * 16 * 4096 ** 2 / 2e-4 * 1e-12},
                "fwd 4096 M=32768 vs loop": {"ratio": 2.5, "loop_tflops": 2 * 32768 * 4096 ** 2 / 5e-4 * 1e-12},
                "split 8 T=16 vs dense": {"ratio": 0.5, "torch_ratio": 1 / 3},
                "skew zipf vs balanced": {"ratio": 0.95, "vs_torch": 1.5},
                "dgrad 4x65536x8192x20480 vs torch": {"ratio": 1.5, "vs_dense": 0.5, "tflops": 2 * 65536 * 8192 * 20480 / 2e-4 * 1e-12},
                "wgrad+=fp32 16x16384x4096x4096 vs bmm": {"ratio": 2.4, "tflops": 2 * 16384 * 4096 ** 2 / 2.5e-4 * 1e-12},
                "mlp fwd small-2": {"ratio": 3, "eager_ratio": 3.5, "tflops": 6 * 98304 * 2048 * 2560 / 2e-4 * 1e-12},
                "mlp fwd+bwd small-2": {"ratio": 3, "tflops": 18 * 98304 * 2048 * 2560 / 2e-4 * 1e-12},
                "sustained 512 vs dense": {"ratio": 0.5, "tflops": 2 * 8192 * 4096 ** 2 / 2e-4 * 1e-12}}.items():
            for field, value in want.items():
                self.assertAlmostEqual(rows[name][field] / value, 1, 4, (name, field))
        timing = rows["split 8 T=16 vs dense"]["timing"]
        self.assertEqual(set(timing), {"regime", "gated", "moesaic", "torch", "dense"})
        self.assertEqual({name: round(1e6 * timing["torch"][name]) for name in ("mean_s", "median_s", "p05_s", "p95_s", "min_s")},
                         {"mean_s": 300, "median_s": 300, "p05_s": 165, "p95_s": 435, "min_s": 150})
        self.assertEqual(timing["torch"]["samples_s"], [1.5e-4, 3e-4, 4.5e-4])

    def test_the_worst_element_is_of_our_arms_of_the_row(self):
        self.main("--groups", "wgrad,skew,fwd")
        rows = {row["case"]: row["check"] for row in self.rows()}
        for name, arms, worst in (("wgrad 16x16384x4096x4096 vs bmm", 4, 0.5), ("wgrad+=fp32 16x16384x4096x4096 vs bmm", 4, 0.4),
                                  ("skew zipf vs balanced", 3, 0.6), ("fwd 4096 M=64 vs torch", 4, 0.5)):
            self.assertEqual(rows[name], {"reference": "made up", "passed": True, "elements": 8 * arms, "mismatches": 0,
                                          "worst_element": worst}, name)

    def test_the_floor_of_a_routing(self):
        few, = compare_cases.real_case("few", (10, 0, 30), 96, 64, {}).rows
        stream = 2 * (2 * 96 * 64 + 40 * 160) / 4.57e12
        self.assertAlmostEqual(few.fields["of_floor"]({"moesaic": 2 * stream, "torch": 3}), 0.5)
        many = compare_cases.real_case("many", (8192, 0), 96, 64, {})
        self.assertIn("dense", many.arms)
        self.assertAlmostEqual(many.rows[0].fields["torch_of_floor"]({"moesaic": 3.0, "torch": 4.0, "dense": 1.0}), 0.25)

    # The page.

    def test_the_page_is_made_of_rows(self):
        for name in ("scripts", "docs/guide", "bench/results"):
            (self.folder / name).mkdir(parents=True)
        shutil.copy(ROOT / "scripts/performance_tables.py", self.folder / "scripts")
        page, readme = self.folder / "docs/guide/performance.md", self.folder / "README.md"
        for one in (page, readme):
            shutil.copy(ROOT / one.relative_to(self.folder), one)
        before = [one.read_text(encoding="utf-8") for one in (page, readme)]
        self.path = self.folder / "bench/results/rows.jsonl"
        self.record_all()
        command = [sys.executable, str(self.folder / "scripts/performance_tables.py")]
        made = subprocess.run([*command, str(self.path)], capture_output=True, text=True)
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        self.assertEqual(subprocess.run([*command, "--check"], capture_output=True).returncode, 0)
        after = [one.read_text(encoding="utf-8") for one in (page, readme)]
        first_cells = [[line.split("|")[1] for text in texts for line in text.splitlines() if line.startswith("|")]
                       for texts in (before, after)]
        self.assertEqual(first_cells[1], first_cells[0])
        self.assertIn("| balanced | 0.95 | 1.50 |", after[0])
        self.assertIn("| 64 | 200 | 10.7 | 1.50 | 2.00 |", after[1])

    # Running.

    def test_a_wrong_arm_has_no_row(self):
        bench = MadeUpBench(wrong={("skew zipf vs balanced", "torch"), ("skew spike vs balanced", "moesaic")})
        code, _, told = self.main("--groups", "skew", bench=bench)
        self.assertEqual(code, 1)
        self.assertIn("skew zipf vs balanced: arm torch: 3 of 8 elements wrong", told)
        self.assertIn("skew spike vs balanced: arm moesaic: 3 of 8 elements wrong", told)
        self.assertEqual([row["case"].split()[1] for row in self.rows()], ["balanced", "three-hot", "one-hot", "ragged"])
        self.assertEqual(len(bench.timed), 4)

    def test_rows_that_are_there_are_not_run_again(self):
        self.main("--groups", "wgrad")
        once = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
        self.path.write_text("".join(once[:3]) + once[3][:-30], encoding="utf-8")  # killed while writing
        bench = MadeUpBench()
        code, out, told = self.main("--groups", "wgrad", bench=bench)
        self.assertEqual(code, 0)
        self.assertIn("line 4: a row that was cut off is run again", told)
        self.assertEqual(bench.prepared, [json.loads(once[3])["case"], *(json.loads(line)["case"] for line in once[6::3])])
        self.assertEqual([row["case"] for row in self.rows()], [json.loads(line)["case"] for line in once])
        code, out, told = self.main("--groups", "wgrad", bench=MadeUpBench("another, never opened"))
        self.assertEqual((code, out), (0, ""))
        self.assertIn("all rows are there", told)

    def test_a_last_row_without_its_end_of_line(self):
        self.main("--groups", "wgrad")
        once = self.path.read_text(encoding="utf-8").splitlines()
        self.path.write_text("\n".join(once[:3]), encoding="utf-8")
        code, _, told = self.main("--groups", "wgrad")
        self.assertEqual((code, told), (0, ""))
        self.assertEqual([row["case"] for row in self.rows()], [json.loads(line)["case"] for line in once])

    def test_only_a_run_changes_the_file(self):
        self.main("--groups", "wgrad")
        cut_off = self.path.read_bytes()[:-30]
        self.path.write_bytes(cut_off)
        code, _, told = self.main("--groups", "wgrad", "--dry-run")
        self.assertEqual(code, 0)
        self.assertIn("a row that was cut off is run again", told)
        self.assertEqual(self.path.read_bytes(), cut_off)
        for words, bench in ((("--git", "fedcba"), None), (("--seed", "2"), None), ((), MadeUpBench("NVIDIA H100"))):
            code, out, _ = self.main("--groups", "wgrad", *words, bench=bench)
            self.assertEqual((code, out, self.path.read_bytes()), (2, "", cut_off))

    def test_a_part_of_a_measurement_that_is_there(self):
        self.main("--cases", "fwd 4096 M=64 vs torch")
        self.main("--cases", "fwd 4096 M=64 *")
        self.assertEqual([row["case"].split("M=64 ")[1] for row in self.rows()], ["vs torch", "vs bmm1.25", "vs dense", "weight TB/s"])

    def test_seconds(self):
        bench = MadeUpBench()
        code, _, told = self.main("--groups", "sustained", "--seconds", "1", "--strict", bench=bench)
        self.assertEqual((code, bench.prepared), (4, []))
        self.assertIn("--seconds: 3 measurements are left, from 'sustained 512 vs torch' on", told)
        self.assertEqual(self.main("--groups", "sustained", "--seconds", "1")[0], 0)

    def test_estimates_follow_the_clock(self):
        # A clock by which each measurement takes ten times what was expected: the second would not end in time.
        expected = compare_cases.expected_seconds(next(compare_cases.skew_cases(compare_cases.FULL)))
        times = iter(10 * expected * place for place in range(9))
        args = compare_torch.parse(["--output", str(self.path), "--groups", "skew", "--git", "abc", "--seconds", str(15 * expected)])
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            wrong, left, _ = compare_torch.run(compare_torch.chosen(args), compare_torch.Recorded({}, 0), MadeUpBench(), args, now=lambda: next(times))
        self.assertEqual((wrong, left, len(self.rows())), (0, 5, 1))

    def test_throttled(self):
        code, out, _ = self.main("--groups", "split", "--strict", bench=MadeUpBench(throttled=True))
        self.assertEqual(code, 4)
        self.assertIn("split 4 T=1 vs dense  throttled", out)
        self.assertEqual(len(self.rows()), 16)

    # Refusals.

    def refused(self, *words, code=2, message, **how):
        got, out, told = self.main(*words, **how)
        self.assertEqual((got, out), (code, ""))
        self.assertRegex(told, message)

    def test_rows_of_something_else_are_refused(self):
        self.main("--groups", "skew")
        self.refused("--groups", "split", bench=MadeUpBench("NVIDIA H100"), message="--output: expected rows of device .*H100.*, got .*H200")
        self.refused("--groups", "split", "--git", "fedcba", message="--output: expected rows of git .*fedcba.*, got .*0123456789ab")
        self.refused("--groups", "split", "--seed", "2", message="--output: expected rows of seed 2, got .* of 1 ")
        self.refused("--groups", "skew", "--tiny", message="--output: expected 'skew balanced vs balanced' to be the measurement")
        self.path.write_text('{"schema": "moesaic.bench/1"}\n')
        self.refused(message=r"--output: .*moesaic.compare/1, got \S+rows.jsonl line 1")
        self.path.write_text("some words")
        self.refused(message=r"--output: .*line 1: 'some words'")
        self.assertEqual(self.path.read_text(), "some words")

    def test_flags(self):
        self.refused("--groups", "fwd,mpl", message="--groups: expected some of fwd, split, .*, got 'mpl'")
        self.refused("--groups", "real", message="--groups: expected real and --routing together")
        for flag, value in (("rows", "8"), ("rank", "hottest"), ("label", "a"), ("ep", "2"), ("layer", "0"), ("shape", "d=8,h=8"), ("step", "0"),
                            ("experts", "8"), ("form", "ids"), ("moesaic", "/nowhere")):
            self.refused(f"--{flag}", value, message=f"--{flag}: expected --routing with it, got --{flag} {value} alone")
        self.refused("--cases", "fwd 96*", message="--cases: expected a pattern of names such as 'fwd 4096 M=64 vs torch', got 'fwd 96")
        self.refused("--seconds", "soon", message="--seconds: expected a number above 0, got 'soon'")
        self.refused("--routing", "a", real=2 * [compare_cases.real_case("x", (8, 8), 8, 8, {})], message="--label: .*two cases 'real x'")
        self.refused("--output", str(self.folder / "none/rows.jsonl"), message="none/rows.jsonl: expected a file that can be opened")
        with contextlib.redirect_stderr(io.StringIO()) as told:
            self.assertEqual(compare_torch.main([]), 2)
        self.assertIn("--output: expected a file", told.getvalue())

    # Without PyTorch, whether it is installed or not.

    def without_torch(self, *words):
        (self.folder / "torch.py").write_text("raise ImportError('no torch for this test')\n")
        return subprocess.run([sys.executable, "-B", str(SCRIPT), *words], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(self.folder)})

    def test_a_dry_run_needs_no_pytorch(self):
        self.main("--groups", "skew")
        done = self.without_torch("--dry-run", "--output", str(self.path))
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual([line.split("  ")[-1].strip() for line in lines], [name for name in recorded() if not name.startswith("real ")])
        self.assertEqual(sum("there" in line for line in lines), 6)
        self.assertRegex(lines[0], r"^fwd +\d+\.\d s  fwd 4096 M=64 vs torch$")
        self.assertRegex(done.stderr, r"109 rows of \d+ measurements, 6 are there; the others take about \d+\.\d min")

    def test_absent_pytorch_is_named(self):
        done = self.without_torch("--output", str(self.path))
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertRegex(done.stderr, r"^compare_torch: torch: expected PyTorch with grouped_mm to be importable by .*: no torch for this test")
        self.assertFalse(self.path.exists())


if __name__ == "__main__":
    unittest.main()
