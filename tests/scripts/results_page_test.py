#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of results_page.py in a small checkout of its own, with the built command and made-up rows of known values."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BINARY = str(Path(sys.argv.pop(1)).resolve()) if len(sys.argv) > 1 else ""
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/report"))
import made_up_rows as made  # noqa: E402
from written_page import WrittenPage  # noqa: E402

SCRIPTS = ("results_page.py", "results_pictures.py", "results_source.py", "results_tables.py", "row_parts.py")
MADE = {"fig38": made.sweep, "table44": made.table44, "fig40": made.fig40, "fig72": made.fig72, "fig73": made.fig73, "skew": made.skew}


def lines(rows, device="NVIDIA H200"):
    """Rows as the files have them: those made up, on the page's device."""
    out = []
    for row in rows:
        row["timing"].setdefault("unsteady", False)
        out.append(json.dumps(dict(row, device=dict(row["device"], name=device))) + "\n")
    return "".join(out)


class ResultsPageTest(WrittenPage, unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name, "checkout")
        for name in ("scripts", "docs/results", "bench/results"):
            (self.root / name).mkdir(parents=True)
        for name in SCRIPTS:
            shutil.copy(ROOT / "scripts" / name, self.root / "scripts")
        self.page = self.root / "docs/results/h200.md"
        # Nothing has run on it, whatever has run on the one of this tree.
        page = (ROOT / "docs/results/h200.md").read_text(encoding="utf-8")
        self.page.write_text(re.sub(r"(<!-- \w+: begin -->).*?(<!-- \w+: end -->)", r"\1\n\2", page, flags=re.DOTALL), encoding="utf-8")

    def write(self, name, text):
        path = self.root / "bench/results" / name
        path.write_text(text, encoding="utf-8")
        return path

    def script(self, *arguments):
        return subprocess.run([sys.executable, self.root / "scripts/results_page.py", "--moesaic", BINARY, *map(str, arguments)],
                              capture_output=True, text=True, check=False)

    def text(self, *files, pictures=True):
        """The page after a run; pictures that the check looks for are made up."""
        done = self.script("--no-pictures", *files)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        text = self.page.read_text(encoding="utf-8")
        (self.page.parent / "figures").mkdir(exist_ok=True)
        for name in text.split("](figures/")[1:] if pictures else ():
            (self.page.parent / "figures" / name.split(")")[0]).write_text("<svg/>")
        return text

    def between(self, text, name):
        return text.split(f"<!-- {name}: begin -->")[1].split(f"<!-- {name}: end -->")[0].strip()

    def test_tables_say_what_the_rows_say(self):
        rows = {name: lines(make()) for name, make in MADE.items()}
        rows["fig73"] = rows["fig73"].replace('"power_limit_w": 700', '"power_limit_w": 700.0')  # the same number
        text = self.text(*(self.write(f"{name}.jsonl", some) for name, some in rows.items()))
        fig38 = self.between(text, "fig38")
        self.assertIn("Rows: `bench/results/fig38.jsonl`.", fig38)
        self.assertIn("| grouped is faster than padded from | 64 rows on | between 4K and 8K rows | Section 9.6 |", fig38)
        self.assertIn("| time padded ÷ grouped, 131,072 rows | 1.250 | 1.289 | Section 9.6 |", fig38)
        self.assertIn("| 8,192 | 512 | 700 | 778 | 467 | 560 | 636 | 1.250 | 1.100 |", fig38)
        self.assertIn("(figures/fig38.svg)", fig38)
        self.assertIn("| 128 | 8 | 778 | 854 | 700 | 520 | 0.900 | 0.608 | 700 | 548 | 0.900 | 0.643 |", self.between(text, "table44"))
        fig40 = self.between(text, "fig40")
        self.assertIn("| -1.00 [-1.00, -1.00] | -0.86 [-0.90, -0.80] | Fig. 40 |", fig40)
        self.assertRegex(fig40, r"\| 0\.0 to 0\.1 \| 99\.\d % \| 100\.\d % \|")
        fig72 = self.between(text, "fig72")
        self.assertIn("| 7.0 to 7.0 points over 2 sizes | 3 to 11 points | A.9 |", fig72)
        self.assertIn("| 95.0 % (95.0 % to 95.0 %) | 88.0 % (88.0 % to 88.0 %) | 7.0 |", fig72)
        fig73 = self.between(text, "fig73")
        self.assertIn("| looks in which the power cap held the clock down | 100.0 % | 99.3 % | Fig. 73 |", fig73)
        self.assertIn("| grouped, SM clock, MHz, 32,768 rows per expert | 1,373 | 960 | A.12 |", fig73)
        self.assertIn("| time padded ÷ grouped, 8,192 rows per expert | 1.250 | about 1.06 | A.12 |", fig73)
        self.assertIn("| decode | host_loop | 6 | 1.500 | 1.500 | 1.500 |", self.between(text, "skew"))
        for name in ("fig71", "fig2"):
            self.assertEqual(self.between(text, name), "Not run yet.")
        around = self.between(text, "circumstances")
        self.assertIn("NVIDIA H200: 132 SMs, power limit 700 W, driver 0.0; 13.0", around)
        self.assertIn("| `fig73` | full | sustained | 0123456789ab | 2026-01-02 | 96 of 96 | 96 | 0 | 0 |", around)
        self.assertIn("| 20 of 60, torch 5 | 0 | 0 | 0 |", around)
        self.assertIn("Full protocol, **in part**: 20 of its 60 rows.", fig38)
        self.assertIn("\n\nFull protocol.\n\n", fig73)

    def test_what_people_wrote_stays(self):
        self.page.write_text(self.page.read_text().replace("<!-- fig38: end -->", "<!-- fig38: end -->\n\nWhat differs: much.", 1))
        text = self.text(self.write("fig38.jsonl", lines(made.sweep())))
        self.assertIn("What differs: much.", text)
        self.assertEqual(self.script("--check").returncode, 0)
        self.page.write_text(text.replace("What differs: much.", "What differs: little."))
        self.assertEqual(self.script("--check").returncode, 0)
        self.page.write_text(text.replace("| 700 |", "| 701 |", 1))
        done = self.script("--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn("not what its rows say", done.stderr)

    def test_check_knows_the_files_and_pictures_of_the_page(self):
        rows = lines(made.sweep()).splitlines(keepends=True)
        paths = [self.write(f"fig38.part{i + 1}.jsonl", "".join(rows[5 * i:5 * i + 5])) for i in range(5)]
        text = self.text(*reversed(paths))
        self.assertIn("`bench/results/fig38.part1.jsonl`, `bench/results/fig38.part2.jsonl`", text)
        self.assertEqual(self.script("--check").returncode, 0)
        (self.page.parent / "figures/fig38.svg").unlink()
        done = self.script("--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn("expected the picture of the page", done.stderr)
        self.assertEqual(self.text(), text)
        paths[1].write_text("".join(rows[5:9]))
        self.assertEqual(self.script("--check").returncode, 1)
        paths[1].unlink()
        self.refused("--check", words=("fig38.part2.jsonl", "No such file"))

    def test_files_replace_those_of_their_experiments_alone(self):
        first = self.text(self.write("old.jsonl", lines([*made.sweep(), *made.fig72()])))
        second = self.text(self.write("new.jsonl", lines(made.sweep(factor=2.0))))
        self.assertEqual(self.between(second, "fig72"), self.between(first, "fig72"))
        self.assertIn("Rows: `bench/results/new.jsonl`.", self.between(second, "fig38"))
        self.assertIn("| 8,192 | 512 | 350 |", self.between(second, "fig38"))
        self.assertEqual(self.script("--check").returncode, 0)

    def test_protocols_are_apart_and_other_widths_without_the_stated_figures(self):
        path = self.write("fig38.jsonl", lines([*made.sweep(protocol="reduced", width=256), *made.sweep()]))
        fig38 = self.between(self.text(path), "fig38")
        full, reduced = fig38.split("**Reduced protocol**")
        self.assertIn("Full protocol, **in part**: 20 of its 60 rows.", full)
        self.assertIn("1,583", full)
        self.assertIn("their widths are not the claim's", reduced)
        self.assertNotIn("1,583", reduced)
        self.assertIn("(figures/fig38-reduced.svg)", reduced)
        # Fewer trials than the claim's are reduced, too, and are products of its widths.
        path = self.write("table44.jsonl", lines({**row, "experiment": {**row["experiment"], "protocol": "reduced"}} for row in made.table44(trials=1)))
        table44 = self.between(self.text(path), "table44")
        self.assertIn("**Reduced protocol**", table44)
        self.assertIn("| 128 | 1 |", table44)
        self.assertIn("0.608", table44)
        self.refused("--no-pictures", self.write("two.jsonl", lines([*made.sweep(protocol="reduced", width=256), *made.sweep(protocol="reduced")])),
                     words=("fig38", "one design under protocol reduced", "256, 4096"))

    def test_another_page_for_another_device(self):
        path = self.write("fig38.jsonl", lines(made.sweep(), "A CPU"))
        self.refused(path, words=("expected rows of NVIDIA H200", "A CPU", "--page"))
        other = self.root.parent / "other/cpu.md"
        done = self.script("--no-pictures", "--page", other, path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        text = other.read_text()
        self.assertTrue(text.startswith("# The experiments on A CPU\n"))
        self.assertIn("`../checkout/bench/results/fig38.jsonl`", text)
        self.assertEqual(self.between(text, "fig40"), "Not run yet.")
        both = self.write("both.jsonl", lines(made.sweep(), "A CPU") + lines(made.sweep()))
        self.assertIn("rows of one device, got A CPU, NVIDIA H200", self.script("--page", other, both).stderr)

    def test_refusals(self):
        good = lines(made.sweep())
        self.refused(self.root / "absent.jsonl", words=("absent.jsonl", "No such file"))
        self.refused(self.write("empty.jsonl", ""), words=("at least one row",))
        self.refused(self.write("torn.jsonl", good[:-50]), words=("torn.jsonl line 25", "JSON"))
        self.refused(self.write("bench.jsonl", lines(made.bench())), words=("bench.jsonl line 1", "moesaic experiment"))
        outside = self.root.parent / "fig38.jsonl"
        outside.write_text(good)
        self.refused(outside, words=("fig38.jsonl", "of this checkout", "bench/results/"))
        self.page.write_text(self.page.read_text().replace("<!-- fig38: end -->", ""))
        self.refused("--no-pictures", self.write("fig38.jsonl", good), words=("h200.md", "fig38: end"))
        self.refused("--no-pictures", "--page", self.root / "docs", words=("--page: expected", "Is a directory"))
        self.page.unlink()
        done = self.script("--check")
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected the page", done.stderr)

    def test_before_a_build(self):
        self.text(self.write("fig38.jsonl", lines(made.sweep())))
        self.refused("--check", "--moesaic", "/none/moesaic", words=("--moesaic: expected", "make build makes it", "/none/moesaic"))


if __name__ == "__main__":
    unittest.main()
