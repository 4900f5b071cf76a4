#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_commits.py: its rule, and a real repository with one bad subject."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import check_commits  # noqa: E402

IDENTITY = {f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")}


class CheckCommitsTest(unittest.TestCase):
    def test_good_subjects(self):
        for subject in ("math: add ceil_div", "backends/cuda: fence", "cli: " + "x" * 67):
            self.assertIsNone(check_commits.problem_of(subject), subject)

    def test_bad_subjects(self):
        for subject in ("Add ceil_div", "Math: add", "math:add", "math: ", "", "cli: " + "x" * 68):
            self.assertIsNotNone(check_commits.problem_of(subject), subject)

    def test_a_repository(self):
        with tempfile.TemporaryDirectory() as folder:
            def git(*arguments):
                subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True,
                               env={**os.environ, **IDENTITY})
            git("init", "-q")
            for subject in ("bad subject", "math: good"):
                git("commit", "-q", "--no-verify", "--allow-empty", "-m", subject)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                self.assertEqual(check_commits.main(["--root", folder, "--count", "1"]), 0)
                self.assertEqual(check_commits.main(["--root", folder]), 1)
            self.assertIn("bad subject", out.getvalue())
            self.assertNotIn("math: good", out.getvalue())


if __name__ == "__main__":
    unittest.main()
