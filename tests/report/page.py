# SPDX-License-Identifier: Apache-2.0
"""Makes a page with the built command, opens it from disk in headless Chromium, collects what must not happen."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

DRAWN_MS = 20_000  # a loaded machine draws in tens of milliseconds; only a figure without marks waits so long

BINARY = str(pathlib.Path(sys.argv.pop(1)).resolve()) if len(sys.argv) > 1 else ""


def skip(why):
    print(f"SKIPPED: {why} (scripts/setup.sh --browser brings it, before the build is configured)")
    sys.exit(0)


try:
    from playwright.sync_api import TimeoutError as PlaywrightTimeout, sync_playwright
except ImportError:
    skip("no playwright in this Python")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if CHROMIUM is None:
    skip("no Chromium on the path")


if "got none at" in subprocess.run([BINARY, "report", "counts:1", "-o", "-"], capture_output=True, text=True, check=False).stderr:
    skip("no plotly.min.js where the build looked for it")


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


class PageTest(unittest.TestCase):
    """One browser for a class; every test closes with a look at what its pages complained about."""

    @classmethod
    def setUpClass(cls):
        cls.playwright = sync_playwright().start()
        cls.addClassCleanup(cls.playwright.stop)
        # Chromium's own sandbox needs rights that root in a container lacks.
        flags = ["--no-sandbox"] if os.getuid() == 0 else []
        cls.browser = cls.playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="moesaic_report_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.complaints = []
        self.addCleanup(lambda: self.assertEqual(self.complaints, []))

    def write(self, name, content):
        path = self.folder / name
        path.write_text(content, encoding="utf-8")
        return str(path)

    def report(self, *args):
        """The path of the page that `moesaic report ARGS` makes."""
        out = self.folder / "report.html"
        done = subprocess.run([BINARY, "report", *map(str, args), "-o", str(out)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "")
        self.errors = done.stderr
        return out

    def open(self, path):
        context = self.browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
        self.addCleanup(context.close)
        page = context.new_page()
        page.on("console", lambda message: self.complaints.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self.note_request(request.url, path))
        page.goto(path.as_uri())
        page.wait_for_function("window.Plotly !== undefined && moesaic.ready === true")
        return page

    def note_request(self, url, path):
        if url != path.as_uri() and not url.startswith(("data:", "blob:")):
            self.complaints.append(f"request: {url}")

    def page(self, *args):
        return self.open(self.report(*args))

    def drawn(self, page):
        """Ids of the figures; each must come to hold visible marks: plotly.js draws some kinds in a later turn of the page."""
        ids = page.eval_on_selector_all(".figure", "cards => cards.map((card) => card.id)")
        for one in ids:
            try:
                page.wait_for_function("""id => document.getElementById(`${id}-plot`).querySelectorAll(
                    '.scatterlayer path, .barlayer path, .heatmaplayer image').length > 0""", arg=one, timeout=DRAWN_MS)
            except PlaywrightTimeout:
                self.fail(f"{one} shows nothing after {DRAWN_MS} ms")
        return ids

    def text(self, page, selector):
        return page.locator(selector).inner_text().strip()

    def download(self, page, selector):
        with page.expect_download() as waiting:
            page.locator(selector).click()
        return pathlib.Path(waiting.value.path()).read_bytes()

    def data(self, page):
        return json.loads(page.locator("#moesaic-data").text_content())

    def traces(self, page, figure, axis=None):
        """Name and points of the traces of a figure, those of its left or first plot unless `axis` says which."""
        data = page.evaluate(f"document.getElementById('{figure}-plot').data.map((t) => ({{name: t.name, mode: t.mode || '', xaxis: t.xaxis || 'x', x: t.x, y: t.y}}))")
        return [trace for trace in data if trace["xaxis"] == (axis or "x")]

    def trace(self, page, figure, name, axis=None):
        return next(one for one in self.traces(page, figure, axis) if one["name"] == name and one["mode"] != "lines")

    def all_near(self, values, wanted, places=9):
        self.assertGreater(len(values), 0)
        for value in values:
            self.assertAlmostEqual(value, wanted, places)

    def corner(self, page, figure):
        return page.evaluate(f"document.getElementById('{figure}-plot').layout.annotations.map((a) => a.text)")
