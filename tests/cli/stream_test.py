# SPDX-License-Identifier: Apache-2.0
"""A recording of 1,000 steps x 61 layers x 256 experts is planned in bounded memory."""
import os
import subprocess
import unittest

from harness import BINARY, CliTest

STEPS, LAYERS, EXPERTS = 1000, 61, 256
LIMIT_KIB = 300 * 1024


class Stream(CliTest):
    def recording(self):
        lines = ["[%s]" % ",".join(str((7 * l + 13 * e * e) % 97) for e in range(EXPERTS)) for l in range(LAYERS)]
        step = "[%s]" % ",".join(lines)
        path = self.folder / "recording.json"
        with open(path, "w") as file:
            file.write('{"logical_count": [')
            for index in range(STEPS):
                file.write(("," if index else "") + step)
            file.write("]}")
        return path

    def test_json_and_text_stay_small(self):
        path = self.recording()
        for flags in (["--json"], []):
            out = self.folder / "out"
            with open(out, "wb") as sink:
                child = subprocess.Popen([BINARY, "plan", str(path), *flags], stdout=sink, stderr=subprocess.DEVNULL)
                _, status, usage = os.wait4(child.pid, 0)
                child.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(child.returncode, 0)
            self.assertLess(usage.ru_maxrss, LIMIT_KIB)
            if flags:
                with open(out, "rb") as file:
                    layers = sum(1 for line in file if b'"useful_rows"' in line)
                self.assertEqual(layers, STEPS * LAYERS)


if __name__ == "__main__":
    unittest.main()
