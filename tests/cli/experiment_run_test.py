# SPDX-License-Identifier: Apache-2.0
"""moesaic experiment on the CPU: rows, resuming after a kill or an interrupt, fresh processes, budget, refusals of other rows."""
import json
import signal
import subprocess
import time
import unittest

from harness import BINARY, CliTest

CPU = ("--protocol", "reduced", "--backend", "cpu")
SKEW = ("--shape", "d=64,h=64", *CPU)
MEASURED = ("date", "command", "timing", "derived", "clocks", "telemetry")


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def without_times(rows):
    """What a repetition must give again, in the order of the design."""
    kept = [{name: value for name, value in row.items() if name not in MEASURED} for row in rows]
    return sorted(kept, key=lambda row: (row["experiment"]["order"], row["experiment"]["arm"]))


class Rows(CliTest):
    def run_experiment(self, name, *args):
        result = self.fine("experiment", name, *args, cwd=self.folder)
        return result, rows_of(self.folder / f"{name}.jsonl")

    def test_short_bursts(self):
        result, rows = self.run_experiment("fig38", *CPU)
        self.assertEqual(len(rows), 4 * 4)
        for row in rows:
            timing, experiment = row["timing"], row["experiment"]
            self.assertEqual(row["schema"], "moesaic.bench/1")
            self.assertEqual((experiment["name"], experiment["protocol"], experiment["process"]), ("fig38", "reduced", 0))
            self.assertEqual(experiment["factors"], {"rows": row["routing"]["rows"]})
            self.assertEqual(row["problem"]["strategy"], experiment["arm"])
            self.assertEqual((timing["regime"], timing["samples"], len(timing["samples_s"])), ("short_burst", 5, 5))
            self.assertAlmostEqual(timing["mean_s"] / (sum(timing["samples_s"]) / 5), 1, 9)
            self.assertGreater(row["check"]["elements"], 0)
            self.assertEqual(row["check"]["mismatches"], 0)
            self.assertIsNone(row["telemetry"])
            self.assertIsNone(row["profile"])
        for arm, share in (("grouped", 1), ("host_loop", 1), ("dense", 1), ("padded_bmm", 1.25)):
            row, = (r for r in rows if r["experiment"]["arm"] == arm and r["routing"]["rows"] == 1024)
            self.assertEqual(row["work"]["executed_flops"], share * row["work"]["useful_flops"])
        padded, = (r["problem"] for r in rows if r["experiment"]["arm"] == "padded_bmm" and r["routing"]["rows"] == 1024)
        self.assertEqual((padded["batch"], padded["regular"]), ("prefilled", {"batch": 16, "m": 80, "n": 256, "k": 256}))
        self.assertIn("padded_bmm / grouped", result.out)
        parts = ", ".join(rf"{part} [\d.]+ [mu]?s" for part in ("start", "prepare", "check", "timing", "other"))
        self.assertRegex(result.err, rf"experiment: 16 rows in [\d.]+ m?s, [\d.]+ m?s a row: {parts}; expected: {parts}\n")
        self.assertRegex(result.err, r"arm torch is not run by this command; .* --dry-run --json \| scripts/torch_arm\.py --output fig38")

    def test_sustained(self):
        result, rows = self.run_experiment("table44", *CPU, "--trials", 1)
        self.assertEqual(len(rows), 3 * 2 * 2)
        for row in rows:
            timing = row["timing"]
            self.assertEqual(timing["regime"], "sustained")
            self.assertEqual((timing["pilot_s"], timing["conditioning_s"], timing["measured_s"]), (0.03, 0.08, 0.015))
            self.assertGreaterEqual(timing["calls_per_sample"], 1)
            self.assertGreaterEqual(len(timing["samples_s"]), 5)
            factors = row["experiment"]["factors"]
            self.assertEqual(row["work"]["useful_flops"], 2 * factors["tokens"] * 512 * 5120)
        dense = [r["problem"] for r in rows if r["experiment"]["arm"] == "dense"]
        self.assertEqual({p["weights_of"] for p in dense}, {"all_experts"})
        self.assertEqual({(p["regular"]["n"], p["regular"]["k"]) for p in dense}, {(5120, 512)})
        self.assertIn("8 experts", result.out)

    def test_skew_replays_files_and_pairs(self):
        layers = [[0, 0, 0, 0], [9, 1, 5, 3], [300, 2, 1, 9], [80, 70, 75, 87]]
        path = self.write("dump.json", json.dumps({"logical_count": layers}))
        result, rows = self.run_experiment("skew", path, *SKEW, "--arms", "grouped,padded_bmm")
        singles = [r for r in rows if "pair" not in r["experiment"]["factors"] and r["experiment"]["arm"] == "grouped"]
        self.assertEqual([r["experiment"]["factors"]["layer"] for r in singles], [1, 2, 3])
        self.assertEqual([r["experiment"]["factors"]["bucket"] for r in singles], ["decode", "prefill", "prefill"])
        pairs = [r for r in rows if "pair" in r["experiment"]["factors"]]
        for row in pairs:
            self.assertIn(row["experiment"]["factors"]["load"], ("broad", "concentrated"))
        self.assertIn("concentrated / broad", result.out)
        self.assertIn("time / grouped", result.out)

    def test_summaries_come_back_from_the_file(self):
        result, _ = self.run_experiment("fig38", *CPU)
        again = self.fine("experiment", "fig38", "--summarize", self.folder / "fig38.jsonl")
        self.assertEqual(again.out, result.out)
        lines = (self.folder / "fig38.jsonl").read_text().splitlines(keepends=True)
        parts = [self.write(f"fig38.part{i + 1}.jsonl", "".join(lines[5 * i:5 * i + 5])) for i in range(4)]
        self.assertEqual(self.fine("experiment", "fig38", "--summarize", *parts).out, result.out)
        self.assertNotEqual(self.fine("experiment", "fig38", "--summarize", *parts[:3]).out, result.out)
        self.refused("experiment", "fig38", "--summarize", parts[0], self.folder / "absent", words=("--summarize", "absent"))
        self.refused("experiment", "fig40", "--summarize", self.folder / "fig38.jsonl", words=("--summarize", "fig40"))
        self.refused("experiment", "fig40", "--summarize", self.folder / "absent", words=("--summarize", "absent"))

    def test_a_field_that_is_not_as_it_should_be_is_named(self):
        _, rows = self.run_experiment("table44", *CPU, "--only", "trial=0", "--arms", "grouped")
        for path, value, expected in (("timing.mean_s", "fast", 'a number above 0, got ""fast""'), ("timing.mean_s", -1, 'a number above 0, got "-1"'),
                                      ("timing.unsteady", None, 'true or false, got "null"'), ("work.useful_flops", 0, "a number above 0"),
                                      ("routing.offs", None, "a list"), ("routing.offs", [4, 2], "do not decrease"), ("problem.n", 1.5, "a whole number"),
                                      ("clocks", 7, "true or false"), ("telemetry", {"sm_mhz": [], "power_w": [], "reasons": [-1]}, "bits"),
                                      ("experiment.order", "first", "a whole number"), ("experiment.factors", [], "an object")):
            row = json.loads(json.dumps(rows[1]))
            *above, last = path.split(".")
            (row[above[0]] if above else row)[last] = value
            file = self.write("changed.jsonl", json.dumps(rows[0]) + "\n" + json.dumps(row) + "\n")
            result = self.refused("experiment", "table44", "--summarize", file, words=(f"--summarize: {file}:2: {path}", expected))
            self.assertNotIn("json.exception", result.err)

    def test_summaries_as_json(self):
        for name, *args in (("fig38",), ("table44", "--trials", 1), ("fig40",), ("fig72",), ("fig73",),
                            ("skew", "zipf:1.2", "uniform", "--rows", 512, "--experts", 8, "--shape", "d=64,h=64")):
            _, rows = self.run_experiment(name, *args, *CPU)
            summary = json.loads(self.fine("experiment", name, "--summarize", self.folder / f"{name}.jsonl", "--json").out)
            self.assertEqual((summary["schema"], summary["experiment"], summary["protocol"]), ("moesaic.experiment_summary/1", name, "reduced"))
            self.assertEqual((summary["rows"], summary["throttled"]), (len(rows), 0))
            self.assertEqual(summary["device"], rows[0]["device"]["name"])
            self.assertTrue(summary["figures"])
            if name == "fig38":
                at = {(row["routing"]["rows"], row["experiment"]["arm"]): row["timing"]["mean_s"] for row in rows}
                for size in summary["figures"]["sizes"]:
                    self.assertAlmostEqual(size["padded_over_grouped"] * at[size["rows"], "grouped"] / at[size["rows"], "padded_bmm"], 1, 9)

    def test_only_some_cases(self):
        result, rows = self.run_experiment("table44", *CPU, "--only", "trial=1")
        self.assertEqual({row["experiment"]["factors"]["trial"] for row in rows}, {1})
        self.assertEqual(len(rows), 12)
        self.assertNotIn("not there", result.err)
        again, rows = self.run_experiment("table44", *CPU)  # the rest of the same design, in the same file
        self.assertIn("12 rows to", again.err)
        self.assertEqual(len(rows), 24)

    def test_only_some_cases_in_fresh_processes(self):
        _, rows = self.run_experiment("fig72", *CPU, "--only", "pair=i_max", "--only", "rows=1024")
        self.assertEqual(sorted({row["experiment"]["process"] for row in rows}), [0, 1])
        self.assertEqual(len(rows), 2 * 3)

    def test_rows_to_stdout(self):
        result = self.fine("experiment", "fig71", *CPU, "--arms", "grouped", "--output", "-")
        self.assertEqual([json.loads(line)["experiment"]["arm"] for line in result.out.splitlines()], ["grouped"] * 3)


class Resume(CliTest):
    def setUp(self):
        super().setUp()
        self.whole, self.parts = self.folder / "whole.jsonl", self.folder / "parts.jsonl"

    def start(self, name, rows, *args):
        """The experiment under way, with at least so many rows in its file."""
        child = subprocess.Popen([BINARY, "experiment", name, *CPU, "--output", str(self.parts), *args],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.stderr.close)
        while child.poll() is None:
            if self.parts.exists() and self.parts.read_bytes().count(b"\n") >= rows:
                break
            time.sleep(0.005)
        self.assertIsNone(child.poll(), "it ended before it could be stopped")
        return child

    def whole_rows(self, name):
        self.fine("experiment", name, *CPU, "--output", self.whole)
        return rows_of(self.whole)

    def test_killed_and_resumed_gives_the_same_rows(self):
        child = self.start("fig40", 40)
        child.kill()
        child.wait()
        time.sleep(0.2)  # its own process ends with it
        there = self.parts.read_bytes()
        self.assertLess(there.count(b"\n"), 150)
        self.parts.write_bytes(there[:-100])  # as if it had been killed while writing
        result = self.fine("experiment", "fig40", *CPU, "--output", self.parts)
        self.assertRegex(result.err, r"parts\.jsonl:\d+: left out, a row that was cut off")
        torn = there.count(b"\n") - 1
        lines = self.parts.read_text().splitlines()
        self.assertEqual("\n".join(lines[:torn]).encode(), there.rstrip(b"\n").rsplit(b"\n", 1)[0])  # not run again
        del lines[torn]
        rows = [json.loads(line) for line in lines]
        self.assertEqual(without_times(rows), without_times(self.whole_rows("fig40")))
        before = self.parts.read_bytes()
        result = self.fine("experiment", "fig40", *CPU, "--output", self.parts)
        self.assertIn("nothing to run; 178 of 178 are there", result.err)
        self.assertEqual(self.parts.read_bytes(), before)

    def test_an_interrupt_keeps_and_prints_what_is_finished(self):
        for name, processes in (("fig72", 2), ("table44", 1)):  # in fresh processes, and in this one
            self.parts.unlink(missing_ok=True)
            child = self.start(name, 3)
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=60)
            self.assertEqual(child.returncode, -signal.SIGINT, err)
            self.assertIn(f"{name} on ".encode(), out)
            self.assertRegex(err, rb"interrupted before .*rows( of process 1 of 2)? are left")
            self.assertIn(b"rows are not there; the same command goes on", err)
            rows = rows_of(self.parts)
            self.assertGreaterEqual(len(rows), 3)
            self.fine("experiment", name, *CPU, "--output", self.parts)
            again = rows_of(self.parts)
            self.assertEqual(again[:len(rows)], rows)
            self.assertEqual({r["experiment"]["process"] for r in again}, set(range(processes)))

    def test_budget_stops_before_a_case_and_says_what_is_left(self):
        out = ("--output", self.parts)
        result = self.fine("experiment", "fig72", *CPU, *out, "--budget", "0.001s")
        self.assertRegex(result.err, r"stopped by --budget before rows=\d+ .*; 18 rows of process 1 of 2 are left, about")
        self.assertIn("36 of 36 rows are not there", result.err)
        self.assertEqual(self.cli("experiment", "fig38", *CPU, *out, "--budget", "0.001s", "--strict").returncode, 4)
        self.assertEqual(self.parts.read_bytes(), b"")
        self.fine("experiment", "fig72", *CPU, *out, "--budget", "10m")
        self.assertEqual(len(rows_of(self.parts)), 36)

    def test_one_process_of_many(self):
        out = ("--output", self.parts)
        self.fine("experiment", "fig72", *CPU, *out, "--process", 1)
        self.assertEqual({r["experiment"]["process"] for r in rows_of(self.parts)}, {1})
        self.refused("experiment", "fig72", *CPU, *out, "--process", 2, words=("--process: expected 0 to 1, got", "2"))

    def test_rows_without_a_passed_check_are_left_out_and_run_again(self):
        args = ("experiment", "fig71", *CPU, "--arms", "grouped", "--output", self.parts)
        self.fine(*args)
        good = rows_of(self.parts)
        bad = [json.loads(json.dumps(row)) for row in good]
        bad[0]["check"]["mismatches"] = 2
        bad[1]["check"]["elements"] = 0
        del bad[2]["check"]
        for count in (1, 2, 3):
            rows = bad[:count] + good[count:]
            self.parts.write_text("".join(json.dumps(row) + "\n" for row in rows))
            warning = f"parts.jsonl: {count} rows without a passed check are left out"
            if count < 3:
                summary = self.fine("experiment", "fig71", "--summarize", self.parts, "--json")
                self.assertIn(warning, summary.err)
                self.assertEqual(json.loads(summary.out)["rows"], 3 - count)
            else:
                self.refused("experiment", "fig71", "--summarize", self.parts, words=("--summarize", "with a passed check"))
            if count < 3:
                self.assertIn(f"of which {3 - count} are there", self.fine(*args, "--dry-run").out)
            result = self.fine(*args)
            self.assertIn(warning, result.err)
            self.assertIn(f"{count} rows to", result.err)
            again = rows_of(self.parts)
            self.assertEqual(again[:3], rows)
            self.assertEqual(without_times(again[3:]), without_times(good[:count]))
            self.assertIn("nothing to run; 3 of 3 are there", self.fine(*args).err)

    def test_rows_of_another_device_protocol_seed_or_case_are_refused(self):
        args = ("experiment", "fig71", *CPU, "--arms", "grouped", "--output", self.parts)
        self.fine(*args)
        rows = rows_of(self.parts)
        self.refused("experiment", "fig71", "--backend", "cpu", "--output", self.parts, words=("--output", "protocol full", "reduced"))

        def changed(change):
            for row in (copy := json.loads(json.dumps(rows))):
                change(row)
            self.parts.write_text("".join(json.dumps(row) + "\n" for row in copy))
        changed(lambda row: row["device"].update(name="NVIDIA H200"))
        self.refused(*args, words=("--output", "parts.jsonl", "NVIDIA H200"))
        changed(lambda row: row["experiment"].update(case="rows=7"))
        self.refused(*args, words=("--output", "another case, rows=7"))
        changed(lambda row: row["routing"].update(seed=7))
        self.refused(*args, words=("--output", "rows of --seed 1", "seed 7"))
        changed(lambda row: row["problem"].update(n=64))
        self.refused(*args, words=("--output", "other rows or widths"))
        changed(lambda row: row["git"].update(sha="0123456789ab"))
        self.assertIn("3 rows are of another commit", self.fine(*args).err)
        changed(lambda row: row["timing"].update(unsteady=False))
        self.fine(*args, "--strict")
        changed(lambda row: row["timing"].update(unsteady=True))
        self.assertEqual(self.cli(*args, "--strict").returncode, 4, "rows that were there count too")


if __name__ == "__main__":
    unittest.main()
