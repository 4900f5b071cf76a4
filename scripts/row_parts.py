# SPDX-License-Identifier: Apache-2.0
"""Files of rows in parts: NAME.jsonl, or NAME.part1.jsonl, NAME.part2.jsonl, … cut between rows.

Whatever ends a cut or a join half done, no row is lost: one of the two forms is whole until the other is.
"""
import os
import re
from pathlib import Path

PART_BYTES = 1_000_000  # the most that a part holds, but for one row that is longer
PART = re.compile(r"(.+)\.part(\d+)\.jsonl")


def whole_and_number(path):
    """The file that a part is of, and the part's number from 1 on; of another file itself and 0."""
    match = PART.fullmatch(Path(path).name)
    return (Path(path).with_name(match[1] + ".jsonl"), int(match[2])) if match else (Path(path), 0)


def parts_of(whole):
    """The parts that are there, by their numbers."""
    numbered = [(number, path) for path in whole.parent.glob(f"{whole.stem}.part*.jsonl")
                for of, number in [whole_and_number(path)] if of == whole]
    return [path for _, path in sorted(numbered)]


def in_order(paths):
    """Files by name, the parts of one by their numbers, none twice."""
    return sorted({Path(path) for path in paths}, key=lambda path: (str(whole_and_number(path)[0]), whole_and_number(path)[1]))


def write(path, content):
    beside = path.with_name(path.name + ".new")
    beside.write_bytes(content)
    os.replace(beside, path)


def join(whole):
    """Puts parts together again into `whole`, so that a run goes on from it. ValueError when both are there and differ."""
    parts = parts_of(whole)
    if not parts:
        return
    content = b"".join(path.read_bytes() for path in parts)
    if not whole.exists():
        write(whole, content)
    elif not whole.read_bytes().startswith(content):
        raise ValueError(f"{whole}: expected the rows of its parts at its beginning, got others; keep one of the two")
    for path in parts:
        path.unlink()


def split(whole):
    """Cuts a file that is longer than a part; returns what there is then."""
    if not whole.exists() or whole.stat().st_size <= PART_BYTES:
        return [whole] if whole.exists() else []
    parts = [b""]
    for line in whole.read_bytes().splitlines(keepends=True):
        if parts[-1] and len(parts[-1]) + len(line) > PART_BYTES:
            parts.append(b"")
        parts[-1] += line
    paths = [whole.with_name(f"{whole.stem}.part{number}.jsonl") for number in range(1, len(parts) + 1)]
    for path, content in zip(paths, parts):
        write(path, content)
    whole.unlink()
    return paths
