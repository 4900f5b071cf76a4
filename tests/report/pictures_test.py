# SPDX-License-Identifier: Apache-2.0
"""Pictures that scripts/results_page.py takes from the page: one for each figure, the same for the same rows."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

import made_up_rows as made
from page import BINARY

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/results_page.py"
sys.path.insert(0, str(SCRIPT.parent))
import results_pictures  # noqa: E402

WANTED = ("fig38", "fig71", "table44", "table44-share", "fig40", "fig72", "fig73", "skew")


class Pictures(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="moesaic_pictures_"))
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, rows):
        path = self.folder / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    def results_page(self, *args):
        return subprocess.run([sys.executable, SCRIPT, "--moesaic", BINARY, "--page", self.folder / "pages/made.md", *args],
                              capture_output=True, text=True, check=False)

    def pictures(self):
        return {path.stem: path.read_text(encoding="utf-8") for path in (self.folder / "pages/figures").glob("*.svg")}

    def test_every_figure_has_a_picture(self):
        rows = [row for row in made.everything() if "experiment" in row]
        for row in rows:
            row["timing"].setdefault("unsteady", False)
        done = self.results_page(self.write(rows))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        first = self.pictures()
        self.assertEqual(set(first), set(WANTED))
        for name, svg in first.items():
            root = xml.fromstring(svg)
            words = [text for text in (part.text for part in root.iter("{http://www.w3.org/2000/svg}text")) if text]
            self.assertTrue(any("Made-up GPU" in text for text in words), f"{name} names no device: {words}")
            marks = [part for part in root.iter("{http://www.w3.org/2000/svg}path") if (part.get("class") or "").startswith(("point", "js-line"))]
            self.assertGreater(len(marks), 0, name)
            self.assertLess(len(svg.encode()), results_pictures.MOST_BYTES)
        self.assertEqual(self.results_page("--check").returncode, 0)
        self.assertEqual(self.results_page().returncode, 0)
        self.assertEqual(self.pictures(), first)

    def test_a_figure_that_the_report_does_not_have_is_named(self):
        rows = self.write(made.sweep())
        with self.assertRaisesRegex(ValueError, "expected the figures fig40, got fig38"):
            results_pictures.draw(BINARY, [rows], self.folder, {"fig40": ("fig40", {})})


if __name__ == "__main__":
    unittest.main()
