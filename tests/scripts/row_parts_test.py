#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of row_parts.py: files cut between rows and put together again, whatever stopped it half done."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import row_parts  # noqa: E402


class RowPartsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.whole = Path(folder.name, "fig40.jsonl")

    def names(self):
        return sorted(path.name for path in self.whole.parent.iterdir())

    def test_cut_between_rows_and_joined_again(self):
        content = b"".join(b"%d%s\n" % (i, b"x" * 99_000) for i in range(123))
        self.whole.write_bytes(content)
        parts = row_parts.split(self.whole)
        self.assertEqual([path.name for path in parts], [f"fig40.part{i}.jsonl" for i in range(1, 14)])
        self.assertEqual(self.names(), sorted(path.name for path in parts))
        for path in parts:
            self.assertLessEqual(path.stat().st_size, row_parts.PART_BYTES)
            self.assertTrue(path.read_bytes().endswith(b"\n"))
        self.assertEqual(row_parts.parts_of(self.whole), parts)  # by number: 2 before 10
        row_parts.join(self.whole)
        self.assertEqual(self.names(), ["fig40.jsonl"])
        self.assertEqual(self.whole.read_bytes(), content)

    def test_small_or_absent_files_stay_as_they_are(self):
        self.assertEqual(row_parts.split(self.whole), [])
        self.whole.write_bytes(b"x" * row_parts.PART_BYTES)
        self.assertEqual(row_parts.split(self.whole), [self.whole])
        row_parts.join(self.whole)
        self.assertEqual(self.names(), ["fig40.jsonl"])

    def test_a_row_longer_than_a_part_stays_whole(self):
        self.whole.write_bytes(b"a\n" + b"x" * 2 * row_parts.PART_BYTES + b"\nb\n")
        self.assertEqual([path.stat().st_size for path in row_parts.split(self.whole)], [2, 2 * row_parts.PART_BYTES + 1, 2])

    def test_both_forms_after_a_stop_half_way(self):
        self.whole.write_bytes(b"a\nb\nc\n")
        Path(self.whole.parent, "fig40.part1.jsonl").write_bytes(b"a\nb\n")
        row_parts.join(self.whole)
        self.assertEqual(self.names(), ["fig40.jsonl"])
        self.assertEqual(self.whole.read_bytes(), b"a\nb\nc\n")

    def test_parts_with_other_rows_are_refused_and_kept(self):
        self.whole.write_bytes(b"a\n")
        Path(self.whole.parent, "fig40.part1.jsonl").write_bytes(b"b\n")
        with self.assertRaisesRegex(ValueError, "fig40.jsonl: expected the rows of its parts"):
            row_parts.join(self.whole)
        self.assertEqual(self.names(), ["fig40.jsonl", "fig40.part1.jsonl"])

    def test_order_of_files(self):
        paths = ["r/fig40.part10.jsonl", "r/fig40.part2.jsonl", "r/fig38.jsonl", "r/fig40.part2.jsonl"]
        self.assertEqual([path.name for path in row_parts.in_order(paths)], ["fig38.jsonl", "fig40.part2.jsonl", "fig40.part10.jsonl"])


if __name__ == "__main__":
    unittest.main()
