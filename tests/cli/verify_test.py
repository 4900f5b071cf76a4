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
        self.assertEqual(sorted(groups), sorted(["exact", "random", "accumulate", "repeat", "options", "faults", "overflow", "refusals", "mlp", "mlp_rows"]))
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
        self.assertEqual([g["group"] for g in only], ["refusals", "mlp", "mlp_rows"])

    def elements(self, case):
        """Of this one case."""
        report = self.json("verify", "--backend", "cpu", "--case", f"{case}:cpu/reference/grouped")
        group, = report["groups"]
        self.assertEqual((group["cases"], group["failed_cases"]), (1, 0), case)
        return group["elements"]

    def test_rows_by_an_index_and_weights_of_rows(self):
        for dtype in ("bf16", "fp32"):
            for kind in ("gate_up:save:reversed", "up_gate:recompute:repeated", "interleaved:save:outside",
                         "up_gate:recompute:repeated_weighted"):
                self.assertGreater(self.elements(f"mlp_rows:mostly_unused:{dtype}:{kind}"), 0)
            # 24 rows are somebody's, of 524: their gradients within the bound, and all else as before.
            plain = f"mostly_unused:{dtype}:interleaved:save"
            self.assertEqual(self.elements(f"mlp_rows:{plain}:weighted") - self.elements(f"mlp:{plain}"),
                             24 + 524)

    def test_wrong_arguments_of_rows_are_refused(self):
        group, = self.json("verify", "--backend", "cpu", "--case", "refusals:mlp")["groups"]
        self.assertEqual(group["failed_cases"], 0)
        for name in ("x_rows_length", "x_rows_null", "row_weights_dtype"):
            self.assertGreater(self.elements(f"refusals:mlp:{name}"), 0)

    def test_wide_strides_reach_past_32_bits(self):
        result = self.cli("verify", "--case", "wide_strides", "--json")
        if result.returncode == 2:
            self.skipTest("address space cannot be reserved here")
        self.assertEqual(result.returncode, 0, result.err)


if __name__ == "__main__":
    unittest.main()
