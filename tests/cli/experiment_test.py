# SPDX-License-Identifier: Apache-2.0
"""moesaic experiment without running a product: plans of all experiments, fig2's curves, refusals."""
import json
import unittest

from harness import CliTest

TIMED = ("fig38", "fig71", "table44", "fig40", "fig72", "fig73")
SKEW = ("dirichlet:0.3", "zipf:1.1", "--rows", 512, "--experts", 8, "--shape", "d=64,h=64")


class DryRun(CliTest):
    def test_every_plan_names_protocol_arms_rows_and_time(self):
        for protocol in ("full", "reduced"):
            for name, *inputs in (*((n,) for n in TIMED), ("skew", *SKEW)):
                result = self.fine("experiment", name, *inputs, "--protocol", protocol, "--dry-run", cwd=self.folder)
                self.assertTrue(result.out.startswith(f"{name}: "), result.out)
                for line in (f"protocol   {protocol}", "timing     ", "processes  ", "expected   about ", f"to {name}.jsonl"):
                    self.assertIn(line, result.out)
                self.assertIn(" grouped", result.out)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_sizes_of_the_full_plans(self):
        for name, rows, processes in (("fig38", 15 * 4, 1), ("fig71", 9 * 4, 1), ("table44", 17 * 2 * 8 * 2, 1),
                                      ("fig40", 3 * (800 + 81), 3), ("fig72", 4 * 3 * 3 * 5, 5), ("fig73", 4 * 8 * 3, 1)):
            out = self.fine("experiment", name, "--dry-run", cwd=self.folder).out
            self.assertRegex(out, rf"(?m)^rows       {rows:,} to {name}\.jsonl")
            self.assertRegex(out, rf"(?m)^processes  {processes}\b")

    def test_cases_as_json_lines(self):
        lines = self.fine("experiment", "fig40", "--protocol", "reduced", "--dry-run", "--json").out.splitlines()
        cases = [json.loads(line) for line in lines]
        self.assertEqual([case["order"] for case in cases], list(range(len(cases))))
        self.assertEqual({case["schema"] for case in cases}, {"moesaic.experiment_case/1"})
        self.assertEqual({case["routing"]["offs"][-1] for case in cases}, {4096})
        self.assertEqual(len({case["case"] for case in cases}), len(cases))

    def test_arms_and_trials_change_the_plan(self):
        out = self.fine("experiment", "fig38", "--arms", "grouped,dense", "--dry-run").out
        self.assertRegex(out, r"(?m)^rows       30 to")
        out = self.fine("experiment", "fig73", "--trials", 2, "--dry-run").out
        self.assertIn("reduced: 2 of 8 trials", out)

    def test_only_some_cases(self):
        out = self.fine("experiment", "table44", "--only", "trial=0", "--only", "tokens=1,16", "--dry-run").out
        self.assertRegex(out, r"(?m)^rows       8 to")
        self.assertIn("protocol   full\n", out)
        self.assertIn("only       tokens 1, 16; a case without it is run too\n", out)
        self.assertNotIn("tokens=2 ", out)
        whole = [json.loads(line) for line in self.fine("experiment", "fig40", "--dry-run", "--json").out.splitlines()]
        some = [json.loads(line) for line in self.fine("experiment", "fig40", "--only", "aligned=false", "--dry-run", "--json").out.splitlines()]
        self.assertEqual(len(some), 3 * (400 + 81))
        for case in some:
            self.assertEqual(case["case"], whole[case["order"]]["case"])

    def test_every_case_says_how_long_it_takes(self):
        lines = self.fine("experiment", "fig73", "--dry-run", "--json", "--device", "h200", "--arms", "grouped,torch").out.splitlines()
        for line in lines:
            self.assertGreater(json.loads(line)["expected_s"], 12.5)
            self.assertLess(json.loads(line)["expected_s"], 20)
        lines = self.fine("experiment", "fig73", "--dry-run", "--json", "--device", "h200", "--arms", "torch").out.splitlines()
        self.assertEqual({json.loads(line)["expected_s"] for line in lines}, {0})

    def test_expected_time_is_of_the_device_that_is_named(self):
        out = self.fine("experiment", "fig73", "--dry-run", "--device", "a100").out
        self.assertRegex(out, r"expected   about \d+ min on a100")


class Fig2(CliTest):
    def rows(self, *args):
        return [json.loads(line) for line in self.fine("experiment", "fig2", "--output", "-", *args).out.splitlines()]

    def test_golden_values(self):
        # Worked by hand from Eqs. 92 to 94 at T = 64: 273,154,048 + 136,839,168 bytes dense, 4,301,258,752 +
        # 2,151,677,952 routed, all four products bound by 8 TB/s.
        dense, grouped = self.rows("--device", "b300")
        at = {arm["experiment"]["arm"]: next(p for p in arm["points"] if p["tokens"] == 64) for arm in (dense, grouped)}
        flops = 6 * 64 * 4 * 4096 ** 2
        self.assertAlmostEqual(at["dense"]["bound_flops_per_second"] / (flops * 8e12 / 409993216), 1, 12)
        self.assertAlmostEqual(at["grouped"]["bound_flops_per_second"] / (flops * 8e12 / 6452936704), 1, 12)
        self.assertAlmostEqual(at["dense"]["intensity"], flops / 409993216, 9)
        self.assertAlmostEqual(at["grouped"]["intensity"], flops / 6452936704, 9)
        self.assertEqual((at["dense"]["rows_per_expert"], at["grouped"]["rows_per_expert"]), (64, 4))

    def test_rows_have_the_documented_schema(self):
        rows = self.rows()
        self.assertEqual([(r["device_preset"], r["experiment"]["arm"]) for r in rows],
                         [("b300", "dense"), ("b300", "grouped"), ("h200", "dense"), ("h200", "grouped")])
        for row in rows:
            self.assertEqual(list(row), ["schema", "experiment", "device_preset", "sources", "shape", "points"])
            self.assertEqual(row["schema"], "moesaic.roofline/1")
            self.assertEqual(row["experiment"]["factors"], {"device_preset": row["device_preset"]})
            self.assertEqual(row["shape"], {"name": "fig2", "d": 4096, "h": 4096, "experts": 64, "top_k": 4})
            tokens = [point["tokens"] for point in row["points"]]
            self.assertEqual((tokens[0], tokens[-1]), (1, 131072))
            self.assertEqual(tokens, sorted(set(tokens)))
            peak = row["sources"]["bf16_flops_per_second"]["value"]
            self.assertAlmostEqual(row["points"][-1]["bound_flops_per_second"] / peak, 1)

    def test_a_curve_that_is_there_is_not_written_again(self):
        path = self.folder / "fig2.jsonl"
        out = self.fine("experiment", "fig2", "--device", "h200", cwd=self.folder).out
        self.assertIn("h200 grouped", out)
        once = path.read_text()
        self.assertEqual(len(once.splitlines()), 2)
        self.fine("experiment", "fig2", "--device", "h200,a100", cwd=self.folder)
        self.assertTrue(path.read_text().startswith(once))
        self.assertEqual(len(path.read_text().splitlines()), 4)


class Refusals(CliTest):
    def test_names(self):
        self.refused("experiment", words=("NAME", "fig38", "none"))
        self.refused("experiment", "fig39", words=("NAME", "table44", '"fig39"', "did you mean"))

    def test_values(self):
        for flags, words in ((("--protocol", "half"), ("--protocol", "reduced", "half")),
                             (("--arms", "grouped,cutlass"), ("--arms", "cutlass")),
                             (("--arms", "grouped,grouped"), ("--arms", "once")),
                             (("--trials", "2"), ("--trials", "fig38")),
                             (("--trials", "0"), ("--trials", '"0"')),
                             (("--budget", "30"), ("--budget", "30m")),
                             (("--budget", "-3m"), ("--budget",)),
                             (("--device", "h900"), ("--device", "h200", "h900"))):
            self.refused("experiment", "fig38", "--dry-run", *flags, words=words)
        for choice, words in (("rows", ("FACTOR=VALUE", "rows")), ("trial=1", ("a factor of fig38", "trial")), ("rows=65", ("that rows has", "65"))):
            self.refused("experiment", "fig38", "--only", choice, "--dry-run", words=("--only", *words))
        for name, last in (("fig38", 0), ("fig40", 2)):
            self.refused("experiment", name, "--dry-run", "--process", 5, words=(f"--process: expected 0 to {last}, got", "5"))
        self.refused("experiment", "fig40", "--dry-run", "--only", "control=false", "--only", "bin=0,1", "--only", "histogram=99", "--process", 1,
                     words=("--only", "together", "control=false bin=0,1 histogram=99 --process 1"))
        self.refused("experiment", "table44", "--arms", "host_loop", "--dry-run", words=("--arms", "dense", "host_loop"))

    def test_flags_that_do_not_apply(self):
        self.refused("experiment", "fig38", "uniform", "--dry-run", words=("FILE or SPEC", "skew alone"))
        self.refused("experiment", "fig38", "--shape", "small-2", "--dry-run", words=("--shape", "skew alone"))
        self.refused("experiment", "fig38", "--json", words=("--json", "--dry-run or --summarize"))
        self.refused("experiment", "fig38", "--only", "rows=64", "--summarize", "x", words=("--only", "--summarize"))
        for flags in (("--output", "x"), ("--dry-run",), ("--protocol", "full"), ("--arms", "dense"), ("--trials", 2), ("--budget", "1m"),
                      ("--process", 0), ("--seed", 2), ("--backend", "cpu"), ("--strict",)):
            self.refused("experiment", "fig38", *flags, "--summarize", "x", words=(f"{flags[0]}: expected without --summarize",))
        for flags in (("golden.json",), ("--shape", "small-2"), ("--layer", 1), ("--layer", "all"), ("--rows", 64), ("--proj", "down")):
            self.refused("experiment", "skew", *flags, "--summarize", "x", words=("FILE or SPEC" if "." in flags[0] else flags[0], "without --summarize"))
        self.refused("experiment", "fig2", "--only", "rows=64", words=("--only", "arithmetic"))
        self.refused("experiment", "fig38", "--device", "h200", words=("--device", "--dry-run"))
        self.refused("experiment", "fig2", "--arms", "dense", words=("--arms", "arithmetic"))
        self.refused("experiment", "skew", "--shape", "small-2", "--dry-run", words=("FILE or SPEC", "none"))
        self.refused("experiment", "skew", "counts:1,2", "--dry-run", words=("--shape", "none"))
        self.refused("experiment", "skew", "counts:0,0", "--shape", "d=64,h=64", "--dry-run", words=("rows",))

    def test_files_of_rows_that_are_none(self):
        path = self.write("rows.jsonl", '{"schema": "other/1"}\n')
        self.refused("experiment", "fig2", "--output", path, words=("--output", "rows.jsonl:1: expected", "moesaic.roofline/1"))
        path = self.write("rows.jsonl", '{"schema": "moesaic.bench/1", "experiment": {}}\n')
        self.refused("experiment", "fig2", "--output", path, words=("rows.jsonl:1: experiment.name: expected a text",))
        self.refused("experiment", "fig2", "--output", self.folder / "no" / "rows", words=("--output", "written"))

    def test_a_row_that_was_cut_off_is_left_out_and_said(self):
        path = self.folder / "rows.jsonl"
        path.write_text('{"schema": "moesaic.roof')
        result = self.fine("experiment", "fig2", "--device", "h200", "--output", path)
        self.assertIn("rows.jsonl:1: left out, a row that was cut off", result.err)
        self.assertEqual(len(path.read_text().splitlines()), 3)


if __name__ == "__main__":
    unittest.main()
