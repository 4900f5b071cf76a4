# SPDX-License-Identifier: Apache-2.0
"""One experiment of run_experiments.py: its words, its files, which of its rows are there. How it runs is not here."""
import fcntl
import json
import os
import shlex
from pathlib import Path

from row_parts import parts_of
from torch_arm import case_place, place

OURS = ("--output", "--budget", "--dry-run", "--summarize", "--json", "--backend")  # set here, or no run
TORCH_START_S = 15  # PyTorch, a context and its kernels, once a process


class Refused(Exception):
    """A message for the user."""


class Listed:
    """One experiment of the list: its words, files and cases, and what its stages came to."""

    def __init__(self, words, folder):
        try:
            self.words = shlex.split(words)
        except ValueError as error:
            raise Refused(f"EXPERIMENT: expected a name and flags as a shell splits them, got {words!r}: {error}") from None
        if not self.words:
            raise Refused("EXPERIMENT: expected a name such as fig38, got nothing")
        for word in self.words:
            if word.split("=")[0] in OURS:
                raise Refused(f"EXPERIMENT: expected words without {', '.join(OURS)}, got {words!r}")
        # Commands are recorded in rows and run in the folder: paths there are relative to it.
        self.words[1:] = [os.path.relpath(word, folder) if Path(word).is_file() else word for word in self.words[1:]]
        self.name, self.folder = self.words[0], folder
        self.rows_path, self.log_path = folder / f"{self.name}.jsonl", folder / f"{self.name}.log"
        self.cases, self.seconds, self.notes, self.codes = [], 0.0, [], []

    def lock(self):
        """The log, held for this run and for what it starts: nobody else writes the rows meanwhile."""
        self.log = self.log_path.open("a", encoding="utf-8")
        try:
            fcntl.flock(self.log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"{self.name}: expected {self.log_path} to be free, got one that another run writes to") from None

    def rows(self):
        """Rows of this experiment that are there, in one file or in parts. A row that was cut off is none."""
        for path in [self.rows_path] if self.rows_path.exists() else parts_of(self.rows_path):
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    row = json.loads(line)
                    mine = row["experiment"]["name"] == self.name
                except (ValueError, KeyError, TypeError):
                    continue
                if mine:
                    yield row

    def refuse_other_device(self, kind):
        """Rows of a CPU are not those that a GPU is asked for, nor the other way round."""
        for row in self.rows():
            device = row.get("device", {})  # fig2's rows are of none
            if device.get("kind", kind) != kind:
                raise Refused(f"{self.name}: expected rows of backend {kind} in {self.folder}, got rows of {device.get('name')}, "
                              f"backend {device['kind']} (another folder: --output)")

    def places(self):
        """Places of the rows that are there."""
        found = set()
        for row in self.rows():
            try:
                found.add(place(row["experiment"]))
            except (KeyError, TypeError):
                continue
        return found

    def progress(self):
        """((done, all) rows of moesaic's arms, (done, all) of torch's, seconds that the rest takes of either)."""
        if self.name == "fig2":  # arithmetic, without cases: made anew by every run
            count = sum(1 for _ in self.rows())
            return [count, count], [0, 0], 0.0, 0.0
        there, own, torch = self.places(), [0, 0], [0, 0]
        own_s = torch_s = 0.0
        for case in self.cases:
            arms = [arm for arm in case["arms"] if arm != "torch"]
            done = sum((*case_place(case)[:3], arm, case["process"]) in there for arm in arms)
            own[0], own[1] = own[0] + done, own[1] + len(arms)
            if arms:
                own_s += case["expected_s"] * (len(arms) - done) / len(arms)
            if "torch" in case["arms"]:
                here = case_place(case) in there
                torch[0], torch[1] = torch[0] + here, torch[1] + 1
                torch_s += 0 if here else case["expected_s"] / max(1, len(arms))
        if torch[0] < torch[1]:
            torch_s += TORCH_START_S * len({case["process"] for case in self.cases})
        return own, torch, own_s, torch_s
