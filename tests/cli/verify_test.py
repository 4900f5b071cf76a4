# SPDX-License-Identifier: Apache-2.0
"""moesaic verify: groups, selection, exit codes."""
import time
import unittest

from harness import CliTest


class Verify(CliTest):
    def test_quick_holds_and_says_how_much_it_compared(self):
        start = time.monotonic()
        report = self.json("verify", "--quick")
        self.assertLess(time.monotonic() - start, 60)
        self.assertTrue(report["ok"])
        self.assertEqual(report["failures"], [])
        groups = {g["group"]: g for g in report["groups"]}
        self.assertEqual(sorted(groups), sorted(["exact", "random", "accumulate", "repeat", "options", "faults", "overflow", "refusals", "mlp"]))
        for group in groups.values():
            self.assertGreater(group["cases"], 0)
            self.assertGreater(group["elements"], 0)
            self.assertEqual((group["failed_cases"], group["mismatches"]), (0, 0))
        self.assertGreater(groups["random"]["worst"], 0)
        self.assertLessEqual(groups["random"]["worst"], 1)

    def test_text_has_a_line_per_group(self):
        out = self.fine("verify", "--case", "exact:mixed", "--seed", 7).out
        self.assertIn("seed 7", out)
        line, = [l for l in out.splitlines() if l.startswith("exact ")]
        self.assertIn(" ok ", line)

    def test_selection_narrows(self):
        whole = self.json("verify", "--case", "exact:mixed")["groups"][0]["cases"]
        part = self.json("verify", "--case", "exact:mixed:forward")["groups"][0]["cases"]
        typed = self.json("verify", "--case", "exact:mixed", "--pass", "forward", "--dtype", "fp32")["groups"][0]["cases"]
        self.assertGreater(whole, part)
        self.assertGreater(part, typed)
        self.assertGreater(typed, 0)
        only = self.json("verify", "--pass", "mlp", "--dtype", "bf16", "--quick")["groups"]
        self.assertEqual([g["group"] for g in only], ["mlp"])

    def test_wide_strides_reach_past_32_bits(self):
        result = self.cli("verify", "--case", "wide_strides", "--json")
        if result.returncode == 2:
            self.skipTest("address space cannot be reserved here")
        self.assertEqual(result.returncode, 0, result.err)


if __name__ == "__main__":
    unittest.main()
