#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the arm `torch` of an experiment: PyTorch's grouped_mm on the cases that moesaic lists.

    moesaic experiment fig38 --dry-run --json | scripts/torch_arm.py --output fig38.jsonl

Rows have the schema of `moesaic experiment` (docs/guide/experiments.md) and may lie in the same file. A case
whose row is there is not run again. Every case is checked on sampled rows of every expert before it is timed;
one that is wrong has no row and makes the exit code 1. Without PyTorch, or without the device, exit code 3.
"""
import argparse
import json
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent))

CASE_SCHEMA, ROW_SCHEMA = "moesaic.experiment_case/1", "moesaic.bench/1"
CHECK_FAILED, BAD_INPUT, NO_DEVICE = 1, 2, 3


class Refused(Exception):
    """A message for the user, and the exit code that goes with it."""

    def __init__(self, message, code=BAD_INPUT):
        super().__init__(message)
        self.code = code


def read_cases(lines):
    """Cases that have the arm torch, in the order of the list."""
    cases = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            case = json.loads(line)
        except ValueError:
            case = None
        if not isinstance(case, dict) or case.get("schema") != CASE_SCHEMA:
            raise Refused(f"cases line {number}: expected a JSON object of schema {CASE_SCHEMA}, got {line[:40].strip()!r}")
        if "torch" in case["arms"]:
            cases.append(case)
    if not cases:
        raise Refused("cases: expected at least one with the arm torch (--arms torch), got none")
    return cases


def place(experiment):
    return tuple(experiment[name] for name in ("name", "protocol", "case", "arm", "process"))


def case_place(case):
    return case["experiment"], case["protocol"], case["case"], "torch", case["process"]


def read_places(path, device, first):
    """Places of the rows that are there; refuses rows of `first`'s experiment on another device or protocol."""
    if not path.exists():
        return set()
    places = set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line) if line else {}
        except ValueError:
            print(f"torch_arm: warning: {path} line {number}: left out, a row that was cut off", file=sys.stderr)
            continue
        experiment = row.get("experiment")
        if not experiment or "device" not in row:
            continue
        if experiment["name"] == first["experiment"]:
            for what, want, got in (("device", device, row["device"]["name"]), ("protocol", first["protocol"], experiment["protocol"])):
                if want != got:
                    raise Refused(f"--output: expected rows of {what} {want}, got {path}, which has rows of {got} "
                                  f"in line {number} (name another file)")
        places.add(place(experiment))
    return places


def quantile(samples, fraction):
    ordered = sorted(samples)
    at = fraction * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def counts_of(offs):
    return [end - begin for begin, end in zip([0, *offs], offs)]


def timing_of(case, times):
    """The member "timing"; `times` is what a device's burst() or sustained() returned."""
    asked, samples = case["timing"], times["samples_s"]
    timing = {"regime": asked["regime"], "gated": times["gated"], "warm_ups": asked["warm_ups"], "samples": len(samples),
              "median_s": median(samples), "p05_s": quantile(samples, 0.05), "p95_s": quantile(samples, 0.95),
              "min_s": min(samples), "unsteady": False, "mean_s": sum(samples) / len(samples), "samples_s": samples}
    if asked["regime"] == "sustained":
        timing.update(pilot_s=asked["pilot_s"], conditioning_s=asked["conditioning_s"], measured_s=asked["measured_s"],
                      calls_per_sample=times["calls_per_sample"])
    return timing


def make_row(case, times, check, circumstances):
    """One row; `circumstances` is what does not change in a process."""
    offs, n, k = case["routing"]["offs"], case["n"], case["k"]
    counts = counts_of(offs)
    rows, active = offs[-1], sum(count > 0 for count in counts)
    flops = 2 * rows * n * k
    timing = timing_of(case, times)
    tflops = flops / timing["median_s"] * 1e-12
    return {
        "schema": ROW_SCHEMA, "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), **circumstances,
        "clocks": times["clocks"],
        "problem": {"pass": "forward", "proj": case["proj"], "strategy": "torch", "dtype": "bf16", "d_dtype": "bf16", "d": case["d"],
                    "h": case["h"], "experts": len(offs), "max_rows": rows, "n": n, "k": k, "weights": "enk", "tail": "leave"},
        "routing": {"name": case["routing"]["name"], "seed": case["seed"], "label": case["routing"]["label"],
                    "layer": case["routing"]["layer"], "step": case["routing"]["step"], "rank": None, "experts": len(offs),
                    "rows": rows, "active_experts": active, "max_rows": max(counts),
                    "effective_experts": rows ** 2 / sum(count ** 2 for count in counts), "offs": offs},
        "implementation": "torch/grouped_mm", "regimes": {}, "timing": timing,
        "work": {"useful_flops": flops, "executed_flops": flops, "min_bytes": 2 * (rows * (n + k) + active * n * k)},
        "derived": {"tflops_useful": tflops, "tflops_physical": tflops, "padding_fraction": 0.0, "overflow_rows": 0,
                    "roofline_fraction": None, "ratio_to_base": None},
        "check": {"reference": "sums in double precision, sampled rows of every expert", **check},
        "experiment": {"name": case["experiment"], "protocol": case["protocol"], "case": case["case"], "arm": "torch",
                       "process": case["process"], "order": case["order"], "factors": case["factors"]},
        "telemetry": times["telemetry"], "profile": None}


def git_state():
    """Commit of the checkout that this script lies in; any file but those of rows makes it dirty, as in cmake/MoesaicGitState.cmake."""
    def git(*words):
        done = subprocess.run(["git", "-C", str(Path(__file__).resolve().parent), *words], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""
    return {"sha": git("rev-parse", "--short=12", "HEAD") or "unknown",
            "dirty": bool(git("status", "--porcelain", "--", ":/", ":(top,exclude)*.jsonl"))}


def run_cases(cases, device, output, told=sys.stderr, budget=None):
    """Checks and times every case whose row is not there; appends rows. Returns how many were wrong.

    Stops before a case that would not end within `budget` seconds, by the longest case before it."""
    path = Path(output)
    there = read_places(path, device.circumstances["device"]["name"], cases[0])
    circumstances = {"git": git_state(), "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]), **device.circumstances}
    left = [case for case in cases if case_place(case) not in there]
    torn = path.exists() and path.read_bytes()[-1:] not in (b"", b"\n")
    wrong, done, longest = 0, 0, 0.0
    start, spent = time.monotonic(), {"prepare": 0.0, "check": 0.0, "timing": 0.0}

    def spend(part, work, *arguments):
        begin = time.monotonic()
        result = work(*arguments)
        spent[part] += time.monotonic() - begin
        return result

    with path.open("a", encoding="utf-8") as file:
        if torn:
            file.write("\n")
        for case in left:
            begin = time.monotonic()
            if budget is not None and begin - start + max(longest, least_seconds(case["timing"])) > budget:
                break
            if told.isatty():
                more = f", {(begin - start) / done * (len(left) - done):.0f} s left" if done else ""
                print(f"\rtorch {done + 1}/{len(left)}{more}: {case['case'][:60]}\033[K", end="", file=told, flush=True)
            spend("prepare", device.prepare, case)
            check = spend("check", device.check, case)
            done += 1
            if check["mismatches"]:
                wrong += 1
                print(f"torch_arm: {case['case']}: {check['mismatches']} of {check['elements']} elements wrong, not timed", file=told)
                continue
            times = spend("timing", device.sustained if case["timing"]["regime"] == "sustained" else device.burst, case["timing"])
            file.write(json.dumps(make_row(case, times, check, circumstances)) + "\n")
            file.flush()
            longest = max(longest, time.monotonic() - begin)
    if told.isatty():
        print("\r\033[K", end="", file=told)
    print(f"torch_arm: {done - wrong} rows appended to {path}, {len(cases) - len(left)} were there", file=told)
    if done < len(left):
        print(f"torch_arm: stopped by --budget before {left[done]['case']}; {len(left) - done} rows are left", file=told)
    if done:
        parts = ", ".join(f"{part} {seconds:.1f} s" for part, seconds in spent.items())
        print(f"torch_arm: {time.monotonic() - start:.1f} s: {parts}", file=told)
    return wrong


def run_processes(cases, args):
    """Each process of the design in a fresh Python; the exit code of the first that fails."""
    start = time.monotonic()
    for process in sorted({case["process"] for case in cases}):
        lines = "".join(json.dumps(case) + "\n" for case in cases if case["process"] == process)
        words = [sys.executable, __file__, "--output", args.output, "--device", args.device]
        if args.budget is not None:
            words += ["--budget", f"{max(args.budget - (time.monotonic() - start), 0.001):.3f}"]
        done = subprocess.run(words, input=lines, text=True)
        if done.returncode:
            return done.returncode
    return 0


def seconds(text):
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected seconds above 0, got {text}")
    return value


def least_seconds(timing):
    """What a sustained case takes at least; of a burst nothing is known before it has run."""
    return sum(timing[name] for name in ("pilot_s", "conditioning_s", "measured_s")) if timing["regime"] == "sustained" else 0


def open_device(name):
    try:
        import torch_device
    except ImportError as error:
        raise Refused(f"torch: expected PyTorch with grouped_mm to be importable by {sys.executable}, got: {error}", NO_DEVICE) from None
    return torch_device.open_device(name, Refused, NO_DEVICE)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="?", default="-", help="file of `moesaic experiment NAME --dry-run --json`; -: standard input")
    parser.add_argument("--output", required=True, help="file that rows are appended to")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cuda (default) or cpu")
    parser.add_argument("--budget", type=seconds, metavar="SECONDS", help="stop before a case that would not end in time")
    args = parser.parse_args(argv)
    try:
        if args.cases == "-":
            cases = read_cases(sys.stdin)
        else:
            with open(args.cases, encoding="utf-8") as file:
                cases = read_cases(file)
        if len({case["process"] for case in cases}) > 1:
            return run_processes(cases, args)
        return CHECK_FAILED if run_cases(cases, open_device(args.device), args.output, budget=args.budget) else 0
    except OSError as error:
        print(f"torch_arm: {error.filename}: expected a file that can be opened, got: {error.strerror}", file=sys.stderr)
        return BAD_INPUT
    except RuntimeError as error:  # of PyTorch: out of memory, a device that fails
        print(f"torch_arm: {str(error).splitlines()[0]}; rows that stand are kept", file=sys.stderr)
        return NO_DEVICE
    except Refused as refused:
        print(f"torch_arm: {refused}", file=sys.stderr)
        return refused.code
    except KeyboardInterrupt:
        print("\ntorch_arm: interrupted; rows that stand are kept, the same command goes on", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
