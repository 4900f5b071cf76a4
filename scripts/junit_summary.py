#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the JUnit file that ctest wrote, prints failures in full and closes with one line of counts.

Exits 1 when a test failed, when none ran, or when ctest itself reported trouble.
"""

import argparse
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple


class Case(NamedTuple):
    name: str
    outcome: str  # passed, failed or skipped
    reason: str
    output: str


def read_case(element):
    """One <testcase>. ctest calls a test whose program is missing «notrun» too: that is a failure."""
    name = element.get("name", "(no name)")
    output = element.findtext("system-out") or ""
    failure, skipped = element.find("failure"), element.find("skipped")
    if failure is not None:
        return Case(name, "failed", failure.get("message") or "failed", output)
    if skipped is not None or element.get("status") in ("notrun", "disabled"):
        reason = (skipped.get("message") if skipped is not None else None) or "not run"
        wanted = reason.startswith("SKIP_") or element.get("status") == "disabled"
        return Case(name, "skipped" if wanted else "failed", reason, output)
    passed = element.get("status") == "run"
    return Case(name, "passed" if passed else "failed", element.get("status") or "no status", output)


def read_report(path):
    return [read_case(element) for element in ElementTree.parse(path).iter("testcase")]


def summarize(cases, ctest_status, out):
    """Prints the summary; returns the exit code."""
    by_outcome = {key: [c for c in cases if c.outcome == key] for key in ("passed", "failed", "skipped")}
    passed, failed, skipped = (by_outcome[key] for key in ("passed", "failed", "skipped"))
    for case in skipped:
        last_words = [line for line in case.output.splitlines() if line.strip()]
        said = next((line for line in last_words if line.startswith("SKIPPED:")), None)
        is_gtest = any("[  SKIPPED ]" in line for line in last_words)
        why = next((b for a, b in zip(last_words, last_words[1:]) if ": Skipped" in a), case.reason)
        reason = said.removeprefix("SKIPPED:") if said else why if is_gtest else case.reason
        print(f"skipped: {case.name}: {reason.strip()}", file=out)
    for case in failed:
        print(f"\n===== FAILED: {case.name} ({case.reason})\n{case.output.rstrip()}", file=out)
    if failed:
        print("\nFailed tests:", file=out)
        for case in failed:
            print(f"  {case.name}", file=out)
    none_ran = not passed and not failed
    if none_ran:
        print("junit_summary: no test ran", file=out)
    elif ctest_status and not failed:
        print(f"junit_summary: ctest exited {ctest_status} though no test failed", file=out)
    tail = f", {len(skipped)} skipped" if skipped else ""
    print(f"{len(passed)} passed, {len(failed)} failed{tail}", file=out)
    return 1 if failed or none_ran or ctest_status else 0


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ctest-status", type=int, default=0, help="exit code of ctest")
    parser.add_argument("report", type=Path, help="the file that ctest --output-junit wrote")
    options = parser.parse_args(argv)
    try:
        cases = read_report(options.report)
    except (OSError, ElementTree.ParseError) as error:
        print(f"junit_summary: cannot read {options.report}: {error}")
        cases = []
    return summarize(cases, options.ctest_status, sys.stdout)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
