#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""For maintainers: writes tables and pictures of docs/results/h200.md from rows of experiments.

    scripts/results_page.py bench/results/DATE_nvidia-h200_fig38.jsonl   # rewrites the page between its markers, in place
    scripts/results_page.py           # the same from the files that the page names
    scripts/results_page.py --check   # exit 1 if tables are not what these rows say, or a picture is missing

Files replace those that the page names for the same experiments; what it says of the others stays.

Statistics are those of `moesaic experiment NAME --summarize --json`, pictures those of `moesaic report`. What stands
outside the markers is written by people. Rows of another device belong on another page: --page FILE.
Exit codes: 1 a page that is not what its rows say, 2 bad input, or the command or the browser is missing.
"""
import argparse
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import results_pictures  # noqa: E402
import results_tables  # noqa: E402
from results_source import WIDTHS  # noqa: E402
from results_tables import distinct  # noqa: E402
from row_parts import in_order  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
PAGE, DEVICE = ROOT / "docs/results/h200.md", "NVIDIA H200"
SCHEMAS = ("moesaic.bench/1", "moesaic.roofline/1")
EXPERIMENTS = {"fig38": "Exact rows against a padded batch, d = h = 4096", "fig71": "Exact rows against a padded batch, d = h = 2048",
               "table44": "One projection split into experts", "fig40": "Concentrated histograms at the same rows",
               "fig72": "Histograms that agree in one figure", "fig73": "Clocks and power under large products",
               "skew": "Real routing", "fig2": "Bounds by arithmetic"}
# What is drawn of each: words behind the file's name, controls of the report's figure, words below the picture.
SWEEP_PICTURE = ("", {"right": "near"}, "Right: the axis ends at 0.6 and 1.6; what lies beyond is in the table.")
PICTURES = {"fig38": [SWEEP_PICTURE], "fig71": [SWEEP_PICTURE], "table44": [("", {}, ""), ("-share", {"value": "share"}, "")]}
NOT_RUN = "Not run yet."
NAMES = re.compile(r"^Rows: (.+)\.$", re.MULTILINE)
RUN_FLAGS = re.compile(r" --(?:(?:output|budget|process|only)[ =]\S+|backend[ =]auto)")  # which part, and where
NOT_UP_TO_DATE, BAD_INPUT = 1, 2


def fail(message, code=BAD_INPUT):
    print(f"results_page: {message}", file=sys.stderr)
    sys.exit(code)


def markers(name):
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def read_rows(path):
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{path}: expected a file of rows that can be read, got {getattr(error, 'strerror', None) or error}")
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except ValueError:
            fail(f"{path} line {number}: expected a JSON object, got {line[:40]}")
        name = row.get("experiment", {}).get("name") if isinstance(row, dict) else None
        if name not in EXPERIMENTS or row.get("schema") not in SCHEMAS:
            fail(f"{path} line {number}: expected a row of `moesaic experiment` ({' or '.join(SCHEMAS)}), got {line[:60]}")
        rows.append(row)
    if not rows:
        fail(f"{path}: expected at least one row, got none")
    return rows


class Rows:
    """Rows of one experiment from its files, and what the command says of them."""

    def __init__(self, name, files, rows, moesaic):
        self.name, self.files, self.rows, self.moesaic = name, files, rows, moesaic

    def ask(self, *words):
        done = subprocess.run([self.moesaic, "experiment", self.name, *map(str, words)], capture_output=True, text=True, check=False)
        if done.returncode:
            fail(done.stderr.strip())
        return [json.loads(line) for line in done.stdout.splitlines()]

    def sets(self):
        """Summaries, the full protocol before the reduced one."""
        if self.name == "fig2":
            return []
        return sorted(self.ask("--summarize", *self.files, "--json"), key=lambda one: one["protocol"])

    def of(self, protocol):
        return [row for row in self.rows if row["experiment"]["protocol"] == protocol]

    def beside(self, protocol):
        """Whether the source's figures may stand beside rows of this protocol: they have the claim's widths."""
        widths = {row["problem"]["k"] for row in self.of(protocol)}
        if len(widths) > 1 and self.name != "skew":
            fail(f"{self.name}: expected rows of one design under protocol {protocol}, got widths {', '.join(map(str, sorted(widths)))}")
        return widths == {WIDTHS.get(self.name)}

    def pictures(self, protocol):
        """Name of a picture -> (id that the report's page has for the figure, its controls, words below it)."""
        figure = self.name if protocol == "full" else f"{self.name}-{protocol}"
        return {figure + suffix: (figure, view, words) for suffix, view, words in PICTURES.get(self.name, [("", {}, "")])}

    def count(self, protocol, torch=False):
        """Distinct rows of PyTorch's arm, or of the others."""
        return len({json.dumps([row["experiment"][of] for of in ("case", "process", "arm")]) for row in self.of(protocol)
                    if (row["experiment"]["arm"] == "torch") == torch})

    @functools.cached_property
    def designed(self):
        """Rows of the full protocol, PyTorch's apart. The design is the same on every machine: a preset stands for one."""
        return sum(len(set(case["arms"]) - {"torch"}) for case in self.ask("--dry-run", "--json", "--device", "h200"))

    def count_words(self, protocol):
        """How many rows there are, of how many where the design is known."""
        words = f"{self.count(protocol):,}"
        if protocol == "full" and self.name != "skew":
            words += f" of {self.designed:,}"
        torch = self.count(protocol, torch=True)
        return words + (f", torch {torch:,}" if torch else "")

    def protocol_words(self, protocol):
        """What the reader is to know of a table before it."""
        if protocol == "reduced":
            return "**Reduced protocol**: smaller, shorter or fewer than the claim's own; never to be read as it."
        if self.name != "skew" and self.count(protocol) < self.designed:
            return f"Full protocol, **in part**: {self.count(protocol):,} of its {self.designed:,} rows."
        return "Full protocol."


def circumstances(experiments):
    timed = [one for one in experiments.values() if one.name != "fig2"]
    if not timed:
        return NOT_RUN
    rows = [row for one in timed for row in one.rows]
    device, tools = [row["device"] for row in rows], [row["toolchain"] for row in rows]
    parts = [f"{distinct(d['name'] for d in device)}: {distinct(d.get('sms') for d in device)} SMs, power limit "
             f"{distinct(d.get('power_limit_w') for d in device)} W, driver {distinct(d.get('driver') for d in device)}; "
             f"{distinct(t.get('cuda') for t in tools)}, PyTorch {distinct(t.get('torch') for t in tools)}, {distinct(t.get('compiler') for t in tools)}."]
    table = []
    for one in timed:
        for summary in one.sets():
            some = one.of(summary["protocol"])
            dates = sorted(row["date"][:10] for row in some)
            table.append([f"`{one.name}`", summary["protocol"], distinct(row["timing"]["regime"].replace("_", " ") for row in some),
                          distinct(row["git"]["sha"][:12] + (" with changes" if row["git"]["dirty"] else "") for row in some),
                          dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}",
                          one.count_words(summary["protocol"]), str(summary["throttled"]), str(summary["unsteady"]),
                          str(sum(row["timing"].get("late_units", 0) > 0 for row in some))])
    parts.append(results_tables.table(["experiment", "protocol", "regime", "commit", "date", "rows", "throttled", "unsteady", "late"], table, 5))
    parts.append("Late: sustained rows in which the device may have waited for the host.")
    commands = distinct(f"`{RUN_FLAGS.sub('', row['command'])}`" for row in rows if row["experiment"]["arm"] != "torch")
    parts.append(f"Commands, where `--only` may have chosen parts: {commands}.")
    return "\n\n".join(parts)


def section(one, page):
    """What stands between the markers of an experiment that has rows, and its pictures."""
    parts, pictures = ["Rows: " + ", ".join(f"`{name_on(page, path)}`" for path in one.files) + "."], {}
    blocks = [("full", results_tables.fig2(one.rows))] if one.name == "fig2" else [
        (summary["protocol"], results_tables.TABLES[one.name](one.name, summary["device"], summary["figures"], one.beside(summary["protocol"])))
        for summary in one.sets()]
    for protocol, tables in blocks:
        if one.name != "fig2":
            parts.append(one.protocol_words(protocol))
        parts += tables
        for name, (_, _, words) in one.pictures(protocol).items():
            parts.append("\n".join(filter(None, (f"![{one.name}, {protocol} protocol: the numbers are in the tables](figures/{name}.svg)", words))))
        pictures.update(one.pictures(protocol))
    return "\n\n".join(parts), pictures


def name_on(page, path):
    """How the page names a file: from the checkout's root, or from the page that lies elsewhere."""
    try:
        page.relative_to(ROOT)
        return path.resolve().relative_to(ROOT).as_posix()
    except ValueError:
        if page == PAGE:
            fail(f"{path}: expected a file of this checkout, since the page names it; copy it to bench/results/")
        return Path(os.path.relpath(path.resolve(), page.parent)).as_posix()


def named_files(page, text, name):
    """The files that the page names for an experiment."""
    base = ROOT if page.is_relative_to(ROOT) else page.parent
    section = text.partition(markers(name)[0])[2].partition(markers(name)[1])[0]
    return [base / word for line in NAMES.findall(section) for word in re.findall(r"`([^`]+)`", line)]


def new_page(device):
    """A page without sentences of people."""
    parts = [f"# The experiments on {device}", "\n".join(markers("circumstances"))]
    for name, title in EXPERIMENTS.items():
        parts += [f"## {name}: {title}", "\n".join(markers(name))]
    return "\n\n".join(parts) + "\n"


def put(text, name, content, page):
    begin, end = markers(name)
    before, found, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found and found_end):
        fail(f"{page}: expected the markers «{begin}» and «{end}»")
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


def by_experiment(files):
    """Rows by experiment and file."""
    by_name = {}
    for path in in_order(files):
        for row in read_rows(path):
            by_name.setdefault(row["experiment"]["name"], {}).setdefault(path, []).append(row)
    return by_name


def group(files, text, moesaic, page):
    """Rows of these files, and for other experiments of those that the page names, in the order of the page; their device."""
    by_name = by_experiment(files)
    for name in EXPERIMENTS:
        if name not in by_name and (named := named_files(page, text, name)):
            by_name[name] = by_experiment(named).get(name) or fail(f"{named[0]}: expected rows of {name}, got none")
    devices = {row["device"]["name"] for paths in by_name.values() for rows in paths.values() for row in rows if "device" in row}
    if page == PAGE and devices - {DEVICE} or len(devices) > 1:
        fail(f"FILES: expected rows of {DEVICE if page == PAGE else 'one device'}, got {', '.join(sorted(devices))} (another page: --page)")
    return {name: Rows(name, list(by_name[name]), [row for rows in by_name[name].values() for row in rows], moesaic)
            for name in EXPERIMENTS if name in by_name}, next(iter(devices), DEVICE)


def rewrite(text, experiments, page):
    """The page anew, and its pictures."""
    pictures = {}
    text = put(text, "circumstances", circumstances(experiments), page)
    for name in EXPERIMENTS:
        content, some = section(experiments[name], page) if name in experiments else (NOT_RUN, {})
        text = put(text, name, content, page)
        pictures.update(some)
    return text, pictures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="by default those that the page names")
    parser.add_argument("--page", type=Path, default=PAGE, help="another page; made when it is not there")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if the page is not up to date")
    parser.add_argument("--no-pictures", dest="pictures", action="store_false", help="leave pictures as they are; needs no browser")
    parser.add_argument("--moesaic", default=str(ROOT / "build/release/tools/moesaic/moesaic"), help="the built command")
    options = parser.parse_args()
    page = options.page.resolve()
    try:
        old = page.read_text(encoding="utf-8") if page.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        fail(f"--page: expected a page that can be read, got {page}: {getattr(error, 'strerror', None) or error}")
    if not old and (options.check or page == PAGE):
        fail(f"{page}: expected the page, got none")
    experiments, device = group(options.files, old, options.moesaic, page)
    if experiments and shutil.which(options.moesaic) is None:
        fail(f"--moesaic: expected the command moesaic (make build makes it), got {options.moesaic}, which is not there or cannot be run")
    new, pictures = rewrite(old or new_page(device), experiments, page)
    folder = page.parent / "figures"
    if options.check:
        if new != old:
            fail(f"{page}: not what its rows say; run scripts/results_page.py", NOT_UP_TO_DATE)
        for name in pictures:
            if not (folder / f"{name}.svg").exists():
                fail(f"{folder / name}.svg: expected the picture of the page, got none; run scripts/results_page.py", NOT_UP_TO_DATE)
        return
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(new, encoding="utf-8")
    except OSError as error:
        fail(f"--page: expected a page that can be written, got {page}: {error.strerror}")
    print(f"{page}: tables {'as before' if new == old else 'rewritten'}, {len(experiments)} of {len(EXPERIMENTS)} experiments have rows")
    if options.pictures and pictures:
        wanted = {name: (figure, view) for name, (figure, view, _) in pictures.items()}
        try:
            for path in results_pictures.draw(options.moesaic, [path for one in experiments.values() for path in one.files], folder, wanted):
                print(f"{path}: {path.stat().st_size:,} bytes")
        except (results_pictures.NoBrowser, ValueError) as error:
            fail(f"{error}; the tables are written, the pictures not (--no-pictures leaves them as they are)")


if __name__ == "__main__":
    main()
