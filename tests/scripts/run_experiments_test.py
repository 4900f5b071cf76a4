#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of run_experiments.py with the built command on the CPU: rows, limits, signals, runs side by side, refusals."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
from pathlib import Path

BINARY = str(Path(sys.argv.pop(1)).resolve()) if len(sys.argv) > 1 else ""
SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "run_experiments.py"
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that spin for one another stand still beside other tests
sys.path.insert(0, str(SCRIPT.parent))
import run_experiments  # noqa: E402

REDUCED = " --protocol reduced"


class RunExperimentsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name, "rows")

    def words(self, *arguments, torch=False):
        return [sys.executable, str(SCRIPT), "--moesaic", BINARY, "--backend", "cpu", "--output", str(self.folder),
                *([] if torch else ["--no-torch"]), *map(str, arguments)]

    def run_script(self, *arguments, **more):
        return subprocess.run(self.words(*arguments, **more), capture_output=True, text=True, check=False, timeout=240)

    def start(self, *arguments):
        child = subprocess.Popen(self.words(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.stderr.close)
        return child

    def rows(self, name):
        return [json.loads(line) for line in (self.folder / f"{name}.jsonl").read_text().splitlines()]

    def wait_for_rows(self, child, name, count):
        path = self.folder / f"{name}.jsonl"
        while child.poll() is None and not (path.exists() and path.read_bytes().count(b"\n") >= count):
            time.sleep(0.005)
        self.assertIsNone(child.poll(), "it ended before it could be stopped")

    def refused(self, *arguments, words):
        done = self.run_script(*arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_rows_and_a_line_for_each(self):
        done = self.run_script("fig71" + REDUCED, "fig72 --only rows=1024" + REDUCED, "fig2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^fig71 +12 +0 +0 +0 +\d+\.\d")
        self.assertRegex(done.stdout, r"(?m)^fig72 +18 +0 +0 +0 +\d+\.\d")
        self.assertRegex(done.stdout, r"(?m)^fig2 +4 +0 +0 +0 +\d+\.\d")
        self.assertEqual(len(self.rows("fig71")), 12)
        self.assertEqual(len(self.rows("fig2")), 4)
        # Rows tell how they came to be, without a place on this machine.
        self.assertEqual({row["command"] for row in self.rows("fig71")}, {"moesaic experiment fig71 --protocol reduced --output fig71.jsonl --backend cpu"})
        self.assertIn("##### moesaic: ", (self.folder / "fig71.log").read_text())
        before = (self.folder / "fig71.jsonl").read_bytes()
        again = self.run_script("fig71" + REDUCED)
        self.assertEqual(again.returncode, 0)
        self.assertNotIn("fig71 moesaic", again.stderr)  # nothing is left to run
        self.assertEqual((self.folder / "fig71.jsonl").read_bytes(), before)

    def test_time_that_runs_out_leaves_rows_for_the_next_run(self):
        done = self.run_script("--seconds", 0.4, "fig40" + REDUCED, "fig71" + REDUCED)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^fig40 .*about \d+ s are left")
        there = (self.folder / "fig40.jsonl").read_bytes() if (self.folder / "fig40.jsonl").exists() else b""
        done = self.run_script("fig40" + REDUCED, "fig71" + REDUCED)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.rows("fig40")), 178)
        self.assertTrue((self.folder / "fig40.jsonl").read_bytes().startswith(there))

    def test_a_signal_keeps_rows_and_tells_what_is_there(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            child = self.start("fig40" + REDUCED, "fig71" + REDUCED)
            self.wait_for_rows(child, "fig40", 3)
            child.send_signal(number)
            out, err = child.communicate(timeout=60)
            self.assertEqual(child.returncode, 128 + number, err)
            self.assertRegex(out, r"(?m)^fig40 +\d+ +[1-9]\d*")
            self.assertRegex(out, r"(?m)^fig71 +0 +12")
            for row in self.rows("fig40"):
                self.assertEqual(row["check"]["mismatches"], 0)
            for path in self.folder.iterdir():
                path.unlink()

    def test_killed_it_is_refused_until_what_it_started_has_ended(self):
        child = self.start("fig40" + REDUCED)
        self.wait_for_rows(child, "fig40", 3)
        child.kill()
        child.communicate()
        codes = []
        for _ in range(600):
            codes.append(self.run_script("fig40" + REDUCED).returncode)
            if codes[-1] != 2:
                break
            time.sleep(0.1)
        self.assertEqual(codes[-1], 0)
        rows = self.rows("fig40")
        self.assertEqual(len({json.dumps(row["experiment"]) for row in rows}), 178)
        self.assertEqual(len(rows), 178)

    def test_at_the_end_of_the_time_everything_ends(self):
        listed = subprocess.run([BINARY, "experiment", "fig71", "--protocol", "reduced", "--dry-run", "--json"], capture_output=True, text=True, check=True)
        deaf = self.folder.parent / "deaf"
        (self.folder.parent / "cases").write_text(listed.stdout)
        deaf.write_text(f"""#!/bin/sh
case "$*" in *--dry-run*) exec cat {self.folder.parent}/cases ;; esac
trap '' INT TERM
sleep 300 &
echo $! > {self.folder.parent}/pid
while :; do sleep 300; done
""")
        deaf.chmod(0o755)
        begin = time.monotonic()
        done = self.run_script("--moesaic", deaf, "--seconds", 2, "fig71" + REDUCED, "fig38" + REDUCED)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("fig71 moesaic: ", done.stderr)
        self.assertNotIn("fig38 moesaic: ", done.stderr)
        left_behind = Path("/proc", (self.folder.parent / "pid").read_text().strip())
        for _ in range(100):
            if not left_behind.exists() or "State:\tZ" in (left_behind / "status").read_text():
                return
            time.sleep(0.1)
        self.fail("what the stage had started is still running")

    def test_side_by_side(self):
        first = self.start("fig40" + REDUCED)
        self.wait_for_rows(first, "fig40", 1)
        second = self.run_script("fig71" + REDUCED)  # into the same folder
        self.assertEqual(second.returncode, 0, second.stderr)
        third = self.run_script("fig40" + REDUCED)
        if first.poll() is None:
            self.assertEqual(third.returncode, 2)
            self.assertIn("fig40: expected", third.stderr)
            self.assertIn("another run writes to", third.stderr)
        out, err = first.communicate(timeout=120)
        self.assertEqual(first.returncode, 0, err)
        self.assertEqual((len(self.rows("fig40")), len(self.rows("fig71"))), (178, 12))

    def test_files_are_named_from_the_folder(self):
        source = self.folder.parent / "dump.json"
        source.write_text(json.dumps({"logical_count": [[9, 1, 5, 3], [80, 70, 75, 87]]}))
        done = self.run_script(f"skew {source} --shape d=64,h=64 --arms grouped" + REDUCED)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({row["experiment"]["factors"]["source"] for row in self.rows("skew")}, {"../dump.json", "uniform"})

    def test_long_files_are_cut_and_joined_for_the_next_run(self):
        first = self.run_script("fig71" + REDUCED + " --only rows=256")
        self.assertEqual(first.returncode, 0, first.stderr)
        path = self.folder / "fig71.jsonl"
        rows = self.rows("fig71")
        for row in rows:  # as long as those of a full protocol
            row["routing"]["label"] = "x" * 400_000
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        done = self.run_script("fig71" + REDUCED)
        self.assertEqual(done.returncode, 0, done.stderr)
        parts = sorted(self.folder.glob("fig71*.jsonl"))
        self.assertEqual([part.name for part in parts], ["fig71.part1.jsonl", "fig71.part2.jsonl"])
        text = "".join(part.read_text() for part in parts)
        self.assertEqual(len(text.splitlines()), 12)
        again = self.run_script("fig71" + REDUCED)
        self.assertRegex(again.stdout, r"(?m)^fig71 +12 +0")
        self.assertEqual("".join(part.read_text() for part in sorted(self.folder.glob("fig71*.jsonl"))), text)

    def test_without_pytorch(self):
        if importlib.util.find_spec("torch") is not None:
            self.skipTest("PyTorch is here")
        done = self.run_script("fig71" + REDUCED, torch=True)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^fig71 +12 +0 +0 +3 .*torch could not run")

    def test_rows_of_another_device_are_not_done(self):
        self.assertEqual(self.run_script("fig38" + REDUCED, "fig2").returncode, 0)
        path = self.folder / "fig38.jsonl"
        before = path.read_bytes()
        name = self.rows("fig38")[0]["device"]["name"]
        self.refused("--backend", "cuda", "fig38" + REDUCED, words=("fig38: expected rows of backend cuda in", f"got rows of {name}", "--output"))
        path.rename(self.folder / "fig38.part1.jsonl")
        self.refused("--backend", "cuda", "fig38" + REDUCED, words=("fig38: expected rows of backend cuda in",))
        path.write_bytes(before.replace(b'"kind":"cpu"', b'"kind":"cuda"'))
        (self.folder / "fig38.part1.jsonl").unlink()
        self.refused("fig38" + REDUCED, words=("fig38: expected rows of backend cpu in", "backend cuda"))
        # What the command takes by itself, on a machine with a GPU.
        info = self.folder.parent / "info"
        info.write_text(f"""#!/bin/sh
case "$1" in info) exec echo '{{"devices":[{{"device":"cpu"}},{{"device":"cuda:0"}}]}}' ;; esac
exec {BINARY} "$@"
""")
        info.chmod(0o755)
        path.write_bytes(before)
        self.refused("--backend", "auto", "--moesaic", info, "fig38" + REDUCED, words=("fig38: expected rows of backend cuda in",))
        self.assertEqual(path.read_bytes(), before)
        done = self.run_script("--backend", "cuda", "fig2")  # arithmetic is of no device
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_refusals(self):
        self.refused("fig39", words=("NAME", "fig39"))
        self.refused("fig38 --output x", words=("EXPERIMENT", "--output"))
        self.refused("", words=("EXPERIMENT", "got nothing"))
        self.refused('fig38 "', words=("EXPERIMENT: expected", "got 'fig38 \"'", "No closing quotation"))
        self.refused("fig71", "fig38 --protocol none", words=("--protocol", "none"))
        self.refused("--gpu", "0", "fig38", words=("--gpu: expected --backend auto or cuda", "--gpu 0 --backend cpu"))
        self.assertEqual(list(self.folder.iterdir()), [])
        self.refused("fig38", "fig38 --only rows=64", words=("every name once", "fig38, fig38"))
        self.refused("--seconds", "0", "fig38", words=("--seconds", "expected seconds above 0, got 0"))
        self.refused("--moesaic", "/none", "fig38", words=("--moesaic", "/none"))
        self.refused("--python", "/none", "fig38", words=("--python", "/none"))
        file = self.folder.parent / "file"
        file.write_text("")
        self.refused("--output", file / "rows", "fig38", words=("--output: expected a folder", "file/rows", "Not a directory"))
        self.refused("--output", file, "fig38", words=("--output: expected a folder", "file: File exists"))

    def test_shares_of_the_time(self):
        runner = object.__new__(run_experiments.Runner)
        for left, need, behind, share in ((600, 10, 100, 500), (600, 7000, 50, 550), (600, 10, 7000, 35), (600, 1200, 7000, 600), (5, 10, 7000, 5)):
            runner.clock = types.SimpleNamespace(left=lambda left=left: left)
            self.assertEqual(runner.budget(need, behind), share)

    def test_what_is_profiled(self):
        runner = object.__new__(run_experiments.Runner)
        runner.args = types.SimpleNamespace(ncu="ncu", moesaic=BINARY)
        called = []
        runner.call = lambda one, what, words: called.append([str(word) for word in words]) or 1
        listed = subprocess.run([BINARY, "experiment", "fig40", "--protocol", "reduced", "--dry-run", "--json"], capture_output=True, text=True, check=True)
        one = types.SimpleNamespace(cases=[json.loads(line) for line in listed.stdout.splitlines()], rows_path=Path("fig40.jsonl"), notes=[])
        runner.profile(one)
        words, = called
        specs = [word for word in words if word.startswith("counts:")]
        self.assertLessEqual(len(specs), run_experiments.MOST_PROFILED)
        self.assertEqual(len(set(specs)), len(specs))
        for spec in specs:
            self.assertEqual(sum(map(int, spec.removeprefix("counts:").split(","))), 4096)
        self.assertEqual(words[words.index("--") + 2], "bench")
        self.assertEqual(words[-7:], ["--shape", "d=128,h=128", "--proj", "square", "--strategy", "grouped", "--profile"])
        self.assertEqual(one.notes, ["no counters: profile_rows.py ended with 1"])
        # Of several records bench takes the first alone, unless it is told.
        bench = words[words.index("--") + 1:]
        done = subprocess.run([*bench[:-1], "--backend", "cpu", "--samples", "5", "--json", "-"], capture_output=True, text=True, check=True)
        self.assertEqual(len(done.stdout.splitlines()), len(specs))


if __name__ == "__main__":
    unittest.main()
