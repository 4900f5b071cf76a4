#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of performance_tables.py in a small checkout of its own."""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from written_page import WrittenPage

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "performance_tables.py"
ROW = {"schema": "moesaic.compare/1", "case": "fwd 4096 M=64 vs torch", "us": 131.0, "tflops": 16.3, "ratio": 1.42,
       "git": {"sha": "0123456789abcdef", "dirty": False}, "toolchain": {"cuda": "13.0", "torch": "2.11"},
       "device": {"name": "GPU", "sms": 132, "power_limit_w": 700, "driver": "580"}, "date": "2026-11-30", "method": "none"}


class PerformanceTablesTest(WrittenPage, unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name, "checkout")
        for name in ("scripts", "docs/guide", "bench/results"):
            (self.root / name).mkdir(parents=True)
        shutil.copy(SCRIPT, self.root / "scripts")
        self.page, self.readme = self.root / "docs/guide/performance.md", self.root / "README.md"
        for page in (self.page, self.readme):
            page.write_text("Top\n<!-- tables: begin -->\n<!-- tables: end -->\nEnd\n", encoding="utf-8")

    def rows(self, text, name="bench/results/rows.jsonl"):
        path = self.root / name
        path.write_text(text, encoding="utf-8")
        return path

    def script(self, *arguments):
        return subprocess.run([sys.executable, self.root / "scripts" / SCRIPT.name, *map(str, arguments)],
                              capture_output=True, text=True, check=False)

    def test_says_that_it_rewrote_the_page(self):
        rows = self.rows(json.dumps(ROW) + "\n")
        done = self.script(rows)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("performance.md: tables rewritten, from bench/results/rows.jsonl", done.stdout)
        page = self.page.read_text(encoding="utf-8")
        self.assertTrue(page.startswith("Top\n") and page.endswith("End\n"))
        self.assertIn("| 64 | 131 | 16.3 |", page)
        readme = self.readme.read_text(encoding="utf-8")
        self.assertIn("One GPU, driver 580, CUDA 13.0, PyTorch 2.11, commit 0123456789ab, 2026-11-30:", readme)
        self.assertIn("| 64 | 131 | 16.3 | 1.42 | – |", readme)
        self.assertIn("as before", self.script(rows).stdout)
        self.assertEqual(self.script("--check").returncode, 0)
        self.readme.write_text(readme.replace("131", "113"), encoding="utf-8")
        done = self.script("--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn("README.md: not what", done.stderr)

    def test_names_all_commits_of_a_recording_in_parts(self):
        later = dict(ROW, case="fwd 4096 M=256 vs torch", git={"sha": "fedcba987654", "dirty": True})
        self.assertEqual(self.script(self.rows(json.dumps(ROW) + "\n" + json.dumps(later) + "\n")).returncode, 0)
        page = self.page.read_text(encoding="utf-8")
        self.assertIn("commits 0123456789ab, fedcba987654 with changes (a row names its own)", page)

    def test_files_that_cannot_be_read(self):
        self.refused(self.root / "absent.jsonl", words=("absent.jsonl", "No such file"))
        self.refused(self.rows("not json\n"), words=("rows.jsonl line 1", "JSON"))
        self.refused(self.rows("\n"), words=("at least one row",))

    def test_rows_of_another_schema(self):
        self.refused(self.rows('{"schema": "moesaic.bench/1"}\n'), words=("moesaic.compare/1", "moesaic bench", "docs/guide/cli.md"))
        self.refused(self.rows("[1]\n"), words=("line 1", "moesaic.compare/1"))

    def test_a_page_without_markers(self):
        rows = self.rows(json.dumps(ROW) + "\n")
        self.readme.write_text("Top\n<!-- tables: begin -->\n", encoding="utf-8")
        self.refused(rows, words=("README.md: expected a page with the markers", "got one without <!-- tables: end -->"))
        self.readme.unlink()
        self.refused(rows, words=("README.md: expected a page with the markers", "got No such file"))

    def test_a_file_outside_the_checkout(self):
        self.refused(self.rows(json.dumps(ROW), "../rows.jsonl"), words=("checkout", "bench/results/"))

    def test_a_row_without_its_fields(self):
        short = {key: value for key, value in ROW.items() if key != "us"}
        self.refused(self.rows(json.dumps(short)), words=("'us' is missing",))


if __name__ == "__main__":
    unittest.main()
