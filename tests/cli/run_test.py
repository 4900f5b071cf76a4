# SPDX-License-Identifier: Apache-2.0
"""moesaic run and info: keys, work accounting, checks, selection, exit codes."""
import csv
import io
import json
import math
import unittest

from harness import CliTest, busy_cpus, grouped_ratios

KEYS = ["source", "layer", "step", "experts", "rows", "pass", "proj", "strategy", "backend", "dtype", "d", "h", "useful_flops",
        "executed_flops", "padding_fraction", "overflow_rows", "seconds", "useful_tflops", "check"]
COUNTS = [5, 0, 7, 11, 1, 64]
SPEC = "counts:" + ",".join(map(str, COUNTS))
SHAPE = ("--shape", "d=64,h=96", "--backend", "cpu")


class Cases(CliTest):
    def check_case(self, case, per_row):
        rows = sum(COUNTS)
        self.assertEqual(list(case)[:len(KEYS)], KEYS)
        self.assertEqual(list(case["check"]), ["elements", "mismatches", "worst"])
        self.assertEqual((case["rows"], case["experts"]), (rows, len(COUNTS)))
        self.assertEqual(case["useful_flops"], rows * per_row)
        self.assertGreater(case["check"]["elements"], 0)
        self.assertEqual(case["check"]["mismatches"], 0)
        self.assertLessEqual(case["check"]["worst"], 1)
        self.assertGreater(case["seconds"], 0)
        self.assertAlmostEqual(case["useful_tflops"], case["useful_flops"] / case["seconds"] / 1e12, places=12)
        executed, overflow = rows, 0
        if case["strategy"] == "padded_bmm":
            capacity = math.ceil(rows * 5 / (4 * len(COUNTS)))
            overflow = sum(max(0, c - capacity) for c in COUNTS)
            executed = len(COUNTS) * capacity + overflow
        self.assertEqual(case["executed_flops"] * rows, case["useful_flops"] * executed)
        self.assertEqual(case["overflow_rows"], overflow)
        self.assertAlmostEqual(case["padding_fraction"], 1 - rows / executed)

    def test_products_of_every_pass_projection_and_type(self):
        widths = {"up_gate": 2 * 192 * 64, "down": 2 * 64 * 96, "square": 2 * 64 * 64}
        for name in ("forward", "dgrad", "wgrad"):
            for proj, per_row in widths.items():
                for dtype in ("bf16", "fp32"):
                    with self.subTest(name=name, proj=proj, dtype=dtype):
                        cases = self.cases(SPEC, *SHAPE, "--pass", name, "--proj", proj, "--dtype", dtype)
                        self.assertEqual([c["strategy"] for c in cases], ["grouped", "padded_bmm", "host_loop"])
                        for case in cases:
                            self.assertEqual((case["pass"], case["proj"], case["dtype"]), (name, proj, dtype))
                            self.check_case(case, per_row)

    def test_mlp_counts_both_directions(self):
        for order in ("up_gate", "gate_up", "interleaved"):
            for case in self.cases(SPEC, *SHAPE, "--pass", "mlp", "--order", order):
                self.check_case(case, 18 * 64 * 96)
                self.assertEqual((case["order"], case["activations"]), (order, "save"))
                self.assertGreater(case["forward_seconds"], 0)
        kept = {c["strategy"]: c for c in self.cases(SPEC, *SHAPE, "--pass", "mlp")}
        for case in self.cases(SPEC, *SHAPE, "--pass", "mlp", "--recompute"):
            self.assertEqual(case["useful_flops"], kept[case["strategy"]]["useful_flops"])
            self.assertEqual(case["executed_flops"] * 18, kept[case["strategy"]]["executed_flops"] * 22)
            self.assertEqual(case["activations"], "recompute")
            self.assertEqual(case["memory"]["saved_bytes"], 0)
            kept_bytes = kept[case["strategy"]]["memory"]["saved_bytes"]
            self.assertEqual(kept_bytes, 2 * case["rows"] * 2 * case["h"])

    def test_one_strategy_and_capacity(self):
        case, = self.cases(SPEC, *SHAPE, "--strategy", "padded_bmm", "--capacity", "5")
        self.assertEqual(case["overflow_rows"], 0)
        case, = self.cases(SPEC, *SHAPE, "--strategy", "grouped")
        self.assertEqual(case["padding_fraction"], 0)

    def test_no_rows_at_all(self):
        for name in ("forward", "dgrad", "wgrad", "mlp"):
            for case in self.cases("counts:0,0,0", *SHAPE, "--pass", name):
                self.assertEqual((case["rows"], case["useful_flops"], case["check"]["mismatches"]), (0, 0, 0))

    def test_text_and_csv(self):
        out = self.fine("run", SPEC, *SHAPE, "--pass", "mlp", "--order", "gate_up").out
        for word in ("order gate_up", "activations save", "useful TFLOP/s", "physical TFLOP/s", "padded_bmm", "host_loop", "ok"):
            self.assertIn(word, out)
        rows = list(csv.DictReader(io.StringIO(self.fine("run", SPEC, *SHAPE, "--csv").out)))
        self.assertEqual([r["strategy"] for r in rows], ["grouped", "padded_bmm", "host_loop"])
        self.assertEqual({r["mismatches"] for r in rows}, {"0"})


    def test_no_rows_are_said_and_have_no_ratios(self):
        flags = ("uniform", "--rows", 0, "--experts", 4, *SHAPE)
        for name in ("forward", "wgrad", "mlp"):
            out = self.fine("run", *flags, "--pass", name).out
            self.assertIn("nothing to run: no rows", out)
            line, = [l for l in out.splitlines() if l.endswith("/grouped")]
            self.assertEqual(line.split()[6:10], ["-"] * 4)
            for case in self.cases(*flags, "--pass", name):
                self.assertEqual(list(case)[:len(KEYS)], KEYS)
                self.assertEqual((case["rows"], case["samples"], case["seconds"], case["useful_tflops"]), (0, 0, 0, 0))

    def test_short_samples_are_many(self):
        self.assertEqual({c["samples"] for c in self.cases(SPEC, *SHAPE)}, {15})

    def test_several_inputs_have_a_source_column(self):
        paths = [self.write(f"{name}.json", '{"logical_count": [[3, 4]]}') for name in ("one", "two")]
        self.assertNotIn("source", self.fine("run", paths[0], *SHAPE).out)
        out = self.fine("run", *paths, *SHAPE, "--layer", "all", "--strategy", "grouped").out
        self.assertIn("source ", out)
        for path in paths:
            self.assertIn(path, out)


    def test_times_have_a_spread(self):
        for name in ("forward", "mlp"):
            for case in self.cases(SPEC, *SHAPE, "--pass", name):
                self.assertLessEqual(case["p05_seconds"], case["seconds"])
                self.assertLessEqual(case["seconds"], case["p95_seconds"])
        out = self.fine("run", SPEC, *SHAPE).out
        self.assertRegex(out, r" time +p05 +p95( unsteady)? +/ grouped ")

    def test_times_beside_another_process_are_unsteady(self):
        flags = ("zipf:1.2", "--rows", 4096, "--experts", 8, "--shape", "d=512,h=512", "--backend", "cpu", "--strategy", "grouped")
        with busy_cpus():
            result = self.fine("run", *flags)
            self.assertIn(" unsteady ", result.out)
            self.assertRegex(result.err, r"run: warning: unsteady times of grouped: .*OMP_WAIT_POLICY=passive")
            self.assertEqual(self.cli("run", *flags, "--strict").returncode, 4)
            case, = self.cases(*flags)
            self.assertIs(case["unsteady"], True)

    def test_equal_places_are_apart(self):
        records = [{"layer": 0, "step": 0, "counts": counts} for counts in ([400, 0], [3, 4])]
        path = self.write("twice.json", json.dumps({"schema": "moesaic.routing/1", "num_experts": 2, "records": records}))
        out = self.fine("run", path, *SHAPE, "--layer", "all").out
        self.assertEqual(grouped_ratios(out), ["1.00"] * 2)


class Selection(CliTest):
    def setUp(self):
        super().setUp()
        steps = [[[0, 0], [3 + s, 4], [5, 6 + s]] for s in range(2)]
        self.path = self.write("dump.json", json.dumps({"logical_count": steps}))

    def places(self, *flags):
        cases = self.cases(self.path, *SHAPE, "--strategy", "grouped", *flags)
        return [(c["layer"], c["step"], c["rows"]) for c in cases]

    def test_unselected_runs_the_first_with_rows_and_says_so(self):
        self.assertEqual(self.places(), [(1, 0, 7)])
        err = self.fine("run", self.path, *SHAPE, "--strategy", "grouped").err
        self.assertIn("6 records", err)
        self.assertIn("--layer", err)

    def test_layers_and_steps(self):
        self.assertEqual(self.places("--step", 1), [(0, 1, 0), (1, 1, 8), (2, 1, 12)])
        self.assertEqual(self.places("--layer", 2), [(2, 0, 11), (2, 1, 12)])
        self.assertEqual(self.places("--layer", 2, "--step", 1), [(2, 1, 12)])
        self.assertEqual(len(self.places("--layer", "all")), 6)

    def test_ranks_of_the_rescaled_layer(self):
        flags = ("--layer", 2, "--step", 0, "--rows", 110, "--ep", 2)
        cases = self.cases(self.path, *SHAPE, "--strategy", "grouped", *flags)
        self.assertEqual([(c["rank"], c["experts"], c["rows"]) for c in cases], [(0, 1, 50), (1, 1, 60)])
        self.assertIn("rescaled", cases[0]["label"])
        self.assertIn(cases[0]["label"], self.fine("run", self.path, *SHAPE, *flags).out)
        self.assertEqual([c["rank"] for c in self.cases(self.path, *SHAPE, "--strategy", "grouped", *flags, "--rank", 1)], [1])


class Info(CliTest):
    def test_json(self):
        info = self.json("info")
        for key in ("version", "git", "compiler", "cpu", "backends", "devices", "implementations"):
            self.assertIn(key, info)
        self.assertEqual(info["devices"][0]["device"], "cpu")
        exchange = next(b for b in info["backends"] if b["name"] == "nvshmem")
        self.assertEqual(info["nvshmem_built"], "no expert parallelism" not in exchange["detail"])
        rows = info["implementations"]
        self.assertTrue(all(r["ok"] or r["reason"] for r in rows))
        for name in ("forward", "dgrad", "wgrad"):
            for dtype in ("bf16", "fp32"):
                self.assertTrue(any(r["ok"] for r in rows if (r["pass"], r["dtype"], r["strategy"]) == (name, dtype, "grouped")))

    def test_text(self):
        out = self.fine("info").out
        for backend in self.json("info")["backends"]:
            self.assertIn(backend["name"], out)
            self.assertTrue(backend["detail"])

    def test_text_has_a_line_per_implementation(self):
        out = self.fine("info").out
        rows = self.json("info")["implementations"]
        for name in {r["implementation"] for r in rows if r["device"] == "cpu"}:
            self.assertEqual(out.count(f" {name} "), 1)
        self.assertNotIn("it computes strategy", out)


if __name__ == "__main__":
    unittest.main()
