#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times moesaic beside PyTorch, padding, dense products and a loop, in one run: the rows of docs/guide/performance.md.

    scripts/compare_torch.py --output rows.jsonl                              # all but real routing
    scripts/compare_torch.py --output rows.jsonl --groups real --routing FILE --shape d=2880,h=2880 --label NAME
    scripts/compare_torch.py --dry-run                                        # the cases and about how long they take
    scripts/compare_torch.py --device cpu --tiny --output rows.jsonl          # all of it, small: its times say nothing

Rows (schema moesaic.compare/1) are appended case by case; those that are there are not run again. Every arm of a case
is checked before any is timed: where one is wrong the case has no row, and the exit code is 1. Exit codes are those of
docs/guide/cli.md; without PyTorch, moesaic's library or the GPU: 3. scripts/performance_tables.py makes the page.
"""
import argparse
import fnmatch
import json
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

import compare_cases  # noqa: E402
import compare_routing  # noqa: E402
from ep_torch_arm import parse_git  # noqa: E402
from performance_tables import SCHEMA  # noqa: E402
from torch_arm import BAD_INPUT, CHECK_FAILED, NO_DEVICE, Refused, git_state, open_device, quantile  # noqa: E402

INCOMPLETE, INTERRUPTED = 4, 130
# Of two rows in one file these are equal: a page names one of each.
CIRCUMSTANCES = ("git", "device", "toolchain", "method", "seed")


class Recorded(NamedTuple):
    """What a file of rows has."""
    rows: dict  # by name
    size: int   # bytes of whole rows; what is behind them was cut off


def tell(text):
    print(f"compare_torch: {text}", file=sys.stderr)


def parse_groups(text):
    words = text.split(",")
    for word in words:
        if word not in compare_cases.GROUPS:
            raise Refused(f"--groups: expected some of {', '.join(compare_cases.GROUPS)}, got {word!r}")
    return words


def parse_seconds(text):
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise Refused(f"--seconds: expected a number above 0, got {text!r}")
    return value


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="file that rows are appended to; needed unless --dry-run")
    parser.add_argument("--groups", type=parse_groups, metavar="NAME,...",
                        help=f"of {','.join(compare_cases.GROUPS)} (all; real with --routing)")
    parser.add_argument("--cases", metavar="PATTERN", default="*", help="only rows of such names: 'fwd 4096 *', '*vs torch' (all)")
    parser.add_argument("--dry-run", action="store_true", help="lists the cases and the time they take; needs neither PyTorch nor a GPU")
    parser.add_argument("--seconds", type=parse_seconds, help="stops before a case that would not end in this time")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cuda (default) or cpu")
    parser.add_argument("--tiny", action="store_true", help="small sizes, for a CPU: their times say nothing")
    parser.add_argument("--seed", type=int, default=1, help="seed of operands and of the order of arms (1)")
    parser.add_argument("--git", type=parse_git, help="commit that the rows name, COMMIT or COMMIT,dirty (that of this checkout)")
    parser.add_argument("--strict", action="store_true", help="exit code 4 when cases are left or ran throttled")
    compare_routing.add_flags(parser)
    args = parser.parse_args(argv)
    if args.output is None and not args.dry_run:
        raise Refused("--output: expected a file that rows are appended to, or --dry-run, got none")
    if args.dry_run and args.seconds:
        raise Refused("--seconds: expected a run, which it limits, got --dry-run, which lists all that is left")
    if args.output and not args.output.parent.is_dir():
        raise Refused(f"--output: expected a file in a folder that is there, got {args.output}")
    compare_routing.refuse_flags_without_files(args)
    if args.groups and ("real" in args.groups) != bool(args.routing):
        raise Refused("--groups: expected real and --routing together, got one of them")
    return args


def sizes_of(args):
    return compare_cases.TINY if args.tiny else compare_cases.FULL


def chosen(args):
    """The cases of the flags; of each only the rows that the pattern takes."""
    real = compare_routing.read_cases(args) if args.routing else []
    cases = compare_cases.all_cases(sizes_of(args), real)
    cases = [case for case in cases if args.groups is None or case.group in args.groups]
    names = [row.name for case in cases for row in case.rows]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise Refused(f"--label: expected labels that tell the records apart, got two cases {twice!r}")
    cases = [case._replace(rows=tuple(row for row in case.rows if fnmatch.fnmatchcase(row.name, args.cases))) for case in cases]
    cases = [case for case in cases if case.rows]
    if not cases:
        raise Refused(f"--cases: expected a pattern of names such as {names[0]!r}, got {args.cases!r}, which none of {len(names)} has")
    return cases


def read_rows(path):
    """What the file has, which stays as it is."""
    if path is None or not path.exists():
        return Recorded({}, 0)
    data, rows = path.read_bytes(), {}
    text, size = data.decode(), len(data)
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            same_schema = isinstance(row, dict) and row.get("schema") == SCHEMA
        except ValueError:
            row, same_schema = None, False
            if number == len(lines) and not text.endswith("\n") and line.startswith(json.dumps({"schema": SCHEMA})[:-1]):
                tell(f"warning: {path} line {number}: a row that was cut off is run again")
                size -= len(line.encode())
                break
        if not same_schema or "case" not in row:
            raise Refused(f"--output: expected a new file or rows of schema {SCHEMA}, got {path} line {number}: {line[:40]!r}")
        rows[row["case"]] = row
    return Recorded(rows, size)


def open_to_append(path, size):
    """The file behind its first `size` bytes, which are whole rows; the last may lack its end of line."""
    file = path.open("a+b")
    file.truncate(size)
    if size:
        file.seek(size - 1)
        if file.read(1) != b"\n":
            file.write(b"\n")
    return file


def left_to_do(cases, there):
    """Cases without the rows that are there. One of the same name must have measured the same."""
    left = []
    for case in cases:
        for row in case.rows:
            if row.name in there and there[row.name].get("problem") != case.problem:
                raise Refused(f"--output: expected {row.name!r} to be the measurement of these flags, got a row of another one in the file "
                              "(name another file, or another --label)")
        rows = tuple(row for row in case.rows if row.name not in there)
        if rows:
            left.append(case._replace(rows=rows))
    return left


def refuse_other_circumstances(there, now):
    for name, row in there.items():
        for what in CIRCUMSTANCES:
            if row.get(what) != now[what]:
                raise Refused(f"--output: expected rows of {what} {now[what]}, got {name!r} of {row.get(what)} (name another file)")


def dry_run(cases, there, left):
    about = {case.rows[0].name: f"{compare_cases.expected_seconds(case):6.1f} s" for case in left}
    rows = [(case.group, row.name) for case in cases for row in case.rows]
    total = sum(map(compare_cases.expected_seconds, left))
    tell(f"{len(rows)} rows of {len(cases)} measurements, {sum(name in there for _, name in rows)} are there; the others take about "
         f"{total / 60:.1f} min on one NVIDIA H200, by estimates")
    for group, name in rows:
        print(f"{group:<9} {'there' if name in there else about.get(name, ''):>8}  {name}")


def check_arms(bench, case):
    """Checks by arm; None, and a line on stderr, when an arm is wrong."""
    checks = {arm: bench.check(arm) for arm in case.arms}
    wrong = {arm: check for arm, check in checks.items() if check["mismatches"] or not check["elements"]}
    for arm, check in wrong.items():
        tell(f"{case.rows[0].name}: arm {arm}: {check['mismatches']} of {check['elements']} elements wrong, worst "
             f"{check['worst_element']:.3g} of its bound; not timed")
    return None if wrong else checks


def check_of(reference, checks, row):
    """The member "check" of a row of checks that passed."""
    return {"reference": reference, "passed": True, "elements": sum(check["elements"] for check in checks.values()), "mismatches": 0,
            "worst_element": max(checks[arm]["worst_element"] for arm in row.arms if arm in compare_cases.OURS)}


def timing_of(case, times, row):
    timing = {"regime": "sustained" if case.regions else "short_burst", "gated": times["gated"]}
    for arm in row.arms:
        own = dict(times["arms"][arm])
        samples = own.pop("samples_s")
        timing[arm] = {"samples": len(samples), "mean_s": fmean(samples), "median_s": median(samples), "p05_s": quantile(samples, 0.05),
                       "p95_s": quantile(samples, 0.95), "min_s": min(samples), **own, "samples_s": [round(second, 10) for second in samples]}
    return timing


def figures_of(case, row, samples):
    """Medians over rounds; arms of sustained work, which have no rounds in common, each by its own median."""
    if case.regions:
        rounds = [{arm: median(seconds) for arm, seconds in samples.items()}]
    else:
        rounds = [dict(zip(samples, seconds)) for seconds in zip(*samples.values())]
    return {name: float(f"{median(map(figure, rounds)):.6g}") for name, figure in {"ratio": row.ratio, **row.fields}.items()}


def make_rows(case, times, reference, checks, circumstances):
    samples = {arm: times["arms"][arm]["samples_s"] for arm in case.arms}
    date = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    for row in case.rows:
        figures = figures_of(case, row, samples)
        yield {"schema": SCHEMA, "date": date, **circumstances, "command": " ".join(sys.argv), "case": row.name, **figures,
               "check": check_of(reference, checks, row), "problem": case.problem, "routing": case.source or None, "clocks": times["clocks"],
               "timing": timing_of(case, times, row)}


def throttled(times):
    return bool(times["clocks"]) and times["clocks"]["throttled"]


def run(left, there, bench, args, now=time.monotonic):
    """Checks and times cases and appends their rows; returns how many were wrong, are left and ran throttled."""
    circumstances = {"git": args.git or git_state(), "seed": args.seed, **bench.circumstances}
    refuse_other_circumstances(there.rows, circumstances)
    wrong, slowed, start, expected = 0, 0, now(), 0.0
    with open_to_append(args.output, there.size) as file:
        for place, case in enumerate(left):
            spent = now() - start
            pace = spent / expected if expected else 1.0
            if args.seconds and spent + pace * compare_cases.expected_seconds(case) > args.seconds:
                tell(f"--seconds: {len(left) - place} measurements are left, from {case.rows[0].name!r} on; the same command goes on")
                return wrong, len(left) - place, slowed
            expected += compare_cases.expected_seconds(case)
            bench.prepare(case)
            checks = check_arms(bench, case)
            if checks is None:
                wrong += 1
                continue
            times = bench.time(case)
            slowed += throttled(times)
            rows = list(make_rows(case, times, bench.reference, checks, circumstances))
            file.write("".join(json.dumps(row) + "\n" for row in rows).encode())
            file.flush()
            for row in rows:
                print(f"{row['ratio']:7.2f}  {row['case']}{'  throttled' if throttled(times) else ''}", flush=True)
    return wrong, 0, slowed


def open_bench(args):
    device = open_device(args.device)
    sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "python"))
    import moesaic
    try:
        moesaic.version()
        import compare_bench
    except (moesaic.Error, ImportError) as error:
        raise Refused(f"moesaic: expected a package and a library that can be loaded, got: {error}", NO_DEVICE) from None
    return compare_bench.Bench(device, args.seed, compare_cases.method(sizes_of(args)))


def main(argv=None):
    try:
        args = parse(argv)
        cases = chosen(args)
        there = read_rows(args.output)
        left = left_to_do(cases, there.rows)
        if args.dry_run:
            dry_run(cases, there.rows, left)
            return 0
        if not left:
            tell(f"all rows are there, in {args.output}")
            return 0
        wrong, missing, slowed = run(left, there, open_bench(args), args)
        if wrong:
            return CHECK_FAILED
        return INCOMPLETE if args.strict and (missing or slowed) else 0
    except Refused as refused:
        tell(refused)
        return refused.code
    except OSError as error:
        tell(f"{error.filename}: expected a file that can be opened, got: {error.strerror}")
        return BAD_INPUT
    except ValueError as error:  # what moesaic refuses
        tell(error)
        return BAD_INPUT
    except RuntimeError as error:  # of PyTorch or of moesaic: out of memory, a device that fails
        tell(f"{str(error).splitlines()[0]}; rows that stand are kept")
        return NO_DEVICE
    except KeyboardInterrupt:
        tell("interrupted; rows that stand are kept, the same command goes on")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
