#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""For maintainers: writes the tables of docs/guide/performance.md and README.md from a recording beside PyTorch.

Recordings are made by scripts/compare_torch.py and lie in bench/results/ (schema moesaic.compare/1). Rows of
`moesaic bench` (moesaic.bench/1) are another schema: they are read as they are, see docs/guide/cli.md.

    scripts/performance_tables.py bench/results/FILE.jsonl   # rewrites both pages between their markers, in place
    scripts/performance_tables.py --check    # exit 1 if a page is not what the rows that performance.md names say

Bad input is exit code 2.
"""
import argparse
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/guide/performance.md"
README = ROOT / "README.md"
SCHEMA = "moesaic.compare/1"
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"

# What the chip gives, measured (docs/guide/performance.md): the floor of a product that has nothing to wait for.
READ_BYTES_PER_S = 4.57e12
DENSE_FLOPS = 804e12
EXPERTS = 16
NOT_UP_TO_DATE, BAD_INPUT = 1, 2


def stream_seconds(active_experts, rows, n, k):
    """Reading the weights of active experts and x, and writing y, once."""
    return 2.0 * (active_experts * n * k + rows * (n + k)) / READ_BYTES_PER_S


def dense_seconds(rows, n, k):
    return 2.0 * rows * n * k / DENSE_FLOPS


def fail(message, code=BAD_INPUT):
    print(f"performance_tables: {message}", file=sys.stderr)
    sys.exit(code)


def read_rows(path):
    """Rows by case, the last of each."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{path}: expected a file of rows that can be read, got {getattr(error, 'strerror', None) or error}")
    rows = {}
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            row = json.loads(line)
        except ValueError:
            fail(f"{path} line {number}: expected a JSON object, got {line[:40]}")
        schema = row.get("schema") if isinstance(row, dict) else None
        if schema != SCHEMA or "case" not in row:
            hint = "; rows of `moesaic bench` are read as they are (docs/guide/cli.md)" if schema == "moesaic.bench/1" else ""
            fail(f"{path} line {number}: expected a row of schema {SCHEMA} with a case, got {schema or 'none'}{hint}")
        rows[row["case"]] = row
    if not rows:
        fail(f"{path}: expected at least one row, got none")
    return rows


def name_in_checkout(path):
    """How the page names the file: readers must find it."""
    try:
        return Path(path).resolve().relative_to(ROOT).as_posix()
    except ValueError:
        fail(f"{path}: expected a file of this checkout, since the page names it; copy it to bench/results/")


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join(["---"] + ["---:"] * (len(head) - 1)) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def ratio(rows, case):
    return f"{rows[case]['ratio']:.2f}" if case in rows else "–"


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def forward(rows, width):
    out = []
    for case in rows:
        match = re.fullmatch(rf"fwd {width} M=(\d+) vs torch", case)
        if not match:
            continue
        m = int(match.group(1))
        us = rows[case]["us"]
        floor = 1e6 * max(stream_seconds(EXPERTS, m, width, width), dense_seconds(m, width, width))
        here = f"fwd {width} M={m} vs "
        out.append([f"{m:,}", number(us), number(rows[case]["tflops"]), f"{floor / us:.2f}", ratio(rows, case),
                    ratio(rows, here + "bmm1.25"), ratio(rows, here + "dense"), ratio(rows, here + "loop")])
    return table(["M", "µs", "TFLOP/s", "of the floor", "÷ PyTorch", "÷ padded 1.25", "÷ dense", "÷ loop"], out)


def split(rows):
    tokens = sorted({int(m.group(1)) for m in (re.fullmatch(r"split 4 T=(\d+) vs dense", case) for case in rows) if m})
    return table(["rows each", "4 experts", "PyTorch, 4", "8 experts", "PyTorch, 8"],
                 [[f"{t:,}"] + [text for n in (4, 8) for text in
                                (ratio(rows, f"split {n} T={t} vs dense"),
                                 f"{rows[f'split {n} T={t} vs dense']['torch_ratio']:.2f}")] for t in tokens])


def skew(rows):
    names = [m.group(1) for m in (re.fullmatch(r"skew (\S+) vs balanced", case) for case in rows) if m]
    return table(["histogram", "of balanced", "÷ PyTorch"],
                 [[n, ratio(rows, f"skew {n} vs balanced"), f"{rows[f'skew {n} vs balanced']['vs_torch']:.2f}"]
                  for n in names])


def gradients(rows):
    shapes = [m.group(1) for m in (re.fullmatch(r"dgrad (\S+) vs torch", case) for case in rows) if m]
    return table(["E x M x K x N", "dgrad TFLOP/s", "÷ PyTorch", "wgrad TFLOP/s", "÷ PyTorch", "÷ batched cuBLAS",
                  "FP32 += ÷ batched cuBLAS"],
                 [[s, number(rows[f"dgrad {s} vs torch"]["tflops"]), ratio(rows, f"dgrad {s} vs torch"),
                   number(rows[f"wgrad {s} vs bmm"]["tflops"]), ratio(rows, f"wgrad {s} vs torch"),
                   ratio(rows, f"wgrad {s} vs bmm"), ratio(rows, f"wgrad+=fp32 {s} vs bmm")] for s in shapes])


def mlp(rows):
    shapes = [m.group(1) for m in (re.fullmatch(r"mlp fwd (\S+)", case) for case in rows) if m]
    return table(["shape", "forward TFLOP/s", "÷ PyTorch", "with backward TFLOP/s", "÷ PyTorch"],
                 [[s] + [text for case in (f"mlp fwd {s}", f"mlp fwd+bwd {s}") for text in
                         (number(rows[case]["tflops"]), ratio(rows, case))] for s in shapes])


def real(rows):
    cases = [case for case in rows if case.startswith("real ")]
    return table(["routing", "µs", "of the floor", "PyTorch of the floor", "÷ PyTorch"],
                 [[c[5:], number(rows[c]["us"]), f"{rows[c]['of_floor']:.2f}", f"{rows[c]['torch_of_floor']:.2f}",
                   ratio(rows, c)] for c in cases])


def sustained(rows):
    each = sorted({int(m.group(1)) for m in (re.fullmatch(r"sustained (\d+) vs torch", case) for case in rows) if m})
    return table(["rows per expert", "TFLOP/s", "÷ PyTorch", "÷ dense"],
                 [[f"{e:,}", number(rows[f"sustained {e} vs torch"]["tflops"]), ratio(rows, f"sustained {e} vs torch"),
                   ratio(rows, f"sustained {e} vs dense")] for e in each])


def commits_of(rows):
    """A recording may have been made in parts: a case whose kernels did not change is not measured again."""
    commits = list(dict.fromkeys(row["git"]["sha"][:12] + (" with changes" if row["git"]["dirty"] else "")
                                 for row in rows.values()))
    return f"commit {commits[0]}" if len(commits) == 1 else f"commits {', '.join(commits)} (a row names its own)"


def tables(rows, path):
    first = next(iter(rows.values()))
    device, tools = first["device"], first["toolchain"]
    parts = [f"From `{path}`: one {device['name']} ({device['sms']} SMs, {device['power_limit_w']} W), driver "
             f"{device['driver']}, CUDA {tools['cuda']}, PyTorch {tools['torch']}, {commits_of(rows)}, "
             f"{first['date']}. Method: {first['method']}."]
    for title, text in (("Forward, 16 experts, d = h = 4096", forward(rows, 4096)),
                        ("Forward, 16 experts, d = h = 2048", forward(rows, 2048)),
                        ("One projection of 8192 x 81920 split into experts, over the dense product", split(rows)),
                        ("Skew: 16 experts, M = 65,536, d = h = 4096", skew(rows)),
                        ("Gradients, balanced", gradients(rows)),
                        ("SwiGLU expert, balanced; PyTorch: the faster of eager and compiled", mlp(rows)),
                        ("Real routing, up and gate product", real(rows)),
                        ("Sustained at the power limit, 16 experts, d = h = 4096", sustained(rows))):
        if text.count("\n") > 1:
            parts.append(f"### {title}\n\n{text}")
    return "\n\n".join(parts)


def circumstances_of(rows):
    first = next(iter(rows.values()))
    device, tools = first["device"], first["toolchain"]
    return (f"One {device['name']}, driver {device['driver']}, CUDA {tools['cuda']}, PyTorch {tools['torch'].split('+')[0]}, "
            f"commit {first['git']['sha'][:12]}, {first['date']}")


def readme_table(rows):
    """The forward product of the README: the widest one, less columns."""
    matches = (re.fullmatch(r"fwd 4096 M=(\d+) vs torch", case) for case in rows)
    found = [(int(match[1]), match[0]) for match in matches if match]
    return circumstances_of(rows) + ":\n\n" + table(
        ["rows", "µs", "TFLOP/s", "PyTorch `grouped_mm` ÷ ours", "padded batch, 1.25 × ÷ ours"],
        [[f"{m:,}", number(rows[case]["us"]), number(rows[case]["tflops"]), ratio(rows, case),
          ratio(rows, f"fwd 4096 M={m} vs bmm1.25")] for m, case in found])


def between_markers(path):
    """Text before, between and after the markers of a page."""
    expected = f"{path}: expected a page with the markers «{BEGIN}» and «{END}», got"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{expected} {getattr(error, 'strerror', None) or error}")
    before, found, rest = text.partition(BEGIN)
    inside, found_end, after = rest.partition(END)
    if not (found and found_end):
        fail(f"{expected} one without {END if found else BEGIN}")
    return before, inside, after


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", help="by default the file that the page names")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if the page is not up to date")
    options = parser.parse_args()
    pages = {path: between_markers(path) for path in (PAGE, README)}
    named = re.search(r"From `(\S+)`", pages[PAGE][1])
    if not options.results and named is None:
        fail(f"{PAGE}: names no file of rows; pass one")
    results = options.results or str(ROOT / named.group(1))
    rows = read_rows(results)
    name = name_in_checkout(results)
    try:
        texts = {PAGE: tables(rows, name), README: readme_table(rows)}
    except KeyError as error:
        fail(f"{results}: expected all cases and fields of a recording, but {error} is missing")
    for path, (before, inside, after) in pages.items():
        new = f"\n\n{texts[path]}\n\n"
        if options.check:
            if new != inside:
                fail(f"{path}: not what {name} says; run scripts/performance_tables.py {name}", NOT_UP_TO_DATE)
            continue
        path.write_text(f"{before}{BEGIN}{new}{END}{after}", encoding="utf-8")
        print(f"{path}: tables {'as before' if new == inside else 'rewritten'}, from {name}")


if __name__ == "__main__":
    main()
