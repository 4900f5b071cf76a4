#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""moesaic bench ep on simulated ranks: rows, checks, refusals."""

import json
import os
import unittest
from unittest import mock

from harness import CliTest

SMALL = ("bench", "ep", "--simulated", 2, "--tokens", 40, "--d", 32, "--experts", 8, "--topk", 2,
         "--samples", 5)


class BenchEp(CliTest):
    def rows(self, *flags):
        done = self.fine(*SMALL, "--json", "-", *flags)
        return [json.loads(line) for line in done.out.splitlines()]

    def test_rows(self):
        rows = self.rows("--routing", "uniform,zipf:2", "--nblocks", "0,3", "--seed", 5)
        operations = [row["operation"] for row in rows if row["nblocks"] == 3 and row["routing"]["name"] == "uniform"]
        self.assertIn("dispatch_put", operations)
        self.assertEqual(len(rows), 4 * len(operations))
        for row in rows:
            self.assertEqual(row["schema"], "moesaic.bench_ep/1")
            self.assertRegex(row["date"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
            self.assertEqual(row["routing"]["seed"], 5)
            self.assertEqual((row["device"]["ranks"], row["device"]["transport"]), (2, "simulated"))
            self.assertGreater(row["check"]["elements"], 0)
            self.assertEqual(row["check"]["mismatches"], 0)
            self.assertGreater(row["timing"]["slowest_s"], 0)
            routing = row["routing"]
            self.assertEqual(routing["routes"] + routing["dropped_routes"], 2 * 40 * 2)
        put = next(row for row in rows if row["operation"] == "dispatch_put")
        busiest = max(put["routing"]["remote_out_rows"], put["routing"]["remote_in_rows"])
        self.assertEqual(put["derived"]["remote_bytes"], busiest * 32 * 2)
        # By fan-out each of a rank's 40 tokens once: at most those, at least half of the rows of topk 2.
        fan_out = next(row for row in rows if row["operation"] == "dispatch_put_fan_out")
        tokens = max(fan_out["routing"]["remote_out_tokens"], fan_out["routing"]["remote_in_tokens"])
        self.assertLess(tokens, busiest)
        self.assertLessEqual((busiest + 1) // 2, tokens)
        self.assertEqual(fan_out["derived"]["remote_bytes"], tokens * 32 * 2)
        both = next(row for row in rows if row["operation"] == "maps+dispatch_put_fan_out+combine_get_fused")
        self.assertEqual(both["derived"]["remote_bytes"], (tokens + busiest) * 32 * 2)

    def test_skew_drops_routes_and_capacity_brings_them_back(self):
        self.assertGreater(self.rows("--routing", "zipf:3")[0]["routing"]["dropped_routes"], 0)
        self.assertEqual(self.rows("--routing", "zipf:3", "--capacity", 2)[0]["routing"]["dropped_routes"], 0)

    def test_table_and_file(self):
        path = self.folder / "rows.jsonl"
        done = self.fine(*SMALL, "--json", path)
        self.assertIn("cpu/reference/rowwise; dispatch auto is direct\n", done.out)
        self.assertIn("combine_get_fused", done.out)
        self.assertEqual(len(path.read_text(encoding="utf-8").splitlines()), 20)

    def test_the_form_that_a_plan_would_take(self):
        large = ("bench", "ep", "--simulated", 2, "--tokens", 512, "--d", 2048, "--experts", 8, "--topk", 8, "--samples", 5)
        self.assertIn("; dispatch auto is fan_out\n", self.fine(*large, "--routing", "uniform").out)

    def test_refusals(self):
        self.refused("bench", "ep", words=("RANK, WORLD_SIZE and MOESAIC_RENDEZVOUS", "--simulated"))
        with mock.patch.dict(os.environ, RANK="first", WORLD_SIZE="1", MOESAIC_RENDEZVOUS=str(self.folder)):
            self.refused("bench", "ep", words=("RANK: expected a whole number", "first"))
        self.refused(*SMALL, "--routing", "one-hot", words=("--routing", "zipf:S"))
        two = ("bench", "ep", "--simulated", 2)
        self.refused(*two, "--experts", 9, words=("--experts", "a multiple of --simulated 2", "9"))
        self.refused(*two, "--experts", 4, "--topk", 5, words=("--topk", "at most --experts 4", "5"))
        self.refused(*two, "--d", 12, words=("--d", "multiple of 8"))
        self.refused(*two, "--samples", 2, words=("--samples", "5 to 80"))

    def test_help(self):
        self.assertIn("--nblocks", self.fine("help", "bench", "ep").out)
        self.assertIn("--nblocks", self.fine("bench", "ep", "--help").out)
        self.assertNotIn("--nblocks", self.fine("help", "bench").out)


if __name__ == "__main__":
    unittest.main()
