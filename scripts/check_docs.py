#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what is written: doc comments of public headers, links, quoted examples, numbered pages.

Also that no text names a place on one person's machine, and that every to-do names its issue. With
the built command it runs the samples of `moesaic plan`, which are the same everywhere, and compares.
"""

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from public_declarations import undocumented

NUMBERED_FOLDERS = ("docs/notebook", "docs/adr")
FENCE = re.compile(r"^(?P<mark>```+|~~~+)(?P<language>[^\n]*)\n(?P<body>.*?)^(?P=mark)[ \t]*$", re.DOTALL | re.MULTILINE)
INLINE_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?(\S+?)>?(?:\s+\"[^\"]*\")?\s*$", re.MULTILINE)
EXAMPLE = re.compile(r"<!--\s*example:\s*(?P<path>[^#\s]+)#(?P<marker>[\w-]+)\s*-->[ \t]*\n")
FILE = re.compile(r"<!--\s*file:\s*(?P<name>[\w.-]+)\s*-->[ \t]*\n")
SAMPLE = "$ moesaic plan "
REST = "…"  # as the last line of a sample: the program prints more
HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*$", re.MULTILINE)
HOST_PATH = re.compile(r"(?<![\w.-])/(?:work|root|home)/")
TO_DO = re.compile(r"\bTODO\b(?!\s*\(?#\d+)")


def line_at(text, index):
    return text.count("\n", 0, index) + 1


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def prose_of(text):
    """Markdown without what is code, every line where it was."""
    return INLINE_CODE.sub(blank, FENCE.sub(blank, text))


def text_files(root):
    """(path, text) of all text files that git tracks or would add; outside git, of all but build/."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, check=False)
    if (root / ".git").exists() and listed.returncode == 0:
        paths = [root / name for name in listed.stdout.decode().split("\0") if name]
    else:
        paths = [path for path in root.rglob("*") if path.relative_to(root).parts[0] != "build"]
    for path in sorted(paths):
        if not path.is_file() or path.is_symlink():
            continue
        content = path.read_bytes()
        if b"\0" in content[:8192]:
            continue
        yield path.relative_to(root).as_posix(), content.decode("utf-8", errors="replace")


def check_header(path, text):
    for line, what in undocumented(text):
        yield path, line, f"{what} has no doc comment (///) above it"


def anchors_of(text):
    """The fragments by which the headings of a Markdown file can be reached."""
    seen, anchors = {}, set()
    for heading in HEADING.findall(FENCE.sub(blank, text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        anchors.add(f"{slug}-{seen[slug]}" if slug in seen else slug)
        seen[slug] = seen.get(slug, 0) + 1
    return anchors | set(re.findall(r"<a\s+(?:id|name)=\"([^\"]+)\"", text))


def check_links(root, path, text):
    prose = prose_of(text)
    for match in [*LINK.finditer(prose), *REFERENCE.finditer(prose)]:
        target, line = match[1], line_at(prose, match.start())
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        name, _, fragment = target.partition("#")
        place = ((root / path).parent / name).resolve() if name else (root / path).resolve()
        if name.startswith("/") or not place.is_relative_to(root.resolve()):
            yield path, line, f"link {target} leaves the repository; write it relative to this file"
        elif not place.exists():
            yield path, line, f"link {target} leads nowhere"
        elif fragment and place.suffix == ".md" and fragment not in anchors_of(
                place.read_text(encoding="utf-8")):
            yield path, line, f"link {target}: {place.name} has no heading for #{fragment}"


def marked_text(text, marker):
    """The lines between `// [marker]` and `// [/marker]` (or # …) without their common indent; None
    when the pair is not there exactly once."""
    sign = r"^[ \t]*(?://|#)[ \t]*\[{}\][ \t]*\n"
    pattern = sign.format(re.escape(marker)) + r"(.*?)" + sign.format("/" + re.escape(marker))
    found = re.findall(pattern, text + "\n", re.DOTALL | re.MULTILINE)
    return textwrap.dedent(found[0]) if len(found) == 1 else None


def check_examples(root, path, text):
    for match in EXAMPLE.finditer(text):
        line = line_at(text, match.start())
        source, marker = root / match["path"], match["marker"]
        if not source.is_file():
            yield path, line, f"example {match['path']} does not exist"
            continue
        wanted = marked_text(source.read_text(encoding="utf-8"), marker)
        if wanted is None:
            yield path, line, f"{match['path']} has not exactly one [{marker}] … [/{marker}]"
            continue
        fence = FENCE.match(text, match.end())
        if not fence:
            yield path, line, "no code fence follows the example marker"
        elif fence["body"] != wanted:
            yield path, line, f"the quoted code differs from {match['path']}#{marker}"


def make_files(pages, folder, absent):
    """Writes the block after each `<!-- file: NAME -->`; a block of Python is run and makes the file.
    Where it asks for a module that is not here, the name goes to `absent`."""
    for path, text in pages:
        for match in FILE.finditer(text):
            name, line = match["name"], line_at(text, match.start())
            fence = FENCE.match(text, match.end())
            if not fence or (folder / name).exists():
                yield path, line, f"{name}: expected a code fence after the marker, and one of that name"
            elif fence["language"] != "python":
                (folder / name).write_text(fence["body"], encoding="utf-8")
            else:
                made = subprocess.run([sys.executable, "-c", fence["body"]], cwd=folder, text=True,
                                      capture_output=True, check=False)
                if "ModuleNotFoundError" in made.stderr:
                    absent.add(name)
                elif not (folder / name).exists():
                    yield path, line, f"the block does not make {name}: {made.stderr[-200:]}"


def check_samples(pages, moesaic):
    """Runs the blocks that begin with `$ moesaic plan`, over the files that the pages show. A refusal
    is compared with standard error, since it leaves standard output empty."""
    with tempfile.TemporaryDirectory() as name:
        folder, absent = Path(name), set()
        yield from make_files(pages, folder, absent)
        for path, text in pages:
            for fence in FENCE.finditer(text):
                command, _, wanted = fence["body"].partition("\n")
                words = shlex.split(command[len(SAMPLE):]) if command.startswith(SAMPLE) else []
                if not words or absent.intersection(words):
                    continue
                ran = subprocess.run([moesaic, "plan", *words], cwd=folder, capture_output=True,
                                     stdin=subprocess.DEVNULL, check=False)
                printed = (ran.stdout or ran.stderr).decode().splitlines()
                wanted = wanted.splitlines()
                if wanted[-1:] == [REST]:
                    wanted.pop()
                    printed = printed[:len(wanted)]
                if printed == wanted:
                    continue
                at = next((i for i, pair in enumerate(zip(printed, wanted)) if pair[0] != pair[1]),
                          min(len(printed), len(wanted)))
                came = printed[at] if at < len(printed) else "nothing more"
                yield path, line_at(text, fence.start()) + 2 + at, f"the program prints here: {came}"
        if absent:
            print(f"check_docs: no module makes {', '.join(sorted(absent))} here", file=sys.stderr)


def check_numbered(root, folder):
    """NNNN-title.md from 0001 without a gap, each linked from the folder's README.md."""
    pages = sorted(p.name for p in (root / folder).glob("*.md") if p.name != "README.md")
    if not pages:
        return
    index = root / folder / "README.md"
    listed = index.read_text(encoding="utf-8") if index.is_file() else ""
    numbers = []
    for name in pages:
        if not re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", name):
            yield f"{folder}/{name}", 1, "expected a name like 0001-short-title.md"
            continue
        numbers.append(int(name[:4]))
        if f"({name})" not in listed and f"(./{name})" not in listed:
            yield f"{folder}/{name}", 1, f"is not linked from {folder}/README.md"
    for position, number in enumerate(numbers, start=1):
        if number != position:
            yield folder, 1, f"expected number {position:04} next, got {number:04}"
            return


def check_words(path, text):
    prose = prose_of(text) if path.endswith(".md") else text
    for match in HOST_PATH.finditer(text):
        yield path, line_at(text, match.start()), f"names a place on one machine: {match[0]}…"
    for match in TO_DO.finditer(prose):
        yield path, line_at(prose, match.start()), "a to-do without an issue number, as in (#12)"


def check_tree(root, moesaic=None):
    """(path, line, message) of every problem under root."""
    pages = []
    for path, text in text_files(root):
        if re.fullmatch(r"include/moesaic/.*\.(hpp|h)", path):
            yield from check_header(path, text)
        if path.endswith(".md"):
            pages.append((path, text))
            yield from check_links(root, path, text)
            yield from check_examples(root, path, text)
        yield from check_words(path, text)
    for folder in NUMBERED_FOLDERS:
        yield from check_numbered(root, folder)
    if moesaic:
        yield from check_samples(pages, moesaic)


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--moesaic", type=Path, help="the built command, to run the samples of plan")
    options = parser.parse_args(argv)
    failures = 0
    for path, line, message in check_tree(options.root, options.moesaic and options.moesaic.resolve()):
        failures += 1
        print(f"{path}:{line}: {message}")
    print(f"check_docs: {failures} problems", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
