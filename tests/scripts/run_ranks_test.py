#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run_ranks.sh: what each rank is given, and how failures and hangs end."""

import os
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "run_ranks.sh"


def run(*arguments, gpus=False, **environment):
    begin = time.monotonic()
    done = subprocess.run([SCRIPT, *([] if gpus else ["--without-gpus"]), *arguments],
                          env={**os.environ, **environment}, capture_output=True, text=True,
                          check=False, timeout=60)
    done.seconds = time.monotonic() - begin
    return done


class RunRanks(unittest.TestCase):
    def test_every_rank_has_its_number_and_the_folder_they_share(self):
        done = run("3", "bash", "-c", 'touch "$MOESAIC_RENDEZVOUS/$RANK"; '
                   'while [[ "$(ls "$MOESAIC_RENDEZVOUS" | wc -l)" != "$WORLD_SIZE" ]]; do sleep 0.02; done; '
                   'echo "$RANK $LOCAL_RANK of $WORLD_SIZE${MOESAIC_DYING_RANK-}"')
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sorted(done.stdout.splitlines()), [f"[{r}] {r} {r} of 3" for r in range(3)])

    def test_ranks_share_the_processors(self):
        without = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
        processors = int(subprocess.run(["nproc"], env=without, capture_output=True, check=True).stdout)
        show = ("2", "bash", "-c", 'echo "$OMP_NUM_THREADS"')
        with mock.patch.dict(os.environ, without, clear=True):
            self.assertEqual(run(*show).stdout.split()[1], str(max(1, processors // 2)))
            self.assertEqual(run(*show, OMP_NUM_THREADS="3").stdout.split()[1], "3")

    def test_a_failure_is_named_and_ends_the_others(self):
        done = run("2", "bash", "-c", '[[ $RANK == 0 ]] && sleep 50 || exit 7', GRACE_S="1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("rank 1 ended with status 7", done.stderr)
        self.assertIn("1 rank(s) did not end in time", done.stderr)
        self.assertLess(done.seconds, 20)

    def test_a_failure_is_told_to_the_others(self):
        waits = 'until [[ -s "$MOESAIC_RENDEZVOUS/failed" ]]; do sleep 0.02; done; cat "$MOESAIC_RENDEZVOUS/failed"'
        done = run("3", "bash", "-c", f"[[ $RANK == 1 ]] && exit 7; {waits}")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         [f"[{rank}] rank 1 ended with status 7" for rank in (0, 2)])
        self.assertLess(done.seconds, 10)
        done = run("2", "bash", "-c", f'[[ $RANK == 1 ]] && echo its words >"$MOESAIC_RENDEZVOUS/failed" && exit 7; {waits}')
        self.assertEqual(done.stdout, "[0] its words\n")
        done = run("--one-dies", "2", "bash", "-c", '[[ $RANK == 1 ]] && exit 7; sleep 1; [[ ! -e "$MOESAIC_RENDEZVOUS/failed" ]]')
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_hang_ends(self):
        done = run("2", "sleep", "50", LIMIT_S="1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("2 rank(s) did not end in time", done.stderr)
        self.assertLess(done.seconds, 20)

    def test_nothing_is_left_behind(self):
        with tempfile.TemporaryDirectory() as folder:
            run("2", "bash", "-c", f"echo $$ >{folder}/$RANK; sleep 50 & wait", LIMIT_S="2")
            for rank in ("0", "1"):
                process = Path(folder, rank).read_text(encoding="utf-8").strip()
                for _ in range(100):
                    if not Path("/proc", process).exists():
                        break
                    time.sleep(0.05)
                self.assertFalse(Path("/proc", process).exists())

    def test_the_dying_rank_may_end_as_it_likes(self):
        done = run("--one-dies", "2", "bash", "-c", '[[ $RANK != "$MOESAIC_DYING_RANK" ]]')
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run("--one-dies", "2", "bash", "-c", '[[ $RANK == "$MOESAIC_DYING_RANK" ]]')
        self.assertEqual(done.returncode, 1)

    def test_too_few_gpus_is_a_skip(self):
        done = run("1000", "false", gpus=True)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^SKIPPED: 1000 ranks need 1000 GPUs, this machine has \d+\n$")

    def test_usage(self):
        for arguments in ((), ("2",), ("x", "true"), ("0", "true"), ("--what", "2", "true")):
            with self.subTest(arguments=arguments):
                done = run(*arguments)
                self.assertEqual(done.returncode, 2)
                self.assertIn("usage:", done.stderr)


if __name__ == "__main__":
    unittest.main()
