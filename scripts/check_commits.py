#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the subjects of the last commits: `scope: sentence`, at most 72 characters."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

MAX_LENGTH = 72
SUBJECT = re.compile(r"[a-z0-9_][a-z0-9_./,-]*: \S")


def problem_of(subject):
    """What is wrong with the subject line, or None."""
    if len(subject) > MAX_LENGTH:
        return f"expected at most {MAX_LENGTH} characters, got {len(subject)}"
    if not SUBJECT.match(subject):
        return "expected `scope: sentence` with a lower-case scope"
    return None


def read_subjects(root, count):
    """(short id, subject) of the last commits, merges left out; empty outside a git repository."""
    command = ["git", "-C", str(root), "log", f"-{count}", "--no-merges", "--format=%h%x09%s"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"check_commits: nothing to check: {done.stderr.strip()}", file=sys.stderr)
        return []
    return [tuple(line.split("\t", 1)) for line in done.stdout.splitlines()]


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--count", type=int, default=50, help="how many commits (default 50)")
    options = parser.parse_args(argv)
    failures = 0
    for commit, subject in read_subjects(options.root, options.count):
        problem = problem_of(subject)
        if problem:
            failures += 1
            print(f"{commit}: {problem}: {subject}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
