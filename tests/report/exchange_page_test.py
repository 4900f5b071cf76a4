# SPDX-License-Identifier: Apache-2.0
"""Rows between ranks on the page: rates, times and ratios of made-up rows, and that numbers of ranks stay apart."""
import csv
import io
import subprocess
import unittest

import made_up_rows as made
from page import BINARY, PageTest, lines

OPERATIONS = ["route_maps", "dispatch_put", "dispatch_put_fan_out", "combine_get_fused"]
EP, BLOCKS, ARM = "ep-2-nvshmem", "ep_blocks-2-nvshmem", "ep_arm-2-nvshmem"


class Exchange(PageTest):
    def points(self, page, figure, name, axis=None):
        """{line: value} of a plot of dots."""
        trace = self.trace(page, figure, name, axis)
        return dict(zip(trace["y"], trace["x"]))

    def near(self, values, wanted):
        self.assertEqual(list(values), list(wanted))
        for key, value in wanted.items():
            self.assertAlmostEqual(values[key], value, 12, key)

    def choose(self, page, figure, control, value):
        page.locator(f"#{figure} [aria-label='{control}'] button[data-value='{value}']").click()

    def axis(self, page, figure, axis):
        return page.evaluate(f"document.getElementById('{figure}-plot').layout.{axis}")

    def test_rates_and_times_of_operations(self):
        page = self.page(self.write("a.jsonl", lines(made.exchange())))
        self.assertEqual(self.drawn(page), [EP, BLOCKS])
        self.near(self.points(page, EP, "uniform"), {"dispatch_put": 300, "dispatch_put_fan_out": 200, "combine_get_fused": 250})
        self.near(self.points(page, EP, "zipf:1"), {"dispatch_put": 150, "dispatch_put_fan_out": 100, "combine_get_fused": 125})
        self.near(self.points(page, EP, "uniform", "x2"), dict(zip(OPERATIONS, (3e-5, 1 / 30e3, 1 / 20e3, 1 / 25e3))))
        page.locator(f"#{EP}-nblocks").select_option(label="16")
        self.near(self.points(page, EP, "uniform"), {"dispatch_put": 75, "dispatch_put_fan_out": 50, "combine_get_fused": 62.5})
        self.assertEqual(self.axis(page, EP, "xaxis2.type"), "log")
        self.choose(page, EP, "Time", "linear")
        self.assertEqual(self.axis(page, EP, "xaxis2.type"), "linear")
        text = self.text(page, f"#{EP}")
        self.assertIn("Problem of every rank: 1,024 tokens × 4,096 bf16, 8 of 64 experts, capacity 1.25.", text)
        self.assertIn("zipf:1: 25.0 % of the routes were dropped", text)
        self.assertEqual(self.corner(page, EP), ["Made-up GPU · 2 ranks, nvshmem · 0123456789ab · 2026-01-02 · short burst"])
        said = page.evaluate(f"document.getElementById('{EP}-plot').data[0].text[0]")
        self.assertEqual(said, "dispatch_put, uniform, thread blocks: 16<br>133 µs on the slowest rank of 121 µs, 133 µs<br>10 MB at 75 GB/s<br>made/up/rowwise")

    def test_the_sweep_over_thread_blocks(self):
        page = self.page(self.write("a.jsonl", lines(made.exchange())))
        put = self.trace(page, BLOCKS, "dispatch_put")
        self.assertEqual(put["x"][:3], [16, 64, None])  # the line ends before the transport's own number
        self.assertEqual(put["y"], [75, 300, None, 300])
        self.assertEqual(self.axis(page, BLOCKS, "xaxis.ticktext"), ["16", "64", "auto"])
        self.assertAlmostEqual(self.axis(page, BLOCKS, "xaxis.tickvals")[2], put["x"][3])
        self.assertNotIn("route_maps", {one["name"] for one in self.traces(page, BLOCKS)})
        self.choose(page, BLOCKS, "Routing", "zipf:1")
        self.assertEqual(self.trace(page, BLOCKS, "dispatch_put_fan_out")["y"], [25, 100, None, 100])
        self.choose(page, BLOCKS, "Show", "time")
        self.assertAlmostEqual(self.trace(page, BLOCKS, "dispatch_put_fan_out")["y"][0], 1e7 / 25e9)
        for key, axis in (("Blocks", "xaxis"), ("Values", "yaxis")):
            for kind in ("linear", "log"):
                self.choose(page, BLOCKS, key, kind)
                self.assertEqual(self.axis(page, BLOCKS, axis + ".type"), kind)

    def test_legends_stand_above_the_plot_on_paper(self):
        rows = [dict(row, operation=f"{row['operation']}_{i}") for i in range(3) for row in made.exchange()]
        page = self.page(self.write("a.jsonl", lines(rows)))
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        for figure in (EP, BLOCKS):
            below, top = page.evaluate(f"""(() => {{
                const plot = document.getElementById('{figure}-plot'), box = (part) => plot.querySelector(part).getBoundingClientRect();
                return [box('.legend').bottom, box('.main-svg').top + plot._fullLayout._size.t];
            }})()""")
            self.assertTrue(0 <= top - below <= 12, f"{figure}: {top - below} pixels between legend and plot")

    def test_one_number_of_thread_blocks_is_no_sweep(self):
        page = self.page(self.write("a.jsonl", lines(made.exchange(blocks=(0,)))))
        self.assertEqual(self.drawn(page), [EP])

    def test_operations_differ_without_colour(self):
        page = self.page(self.write("a.jsonl", lines(made.exchange())))
        styles = page.evaluate(f"document.getElementById('{BLOCKS}-plot').data.map((t) => [t.line.dash, t.marker.symbol])")
        self.assertEqual(len({str(style) for style in styles}), len(OPERATIONS) - 1)
        self.assertEqual(len({symbol for _, symbol in styles}), len(styles))

    def test_beside_pytorch(self):
        page = self.page(self.write("a.jsonl", lines(made.exchange_arms())))
        self.assertEqual(self.drawn(page), [ARM])
        runs = ["exchange, uniform, direct", "exchange, uniform, fan_out", "layer, h = 1,536, uniform, direct", "layer, h = 1,536, uniform, fan_out"]
        self.assertEqual(self.axis(page, ARM, "yaxis.ticktext"), runs)
        self.assertEqual(self.axis(page, ARM, "yaxis.categoryarray"), runs[::-1])
        by_run = lambda *values: {run: value for run, value in zip(runs, values) if value}
        self.assertEqual(sorted(self.points(page, ARM, "moesaic").items()), sorted(by_run(1e-3, 0.5e-3, 10e-3, 5e-3).items()))
        self.assertEqual(self.points(page, ARM, "torch", "x2"), dict(zip((runs[0], runs[2], runs[1], runs[3]), (4, 1.5, 8, 3))))
        self.assertEqual(self.points(page, ARM, "torch_lean", "x2"), by_run(3, 6))
        rows = list(csv.DictReader(io.StringIO(self.download(page, f"#{ARM} .csv").decode())))
        self.assertEqual(len(rows), 10)
        self.assertEqual({key: rows[1][key] for key in ("case", "arm", "routing", "dispatch", "ranks", "transport", "tokens", "slowest_s", "ratio_to_moesaic", "driver")},
                         {"case": "exchange", "arm": "torch", "routing": "uniform", "dispatch": "direct", "ranks": "2", "transport": "nvshmem",
                          "tokens": "1024", "slowest_s": "0.004", "ratio_to_moesaic": "4", "driver": "0.0"})
        self.assertEqual(rows[1]["rank_medians_s"].split()[1], "0.004")
        self.assertNotIn("median_s", rows[1])
        self.assertEqual(self.download(page, f"#{ARM} .png")[:4], b"\x89PNG")

    def test_two_files_beside_one_another(self):
        old, new = [*made.exchange(), *made.exchange_arms(forms=(None,))], [*made.exchange(factor=0.8), *made.exchange_arms(factor=0.8)]
        page = self.page(self.write("old.jsonl", lines(old)), self.write("new.jsonl", lines(new)))
        self.near(self.points(page, EP, "uniform · B"), {"dispatch_put": 375, "dispatch_put_fan_out": 250, "combine_get_fused": 312.5})
        self.assertIn("over 24 cases that both have", self.text(page, f"#{EP}"))
        # Rows from before there was a choice are of direct dispatch.
        self.assertEqual(list(self.points(page, ARM, "torch_lean · A")), ["exchange, uniform, direct"])
        self.assertIn("B ÷ A, time: median 0.8, from 0.8 to 0.8 over 5 cases", self.text(page, f"#{ARM}"))
        self.assertEqual([one["y"][0] for one in self.traces(page, BLOCKS) if one["name"] == "dispatch_put"], [75, 93.75])
        keys = page.evaluate(f"document.getElementById('{BLOCKS}-plot').data.filter((t) => t.showlegend !== false).map((t) => t.name)")
        self.assertEqual(keys, [*OPERATIONS[1:], "A: filled, thick", "B: hollow, thin"])

    def test_a_file_without_the_choice_is_said(self):
        page = self.page(self.write("old.jsonl", lines(made.exchange())), self.write("new.jsonl", lines(made.exchange(blocks=(0, 32)))))
        page.locator(f"#{EP}-nblocks").select_option("32")
        self.assertIn("A has no rows of this choice.", self.text(page, f"#{EP}"))
        self.assertEqual({one["name"] for one in self.traces(page, EP)}, {"uniform · B", "zipf:1 · B"})
        page.locator(f"#{EP}-b").select_option("-1")
        self.assertIn("This file has no rows of this choice.", self.text(page, f"#{EP}"))

    def test_seeds_are_apart(self):
        rows = list(made.exchange(blocks=(0,), routings=("zipf:1",)))
        unsaid = [dict(row, routing={key: value for key, value in row["routing"].items() if key != "seed"}) for row in rows]
        other = [dict(row, routing=dict(row["routing"], seed=2)) for row in rows]
        for first, common in ((unsaid, f"over {len(rows)} cases that both have"), (other, "A and B have no case in common")):
            page = self.page(self.write("a.jsonl", lines(first)), self.write("b.jsonl", lines(rows)))
            self.assertIn(common, self.text(page, f"#{EP}"))

    def test_numbers_of_ranks_and_transports_are_apart(self):
        rows = [*made.exchange(), *made.exchange(4, factor=2), *made.exchange(transport="simulated", factor=100), *made.exchange_arms(4)]
        page = self.page(self.write("a.jsonl", lines(rows)))
        self.assertEqual(self.drawn(page), ["ep-2-nvshmem", "ep-2-simulated", "ep-4-nvshmem", "ep_blocks-2-nvshmem", "ep_blocks-2-simulated", "ep_blocks-4-nvshmem", "ep_arm-4-nvshmem"])
        for ranks, transport, rate in ((2, "nvshmem", 300), (4, "nvshmem", 150), (2, "simulated", 3)):
            figure = f"ep-{ranks}-{transport}"
            self.assertEqual(self.points(page, figure, "uniform")["dispatch_put"], rate)
            self.assertIn(f"{ranks} ranks, {transport}", self.corner(page, figure)[0])
            self.assertIn(f"{ranks} ranks, {transport}", self.text(page, f"#{figure} .tags"))
            self.assertIn(f"{ranks} ranks", self.text(page, f"#{figure} h3"))
        listed = list(csv.DictReader(io.StringIO(self.download(page, "#circumstances-csv").decode())))
        self.assertEqual([(row["ranks"], row["transport"], row["rows"]) for row in listed], [("2", "nvshmem", "24"), ("4", "nvshmem", "34"), ("2", "simulated", "24")])
        self.assertIn("Made-up GPU, 4 ranks, nvshmem, driver 0.0", self.text(page, "#circumstances"))

    def test_problems_share_no_line(self):
        page = self.page(self.write("a.jsonl", lines([*made.exchange(), *made.exchange(tokens=64, factor=3)])))
        self.assertEqual(page.locator(f"#{EP}-problem option").all_inner_texts(), [f"{tokens} tokens × 4,096 bf16, 8 of 64 experts, capacity 1.25" for tokens in ("1,024", "64")])
        self.assertEqual(self.points(page, EP, "uniform")["dispatch_put"], 300)
        for figure in (EP, BLOCKS):
            page.locator(f"#{figure}-problem").select_option(index=1)
        self.assertEqual(self.points(page, EP, "uniform")["dispatch_put"], 100)
        self.assertEqual(self.trace(page, BLOCKS, "dispatch_put")["y"], [25, 100, None, 100])

    def test_rows_that_bench_ep_writes(self):
        for ranks in (2, 4):
            subprocess.run([BINARY, "bench", "ep", "--simulated", str(ranks), "--tokens", "32", "--d", "32", "--experts", "8", "--topk", "2", "--samples", "5",
                            "--nblocks", "0,2", "--json", self.folder / "rows.jsonl"], check=True, capture_output=True)
        page = self.page(self.folder / "rows.jsonl")
        self.assertEqual(self.drawn(page), ["ep-2-simulated", "ep-4-simulated", "ep_blocks-2-simulated", "ep_blocks-4-simulated"])
        rows = self.data(page)["results"]["files"][0]["rows"]
        put = next(row for row in rows if row["operation"] == "dispatch_put" and row["device"]["ranks"] == 4)
        self.assertAlmostEqual(self.points(page, "ep-4-simulated", "uniform")["dispatch_put"], put["derived"]["remote_bytes_per_second"] / 1e9)
        self.assertEqual(len(self.points(page, "ep-4-simulated", "uniform", "x2")), 10)

    def test_text_in_rows_is_never_markup(self):
        rows = [*made.exchange(), *made.exchange_arms()]
        for row in rows:
            row["routing"]["name"] = row["implementation"] = row["problem"]["dtype"] = "<img src=x onerror=alert(1)>&amp;</script>"
            row["device"] = dict(row["device"], name="<b>GPU</b>")
            if row.get("operation") == "dispatch_put":
                row["operation"] = "<b>put</b>"
            if row.get("arm") == "torch":
                row["arm"] = "<b>torch</b>"
        page = self.page(self.write("a.jsonl", lines(rows)))
        self.assertEqual(self.drawn(page), [EP, BLOCKS, ARM])
        self.assertEqual(page.locator("img").count(), 0)
        self.assertEqual(page.eval_on_selector_all("b", "all => all.filter((one) => /^(put|GPU|torch)$/.test(one.textContent)).length"), 0)
        for figure, words in ((EP, "<b>put</b>"), (BLOCKS, "<b>put</b>"), (ARM, "<b>torch</b>"), (ARM, "<img src=x onerror=alert(1)>&amp;</script>")):
            self.assertIn(words, page.locator(f"#{figure}-plot").text_content())

    def test_words_are_explained(self):
        page = self.page(self.write("a.jsonl", lines(made.exchange())))
        words = self.text(page, "#words")
        for word in ("remote_bytes_per_second", "slowest_s", "nblocks", "direct, fan_out", "ratio_to_moesaic"):
            self.assertIn(word, words)


if __name__ == "__main__":
    unittest.main()
