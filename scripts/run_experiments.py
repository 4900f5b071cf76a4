#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs experiments one after another on one GPU, for a limited time: rows, PyTorch's arm, then a profiler's counters.

    scripts/run_experiments.py --output rows --gpu 0 --seconds 1500 fig38 fig71 'fig40 --only aligned=false'

Each EXPERIMENT is one shell word: a name, and flags of `moesaic experiment` behind it. Its rows go to NAME.jsonl in
the folder and what it said to NAME.log; rows that are there are not run again, so the same command goes on after
anything. Runs side by side need other experiments, or other folders. docs/guide/experiments.md says more.
Exit codes are those of moesaic: 1 a check failed, 2 refused, 3 no device, 4 rows are left.
"""
import argparse
import json
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import row_parts  # noqa: E402
from listed_experiment import Listed, Refused  # noqa: E402

SCRIPTS = Path(__file__).resolve().parent
FINE, CHECK_FAILED, BAD_INPUT, NO_DEVICE, LEFT = 0, 1, 2, 3, 4
GRACE_S = 20  # before --seconds: a case at hand ends, what does not is interrupted
MOST_PROFILED = 32
NO_LIMIT = 1e9


class Stopped(Exception):
    """An interrupt or a termination has come."""


class Clock:
    """The time that is left of --seconds."""

    def __init__(self, seconds):
        self.end = time.monotonic() + (seconds or NO_LIMIT)
        self.grace = min(GRACE_S, (seconds or NO_LIMIT) / 4)

    def left(self):
        """Until everything should have ended by itself."""
        return max(0.0, self.end - self.grace - time.monotonic())


class Runner:
    def __init__(self, args, experiments):
        self.args, self.experiments, self.clock, self.child, self.stopped = args, experiments, Clock(args.seconds), None, None
        self.environment = dict(os.environ)
        if args.gpu is not None:
            self.environment["CUDA_VISIBLE_DEVICES"] = args.gpu
        self.backend = ["--backend", args.backend]
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.stop)

    def stop(self, number, _frame):
        self.stopped = self.stopped or number
        if self.child is not None:
            self.child.send_signal(signal.SIGINT)  # the case at hand ends; a second one ends it at once

    def call(self, one, what, words, given=""):
        """Runs a stage in the folder, its words in the log, `given` on its standard input. Returns its exit code."""
        if self.stopped:
            raise Stopped
        one.log.write(f"\n##### {what}: {shlex.join(map(str, words))}\n")
        one.log.flush()
        begin = time.monotonic()
        with tempfile.TemporaryFile("w+", encoding="utf-8") as stdin:
            stdin.write(given)
            stdin.seek(0)
            self.child = subprocess.Popen([str(word) for word in words], cwd=one.folder, env=self.environment, stdin=stdin, stdout=one.log,
                                          stderr=one.log, start_new_session=True)
        code = self.wait()
        try:
            os.killpg(self.child.pid, signal.SIGKILL)  # what it may have left behind
        except ProcessLookupError:
            pass
        self.child = None
        seconds = time.monotonic() - begin
        one.seconds += seconds
        print(f"run_experiments: {one.name} {what}: {seconds:.1f} s, exit {code}", file=sys.stderr, flush=True)
        if self.stopped:
            raise Stopped
        return code

    def wait(self):
        """Until the child ends: by itself, interrupted when time is up, or killed at the very end."""
        if self.stopped:  # before the child was known
            self.child.send_signal(signal.SIGINT)
        for timeout in (self.clock.left(), self.clock.grace):
            try:
                return self.child.wait(timeout)
            except subprocess.TimeoutExpired:
                self.child.send_signal(signal.SIGINT)
        self.child.kill()
        return self.child.wait()

    def budget(self, need, behind):
        """Seconds for a stage that needs so many, with so many needed behind it: what those do not need.

        Where that is little, half as much again as it needs: the order of the list decides."""
        left = self.clock.left()
        spare = left - behind
        return spare if spare >= left / 2 else min(left, 1.5 * need + 20)

    def kind(self):
        """The kind of device that the command takes: cpu or cuda."""
        if self.args.backend != "auto":
            return self.args.backend
        done = subprocess.run([self.args.moesaic, "info", "--json"], env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Refused(done.stderr.strip() or f"--moesaic: info ended with {done.returncode}")
        return "cuda" if any(one["device"].startswith("cuda") for one in json.loads(done.stdout)["devices"]) else "cpu"

    def list_cases(self):
        """What there is to do; refuses what cannot be run, before anything is written."""
        for one in self.experiments:
            self.list_cases_of(one)
        if any(True for one in self.experiments for _ in one.rows()):
            kind = self.kind()
            for one in self.experiments:
                one.refuse_other_device(kind)

    def list_cases_of(self, one):
        if one.name == "fig2":
            return
        done = subprocess.run([self.args.moesaic, "experiment", *one.words, *self.backend, "--dry-run", "--json"], cwd=one.folder,
                              env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Refused(done.stderr.strip() or f"{one.name}: moesaic ended with {done.returncode}")
        one.cases = [json.loads(line) for line in done.stdout.splitlines()]
        if not self.args.torch:
            for case in one.cases:
                case["arms"] = [arm for arm in case["arms"] if arm != "torch"]

    def run_stages(self, one, behind):
        """moesaic's arms, then torch's."""
        _, _, own_s, torch_s = one.progress()
        words = [self.args.moesaic, "experiment", *one.words, "--output", one.rows_path.name]
        if one.name == "fig2":
            one.codes.append(self.call(one, "moesaic", words))
            return
        if own_s > 0:
            budget = self.budget(own_s, behind + torch_s)
            if budget > 0:
                limit = ["--budget", f"{budget:.3f}s"] if self.args.seconds else []
                one.codes.append(self.call(one, "moesaic", [*words, *self.backend, *limit]))
        if torch_s > 0 and (budget := self.budget(torch_s, behind)) > 0:
            device = "cpu" if self.args.backend == "cpu" else "cuda"
            limit = ["--budget", f"{budget:.3f}"] if self.args.seconds else []
            code = self.call(one, "torch", [self.args.python, SCRIPTS / "torch_arm.py", "--output", one.rows_path.name, "--device", device, *limit],
                             "".join(json.dumps(case) + "\n" for case in one.cases))
            if code == NO_DEVICE:
                one.notes.append("torch could not run")
            one.codes.append(code)

    def profile(self, one):
        """Counters of the grouped product on some cases, joined to the rows of the same offsets."""
        shapes = {(case["d"], case["h"], case["proj"]) for case in one.cases}
        for d, h, proj in sorted(shapes):
            counts = {}  # by offsets; a histogram is profiled once
            for case in one.cases:
                if (case["d"], case["h"], case["proj"]) == (d, h, proj):
                    offs = case["routing"]["offs"]
                    counts[",".join(str(end - begin) for begin, end in zip([0, *offs], offs))] = True
            step = math.ceil(len(counts) / MOST_PROFILED)
            specs = [f"counts:{rows}" for rows in list(counts)[::step]]
            code = self.call(one, "profile", [sys.executable, SCRIPTS / "profile_rows.py", one.rows_path.name, "--ncu", self.args.ncu, "--", self.args.moesaic,
                                              "bench", *specs, "--layer", "all", "--shape", f"d={d},h={h}", "--proj", proj, "--strategy", "grouped", "--profile"])
            if code:
                one.notes.append(f"no counters: profile_rows.py ended with {code}")
                return

    def run(self):
        needs = [sum(one.progress()[2:]) for one in self.experiments]
        try:
            for index, one in enumerate(self.experiments):
                self.run_stages(one, sum(needs[index + 1:]))
            if self.args.profile and self.args.backend != "cpu" and shutil.which(self.args.ncu):
                for one in self.experiments:
                    if self.clock.left() > 0 and one.cases and one.rows_path.exists():
                        self.profile(one)
        except Stopped:
            pass
        return self.tell()

    def tell(self):
        """What there is now, one line per experiment; the exit code."""
        left = 0
        print(f"{'experiment':<12}{'rows':>12}{'left':>8}{'torch':>12}{'left':>8}{'seconds':>10}  notes")
        for one in self.experiments:
            own, torch, own_s, torch_s = one.progress()
            left += own[1] - own[0] + torch[1] - torch[0]
            notes = [*one.notes, *([f"about {own_s + torch_s:.0f} s are left"] if own_s + torch_s > 0 else []),
                     *(f"exit {code}, see {one.log_path.name}" for code in sorted(set(one.codes)) if code not in (FINE, LEFT, -signal.SIGINT, 130))]
            print(f"{one.name:<12}{own[0]:>12,}{own[1] - own[0]:>8,}{torch[0]:>12,}{torch[1] - torch[0]:>8,}{one.seconds:>10.1f}  {'; '.join(notes)}")
        codes = [code for one in self.experiments for code in one.codes]
        for code in (CHECK_FAILED, BAD_INPUT, NO_DEVICE):
            if code in codes:
                return code
        return 128 + self.stopped if self.stopped else LEFT if left else FINE


def positive(text):
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < NO_LIMIT:
        raise argparse.ArgumentTypeError(f"expected seconds above 0, got {text}")
    return value


def read_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="+", metavar="EXPERIMENT", help="in the order of their importance")
    parser.add_argument("--output", required=True, type=Path, metavar="FOLDER", help="where rows and logs go")
    parser.add_argument("--gpu", metavar="N", help="CUDA_VISIBLE_DEVICES")
    parser.add_argument("--seconds", type=positive, help="everything ends by then (no limit)")
    parser.add_argument("--backend", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--moesaic", default=str(SCRIPTS.parent / "build/release/tools/moesaic/moesaic"), help="the built command")
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch, for the arm torch (this one)")
    parser.add_argument("--ncu", default="ncu", help="the profiler; without it, or on a CPU, nothing is profiled")
    parser.add_argument("--no-torch", dest="torch", action="store_false", help="leave the arm torch out")
    parser.add_argument("--no-profile", dest="profile", action="store_false", help="leave the profiler out")
    args = parser.parse_args(argv)
    if args.gpu is not None and args.backend == "cpu":
        raise Refused(f"--gpu: expected --backend auto or cuda with it, got --gpu {args.gpu} --backend cpu")
    for flag, command in (("--moesaic", args.moesaic), ("--python", args.python)):
        if shutil.which(command) is None:
            raise Refused(f"{flag}: expected a command that can be run, got {command}")
    # Stages run in the folder; a link to a Python is what makes it one of its environment, so it stays one.
    args.moesaic, args.python = (os.path.abspath(shutil.which(command)) for command in (args.moesaic, args.python))
    return args


def make_folder(folder):
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"--output: expected a folder, which is made where there is none, got {folder}: {error.strerror}") from None


def main(argv=None):
    try:
        args = read_arguments(argv)
        folder = args.output.resolve()
        make_folder(folder)
        experiments = [Listed(words, folder) for words in args.experiments]
        names = [one.name for one in experiments]
        if len(set(names)) < len(names):
            raise Refused(f"EXPERIMENT: expected every name once, got {', '.join(names)}")
        runner = Runner(args, experiments)
        runner.list_cases()
        for one in experiments:
            one.lock()
            row_parts.join(one.rows_path)
        code = runner.run()
        for one in experiments:
            row_parts.split(one.rows_path)
        return code
    except (Refused, ValueError) as refused:
        print(f"run_experiments: {refused}", file=sys.stderr)
        return BAD_INPUT
    except OSError as error:
        print(f"run_experiments: {error.filename}: expected a file that can be written, got: {error.strerror}", file=sys.stderr)
        return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
