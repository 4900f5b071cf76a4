# SPDX-License-Identifier: Apache-2.0
"""Runs the moesaic binary for the scripts of this folder; makes small input files. No third-party module."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from contextlib import contextmanager

# Threads that spin for one another stand still when the machine is busy with other tests.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
BINARY = str(pathlib.Path(sys.argv.pop(1)).resolve()) if len(sys.argv) > 1 else ""


def npy_bytes(descr, shape, values):
    """A NumPy 1.0 file, C order; `descr` such as "<i4"."""
    head = repr({"descr": descr, "fortran_order": False, "shape": tuple(shape)})
    head += " " * (-(10 + len(head) + 1) % 64) + "\n"
    code = {"<i4": "i", "<i8": "q", "|u1": "B", "<f4": "f"}[descr]
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{len(values)}{code}", *values)


@contextmanager
def busy_cpus():
    """Every CPU that this process may use is kept busy by another one."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def grouped_ratios(table):
    """The column "/ grouped" in rows of the grouped strategy, found by where its title ends."""
    head, *lines = [line for line in table.splitlines() if " grouped " in line]
    end = head.index("/ grouped") + len("/ grouped")
    return [line[:end].split()[-1] for line in lines]


class CliTest(unittest.TestCase):
    """A test with a folder of its own that goes away."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="moesaic_cli_"))
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, content):
        path = self.folder / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content)
        return str(path)

    def cli(self, *args, stdin=None, env=None, cwd=None):
        full = dict(os.environ, **(env or {}))
        data = stdin.encode() if isinstance(stdin, str) else stdin
        result = subprocess.run([BINARY, *map(str, args)], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=full, cwd=cwd, timeout=240)
        result.out = result.stdout.decode()
        result.err = result.stderr.decode()
        self.assertNotIn("terminate called", result.err)
        self.assertNotIn("internal error", result.err)
        return result

    def fine(self, *args, **kwargs):
        result = self.cli(*args, **kwargs)
        self.assertEqual(result.returncode, 0, result.err)
        return result

    def json(self, *args, **kwargs):
        """Parsed stdout; objects keep their key order."""
        return json.loads(self.fine(*args, "--json", **kwargs).out)

    def layers(self, *args, **kwargs):
        return self.json("plan", *args, **kwargs)["layers"]

    def cases(self, *args, **kwargs):
        return self.json("run", *args, **kwargs)["cases"]

    def refused(self, *args, words=(), code=2, stdin=None):
        """One line on stderr that names `words`, nothing on stdout."""
        result = self.cli(*args, stdin=stdin)
        self.assertEqual(result.returncode, code, result.err)
        self.assertEqual(result.out, "")
        self.assertTrue(result.err.startswith("moesaic"), result.err)
        last = result.err.strip().splitlines()[-1]
        for word in words:
            self.assertIn(word.lower(), last.lower())
        return result
