#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of compare_torch.py without PyTorch: its cases, its rows, the page from them. A made-up bench stands for the device."""

import json
import re
import shutil
import subprocess
import sys
import unittest

from made_up_bench import ROOT, CompareTest

import compare_cases
import compare_routing
import compare_torch


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


class CompareTorch(CompareTest):
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
        for words in ("10 + 20 (fwd),", "4 + 10 (dgrad, wgrad),", "3 + 10 (mlp fwd),", "2 + 10 (mlp fwd+bwd),", "medians over rounds", "5 + 20 (real);",
                      "units of 50 ms, 3 s of conditioning and 1.5 s measured"):
            self.assertIn(words, method)
        self.assertIn("units of 200 ms", compare_cases.method(compare_cases.FULL._replace(
            regions={**compare_cases.FULL.regions, "unit_s": 0.2})))

    def test_figures_are_medians_over_rounds(self):
        """Not ratios of medians, of which each may fall in another part of a burst; of sustained work just these."""
        row = compare_cases.beside("made up", "torch", us=compare_cases.us())
        case = compare_cases.Case("fwd", "forward", (8,), 8, 8, row.arms, 0, 4, (row,))
        samples = {"moesaic": [1, 1, 2, 9], "torch": [1.2, 5, 2.4, 2.4]}
        self.assertEqual(compare_torch.figures_of(case, row, samples), {"ratio": 1.2, "us": 1.5e6})
        sustained = case._replace(regions={"unit_s": 1})
        self.assertEqual(compare_torch.figures_of(sustained, row, samples), {"ratio": 1.6, "us": 1.5e6})

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
                         {"mean_s": 450, "median_s": 300, "p05_s": 165, "p95_s": 840, "min_s": 150})
        self.assertEqual(timing["torch"]["samples_s"], [1.5e-4, 3e-4, 9e-4])

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


if __name__ == "__main__":
    unittest.main()
