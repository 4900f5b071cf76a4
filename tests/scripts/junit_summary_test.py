#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of junit_summary.py on reports as ctest writes them, and on run_tests.sh with real ctest."""

import io
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
import junit_summary  # noqa: E402

PASSED = '<testcase name="good" status="run"><system-out>fine</system-out></testcase>'
FAILED = ('<testcase name="bad" status="fail"><failure message="Failed"/>'
          "<system-out>first line\nlast &lt;line&gt;</system-out></testcase>")
SKIPPED = ('<testcase name="gpu" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'
           "<system-out>x_test.cpp:3: Skipped\nno device\n[  SKIPPED ] gpu</system-out></testcase>")
NOT_BUILT = ('<testcase name="gone" status="notrun"><skipped message="Unable to find executable"/>'
             "<system-out/></testcase>")


def summarize(*cases, ctest_status=0):
    """(exit code, lines) of the summary of a report with these cases."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        report.write_text(f"<testsuite>{''.join(cases)}</testsuite>", encoding="utf-8")
        out = io.StringIO()
        code = junit_summary.summarize(junit_summary.read_report(report), ctest_status, out)
    return code, out.getvalue().splitlines()


class JunitSummaryTest(unittest.TestCase):
    def test_all_passed(self):
        self.assertEqual(summarize(PASSED, PASSED), (0, ["2 passed, 0 failed"]))

    def test_a_failure_is_shown_in_full(self):
        code, lines = summarize(PASSED, FAILED, ctest_status=8)
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed"))
        self.assertIn("first line", lines)
        self.assertIn("last <line>", lines)

    def test_a_skip_is_counted_with_its_reason(self):
        code, lines = summarize(PASSED, SKIPPED)
        self.assertEqual((code, lines[-1]), (0, "1 passed, 0 failed, 1 skipped"))
        self.assertEqual(lines[0], "skipped: gpu: no device")

    def test_a_skip_says_what_the_program_said(self):
        words = "SKIPPED: No module named 'torch' (scripts/setup.sh --torch adds it)"
        case = ('<testcase name="python: torch_test" status="notrun">'
                f'<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>{words}\n</system-out></testcase>')
        self.assertEqual(summarize(PASSED, case)[1][0],
                         "skipped: python: torch_test: " + words.removeprefix("SKIPPED: "))

    def test_a_test_without_its_program_failed(self):
        code, lines = summarize(PASSED, NOT_BUILT)
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed"))

    def test_no_test_is_no_success(self):
        self.assertEqual(summarize()[0], 1)
        self.assertEqual(summarize()[1][-1], "0 passed, 0 failed")
        self.assertEqual(summarize(SKIPPED)[0], 1)

    def test_trouble_in_ctest_is_no_success(self):
        self.assertEqual(summarize(PASSED, ctest_status=3)[0], 1)

    def test_a_missing_or_broken_report_is_no_success(self):
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            for text in (None, "<testsuite>"):
                if text is not None:
                    report.write_text(text, encoding="utf-8")
                done = subprocess.run([sys.executable, SCRIPTS / "junit_summary.py", report],
                                      capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertEqual(done.stdout.splitlines()[-1], "0 passed, 0 failed")


@unittest.skipUnless(shutil.which("ctest"), "no ctest on PATH")
class RunTestsTest(unittest.TestCase):
    def run_tests(self, *tests):
        """(exit code, lines) of run_tests.sh in a folder whose tests are these ctest commands."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "CTestTestfile.cmake").write_text("\n".join(tests), encoding="utf-8")
            done = subprocess.run([SCRIPTS / "run_tests.sh", folder], capture_output=True, text=True,
                                  check=False)
            return done.returncode, done.stdout.splitlines()

    def test_what_ctest_writes_is_understood(self):
        good = 'add_test(good "/bin/sh" "-c" "echo fine")'
        bad = 'add_test(bad "/bin/sh" "-c" "seq 1 9000; exit 3")'
        gone = 'add_test(gone "/no/such/program")'
        skip = ('add_test(skip "/bin/sh" "-c" "exit 77")\n'
                'set_tests_properties(skip PROPERTIES SKIP_RETURN_CODE 77)')
        code, lines = self.run_tests(good, skip)
        self.assertEqual((code, lines[-1]), (0, "1 passed, 0 failed, 1 skipped"))
        code, lines = self.run_tests(good, bad, gone, skip)
        self.assertEqual((code, lines[-1]), (1, "1 passed, 2 failed, 1 skipped"))
        self.assertIn("1", lines)
        self.assertIn("9000", lines)

    def test_no_test_is_no_success(self):
        code, lines = self.run_tests()
        self.assertEqual((code, lines[-1]), (1, "0 passed, 0 failed"))


if __name__ == "__main__":
    unittest.main()
