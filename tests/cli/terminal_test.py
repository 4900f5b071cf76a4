# SPDX-License-Identifier: Apache-2.0
"""Progress on stderr: only on a terminal, only for long work, without colour on request, gone at the end."""
import os
import pty
import signal
import subprocess
import time
import unittest

from harness import BINARY, CliTest


def on_terminal(args, env=None, interrupt_at=None):
    """(exit code, stdout, what a terminal on stderr received); interrupted once it received `interrupt_at`."""
    master, slave = pty.openpty()
    full = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    full.update({"TERM": "xterm"}, **(env or {}))
    child = subprocess.Popen([BINARY, *map(str, args)], stdout=subprocess.PIPE, stderr=slave, stdin=subprocess.DEVNULL, env=full)
    os.close(slave)
    received = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # Linux: the other end is closed
            break
        if not piece:
            break
        received += piece
        if interrupt_at and interrupt_at in received:
            child.send_signal(signal.SIGINT)
            interrupt_at = None
    out = child.stdout.read()
    child.stdout.close()
    os.close(master)
    return child.wait(), out, received.decode()


class Progress(CliTest):
    def work(self, layers):
        rows = ",".join("[%s]" % ",".join(str(64 + (l + e) % 7) for e in range(8)) for l in range(layers))
        return ("run", self.write("layers.json", '{"logical_count": [%s]}' % rows), "--layer", "all", "--strategy", "grouped",
                "--shape", "d=512,h=512", "--backend", "cpu", "--pass", "mlp", "--dtype", "fp32")

    def long_work(self):
        """As many layers as take some seconds on this machine."""
        probe = 4
        self.fine(*self.work(probe))
        start = time.monotonic()
        self.fine(*self.work(probe))
        per_layer = (time.monotonic() - start) / probe
        return self.work(min(256, max(8, int(5 / per_layer))))

    def test_bar_with_time_left_then_gone(self):
        code, out, err = on_terminal(self.long_work())
        self.assertEqual(code, 0, err)
        self.assertRegex(err, r"run \[[#.]{20}\] +\d+ %, \S+ \S+ left: layer")
        self.assertIn("\x1b[36m", err)
        self.assertTrue(err.endswith(" \r"), repr(err[-60:]))
        self.assertNotIn(b"\x1b", out)
        self.assertNotIn(b"left:", out)

    def test_an_interrupt_takes_the_line_off(self):
        code, _, err = on_terminal(self.long_work(), interrupt_at=b"left: layer")
        self.assertEqual(code, -signal.SIGINT)
        self.assertRegex(err, r"\r +\r$")

    def test_no_colour_on_request(self):
        code, _, err = on_terminal(self.long_work(), {"NO_COLOR": "1"})
        self.assertEqual(code, 0, err)
        self.assertIn("left: layer", err)
        self.assertNotIn("\x1b", err)

    def test_nothing_on_a_dumb_terminal_or_a_pipe(self):
        _, _, err = on_terminal(self.long_work(), {"TERM": "dumb"})
        self.assertNotIn("left: layer", err)
        self.assertNotIn("\r ", err)
        self.assertNotIn("left: layer", self.fine(*self.long_work()).err)

    def test_short_work_shows_none(self):
        code, _, err = on_terminal(("run", "counts:3,4", "--shape", "d=64,h=96", "--backend", "cpu"))
        self.assertEqual(code, 0)
        self.assertNotIn("left:", err)
        self.assertNotIn("\x1b", err)


if __name__ == "__main__":
    unittest.main()
