#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Given routings of scripts/compare_torch.py, which reads them through `moesaic plan`."""
import argparse
import contextlib
import io
import json
import pathlib
import sys
import unittest

import harness

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import compare_routing  # noqa: E402
import torch_arm  # noqa: E402


class CompareRouting(harness.CliTest):
    def read(self, *words, shape="d=64,h=24"):
        parser = argparse.ArgumentParser()
        compare_routing.add_flags(parser)
        args = parser.parse_args(["--routing", *words, "--moesaic", harness.BINARY, *(["--shape", shape] if shape else [])])
        with contextlib.redirect_stderr(io.StringIO()) as told:
            cases = compare_routing.read_cases(args)
        self.told = told.getvalue()
        return cases

    def names(self, *words):
        return [row.name for case in self.read(*words) for row in case.rows]

    def routing(self, name="model.json", steps=(0, 7), layers=(0, 12), experts=4):
        records = [{"layer": layer, "step": step, "counts": [layer + step + 1, 0, *range(2, experts)]} for step in steps for layer in layers]
        return self.write(name, json.dumps({"schema": "moesaic.routing/1", "num_experts": experts, "id_space": "logical",
                                            "aggregation": "per_step", "records": records}))

    def test_records(self):
        path = self.routing()
        first, *_, last = cases = self.read(path)
        self.assertEqual(len(cases), 4)
        self.assertEqual((last.counts, last.n, last.k, last.arms), ((20, 0, 2, 3), 48, 64, ("moesaic", "torch")))
        self.assertEqual({key: first.source[key] for key in ("name", "layer", "step", "rank", "rescaled_to")},
                         {"name": "model.json", "layer": 0, "step": 0, "rank": None, "rescaled_to": None})
        self.assertIn("moesaic.routing/1 JSON", self.told)

    def test_names(self):
        path, other = self.routing(), self.routing("other.json", steps=(7,))
        self.assertEqual(self.names(path, "--step", "7"), ["real model layer 0", "real model layer 12"])
        self.assertEqual(self.names(path, "--step", "7", "--label", "a decode 32"), ["real a decode 32 layer 0", "real a decode 32 layer 12"])
        self.assertEqual(self.names(path, "--layer", "12"), ["real model step 0 layer 12", "real model step 7 layer 12"])
        both = self.names(path, other, "--step", "7", "--layer", "0", "--label", "a")
        self.assertEqual(both, ["real a model layer 0", "real a other layer 0"])
        ranks = self.names(path, "--step", "0", "--ep", "2", "--layer", "0")
        self.assertEqual(ranks, ["real model rank 0 layer 0", "real model rank 1 layer 0"])

    def test_ids(self):
        path = self.write("ids.npy", harness.npy_bytes("<i4", (3, 2, 2), [0, 1, 2, 3, 0, 2, 3, 1, 0, 3, 2, 3]))
        self.assertEqual([case.counts for case in self.read(path, "--experts", "4")], [(3, 1, 1, 1), (0, 1, 2, 3)])

    def test_the_hottest_rank_rescaled(self):
        path = self.routing(steps=(7,))
        even, skewed = self.read(path, "--ep", "2", "--rank", "hottest", "--rows", "1000")
        self.assertEqual((even.counts, skewed.counts), ((1000, 0), (1000, 0)))
        self.assertEqual([case.source["rank"] for case in (even, skewed)], [0, 0])
        wide = self.routing("wide.json", steps=(0,), layers=(0,))  # 1 0 | 2 3
        case, = self.read(wide, "--ep", "2", "--rank", "hottest", "--rows", "12", "--label", "hot")
        self.assertEqual((case.counts, case.source["rank"], case.source["rescaled_to"], case.rows[0].name), ((5, 7), 1, 12, "real hot layer 0"))
        self.assertEqual(sum(self.read(wide, "--rows", "8192")[0].counts), 8192)
        self.assertIn("dense", self.read(wide, "--rows", "8192")[0].arms)
        self.assertEqual(self.read(wide, "--ep", "2", "--rank", "0")[0].counts, (1, 0))

    def refused(self, *words, message, code=2, shape="d=64,h=24"):
        with self.assertRaisesRegex(torch_arm.Refused, message) as refused:
            self.read(*words, shape=shape)
        self.assertEqual(refused.exception.code, code)

    def test_refusals(self):
        path = self.routing()
        self.refused(path, shape=None, message="--shape: expected d=D,h=H, .*, got none")
        self.refused(path, shape="d=64,h=12", message="--shape: .*multiples of 8.*got d=64,h=12")
        self.refused(path, "--layer", "0,3", message="--layer: .* from 0 to 12, got '3'")
        self.refused(path, "--rank", "hottest", message="--rank hottest: expected --ep")
        self.refused(path, "--rows", "0", message="--rows: expected at least 1, got 0")
        self.refused(path, "--ep", "3", message="--routing: moesaic plan: --ep: expected a number of ranks that divides 4 experts")
        self.refused("absent.json", message="--routing: moesaic plan: .*absent.json")
        self.refused(path, self.routing("wide.json", experts=8), "--rows", "64", message="--rows: expected files of one number of experts")
        zeros = self.write("zeros.csv", "layer,expert,count\n0,0,0\n0,1,0\n")
        self.refused(zeros, message="--routing: expected files with rows")
        for body, words in (("kill -9 $$", "got its exit code -9 without a word"), ("exit 3", "got its exit code 3 without a word"),
                            ("echo one >&2; echo two >&2; exit 2", "--routing: two")):
            silent = self.write("silent", f"#!/bin/sh\n{body}\n")
            pathlib.Path(silent).chmod(0o755)
            with self.assertRaisesRegex(torch_arm.Refused, words) as refused:
                compare_routing.plan(silent, [path], [])
            self.assertEqual(refused.exception.code, 3 if body == "exit 3" else 2)
        with self.assertRaisesRegex(torch_arm.Refused, "--moesaic: expected the command moesaic .* got /nowhere/moesaic"):
            compare_routing.find_moesaic("/nowhere/moesaic")


if __name__ == "__main__":
    unittest.main()
