#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of profile_rows.py on a made-up log of ncu: sums, shares, units, what matches, what is refused."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "profile_rows.py"
COLUMNS = ["ID", "Process Name", "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg", "Kernel Name",
           "dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum", "lts__t_sectors_lookup_hit.sum",
           "lts__t_sectors_lookup_miss.sum", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"]
UNITS = ["", "", "", "", "Mbyte", "byte", "usecond", "sector", "sector", "%"]


def problem(strategy, **changes):
    return {"pass": "forward", "strategy": strategy, "n": 64, "k": 32, **changes}


def result(strategy, offs=(3, 8), device="NVIDIA H200", **changes):
    return {"schema": "moesaic.bench/1", "device": {"name": device}, "problem": problem(strategy, **changes), "routing": {"offs": list(offs)},
            "timing": {"median_s": 1e-4}, "profile": None}


def ranged(number, strategy, offs=(3, 8), device="NVIDIA H200"):
    return {"schema": "moesaic.profile_range/1", "range": f"moesaic case {number}", "device": device, "problem": problem(strategy),
            "offs": list(offs)}


def kernel(number, name, *metrics):
    message = f"<default domain>:moesaic case {number}:none:none:none:none:none:none" if number is not None else ""
    return [str(number), "moesaic", message, name, *map(str, metrics)]


class ProfileRowsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, lines):
        path = self.folder / name
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return str(path)

    def log(self, kernels, units=UNITS, columns=COLUMNS):
        lines = ["==PROF== Connected to process 7", *(",".join(f'"{cell}"' for cell in row) for row in (columns, units, *kernels))]
        return self.write("ncu.csv", lines)

    def run_script(self, *args, env=None):
        return subprocess.run([sys.executable, str(SCRIPT), *args], capture_output=True, text=True, env=env)

    def joined(self, rows, ranges, kernels, **log):
        path = self.write("rows.jsonl", [row if isinstance(row, str) else json.dumps(row) for row in rows])
        done = self.run_script(path, "--csv", self.log(kernels, **log), "--ranges", self.write("ranges", [json.dumps(row) for row in ranges]))
        self.assertEqual(done.returncode, 0, done.stderr)
        return Path(path).read_text(encoding="utf-8").splitlines(), done.stderr

    GROUPED = kernel(0, "rows_kernel", "1,000.5", "500000", "100", "30", "10", "80")
    PADDED = (kernel(1, "copy_kernel", "2", "0", "10", "1", "1", "0"), kernel(1, "nvjet", "6", "1000000", "30", "5", "1", "60"))

    def test_counters_join_the_rows_of_their_case(self):
        rows = [result("grouped"), result("padded_bmm"), result("grouped", offs=(4, 8)), result("grouped", device="NVIDIA H100")]
        other = kernel(None, "elementwise", "9", "9", "9", "9", "9", "9")
        lines, told = self.joined(rows, [ranged(0, "grouped"), ranged(1, "padded_bmm")], [other, self.GROUPED, *self.PADDED])
        profiles = [json.loads(line)["profile"] for line in lines]
        self.assertEqual(profiles[0], {"hbm_bytes": 1001e6, "l2_hit_rate": 0.75, "tensor_pipe_utilization": 0.8, "kernels": 1})
        # Two kernels: bytes add up, hits over all lookups, the pipe's use by the time of each.
        self.assertEqual(profiles[1]["hbm_bytes"], 9e6)
        self.assertEqual(profiles[1]["l2_hit_rate"], 0.75)
        self.assertAlmostEqual(profiles[1]["tensor_pipe_utilization"], 0.6 * 30 / 40)
        self.assertEqual(profiles[1]["kernels"], 2)
        self.assertEqual(profiles[2:], [None, None])
        self.assertIn("2 of 4 rows", told)
        self.assertEqual({**json.loads(lines[0]), "profile": None}, rows[0])

    def test_rows_of_experiments_match_what_they_multiplied(self):
        rows = [result("padded_bmm", batch="copied"), result("padded_bmm", batch="prefilled", regular={"m": 5})]
        lines, _ = self.joined(rows, [ranged(1, "padded_bmm")], list(self.PADDED))
        self.assertEqual([json.loads(line)["profile"] is None for line in lines], [False, True])

    def test_lines_that_are_no_rows_stay_as_they_are(self):
        torn = '{"schema": "moesaic.be'
        lines, _ = self.joined([torn, result("grouped"), '{"schema":"moesaic.roofline/1"}'], [ranged(0, "grouped")], [self.GROUPED])
        self.assertEqual((lines[0], lines[2]), (torn, '{"schema":"moesaic.roofline/1"}'))

    def test_a_counter_that_the_device_lacks_is_null(self):
        grouped = kernel(0, "rows_kernel", "1", "0", "100", "30", "10", "n/a")
        lines, _ = self.joined([result("grouped")], [ranged(0, "grouped")], [grouped])
        self.assertEqual(json.loads(lines[0])["profile"], {"hbm_bytes": 1e6, "l2_hit_rate": 0.75, "tensor_pipe_utilization": None, "kernels": 1})

    def refused(self, word, rows, ranges, csv):
        path = self.write("rows.jsonl", [json.dumps(row) for row in rows])
        before = Path(path).read_bytes()
        done = self.run_script(path, "--csv", csv, "--ranges", self.write("ranges", [json.dumps(row) for row in ranges]))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(word, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertEqual(Path(path).read_bytes(), before)

    def test_refusals_change_nothing(self):
        rows, ranges = [result("grouped")], [ranged(0, "grouped")]
        self.refused("got none", [result("host_loop")], ranges, self.log([self.GROUPED]))
        self.refused('begins with "ID"', rows, ranges, self.write("empty", []))
        self.refused("ERR_NVGPUCTRPERM", rows, ranges, self.write("denied", ["==ERROR== ERR_NVGPUCTRPERM - no permission"]))
        self.refused("ranges named", rows, ranges, self.log([kernel(None, "k", *"111111")]))
        self.refused("'furlong'", rows, ranges, self.log([self.GROUPED], units=[*UNITS[:4], "furlong", *UNITS[5:]]))
        self.refused("moesaic.profile_range/1", rows, rows, self.log([self.GROUPED]))

    def test_usage(self):
        path = self.write("rows.jsonl", [json.dumps(result("grouped"))])
        for args, word in (((path,), "expected a command"), ((path, "--csv", "x"), "--ranges"), ((path, "--", "moesaic", "bench"), "--profile"),
                           ((str(self.folder / "absent"), "--", "moesaic", "--profile"), "ROWS")):
            done = self.run_script(*args)
            self.assertEqual(done.returncode, 2)
            self.assertIn(word, done.stderr)
        done = self.run_script(path, "--ncu", str(self.folder / "no-ncu"), "--", "moesaic", "bench", "--profile")
        self.assertEqual(done.returncode, 3)
        self.assertIn("--ncu: expected ncu", done.stderr)

    def test_the_command_runs_under_the_profiler(self):
        rows = self.write("rows.jsonl", [json.dumps(result("grouped"))])
        listed = self.write("listed", [json.dumps(ranged(0, "grouped"))])
        log = self.log([self.GROUPED])
        # Stands for ncu: writes the log where it is told to and lets the command print its ranges.
        ncu = self.write("ncu", ["#!/bin/sh", 'while [ "$1" != --log-file ]; do shift; done', f'cp "{log}" "$2"', "shift 2", 'exec "$@"'])
        command = self.write("moesaic", ["#!/bin/sh", f'cat "{listed}"'])
        for path in (ncu, command):
            os.chmod(path, 0o755)
        done = self.run_script(rows, "--ncu", ncu, "--", command, "bench", "--profile")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(Path(rows).read_text())["profile"]["hbm_bytes"], 1001e6)


if __name__ == "__main__":
    unittest.main()
