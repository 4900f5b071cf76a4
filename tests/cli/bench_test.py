# SPDX-License-Identifier: Apache-2.0
"""moesaic bench on the CPU: rows and their schema, order, comparison with earlier rows, exit codes, refusals."""
import json
import unittest

from harness import CliTest, busy_cpus, grouped_ratios

KEYS = ["schema", "date", "git", "command", "device", "toolchain", "clocks", "problem", "routing", "implementation", "regimes", "timing",
        "work", "derived", "check"]
CPU = ("--backend", "cpu")
SMALL = ("zipf:1.2", "--experts", 4, "--rows", "40,24", "--shape", "d=64,h=32", "--samples", 5, *CPU)


class Rows(CliTest):
    def rows(self, *args):
        return [json.loads(line) for line in self.fine("bench", *args, "--json", "-").out.splitlines()]

    def test_every_row_has_the_schema_and_a_check(self):
        rows = self.rows(*SMALL, "--pass", "forward,dgrad,wgrad", "--proj", "up_gate,down")
        self.assertEqual(len(rows), 2 * 3 * 2 * 3)
        for row in rows:
            self.assertEqual(list(row), KEYS)
            self.assertEqual(row["schema"], "moesaic.bench/1")
            self.assertTrue(row["command"].startswith("moesaic bench zipf:1.2 --experts 4"))
            self.assertEqual(row["device"]["kind"], "cpu")
            self.assertIsNone(row["clocks"])
            self.assertGreater(row["check"]["elements"], 0)
            self.assertEqual(row["check"]["mismatches"], 0)
            timing, work, problem = row["timing"], row["work"], row["problem"]
            self.assertEqual(timing["samples"], 5)
            self.assertLessEqual(timing["p05_s"], timing["median_s"])
            self.assertLessEqual(timing["median_s"], timing["p95_s"])
            self.assertEqual(work["useful_flops"], 2 * row["routing"]["rows"] * problem["n"] * problem["k"])
            self.assertGreaterEqual(work["executed_flops"], work["useful_flops"])
            self.assertAlmostEqual(row["derived"]["tflops_useful"] * timing["median_s"] * 1e12 / work["useful_flops"], 1)
            self.assertEqual(row["routing"]["offs"][-1], row["routing"]["rows"])
            self.assertEqual("capacity" in problem, problem["strategy"] == "padded_bmm")

    def test_shapes_rows_projections_passes_strategies_in_this_order(self):
        rows = self.rows("uniform", "--experts", 2, "--rows", "8,4", "--shape", "d=64,h=32", "--shape", "d=32,h=64", "--samples", 5,
                         "--proj", "down,square", "--pass", "wgrad,forward", "--strategy", "grouped", *CPU)
        got = [(r["problem"]["d"], r["routing"]["rows"], r["problem"]["proj"], r["problem"]["pass"]) for r in rows]
        want = [(d, m, proj, name) for d in (64, 32) for m in (8, 4) for proj in ("down", "square") for name in ("wgrad", "forward")]
        self.assertEqual(got, want)

    def test_files_and_layers(self):
        path = self.write("dump.json", json.dumps({"logical_count": [[[0, 0], [3, 4], [5, 6]]]}))
        flags = ("--shape", "d=64,h=32", "--samples", 5, "--strategy", "grouped", *CPU)
        self.assertEqual([r["routing"]["layer"] for r in self.rows(path, *flags)], [1])
        result = self.fine("bench", path, *flags, "--layer", "all", "--json", "-")
        rows = [json.loads(line) for line in result.out.splitlines()]
        self.assertEqual([r["routing"]["layer"] for r in rows], [1, 2])
        self.assertIn("skipped layer 0", result.err)
        self.assertEqual(self.cli("bench", path, *flags, "--layer", "all", "--strict").returncode, 4)

    def test_appends_to_a_file_and_prints_a_table(self):
        path = self.folder / "rows.jsonl"
        for count in (1, 2):
            out = self.fine("bench", *SMALL, "--strategy", "grouped", "--json", path).out
            self.assertEqual(len(path.read_text().splitlines()), 2 * count)
            for word in ("median", "useful TFLOP/s", "implementation", "zipf:1.2", "grouped"):
                self.assertIn(word, out)
            self.assertNotIn("/ base", out)

    def test_a_row_that_was_cut_off_stays_alone(self):
        path = self.folder / "rows.jsonl"
        path.write_text('{"schema": "moesaic.be')
        self.fine("bench", *SMALL, "--strategy", "grouped", "--json", path)
        torn, *rows = path.read_text().splitlines()
        self.assertEqual(torn, '{"schema": "moesaic.be')
        self.assertEqual([json.loads(row)["schema"] for row in rows], ["moesaic.bench/1"] * 2)
        result = self.fine("bench", *SMALL, "--strategy", "grouped", "--compare", path, "--threshold", 100)
        self.assertIn("rows.jsonl line 1: skipped, a row that was cut off", result.err)

    def test_steps_and_ranks_have_columns_where_they_differ(self):
        path = self.write("steps.json", json.dumps({"logical_count": [[[3, 4]], [[5, 6]]]}))
        flags = ("--shape", "d=64,h=32", "--samples", 5, "--strategy", "grouped", *CPU)
        for more, title, places in (((), "routing layer experts rows", ["0"]), (("--layer", "all"), "routing layer step experts rows", ["0 0", "0 1"]),
                                    (("--ep", 2), "routing layer rank experts rows", ["0 0", "0 1"]),
                                    (("--layer", "all", "--ep", 2), "routing layer step rank experts rows", ["0 0 0", "0 0 1", "0 1 0", "0 1 1"])):
            head, *rows = self.fine("bench", path, *flags, *more).out.splitlines()[:1 + len(places)]
            self.assertTrue(" ".join(head.split()).startswith(title), head)
            self.assertEqual([" ".join(row.split()[1:1 + len(places[0].split())]) for row in rows], places)

    def test_equal_rows_are_apart(self):
        one, two = (self.write(f"{name}.json", '{"logical_count": [[3, 4], [3, 4]]}') for name in ("one", "two"))
        flags = ("--shape", "d=64,h=32", "--samples", 5, "--layer", "all", *CPU)
        self.assertEqual(grouped_ratios(self.fine("bench", one, two, *flags).out), ["1.00"] * 4)
        self.assertEqual(grouped_ratios(self.fine("bench", one, one, *flags, "--rows", "8,16").out), ["1.00"] * 8)

    def test_times_beside_another_process_are_unsteady(self):
        flags = ("zipf:1.2", "--rows", 4096, "--experts", 8, "--shape", "d=512,h=512", "--strategy", "grouped", *CPU)
        with busy_cpus():
            path = self.folder / "rows.jsonl"
            result = self.fine("bench", *flags, "--json", path)
            self.assertEqual(self.cli("bench", *flags, "--strict").returncode, 4)
        self.assertIn(" unsteady ", result.out)
        self.assertRegex(result.err, r"bench: warning: unsteady times of grouped: .*OMP_WAIT_POLICY=passive")
        self.assertIs(json.loads(path.read_text())["timing"]["unsteady"], True)

    def test_uniform_is_the_routing_that_nobody_names(self):
        row, = self.rows("--experts", 2, "--rows", 6, "--shape", "d=64,h=32", "--samples", 5, "--strategy", "grouped", *CPU)
        self.assertEqual(row["routing"]["offs"], [3, 6])


class Implementations(CliTest):
    FLAGS = ("zipf:1.2", "--experts", 4, "--rows", 40, "--shape", "d=64,h=32", "--samples", 5, *CPU)

    def test_a_named_one_is_timed_beside_the_strategies(self):
        result = self.fine("bench", *self.FLAGS, "--implementation", "cpu/reference/grouped", "--json", "-")
        rows = [json.loads(line) for line in result.out.splitlines()]
        self.assertEqual([row["implementation"] for row in rows],
                         ["cpu/onednn/grouped", "cpu/onednn/padded_bmm", "cpu/onednn/host_loop", "cpu/reference/grouped"])
        self.assertEqual([row["problem"].get("implementation") for row in rows], [None, None, None, "cpu/reference/grouped"])
        self.assertEqual(rows[3]["problem"]["strategy"], "grouped")

    def test_ratios_are_to_the_one_that_the_plan_chose(self):
        out = self.fine("bench", *self.FLAGS, "--strategy", "grouped", "--implementation", "cpu/reference/grouped").out
        self.assertEqual(grouped_ratios(out)[0], "1.00")
        self.assertEqual(len(grouped_ratios(out)), 2)

    def test_it_is_a_case_of_its_own(self):
        path = self.folder / "rows.jsonl"
        named = ("--implementation", "cpu/reference/grouped")
        self.fine("bench", *self.FLAGS, "--strategy", "grouped", "--json", path)
        result = self.fine("bench", *self.FLAGS, "--strategy", "grouped", *named, "--compare", path, "--threshold", 100)
        self.assertEqual([line.split()[-1] for line in result.out.splitlines()[1:3]].count("-"), 1)

    def test_a_base_of_named_ones_alone(self):
        named = ("--implementation", "cpu/reference/grouped")
        lines = self.fine("bench", *self.FLAGS, "--strategy", "grouped", *named, "--json", "-").out.splitlines()
        row = json.loads(lines[1])
        row["timing"].update(median_s=1e-9, unsteady=False)
        path = self.write("named.jsonl", json.dumps(row) + "\n")
        result = self.cli("bench", *self.FLAGS, "--strategy", "host_loop", *named, "--compare", path)
        self.assertEqual(result.returncode, 1)
        self.assertIn("forward cpu/reference/grouped: ", result.err)

    def test_all_of_the_grouped_product(self):
        out = self.fine("bench", *self.FLAGS, "--strategy", "host_loop", "--implementation", "all", "--json", "-").out
        self.assertEqual([json.loads(line)["implementation"] for line in out.splitlines()],
                         ["cpu/onednn/host_loop", "cpu/onednn/grouped", "cpu/reference/grouped"])
        out = self.fine("bench", *self.FLAGS, "--strategy", "grouped", "--implementation", "all", "--json", "-").out
        self.assertEqual([json.loads(line)["implementation"] for line in out.splitlines()],
                         ["cpu/onednn/grouped", "cpu/reference/grouped"], "what the plan chose, once")

    def test_unknown_ones_are_refused_with_those_that_there_are(self):
        result = self.cli("bench", *self.FLAGS, "--implementation", "cpu/reference/grouped,fast")
        self.assertEqual(result.returncode, 2)
        self.assertIn('--implementation: expected all, or some of cpu/onednn/grouped, cpu/onednn/padded_bmm, cpu/onednn/host_loop, cpu/reference/grouped, got "fast"',
                      result.err)


class Sustained(CliTest):
    FLAGS = ("uniform", "--experts", 2, "--rows", 16, "--shape", "d=64,h=32", "--strategy", "grouped", *CPU)

    def rows(self, *args):
        return [json.loads(line) for line in self.fine("bench", *self.FLAGS, *args, "--json", "-").out.splitlines()]

    def test_rows_say_the_regions(self):
        row, = self.rows("--sustained", "0.16s")
        timing = row["timing"]
        self.assertEqual(timing["regime"], "sustained")
        self.assertEqual([round(timing[key], 9) for key in ("pilot_s", "conditioning_s", "measured_s")], [0.06, 0.16, 0.03])
        self.assertGreaterEqual(timing["samples"], 10)  # five units at least, to and fro
        self.assertEqual(row["check"]["mismatches"], 0)

    def test_bursts_are_no_base_for_it(self):
        path = self.write("burst.jsonl", "".join(json.dumps(row) + "\n" for row in self.rows("--samples", 5)))
        self.refused("bench", *self.FLAGS, "--sustained", "0.05s", "--compare", path, words=("--compare", "which has none"))
        other = self.write("other.jsonl", "".join(json.dumps(row) + "\n" for row in self.rows("--sustained", "0.06s")))
        self.refused("bench", *self.FLAGS, "--sustained", "0.05s", "--compare", other, words=("--compare", "which has none"))
        sustained = self.write("sustained.jsonl", "".join(json.dumps(row) + "\n" for row in self.rows("--sustained", "0.05s")))
        out = self.fine("bench", *self.FLAGS, "--sustained", "0.05s", "--compare", sustained, "--threshold", 100).out
        self.assertIn("/ base", out)
        self.assertIn("Median of sustained work, each case alone", out)


class Compare(CliTest):
    FLAGS = ("uniform", "--experts", 2, "--rows", 16, "--shape", "d=64,h=32", "--samples", 5, *CPU)

    def base(self, scale, strategy="all"):
        """Rows of this machine with their times changed, so that the outcome does not hang on the clock."""
        lines = self.fine("bench", *self.FLAGS, "--strategy", strategy, "--json", "-").out.splitlines()
        rows = [json.loads(line) for line in lines]
        for row in rows:
            row["timing"]["median_s"] *= scale
            row["timing"]["unsteady"] = False  # as on a quiet machine
        return self.write("base.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    def test_slower_cases_fail_and_are_named(self):
        result = self.cli("bench", *self.FLAGS, "--compare", self.base(1e-6))
        self.assertEqual(result.returncode, 1)
        self.assertIn("/ base", result.out)
        for strategy in ("grouped", "padded_bmm", "host_loop"):
            self.assertIn(f"forward {strategy}: ", result.err)

    def test_faster_cases_and_wide_thresholds_pass(self):
        self.fine("bench", *self.FLAGS, "--compare", self.base(1e6), "--threshold", 0)
        # At most 100: a hundred and one times as slow, which no clock makes of the same machine.
        self.fine("bench", *self.FLAGS, "--compare", self.base(1), "--threshold", 100)

    def changed(self, change):
        """A base of one row, fast and changed."""
        row = json.loads(self.fine("bench", *self.FLAGS, "--strategy", "grouped", "--json", "-").out)
        row["timing"].update(median_s=1e-9, unsteady=False)
        change(row)
        return self.write("changed.jsonl", json.dumps(row) + "\n")

    def test_unsteady_rows_judge_nothing(self):
        path = self.changed(lambda row: row["timing"].update(unsteady=True))
        result = self.fine("bench", *self.FLAGS, "--strategy", "grouped", "--compare", path)
        self.assertIn("changed.jsonl: 1 rows were unsteady, and judge nothing", result.err)

    def test_rows_whose_check_failed_are_no_base(self):
        path = self.changed(lambda row: row["check"].update(mismatches=5))
        self.refused("bench", *self.FLAGS, "--strategy", "grouped", "--compare", path, words=("--compare", "at least one row"))

    def test_a_regime_that_is_no_word_is_refused(self):
        row = json.loads(self.fine("bench", *self.FLAGS, "--strategy", "grouped", "--json", "-").out)
        row["timing"]["regime"] = 7
        path = self.write("rows.jsonl", json.dumps(row) + "\n")
        self.refused("bench", *self.FLAGS, "--compare", path, words=("rows.jsonl line 1", "timing.regime", "7"))

    def test_only_cases_that_the_base_has_count(self):
        base = self.base(1e-6, "grouped")
        rows = [json.loads(line) for line in self.cli("bench", *self.FLAGS, "--compare", base, "--json", "-").out.splitlines()]
        self.assertEqual([r["derived"]["ratio_to_base"] is None for r in rows], [False, True, True])
        self.fine("bench", *self.FLAGS, "--seed", 2, "--compare", self.base(1e6))

    def test_a_base_that_says_nothing_is_refused_before_anything_runs(self):
        shape = ("--shape", "d=64,h=32", *CPU)
        base = self.base(1)
        self.refused("bench", "counts:1,2", *shape, "--compare", base, words=("--compare", "base.jsonl"))
        self.refused("bench", *self.FLAGS, "--compare", self.folder / "absent", words=("--compare", "absent"))
        self.refused("bench", *self.FLAGS, "--compare", self.write("x.jsonl", "{}\n"), words=("--compare", "x.jsonl line 1", "moesaic.bench/1"))
        self.refused("bench", *self.FLAGS, "--compare", self.write("y.jsonl", "\n"), words=("--compare", "y.jsonl"))


class Layer(CliTest):
    FLAGS = ("counts:17,0,40", "--shape", "d=64,h=96", "--samples", 5, *CPU)

    def rows(self, *flags):
        path = self.folder / "layer.jsonl"
        self.fine("bench", *self.FLAGS, *flags, "--json", path)
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        path.unlink()
        return rows

    def test_a_step_is_forward_and_backward(self):
        for row in self.rows("--pass", "mlp", "--order", "gate_up"):
            problem, timing = row["problem"], row["timing"]
            self.assertEqual((problem["pass"], problem["order"], problem["activations"]), ("mlp", "gate_up", "save"))
            self.assertEqual((problem["d"], problem["h"], problem["max_rows"]), (64, 96, 57))
            self.assertEqual(row["work"]["useful_flops"], 57 * 18 * 64 * 96)
            self.assertGreater(timing["forward_median_s"], 0)
            self.assertGreater(timing["backward_median_s"], 0)
            self.assertGreaterEqual(timing["median_s"], timing["min_s"])
            self.assertEqual(row["check"]["mismatches"], 0)

    def test_both_modes_and_what_they_keep(self):
        rows = self.rows("--pass", "mlp,forward", "--recompute", "--strategy", "grouped", "--proj", "up_gate,down")
        modes = {r["problem"]["activations"]: r for r in rows if r["problem"]["pass"] == "mlp"}
        self.assertEqual(sorted(modes), ["recompute", "save"])
        self.assertEqual(len(rows), 4)  # the layer once, forward for either projection
        self.assertEqual(modes["save"]["memory"]["saved_bytes"], 2 * 57 * 2 * 96)
        self.assertEqual(modes["recompute"]["memory"]["saved_bytes"], 0)
        self.assertEqual(modes["recompute"]["work"]["executed_flops"] * 18, modes["save"]["work"]["executed_flops"] * 22)
        for row in modes.values():
            memory = row["memory"]
            scratch = max(memory["forward_scratch_bytes"], memory["backward_scratch_bytes"])
            self.assertEqual(memory["peak_bytes"], memory["saved_bytes"] + scratch)

    def test_rows_of_x_that_are_not_in_order(self):
        path = self.folder / "layer.jsonl"
        done = self.fine("bench", *self.FLAGS, "--pass", "mlp", "--x-rows", 4, "--json", path)
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        path.unlink()
        for row in rows:
            problem = row["problem"]
            self.assertEqual((problem["x_rows"], problem["tokens"]), ("copied", 15))  # 57 rows, four a token
            self.assertEqual(row["check"]["mismatches"], 0)
        self.assertEqual([row["problem"]["strategy"] for row in rows], ["grouped", "padded_bmm", "host_loop"])
        self.assertIn("indexed grouped", done.err)
        self.assertIn("copies rows that are not in order", done.err)
        in_order = self.rows("--pass", "mlp", "--strategy", "grouped")[0]
        self.assertNotIn("x_rows", in_order["problem"])
        copied = rows[0]["memory"]["forward_scratch_bytes"] - in_order["memory"]["forward_scratch_bytes"]
        self.assertGreaterEqual(copied, 57 * 64 * 2)

    def test_rows_of_modes_are_told_apart(self):
        base = self.folder / "base.jsonl"
        flags = (*self.FLAGS, "--pass", "mlp", "--strategy", "grouped")
        self.fine("bench", *flags, "--json", base)
        self.fine("bench", *flags, "--compare", base, "--threshold", 100)
        self.refused("bench", *flags, "--order", "interleaved", "--compare", base, words=("--compare",))


class Refusals(CliTest):
    def test_flags(self):
        shape = ("--shape", "d=64,h=32")
        self.refused("bench", "counts:1", words=("--shape",))
        self.refused("bench", "counts:1", *shape, "--pass", "both", words=("--pass", "forward, dgrad, wgrad or mlp"))
        self.refused("bench", "counts:1", *shape, "--profile", "--pass", "mlp", words=("--profile", "mlp"))
        self.refused("bench", "counts:1", *shape, "--recompute", words=("--recompute", "--pass mlp"))
        self.refused("bench", "counts:1", *shape, "--order", "gate_up", words=("--order", "--pass mlp"))
        self.refused("bench", "counts:1", *shape, "--x-rows", 2, words=("--x-rows", "--pass mlp"))
        self.refused("bench", "counts:1", *shape, "--pass", "mlp", "--x-rows", 0, words=("--x-rows", '"0"'))
        self.refused("bench", "counts:1", *shape, "--pass", "forward,forward", words=("--pass", "once"))
        self.refused("bench", "counts:1", *shape, "--pass", "", words=("--pass",))
        self.refused("bench", "counts:1", *shape, "--proj", "down,up", words=("--proj", "up"))
        self.refused("bench", "uniform", *shape, "--experts", 2, "--rows", "4,,8", words=("--rows", '""'))
        self.refused("bench", "uniform", *shape, "--experts", 2, "--rows", "4294967296", words=("--rows", "2147483647"))
        self.refused("bench", "counts:1", *shape, "--samples", 4, words=("--samples", '"4"'))
        self.refused("bench", "counts:1", *shape, "--sustained", "8", words=("--sustained", "90s"))
        self.refused("bench", "counts:1", *shape, "--sustained", "0s", words=("--sustained", "above 0"))
        for outside in ("0.01s", "2h"):
            self.refused("bench", "counts:1", *shape, "--sustained", outside, words=("--sustained", "0.05s to 1h", outside))
        self.refused("bench", "counts:1", *shape, "--implementation", "a,,", words=("--implementation", "names between commas"))
        self.refused("bench", "counts:1", *shape, "--sustained", "8s", "--samples", 20, words=("--samples", "without --sustained"))
        self.refused("bench", "counts:1", *shape, "--sustained", "8s", "--profile", words=("--profile", "without --sustained"))
        self.refused("bench", "counts:1", *shape, "--sustained", "8s", "--pass", "mlp", words=("--sustained", "mlp"))
        self.refused("bench", "counts:1", *shape, "--implementation", "a,a", words=("--implementation", "once"))
        self.refused("bench", "counts:1", *shape, "--implementation", "a", "--pass", "mlp", words=("--implementation", "mlp"))
        self.refused("bench", "counts:1", *shape, "--threshold", "-0.1", words=("--threshold",))
        self.refused("bench", "counts:1", *shape, "--threshold", "nan", words=("--threshold",))
        self.refused("bench", "counts:1", *shape, "--threshold", "0.03", words=("--threshold", "--compare FILE"))
        self.refused("bench", "counts:1", *shape, "--csv", words=("--csv",))
        self.refused("bench", "counts:1", *shape, "--json", words=("--json", "value"))
        self.refused("bench", "counts:1", *shape, "--json", self.folder / "no" / "file", words=("--json", "file"))
        self.refused("bench", "counts:0,0", *shape, words=("rows", "counts:0,0"))
        self.refused("bench", "counts:1", *shape, "--profile", "--json", "-", words=("--profile", "without --json"))
        self.refused("bench", "counts:1", *shape, "--profile", *CPU, words=("--profile", "CUDA device", "--backend cpu"))

    def test_no_device(self):
        result = self.cli("info", "--json")
        if any(d["device"] != "cpu" for d in json.loads(result.out)["devices"]):
            self.skipTest("there is a CUDA device here")
        result = self.refused("bench", "counts:1", "--shape", "d=64,h=32", "--backend", "cuda", code=3, words=("--backend cuda",))
        self.refused("bench", "counts:1", "--shape", "d=64,h=32", "--profile", code=3, words=("CUDA device",))
        self.assertEqual(result.err.count("no CUDA device"), 0)


if __name__ == "__main__":
    unittest.main()
