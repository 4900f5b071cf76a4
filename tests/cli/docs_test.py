# SPDX-License-Identifier: Apache-2.0
"""docs/guide/cli.md: the skeletons of JSON name the keys that are printed, in their order."""
import pathlib
import re
import unittest

from harness import CliTest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/guide/cli.md"
SHAPE = ("--shape", "d=64,h=96")


def keys_of(value):
    """Every key of `value`, in order; of a list its first element's."""
    if isinstance(value, list):
        return keys_of(value[0]) if value else []
    if not isinstance(value, dict):
        return []
    return [key for name, inner in value.items() for key in [name, *keys_of(inner)]]


class Skeletons(CliTest):
    def skeleton(self, first):
        blocks = re.findall(r"^```\n(\{\"%s\":.*?)^```$" % first, PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        self.assertEqual(len(blocks), 1)
        return re.findall(r'"(\w+)"', blocks[0])

    def test_plan(self):
        self.assertEqual(self.skeleton("layers"), keys_of(self.json("plan", "counts:5,6", *SHAPE)))

    def test_run(self):
        printed = self.json("run", "counts:5,6", *SHAPE, "--backend", "cpu", "--strategy", "grouped")
        self.assertEqual(self.skeleton("cases"), keys_of(printed))


if __name__ == "__main__":
    unittest.main()
