#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Includes point down: which files may include what. RULES is the rule; the rest reads it."""

# «files : what they may include», under the reason that holds for them; the first row that fits a
# file counts. Words: a folder/ of this repository, a folder/. without its subfolders, a header, a
# prefix*, CAPITALS = GROUPS; -word is taken away again unless a longer or equal word gives it.
# {MIRROR} is src/X/ for tests/X/.
RULES = """
because math is arithmetic that host and device share
  src/math/*: cstdint cstddef limits array bit concepts type_traits src/math/
because public headers ask for no other library, and only interop/cuda.hpp names CUDA
  include/moesaic/c_api.h: stddef.h stdint.h
  include/moesaic/c_api_exchange.h: include/moesaic/c_api.h
  include/moesaic/interop/cuda.hpp: STD CUDA include/moesaic/
  include/moesaic/*: STD PUBLIC
because layer 1 sees math, public headers and its own folder; planner not even the machine
  src/core/parallel.hpp: STD omp.h
  src/core/*: STD POSIX PUBLIC src/math/ src/core/
  src/planner/*: STD PUBLIC src/math/ src/planner/
  src/routing/*: STD POSIX PUBLIC src/math/ src/routing/ nlohmann/ zlib.h
because backends are siblings: none includes another, nor what lies above them
  src/backends/reference/*: BACKEND src/backends/reference/
  src/backends/onednn/*: BACKEND src/backends/onednn/ dnnl* omp.h
because in cuda/ it goes ptx <- block <- kernels <- launch, transport beside block, nvshmem in it
  src/backends/cuda/ptx/*: STD CUDA src/math/ src/backends/cuda/ptx/
  src/backends/cuda/block/*: DEVICE src/backends/cuda/block/
  src/backends/cuda/transport/*: DEVICE src/backends/cuda/transport/ nvshmem*
  src/backends/cuda/kernels/*: DEVICE src/backends/cuda/ -src/backends/cuda/launch/
  src/backends/cuda/launch/*: BACKEND DEVICE src/backends/cuda/ include/moesaic/interop/ dlfcn.h
  src/backends/cuda/*.cpp: BACKEND DEVICE src/backends/cuda/ include/moesaic/interop/ dlfcn.h
  src/backends/cuda/*: BACKEND DEVICE
because what all backends share knows none of them
  src/backends/*: BACKEND
because dispatch picks backends, and what lies above reaches them through it alone
  src/dispatch/*: DOWN src/backends/ src/dispatch/ moesaic_build_info.hpp
  src/ops/*: DOWN src/dispatch/ src/ops/
  src/check/*: DOWN src/dispatch/ src/check/
  src/c_api/*: DOWN src/dispatch/ src/ops/ src/check/ src/c_api/ moesaic_build_info.hpp
because the command, benchmarks and examples are users: they see public headers only
  tools/*: STD POSIX PUBLIC tools/ moesaic_build_info.hpp CLI/ nlohmann/
  bench/baselines/*: STD PUBLIC bench/baselines/ dnnl.hpp omp.h
  bench/*: STD POSIX PUBLIC bench/ moesaic_build_info.hpp CLI/ nlohmann/ benchmark/
  examples/*: STD C CUDA include/moesaic/ examples/
because a test sees the one private folder that it mirrors, math, public headers and tests/support
  tests/cli/*: TEST tools/moesaic/
  tests/device/*: TEST src/backends/cuda/
  tests/fuzz/*: TEST src/routing/
  tests/*: TEST {MIRROR}
"""
GROUPS = {
    "STD": "<std>",  # every header in <> with neither dot nor slash
    "PUBLIC": "include/moesaic/ -include/moesaic/interop/",
    "DOWN": "STD PUBLIC src/math/ src/core/ src/planner/",
    "BACKEND": "DOWN src/backends/.",
    "DEVICE": "STD CUDA PUBLIC src/math/ src/backends/cuda/ptx/ src/backends/cuda/sm90_*",
    "TEST": "STD C POSIX CUDA include/moesaic/ src/math/ tests/support/ {OWN} gtest/ gmock/ nlohmann/"
            " zlib.h omp.h",
    "CUDA": "cuda* cooperative_groups* cub/* nv/* nvtx3/* cublas* nvml.h",
    "POSIX": "unistd.h fcntl.h glob.h dlfcn.h sys/ pthread.h sched.h cpuid.h",
    "C": "assert.h stddef.h stdint.h stdbool.h stdio.h stdlib.h string.h math.h",
}
TOKENS = (  # a word | the files that may hold it (-files: all others may) | why
    (r"\b(?:asm|__asm|__asm__)\b", "src/backends/cuda/ptx/*",
     "inline asm lives in src/backends/cuda/ptx/ alone"),
    (r"\bcu(?:da)?LaunchKernel\w*", "src/backends/cuda/launch/* tests/*.cu",
     "kernels are launched in src/backends/cuda/launch/ alone"),
    (r"<<<", "tests/*.cu",
     "launch_kernel() of src/backends/cuda/launch/kernel_launch.hpp reports the launch's own error"),
    (r"\b(?:throw|new|malloc|blockIdx|threadIdx|__shared__)\b|\b__shfl\w+", "-src/math/*",
     "math neither allocates nor throws, and does not know where it runs"),
)

import argparse
import fnmatch
import re
import sys
from pathlib import Path, PurePosixPath
from typing import NamedTuple

FOLDERS = ("include", "src", "tools", "bench", "examples", "tests")
SUFFIXES = {".hpp", ".cpp", ".h", ".c", ".cuh", ".cu", ".inl", ".def"}
NOT_CODE = re.compile(
    r'(?P<number>(?<!\w)\d(?:\'?[\w.])*)'
    r'|//(?:\\\n|[^\n])*|/\*.*?\*/'
    r'|R"(?P<mark>[^()\\ \n]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL)
INCLUDE = re.compile(r"[ \t]*#[ \t]*include\b")
TARGET = re.compile(r'[ \t]*#[ \t]*include[ \t]*(?:"(?P<quoted>[^"]+)"|<(?P<angled>[^>]+)>)')


class Rule(NamedTuple):
    files: str
    words: tuple
    why: str


def expand(words):
    """The words of a row with every group replaced by what it stands for."""
    for word in words.split():
        if word in GROUPS:
            yield from expand(GROUPS[word])
        else:
            yield word


def parse_rules(text):
    rules, why = [], ""
    for line in text.strip().splitlines():
        if line.startswith("because "):
            why = line
        else:
            files, words = line.split(":", 1)
            rules.append(Rule(files.strip(), tuple(expand(words)), why))
    return rules


def blank_comments_and_strings(text):
    """The code alone: comments, strings and characters become spaces, lines stay where they are."""
    def blank(match):
        return match[0] if match["number"] else re.sub(r"[^\n]", " ", match[0])
    return NOT_CODE.sub(blank, text)


def resolve(root, path, target, quoted):
    """The included file as a path of this repository, or as written when it is not from here."""
    if target.startswith("moesaic/"):
        return f"include/{target}"
    if not quoted:
        return target
    own = PurePosixPath(path).parent
    bases = ["src", "include"]
    if own.parts[0] not in bases:  # private includes are written from src/, all others from home
        bases = [str(base) for base in (own, *own.parents) if base.parts] + bases
    for base in bases:
        if (root / base / target).is_file():
            return f"{base}/{target}"
    return target


def fits(word, name, quoted):
    if word == "<std>":
        return not quoted and "." not in name and "/" not in name
    if word.endswith("/."):
        return name.rpartition("/")[0] == word[:-2]
    if word.endswith(("/", "*")):
        return name.startswith(word.rstrip("*"))
    return name == word


def is_allowed(rule, path, name, quoted):
    """The longest word that fits decides, as with routes; a tie between + and - allows."""
    parts = PurePosixPath(path).parts
    places = {"{OWN}": "/".join(parts[:2][:len(parts) - 1]) + "/",
              "{MIRROR}": f"src/{parts[1]}/" if len(parts) > 2 else "src/math/"}
    given = taken = 0
    for word in rule.words:
        takes, word = word.startswith("-"), word.lstrip("-")
        word = places.get(word, word)
        if fits(word, name, quoted):
            given, taken = (given, max(taken, len(word))) if takes else (max(given, len(word)), taken)
    return given > 0 and given >= taken


def include_problem(root, rule, path, line):
    """What is wrong with one #include line, or None."""
    target = TARGET.match(line)
    if not target:
        return "an include that is neither \"…\" nor <…> cannot be checked"
    quoted = target["quoted"] is not None
    name = target["quoted"] or target["angled"]
    if ".." in PurePosixPath(name).parts:
        return f"includes {name}, not allowed because private includes are written from src/"
    resolved = resolve(root, path, name, quoted)
    if is_allowed(rule, path, resolved, quoted):
        return None
    hint = ""
    if quoted and resolved == name and ((root / path).parent / name).is_file():
        hint = " (write it from src/ or include/)"
    return f"includes {resolved}{hint}, not allowed {rule.why}"


def check_file(root, path, rules):
    """(line number, message) for every breach in one file."""
    rule = next((r for r in rules if fnmatch.fnmatchcase(path, r.files)), None)
    if rule is None:
        return [(1, "no row of RULES in scripts/check_layers.py fits this file: add one")]
    text = (root / path).read_text(encoding="utf-8")
    code = blank_comments_and_strings(text)
    problems = []
    for number, (line, raw) in enumerate(zip(code.split("\n"), text.split("\n")), start=1):
        if INCLUDE.match(line):
            problem = include_problem(root, rule, path, raw)
            if problem:
                problems.append((number, problem))
            continue
        for pattern, files, why in TOKENS:
            found = re.search(pattern, line)
            named = any(fnmatch.fnmatchcase(path, f) for f in files.lstrip("-").split())
            if found and named == files.startswith("-"):
                problems.append((number, f"holds {found[0]}, not allowed because {why}"))
    return problems


def source_files(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                yield path.relative_to(root).as_posix()


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    options = parser.parse_args(argv)
    rules = parse_rules(RULES)
    files = list(source_files(options.root))
    if not files:
        print(f"check_layers: no source file under {options.root}", file=sys.stderr)
        return 1
    failures = 0
    for path in files:
        for number, message in check_file(options.root, path, rules):
            failures += 1
            print(f"{path}:{number}: {message}")
    print(f"check_layers: {len(files)} files, {failures} problems", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
