#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Joins a profiler's counters to result rows: HBM bytes, L2 hit rate and use of the tensor pipe.

    scripts/profile_rows.py rows.jsonl -- moesaic bench uniform --rows 4096 --experts 16 --shape d=4096,h=4096 --profile

runs the command under ncu, which executes every case once in a named range, and writes the counters into the
member `profile` of the rows of the same device, problem and offsets. The file is replaced when all is known.
With --csv and --ranges nothing runs: they are ncu's log and the command's output of an earlier run.
"""
import argparse
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BYTES = ("dram__bytes_read.sum", "dram__bytes_write.sum")
HITS, MISSES = "lts__t_sectors_lookup_hit.sum", "lts__t_sectors_lookup_miss.sum"
DURATION = "gpu__time_duration.sum"
TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
METRICS = (*BYTES, HITS, MISSES, DURATION, TENSOR)
SCALES = {"": 1, "sector": 1, "%": 1, "byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12,
          "nsecond": 1e-9, "ns": 1e-9, "usecond": 1e-6, "us": 1e-6, "msecond": 1e-3, "ms": 1e-3, "second": 1, "s": 1}
RANGE = re.compile(r"moesaic case \d+")
BAD_INPUT, NO_DEVICE = 2, 3


class Refused(Exception):
    """A message for the user, and the exit code that goes with it."""

    def __init__(self, message, code=BAD_INPUT):
        super().__init__(message)
        self.code = code


def read_kernels(lines, name):
    """(range, metrics) of every kernel in ncu's raw page as CSV; a metric that is not there is left out."""
    table = [row for row in csv.reader(line for line in lines if not line.startswith("==")) if row]
    heads = [i for i, row in enumerate(table) if row[0] == "ID"]
    if not heads or len(table) < heads[0] + 2:
        denied = next((line.strip() for line in lines if "ERR_" in line), "")
        raise Refused(f"{name}: expected ncu's raw page as CSV, got " + (denied or "no line that begins with \"ID\""))
    head, units = table[heads[0]], table[heads[0] + 1]
    kernels = []
    for row in table[heads[0] + 2:]:
        found = next((match.group() for cell in row if (match := RANGE.search(cell))), None)
        if found is None:
            continue
        metrics = {}
        for metric, unit, cell in zip(head, units, row):
            if metric not in METRICS or not cell or cell.lower() in ("n/a", "nan"):
                continue
            if unit not in SCALES:
                raise Refused(f"{name}: {metric}: expected one of the units {', '.join(filter(None, SCALES))}, got {unit!r}")
            metrics[metric] = float(cell.replace(",", "")) * SCALES[unit]
        kernels.append((found, metrics))
    if not kernels:
        raise Refused(f"{name}: expected kernels in ranges named \"moesaic case N\", got none (ncu --nvtx)")
    return kernels


def total(kernels, names):
    """The sum over kernels; None where one of them lacks a metric."""
    values = [kernel.get(name) for kernel in kernels for name in names]
    return None if None in values else sum(values)


def profile_of(kernels):
    """The member `profile` of one range: sums over its kernels, shares weighted by what they are shares of."""
    hits, misses, seconds = total(kernels, (HITS,)), total(kernels, (MISSES,)), total(kernels, (DURATION,))
    busy = None
    if seconds and all(TENSOR in kernel for kernel in kernels):
        busy = sum(kernel[TENSOR] / 100 * kernel[DURATION] for kernel in kernels) / seconds
    lookups = None if hits is None or misses is None else hits + misses
    return {"hbm_bytes": total(kernels, BYTES), "l2_hit_rate": hits / lookups if lookups else None,
            "tensor_pipe_utilization": busy, "kernels": len(kernels)}


def key_of(device, problem, offs):
    """What a row and a range have in common. A batch that was filled beforehand is another product."""
    return json.dumps([device, {name: value for name, value in problem.items() if (name, value) != ("batch", "copied")}, offs], sort_keys=True)


def read_ranges(lines, name):
    """key -> range, of the lines of `moesaic bench --profile`."""
    ranges = {}
    for number, line in enumerate(lines, 1):
        if not line.startswith("{"):
            continue  # a word of the profiler
        row = json.loads(line)
        if row.get("schema") != "moesaic.profile_range/1":
            raise Refused(f"{name} line {number}: expected schema moesaic.profile_range/1, got {row.get('schema')!r}")
        ranges[key_of(row["device"], row["problem"], row["offs"])] = row["range"]
    if not ranges:
        raise Refused(f"{name}: expected lines of moesaic bench --profile, got none")
    return ranges


def join(rows, ranges, kernels):
    """Rows with their profile, and how many got one. `rows` are lines; what is no whole row stays as it is."""
    by_range = {}
    for found, metrics in kernels:
        by_range.setdefault(found, []).append(metrics)
    lines, joined = [], 0
    for line in rows:
        try:
            row = json.loads(line)
            key = key_of(row["device"]["name"], row["problem"], row["routing"]["offs"])
        except (ValueError, KeyError, TypeError):
            lines.append(line)
            continue
        counters = by_range.get(ranges.get(key))
        if counters is not None:
            row["profile"] = profile_of(counters)
            line = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
            joined += 1
        lines.append(line)
    return lines, joined


def run_ncu(ncu, command, folder):
    """Runs the command under ncu; its output's lines and the log's."""
    if shutil.which(ncu) is None:
        raise Refused(f"--ncu: expected ncu (Nsight Compute) to be found, got {ncu!r}", NO_DEVICE)
    log = Path(folder, "ncu.csv")
    done = subprocess.run([ncu, "--nvtx", "--nvtx-include", "regex:moesaic case .*/", "--csv", "--page", "raw", "--print-units", "base",
                           "--metrics", ",".join(METRICS), "--log-file", str(log), *command], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        reason = next((line.strip() for line in log.read_text().splitlines() if "ERR" in line), "") if log.exists() else ""
        raise Refused(f"{' '.join(command[:2])}: expected to end with 0 under ncu, got {done.returncode} {reason}".rstrip(), done.returncode)
    return done.stdout.splitlines(), log.read_text(encoding="utf-8").splitlines()


def replace(path, lines):
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    shutil.copymode(path, name)
    os.replace(name, path)


def read_lines(flag, path):
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise Refused(f"{flag}: expected a file that can be read, got {path}: {error.strerror}") from None


def main(argv=None):
    words = list(sys.argv[1:] if argv is None else argv)
    at = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], usage="%(prog)s ROWS [FLAGS] [-- moesaic bench ... --profile]")
    parser.add_argument("rows", help="file of rows, schema moesaic.bench/1")
    parser.add_argument("--ncu", default="ncu", help="the profiler (ncu)")
    parser.add_argument("--csv", help="ncu's log of an earlier run")
    parser.add_argument("--ranges", help="what the command printed in that run")
    args, command = parser.parse_args(words[:at]), words[at + 1:]
    try:
        rows = read_lines("ROWS", args.rows)
        if bool(args.csv) != bool(args.ranges) or bool(command) == bool(args.csv):
            raise Refused("expected a command behind --, or both --csv and --ranges")
        if command:
            if "--profile" not in command:
                raise Refused("command: expected moesaic bench with --profile, got it without")
            with tempfile.TemporaryDirectory() as folder:
                listed, log = run_ncu(args.ncu, command, folder)
        else:
            listed, log = read_lines("--ranges", args.ranges), read_lines("--csv", args.csv)
        lines, joined = join(rows, read_ranges(listed, args.ranges or "the command"), read_kernels(log, args.csv or "ncu"))
        if not joined:
            raise Refused(f"{args.rows}: expected rows of the profiled cases (device, problem, offsets), got none")
        replace(Path(args.rows), lines)
        print(f"profile_rows: {joined} of {len(rows)} rows have counters now", file=sys.stderr)
        return 0
    except Refused as refused:
        print(f"profile_rows: {refused}", file=sys.stderr)
        return refused.code


if __name__ == "__main__":
    sys.exit(main())
