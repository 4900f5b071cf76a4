#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that rows of the scripts and the library call the same checkout changed, in a small one of its own."""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STATE = "import json, sys; sys.path.insert(0, 'scripts'); import torch_arm; print(json.dumps(torch_arm.git_state()['dirty']))"


@unittest.skipUnless(shutil.which("cmake"), "there is no cmake")
class GitState(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root, self.build = Path(folder.name, "checkout"), Path(folder.name, "build")
        for name in ("scripts/torch_arm.py", "cmake/MoesaicGitState.cmake", "cmake/build_info.hpp.in"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        (self.root / ".gitignore").write_text("/out/\n", encoding="utf-8")
        (self.root / "rows.jsonl").write_text("{}\n", encoding="utf-8")
        self.git("init", "-q")
        self.commit()

    def git(self, *words):
        subprocess.run(["git", "-C", str(self.root), "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-qm", "all")

    def assert_dirty(self, wanted, what):
        script = subprocess.run([sys.executable, "-B", "-c", STATE], cwd=self.root, capture_output=True, text=True, check=True)
        subprocess.run(["cmake", f"-DPROJECT_SOURCE_DIR={self.root}", f"-DPROJECT_BINARY_DIR={self.build}", "-P",
                        str(self.root / "cmake/MoesaicGitState.cmake")], capture_output=True, check=True)
        header = (self.build / "generated/moesaic_build_info.hpp").read_text(encoding="utf-8")
        library = re.search(r"kGitDirty = (\w+)", header)[1]
        self.assertEqual((script.stdout.strip(), library), (wanted, wanted), what)

    def test_what_makes_a_checkout_dirty(self):
        self.assert_dirty("false", "as committed")
        for name in ("out/build.ninja", "new.jsonl", "scripts/new.jsonl", "rows.jsonl"):
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).write_text("changed\n", encoding="utf-8")
            self.assert_dirty("false", name)
        for name in ("new.cpp", "scripts/new.py", "cmake/build_info.hpp.in"):
            with (self.root / name).open("a", encoding="utf-8") as file:
                file.write("// changed\n")
            self.assert_dirty("true", name)
            self.commit()
        self.assert_dirty("false", "as committed again")


if __name__ == "__main__":
    unittest.main()
