# SPDX-License-Identifier: Apache-2.0
"""Measured rows on the page: every experiment's figure shows what made-up rows of known values say."""
import csv
import io
import json
import os
import pathlib
import re
import subprocess
import unittest

import made_up_rows as made
from page import BINARY, PageTest, lines

ALL_RESULTS = sorted((pathlib.Path(__file__).resolve().parents[2] / "bench/results").glob("*.jsonl"))
EXPERIMENTS = [path for path in ALL_RESULTS if "experiment" in json.loads(path.open(encoding="utf-8").readline())]
RESULTS = [path for path in ALL_RESULTS if path not in EXPERIMENTS]


class Results(PageTest):
    def test_every_figure_is_drawn(self):
        fig2 = self.folder / "fig2.jsonl"
        subprocess.run([BINARY, "experiment", "fig2", "--output", fig2], check=True, capture_output=True)
        page = self.page(self.write("a.jsonl", lines(made.everything())), self.write("b.jsonl", lines(made.everything(1.04))), fig2)
        ids = self.drawn(page)
        self.assertEqual(ids[:12], ["fig38", "fig71", "table44", "fig40", "fig72", "fig73", "skew", "fig2", "bench",
                                    "ep-2-nvshmem", "ep_blocks-2-nvshmem", "ep_arm-2-nvshmem"])
        self.assertEqual(len([one for one in ids if one.startswith(("roofline", "predicted"))]), 6)
        for one in ids:
            self.assertTrue(self.corner(page, one), f"{one} names no device")
            for button in page.locator(f"#{one} .switch button").all():
                button.click()
            for select in page.locator(f"#{one} select").all():
                for value in select.evaluate("select => [...select.options].map((option) => option.value)"):
                    select.select_option(value)
        self.assertEqual(self.drawn(page), ids)

    def test_the_sweep(self):
        page = self.page(self.write("a.jsonl", lines(made.sweep())))
        self.assertEqual(self.trace(page, "fig38", "grouped")["x"], [64, 1024, 8192, 65536, 131072])
        self.all_near(self.trace(page, "fig38", "grouped")["y"], 700)
        self.all_near(self.trace(page, "fig38", "padded_bmm")["y"], 560)
        self.all_near(self.trace(page, "fig38", "padded_bmm", "x2")["y"], 1.25)
        page.locator("#fig38 button[data-value='physical']").click()
        self.all_near(self.trace(page, "fig38", "padded_bmm")["y"], 700)
        for key, axis in (("Rows", "xaxis"), ("Left axis", "yaxis")):
            for kind in ("linear", "log"):
                page.locator(f"#fig38 [aria-label='{key}'] button[data-value='{kind}']").click()
                self.assertEqual(page.evaluate(f"document.getElementById('fig38-plot').layout.{axis}.type"), kind)
        self.assertEqual(self.corner(page, "fig38"), ["Made-up GPU · 0123456789ab · 2026-01-02 · full · short burst"])
        rows = list(csv.DictReader(io.StringIO(self.download(page, "#fig38 .csv").decode())))
        self.assertEqual(len(rows), 25)
        self.assertEqual({key: rows[1][key] for key in ("case", "arm", "rows", "git", "device")},
                         {"case": "rows=64", "arm": "padded_bmm", "rows": "64", "git": "0123456789ab", "device": "Made-up GPU"})
        self.assertAlmostEqual(float(rows[1]["useful_tflops"]), 560)
        self.assertEqual(self.download(page, "#fig38 .png")[:4], b"\x89PNG")

    def test_full_and_reduced_are_two_figures(self):
        page = self.page(self.write("a.jsonl", lines([*made.sweep(), *made.sweep(protocol="reduced", width=256)])))
        self.assertIn("d = h = 4096", self.text(page, "#fig38 h3"))
        self.assertIn("d = h = 256", self.text(page, "#fig38-reduced h3"))
        self.assertEqual(self.drawn(page)[:2], ["fig38", "fig38-reduced"])
        self.assertIn("reduced protocol", self.text(page, "#fig38-reduced .tags"))
        self.assertIn("reduced", self.corner(page, "fig38-reduced")[0])
        self.assertNotIn("reduced", self.text(page, "#fig38 .tags") + self.corner(page, "fig38")[0])

    def test_two_files_beside_one_another(self):
        page = self.page(self.write("old.jsonl", lines(made.sweep())), self.write("new.jsonl", lines(made.sweep(factor=0.8))))
        self.all_near(self.trace(page, "fig38", "grouped · A")["y"], 700)
        self.all_near(self.trace(page, "fig38", "grouped · B")["y"], 875)
        self.assertIn("B ÷ A, time: median 0.8, from 0.8 to 0.8 over 25 cases", self.text(page, "#fig38"))
        page.locator("#fig38-b").select_option("-1")
        self.assertEqual({one["name"] for one in self.traces(page, "fig38")}, {"grouped", "padded_bmm", "host_loop", "dense", "torch"})
        self.assertEqual(len(self.corner(page, "fig38")), 1)

    def test_what_is_not_in_the_chosen_files_is_said_to_be_elsewhere(self):
        def compared(case):
            return {"schema": "moesaic.compare/1", "date": "2026-01-02", "git": {"sha": "0123456789ab"}, "device": {"name": "Made-up GPU"},
                    "case": case, "ratio": 1.25, "check": {"passed": True}}
        page = self.page(self.write("old.jsonl", lines([compared("fwd 4096 M=64 vs torch")])),
                         self.write("new.jsonl", lines([compared("mlp large fwd vs torch")])))
        page.locator("#compare-b").select_option("-1")
        self.assertNotIn("no rows of this choice", self.text(page, "#compare"))
        page.locator("#compare-group").select_option("mlp")
        self.assertIn("This file has no rows of this choice.\n\nSuch rows are in new.jsonl.", self.text(page, "#compare"))
        self.assertEqual(self.traces(page, "compare"), [])
        page.locator("#compare-a").select_option(label="new.jsonl")
        self.assertNotIn("no rows of this choice", self.text(page, "#compare"))
        self.assertEqual(self.trace(page, "compare", "torch")["x"], [1.25])
        page.locator("#compare-b").select_option(label="old.jsonl")
        self.assertIn("B has no rows of this choice.", self.text(page, "#compare"))
        self.assertNotIn("Such rows", self.text(page, "#compare"))

    def test_split_projection(self):
        page = self.page(self.write("a.jsonl", lines(made.table44())))
        page.locator("#table44 button[data-value='share']").click()
        for partition in (4, 8):
            self.all_near(self.trace(page, "table44", f"grouped, {partition} experts")["y"], 0.9)
        self.assertIn("sustained", self.text(page, "#table44 .tags"))

    def test_histograms(self):
        rows = list(made.fig40())
        page = self.page(self.write("a.jsonl", lines(rows)))
        points = self.trace(page, "fig40", "histograms")
        self.assertEqual(len(points["x"]), 20)
        for i_h, relative in zip(points["x"], points["y"]):
            self.assertAlmostEqual(relative, 1 - 0.1 * i_h, 9)
        self.assertIn("throughput -1.00, 95 % interval -1.00 to -1.00", self.text(page, "#fig40"))
        page.locator("#fig40 button[data-value='both']").click()
        twins = self.trace(page, "fig40", "whole-tile twins")
        for i_h, relative in zip(twins["x"], twins["y"]):
            self.assertAlmostEqual(relative, 1.01 - 0.1 * i_h, 9)
        page.evaluate("document.getElementById('fig40-plot').emit('plotly_click', {points: [{customdata: 3}]})")
        shown = page.evaluate("document.getElementById('fig40-inspector').data.map((bars) => [bars.name, bars.y])")
        self.assertTrue(shown[1][0].startswith("histogram 3:"))
        self.assertEqual(shown[1][1], sorted(next(r["load"]["counts"] for r in self.data(page)["results"]["files"][0]["rows"] if r["experiment"]["factors"].get("histogram") == 3), reverse=True))

    def test_points_of_two_files_are_inspected(self):
        page = self.page(self.write("a.jsonl", lines(made.fig40())), self.write("b.jsonl", lines(made.fig40())))
        points = len(self.trace(page, "fig40", "histograms · A")["x"])
        for index, letter in ((0, "A"), (points, "B")):
            page.evaluate(f"document.getElementById('fig40-plot').emit('plotly_click', {{points: [{{customdata: {index}}}]}})")
            names = page.evaluate("document.getElementById('fig40-inspector').data.map((bars) => bars.name)")
            self.assertIn(f"histogram 0 · {letter}:", names[1])

    def test_rows_without_a_control_are_said(self):
        rows = [row for row in made.fig40() if not (row["experiment"]["factors"]["control"] and row["experiment"]["process"] == 1)]
        page = self.page(self.write("a.jsonl", lines(rows)))
        self.assertIn("40 rows have no balanced control in their process", self.text(page, "#fig40"))

    def test_pairs(self):
        page = self.page(self.write("a.jsonl", lines(made.fig72())))
        for pair in ("i_max", "i_h", "effective_experts"):
            page.locator(f"#fig72 button[data-value='{pair}']").click()
            for load, wanted in (("balanced", 1), ("single_spike", 0.95), ("three_hot", 0.88)):
                self.all_near(self.trace(page, "fig72", load, "x2")["y"], wanted)

    def test_sustained_work(self):
        page = self.page(self.write("a.jsonl", lines(made.fig73())))
        text = self.text(page, "#fig73")
        self.assertIn("The power cap held the clock down in 100.0 % of 1,440 looks", text)
        self.assertIn("96 rows throttled", text)
        clocks = self.trace(page, "fig73", "grouped", "x2")
        self.assertEqual(dict(zip(clocks["x"], clocks["y"])), {4096: 1660, 8192: 1619, 16384: 1537, 32768: 1373})
        per_clock = self.trace(page, "fig73", "grouped", "x3")
        middle = sum(700 / (1 + 0.01 * trial) for trial in (-0.5, 0.5)) / 2
        self.assertAlmostEqual(per_clock["y"][0], middle / 1660, 9)
        self.all_near(self.trace(page, "fig73", "grouped", "x4")["y"], 695)

    def test_rows_that_the_verb_experiment_writes(self):
        for name in ("fig38", "fig73"):
            subprocess.run([BINARY, "experiment", name, "--protocol", "reduced", "--backend", "cpu", "--output", self.folder / f"{name}.jsonl"],
                           check=True, capture_output=True, env=dict(os.environ, OMP_WAIT_POLICY="passive"))
        page = self.page(self.folder / "fig38.jsonl", self.folder / "fig73.jsonl")
        self.assertEqual(self.drawn(page), ["fig38-reduced", "fig73-reduced"])

    def test_a_device_without_telemetry(self):
        rows = [dict(row, telemetry=None, clocks=None) for row in made.fig73(trials=1)]
        page = self.page(self.write("a.jsonl", lines(rows)))
        self.assertEqual(self.drawn(page)[0], "fig73")
        self.assertIn("no telemetry", self.text(page, "#fig73"))
        self.assertEqual({one["xaxis"] for one in self.traces(page, "fig73")}, {"x"})

    def test_replayed_histograms(self):
        page = self.page(self.write("a.jsonl", lines(made.skew())))
        self.assertEqual(len(self.trace(page, "skew", "grouped")["x"]), 12)
        page.locator("#skew button[data-value='decode']").click()
        self.assertEqual(len(self.trace(page, "skew", "grouped")["x"]), 6)
        self.all_near(self.trace(page, "skew", "host_loop", "x2")["y"], 1.5)
        self.assertIn("1.1 times as long", self.text(page, "#skew"))

    def test_roofline_and_prediction(self):
        page = self.page(self.write("a.jsonl", lines(made.bench())))
        self.all_near(self.trace(page, "bench", "host_loop", "x2")["y"], 1.5)
        point = self.trace(page, "roofline", "grouped")
        self.assertAlmostEqual(point["x"][0], 4096 * 4096 / (4096 * 2 + 16 * 4096))
        self.all_near(point["y"], 700)
        roof = next(one for one in self.traces(page, "roofline") if one["name"].startswith("roofline"))
        self.assertAlmostEqual(roof["y"][1], 989)
        predicted = self.trace(page, "predicted", "bench")
        rows = [row for row in self.data(page)["results"]["files"][0]["rows"] if "predicted" in row]
        self.assertEqual(predicted["x"], [row["predicted"]["kernel_s"] for row in rows])
        self.assertEqual(predicted["y"], [row["timing"]["median_s"] for row in rows])

    def test_layers_are_apart_by_how_they_keep_activations(self):
        rows = []
        for activations, factor in (("save", 1.0), ("recompute", 1.2)):
            for one in made.bench(factor=factor):
                one["problem"] = {"pass": "mlp", "strategy": one["problem"]["strategy"], "dtype": "bf16", "d": 64, "h": 96, "experts": 16, "order": "up_gate", "activations": activations}
                rows.append(one)
        page = self.page(self.write("a.jsonl", lines(rows)))
        self.assertEqual(page.locator("#bench-product option").all_inner_texts(), [
            f"mlp, 16 experts, d = 64, h = 96, up_gate, activations {kept}, bf16" for kept in ("save", "recompute")])
        self.assertAlmostEqual(self.trace(page, "bench", "grouped")["y"][0], 700)
        page.locator("#bench-product").select_option(index=1)
        self.assertAlmostEqual(self.trace(page, "bench", "grouped")["y"][0], 700 / 1.2)

    def test_named_implementations_are_arms_and_have_no_prediction(self):
        rows = [row for row in made.bench() if row["problem"]["strategy"] == "grouped"]
        named = [dict(row, problem=dict(row["problem"], implementation="made/up/other"), timing=dict(row["timing"], median_s=row["timing"]["median_s"] / 2))
                 for row in rows]
        page = self.page(self.write("a.jsonl", lines(rows + named)))
        self.all_near(self.trace(page, "bench", "grouped")["y"], 700)
        self.all_near(self.trace(page, "bench", "made/up/other")["y"], 1400)
        predicted = [row.get("predicted") is not None for row in self.data(page)["results"]["files"][0]["rows"]]
        self.assertEqual(predicted, [True] * len(rows) + [False] * len(named))

    def test_throttled_rows_are_ringed(self):
        rows = list(made.bench())
        rows[0]["clocks"]["throttled"] = True
        page = self.page(self.write("a.jsonl", lines(rows)))
        self.assertEqual(len(self.trace(page, "bench", "throttled")["x"]), 1)
        self.assertIn("1 rows throttled", self.text(page, "#bench .tags"))

    def test_text_in_rows_is_never_markup(self):
        rows = list(made.bench())
        for row in rows:
            row["routing"]["name"] = row["implementation"] = "<img src=x onerror=alert(1)></script>"
            row["device"] = dict(row["device"], name="<b>GPU</b>")
        page = self.page(self.write("a.jsonl", lines(rows)))
        self.drawn(page)
        page.locator("#bench summary").click()
        self.assertEqual(page.locator("img").count(), 0)
        self.assertEqual(page.eval_on_selector_all("b", "all => all.filter((one) => one.textContent === 'GPU').length"), 0)
        self.assertIn("<b>GPU</b>", self.text(page, "#circumstances"))

    def test_the_experiments_of_this_repository(self):
        self.assertIn("fig2", self.drawn(self.page(*EXPERIMENTS)))

    def test_a_close_up_of_equal_times(self):
        page = self.page(self.write("a.jsonl", lines(made.sweep())))
        axis = "document.getElementById('fig38-plot').layout.yaxis2"
        self.assertGreater(page.evaluate(axis).get("range", [0, 1.5])[1], 1.4)
        page.locator("#fig38 [aria-label='Right axis'] button[data-value='near']").click()
        self.assertEqual(page.evaluate(axis)["range"], [0.6, 1.6])

    def test_an_arm_alone_has_nothing_beside_it(self):
        alone = [row for row in made.bench(sizes=(4096,)) if row["problem"]["strategy"] == "grouped"]
        for beside, rows in ((False, alone), (True, list(made.bench(sizes=(4096,))))):
            page = self.page(self.write("a.jsonl", lines(rows)))
            self.drawn(page)
            self.assertEqual(page.evaluate("'xaxis2' in document.getElementById('bench-plot').layout"), beside)
            self.assertEqual("Right: above 1" in self.text(page, "#bench"), beside)

    def test_the_recordings_of_this_repository(self):
        page = self.page(*RESULTS)
        self.assertEqual(self.drawn(page), ["bench", "bench-sustained", "comparison", "compare", "compare-sustained",
                                            "ep-2-nvshmem", "ep-4-nvshmem", "ep_blocks-2-nvshmem", "ep_blocks-4-nvshmem",
                                            "ep_arm-2-nvshmem", "ep_arm-4-nvshmem",
                                            "roofline", "roofline-sustained", "predicted", "predicted-sustained"])
        for group in page.locator("#compare-group option").all_inner_texts():
            page.locator("#compare-group").select_option(group)
            elsewhere = re.search(r"Such rows are in (\S+\.jsonl)", self.text(page, "#compare"))
            if elsewhere:
                page.locator("#compare-a").select_option(label=elsewhere[1])
            self.drawn(page)
        for select in page.locator("[id^=ep] select").all():  # one by one: not every file has every number of thread blocks
            first = select.input_value()
            for value in select.evaluate("select => [...select.options].map((option) => option.value)"):
                select.select_option(value)
                self.drawn(page)
            select.select_option(first)
        rows = list(csv.DictReader(io.StringIO(self.download(page, "#circumstances-csv").decode())))
        self.assertEqual([row["file"] for row in rows], [str(path) for path in RESULTS])
        self.assertEqual([int(row["rows"]) for row in rows], [len(path.read_text(encoding="utf-8").splitlines()) for path in RESULTS])
        self.assertEqual([row["device"] for row in rows], ["AMD EPYC", *["NVIDIA H200"] * (len(RESULTS) - 1)])
        between = [re.search(r"-x(\d)_ep_", path.name) for path in RESULTS]
        self.assertEqual([(row["ranks"], row["transport"]) for row in rows], [(found[1], "nvshmem") if found else ("", "") for found in between])
        exchange, product = (rows[next(i for i, found in enumerate(between) if bool(found) == ranks and i > 0)] for ranks in (True, False))
        self.assertEqual((exchange["driver"], exchange["toolchain"], exchange["commit"]), ("580.159.04", "CUDA 13.0", "cddd281071ae (modified)"))
        self.assertEqual((product["driver"], product["power_limit"], product["commit"]), ("580.159.04", "700 W", "30788d938d2f"))


if __name__ == "__main__":
    unittest.main()
