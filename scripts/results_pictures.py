# SPDX-License-Identifier: Apache-2.0
"""Pictures of the figures that `moesaic report` draws, taken from its page in headless Chromium, one SVG each."""
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

WIDTH, SCRIPT_MS = 1000, 60_000
MOST_BYTES = 200_000


class NoBrowser(Exception):
    """What is missing to draw."""


def open_browser(playwright):
    """Chromium of this system. Its own sandbox needs rights that root in a container lacks."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        raise NoBrowser("no Chromium on the path (scripts/setup.sh --browser)")
    return playwright.chromium.launch(executable_path=found, args=["--no-sandbox"] if os.getuid() == 0 else [])


def settled(svg, name):
    """The picture with ids that say its name and not a random number, so that equal figures are equal files."""
    for random_id in set(re.findall(r'id="(?:topdefs|defs|clip|legend|g)-?([0-9a-f]{6})', svg)):
        svg = svg.replace(random_id, name)
    return re.sub(r"\btrace[0-9a-f]{6}\b", "", svg) + "\n"


def draw(moesaic, files, folder, pictures):
    """Writes NAME.svg into the folder for each of `pictures`: NAME -> (id of a figure of the report, its controls).

    Raises NoBrowser without one, ValueError for what the report refuses or does not have."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise NoBrowser("no playwright in this Python (scripts/setup.sh --browser)") from None
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        page_path = Path(scratch, "report.html")
        done = subprocess.run([moesaic, "report", *map(str, files), "-o", page_path], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(done.stderr.strip())
        browser = open_browser(playwright)
        page = browser.new_page(viewport={"width": WIDTH + 200, "height": 900})
        page.set_default_timeout(SCRIPT_MS)
        page.goto(page_path.as_uri())
        page.wait_for_function("window.Plotly !== undefined && moesaic.ready === true")
        known = page.evaluate("moesaic.figures.map((figure) => figure.id)")
        missing = [figure for figure, _ in pictures.values() if figure not in known]
        if missing:
            raise ValueError(f"report: expected the figures {', '.join(missing)}, got {', '.join(known)}")
        folder.mkdir(parents=True, exist_ok=True)
        written = []
        for name, (figure, view) in pictures.items():
            svg = settled(page.evaluate("""([id, view, width]) => {
                const figure = moesaic.figures.find((one) => one.id === id);
                Object.assign(figure.view, view);
                figure.draw();
                return Plotly.toImage(figure.plot, {format: 'svg', width, height: figure.plot.layout.height, imageDataOnly: true});
            }""", [figure, view, WIDTH]), name)
            if len(svg.encode()) > MOST_BYTES:
                raise ValueError(f"{name}.svg: expected at most {MOST_BYTES:,} bytes, got {len(svg.encode()):,}")
            path = folder / f"{name}.svg"
            path.write_text(svg, encoding="utf-8")
            written.append(path)
        browser.close()
        return written
