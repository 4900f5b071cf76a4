# SPDX-License-Identifier: Apache-2.0
"""Progress on stderr: only on a terminal, only for long work, without colour on request, gone at the end."""
import json
import os
import pty
import signal
import subprocess
import time
import unittest

from harness import BINARY, CliTest


def on_terminal(args, env=None, interrupts=()):
    """(exit code, stdout, what a terminal on stderr received); interrupted when it received each of `interrupts`."""
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
        if interrupts and interrupts[0] in received:
            child.send_signal(signal.SIGINT)
            interrupts = interrupts[1:]
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
        self.assertRegex(err, r"\r +\r(moesaic run: warning: unsteady .*\r\n)?$")  # other tests run beside this one
        self.assertNotIn(b"\x1b", out)
        self.assertNotIn(b"left:", out)

    def test_experiments_say_the_time_left(self):
        code, _, err = on_terminal(("experiment", "fig73", "--protocol", "reduced", "--backend", "cpu", "--trials", 4,
                                    "--output", str(self.folder / "rows.jsonl")))
        self.assertEqual(code, 0, err)
        self.assertRegex(err, r"fig73 \[[#.]{20}\] +\d+ %, \S+ \S+ left: rows_per_expert=\d+ trial=\d")

    def test_an_interrupt_prints_what_is_finished(self):
        code, out, err = on_terminal((*self.long_work(), "--json"), interrupts=(b"left: layer",))
        self.assertEqual(code, -signal.SIGINT, err)
        self.assertIn("interrupted; finishing what runs now", err)
        self.assertGreater(len(json.loads(out)["cases"]), 0)

    def test_a_second_interrupt_ends_at_once(self):
        code, out, _ = on_terminal(self.long_work(), interrupts=(b"left: layer", b"interrupted"))
        self.assertEqual((code, out), (-signal.SIGINT, b""))

    def test_an_interrupt_takes_the_line_off(self):
        code, _, err = on_terminal(("verify", "--backend", "cpu"), interrupts=(b"left: ",))
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
