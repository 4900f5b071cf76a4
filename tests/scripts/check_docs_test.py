#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that check_docs.py sees each kind of fault, and lets through what is right."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import check_docs  # noqa: E402
from public_declarations import undocumented  # noqa: E402

HOME = "/ro" + "ot/"  # in two pieces, so that this file passes the check that it tests
TO_DO = "TO" + "DO"

GOOD_HEADER = """// One header with every shape that the scanner must understand.
#pragma once
#define MANY(x) \\
  void undocumented_but_a_macro(x);
namespace moesaic {
class Forward;
enum class Explained : unsigned char {
  one,  ///< First.
  two,  ///< Second; "quoted {" and ');'.
};
/// Doc.
enum class Short { a, b };
/// Doc.
template <class T, class = decltype(f(1))>
[[nodiscard]] T free_function(T x, std::initializer_list<int> y = {}) noexcept;
int trailing(int x);  ///< Doc.
/** Doc
 *  in C's way. */
class [[nodiscard]] Widget : public Base<int> {
 public:
  Widget() = default;
  explicit Widget(int x) : x_(x), y_{x} {}
  Widget(Widget&& other) noexcept;
  ~Widget();
  bool operator==(const Widget&) const = default;
  int size() const noexcept;
  static constexpr int small(int a) {
    return a + 1'000;
  }
  /// Doc.
  void execute(int x) const;
  int member{3};
  void (*callback)(int);

 private:
  void hidden(int x);
  struct Hidden {};
};
/// One doc for a group.
const char* name(Short value);
const char* name(Explained value);
/// Doc.
struct Answer {
  int value = f(3);
};
Answer ask();
inline constexpr int kTable[] = {1, 2, 3};
using Callback = void (*)(int);
static_assert(sizeof(Answer) == 4);
namespace detail {
void not_for_users(int x);
}
}  // namespace moesaic
"""

# header text | what is reported
BAD_HEADERS = [
    ("namespace m {\n\nvoid lonely(int x);\n}\n", [(3, "function lonely")]),
    ("namespace m {\n// no doc\nvoid lonely(int x);\n}\n", [(3, "function lonely")]),
    ("/// Doc.\n\nvoid apart(int x);\n", [(3, "function apart")]),
    ("/// Doc.\nvoid first(int x);\n\nvoid second(int x);\n", [(4, "function second")]),
    ("class Bare {\n  int x;\n};\n", [(1, "class Bare")]),
    ("/// Doc.\nclass A {\n public:\n  void member(int x);\n};\n", [(4, "function member")]),
    ("/// Doc.\nstruct A {\n  int x = 0;\n  static A make(int x);\n};\n", [(4, "function make")]),
    ("enum class Bare { a, b };\n", [(1, "enum Bare")]),
    ("enum class Half {\n  a,  ///< Yes.\n  b,\n};\n", [(1, "enum Half")]),
    ("template <class T>\nT generic(T x) {\n  return x;\n}\n", [(1, "function generic")]),
    ('extern "C" {\nint moesaic_run(void* x);\n}\n', [(2, "function moesaic_run")]),
]


def run(files, *arguments):
    """(exit code, lines on stdout) of the checker on a tree of the given files."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            target = Path(folder) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            code = check_docs.main(["--root", folder, *arguments])
        return code, out.getvalue().splitlines()


class Base(unittest.TestCase):
    def assert_clean(self, files):
        self.assertEqual(run(files), (0, []))

    def assert_one(self, files, start, wanted):
        code, lines = run(files)
        self.assertEqual((code, len(lines)), (1, 1), lines)
        self.assertTrue(lines[0].startswith(start), lines[0])
        self.assertIn(wanted, lines[0])


class HeaderTest(Base):
    def test_documented_header_passes(self):
        self.assertEqual(undocumented(GOOD_HEADER), [])

    def test_each_doc_of_the_good_header_is_needed(self):
        lines = GOOD_HEADER.split("\n")
        docs = [i for i, line in enumerate(lines) if line.strip().startswith("/// ")]
        self.assertGreaterEqual(len(docs), 5)
        for index in docs:
            with self.subTest(line=lines[index + 1]):
                without = "\n".join(lines[:index] + ["", ""] + lines[index + 1:])
                self.assertNotEqual(undocumented(without), [])

    def test_each_missing_doc_is_found(self):
        for text, wanted in BAD_HEADERS:
            with self.subTest(text=text):
                self.assertEqual(undocumented(text), wanted)

    def test_headers_are_found_in_the_tree(self):
        self.assert_one({"include/moesaic/interop/x.hpp": "void lonely(int x);\n"},
                        "include/moesaic/interop/x.hpp:1:", "lonely")
        self.assert_clean({"src/core/x.hpp": "void lonely(int x);\n"})


class LinkTest(Base):
    def test_good_links_pass(self):
        self.assert_clean({
            "README.md": "# Top\n[a](docs/a.md) ![b](docs/b.svg) [c](docs) [d](docs/a.md#two-words)\n"
                         "[e](https://example.org/x) [f](#top) `[g](gone.md)`\n"
                         "```\n[h](gone.md)\n```\n[i]: docs/a.md\n",
            "docs/a.md": "## Two `words`\n[up](../README.md)\n", "docs/b.svg": "<svg/>\n"})

    def test_broken_links_are_found(self):
        self.assert_one({"README.md": "x\n[a](gone.md)\n"}, "README.md:2:", "leads nowhere")
        self.assert_one({"docs/a.md": "[a](README.md)\n", "README.md": ""}, "docs/a.md:1:", "nowhere")
        self.assert_one({"README.md": "[a]: gone.md\n"}, "README.md:1:", "leads nowhere")
        self.assert_one({"README.md": "[a](../x.md)\n"}, "README.md:1:", "leaves the repository")
        self.assert_one({"README.md": "[a](/etc/passwd)\n"}, "README.md:1:", "leaves the repository")
        self.assert_one({"README.md": "# Top\n[a](#bottom)\n"}, "README.md:2:", "no heading")


class ExampleTest(Base):
    SOURCE = "int main() {\n  // [plan]\n  int x = 1;\n    f(x);\n  // [/plan]\n}\n"
    QUOTE = "<!-- example: examples/plan.cpp#plan -->\n```cpp\nint x = 1;\n  f(x);\n```\n"

    def test_equal_quote_passes(self):
        self.assert_clean({"README.md": self.QUOTE, "examples/plan.cpp": self.SOURCE})

    def test_faults_are_found(self):
        changed = self.SOURCE.replace("1", "2")
        unmarked = self.SOURCE.replace("[/plan]", "")
        unfenced = self.QUOTE.replace("```cpp", "text")
        for quote, files, wanted in (
                (self.QUOTE, {"examples/plan.cpp": changed}, "differs"),
                (self.QUOTE, {"examples/plan.cpp": unmarked}, "has not exactly one"),
                (self.QUOTE, {"examples/plan.cpp": self.SOURCE * 2}, "has not exactly one"),
                (self.QUOTE, {}, "does not exist"),
                (unfenced, {"examples/plan.cpp": self.SOURCE}, "no code fence")):
            with self.subTest(wanted=wanted):
                self.assert_one({"README.md": "\n" + quote, **files}, "README.md:2:", wanted)


class SampleTest(Base):
    FILES = "<!-- file: a.txt -->\n```\none\ntwo\n```\n"
    # Stands for the command: prints the file that it is given, or refuses one that is not there.
    COMMAND = "#!/bin/sh\ncat \"$2\" 2>/dev/null || echo \"no $2\" >&2\n"

    def sampled(self, text):
        with tempfile.TemporaryDirectory() as folder:
            command = Path(folder) / "moesaic"
            command.write_text(self.COMMAND, encoding="utf-8")
            command.chmod(0o755)
            return run({"a.md": text}, "--moesaic", str(command))

    def test_what_is_printed_passes(self):
        made = "<!-- file: b.txt -->\n```python\nopen('b.txt', 'w').write('made')\n```\n"
        for sample in ("$ moesaic plan a.txt\none\ntwo\n", "$ moesaic plan a.txt\none\n…\n",
                       "$ moesaic plan c.txt\nno c.txt\n", "$ moesaic plan b.txt\nmade\n",
                       "$ moesaic run a.txt\nsomething measured\n"):
            with self.subTest(sample=sample):
                self.assertEqual(self.sampled(f"{self.FILES}{made}```\n{sample}```\n"), (0, []))

    def test_a_missing_module_is_no_problem(self):
        made = "<!-- file: b.txt -->\n```python\nimport no_such_module\n```\n"
        self.assertEqual(self.sampled(made + "```\n$ moesaic plan b.txt\nx\n```\n"), (0, []))

    def test_faults_are_found(self):
        for text, wanted in (
                (self.FILES + "```\n$ moesaic plan a.txt\none\n2\n```\n", "a.md:9: the program prints here: two"),
                (self.FILES + "```\n$ moesaic plan a.txt\none\n```\n", "a.md:9: the program prints here: two"),
                (self.FILES + "```\n$ moesaic plan a.txt\none\ntwo\n3\n```\n", "a.md:10: the program prints here: nothing"),
                (self.FILES * 2, "a.md:6: a.txt: expected a code fence"),
                ("<!-- file: a.txt -->\ntext\n", "a.md:1: a.txt: expected a code fence"),
                ("<!-- file: a.txt -->\n```python\n1 / 0\n```\n", "a.md:1: the block does not make a.txt")):
            with self.subTest(text=text):
                code, lines = self.sampled(text)
                self.assertEqual(code, 1)
                self.assertIn(wanted, "\n".join(lines))


class NumberedTest(Base):
    def test_numbered_and_listed_passes(self):
        self.assert_clean({"docs/adr/README.md": "[1](0001-a.md)\n[2](0002-b-c.md)\n",
                           "docs/adr/0001-a.md": "", "docs/adr/0002-b-c.md": ""})

    def test_faults_are_found(self):
        page = {"docs/notebook/0001-a.md": "", "docs/notebook/README.md": "[1](0001-a.md)\n"}
        self.assert_one({**page, "docs/notebook/README.md": ""}, "docs/notebook/0001-a.md", "not linked")
        self.assert_one({"docs/adr/0001-a.md": ""}, "docs/adr/0001-a.md", "is not linked")
        self.assert_one({**page, "docs/notebook/idea.md": ""}, "docs/notebook/idea.md", "a name like")
        gap = {"docs/notebook/0003-b.md": "", "docs/notebook/README.md": "(0001-a.md) (0003-b.md)"}
        self.assert_one({**page, **gap}, "docs/notebook:1:", "expected number 0002 next, got 0003")
        twice = {"docs/notebook/0001-b.md": "", "docs/notebook/README.md": "(0001-a.md) (0001-b.md)"}
        self.assert_one({**page, **twice}, "docs/notebook:1:", "expected number 0002 next, got 0001")


class WordsTest(Base):
    def test_clean_words_pass(self):
        self.assert_clean({"a.cpp": f"// {TO_DO}(#12) and {TO_DO} #7; a/home/b, network/home/x\n",
                           "a.md": f"No `{TO_DO}` without an issue.\n"})

    def test_faults_are_found(self):
        self.assert_one({"a.cpp": f"// {TO_DO}: later\n"}, "a.cpp:1:", "issue number")
        self.assert_one({"a.md": f"\n{TO_DO} later\n"}, "a.md:2:", "issue number")
        self.assert_one({"bench/results/a.jsonl": f'{{"command": "{HOME}x"}}\n'}, "bench", "one machine")
        self.assert_one({"a.md": f"Look at `{HOME}x`.\n"}, "a.md:1:", "one machine")


if __name__ == "__main__":
    unittest.main()
