#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of compare_torch.py without PyTorch: running, resuming, its file of rows, refusals."""

import contextlib
import io
import json
import os
import subprocess
import sys
import unittest

from made_up_bench import SCRIPT, CompareTest, MadeUpBench

import compare_cases
import compare_torch


class CompareTorchRun(CompareTest):
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
            wrong, left, _ = compare_torch.run(compare_torch.chosen(args), compare_torch.Recorded({}, 0), MadeUpBench(), args,
                                               now=lambda: next(times))
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
        for dry_run in ((), ("--dry-run",)):
            self.refused("--output", str(self.folder / "none/rows.jsonl"), *dry_run,
                         message="--output: expected a file in a folder that is there, got .*none/rows.jsonl")
            self.refused("--output", str(self.folder), *dry_run, message=": expected a file that can be opened, got: Is a directory")
        self.refused("--dry-run", "--seconds", "5", message="--seconds: expected a run, which it limits, got --dry-run")
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
        self.assertEqual([line.split("  ")[-1].strip() for line in lines], [row.name for case in compare_cases.all_cases() for row in case.rows])
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
