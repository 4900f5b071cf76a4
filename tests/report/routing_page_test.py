# SPDX-License-Identifier: Apache-2.0
"""Histograms on the page: figures, slider, editor and downloads show the contract's golden numbers."""
import csv
import io
import json
import re
import unittest

from page import PageTest

EVEN, HOT = "counts:17,17,17,17,16,16,16,16", "counts:100,32,0,0,0,0,0,0"
# Tile: rows executed and their padding as the page rounds it (section 5 of the contract).
GOLDEN_EVEN = {8: ("160", "17.5 %"), 16: ("192", "31.3 %"), 32: ("256", "48.4 %")}


class Routing(PageTest):
    def slide(self, page, tile):
        page.locator("#tile-slider").fill(str(tile))
        return self.text(page, "#slide-padded"), self.text(page, "#slide-fraction")

    def test_the_slider_gives_the_golden_numbers(self):
        page = self.page(EVEN, HOT)
        self.assertEqual(self.drawn(page), ["heat-map", "load-curves", "tile-padding", "rank-bars"])
        for tile, wanted in GOLDEN_EVEN.items():
            self.assertEqual(self.slide(page, tile), wanted)
        self.assertEqual(self.text(page, "#slide-effective"), "7.99")
        page.locator("#routing-group").select_option("1")
        self.assertEqual(self.slide(page, 8), ("136", "2.9 %"))
        self.assertEqual(self.slide(page, 32), ("160", "17.5 %"))
        self.assertEqual(self.text(page, "#slide-effective"), "1.58")
        page.locator("button[data-tile='16']").click()
        self.assertEqual(self.text(page, "#slide-padded"), "144")
        marker = page.evaluate("document.getElementById('tile-padding-plot').data.at(-1)")
        self.assertEqual((marker["x"], marker["y"]), ([16], [12 / 144]))

    def test_figures_of_1_8_and_1024_experts(self):
        for spec, experts in (("counts:5", 1), (EVEN, 8), ("zipf:1.2", 1024)):
            with self.subTest(experts=experts):
                sizes = ("--rows", 65536, "--experts", 1024) if experts == 1024 else ()
                page = self.page(spec, *sizes)
                self.assertEqual(len(self.drawn(page)), 3 if experts == 1 else 4)
                page.locator("button[data-example='own']").click()
                self.assertEqual(len(self.text(page, "#explore-counts") or page.locator("#explore-counts").input_value()), len(
                    ", ".join(map(str, self.data(page)["routing"]["records"][0]["counts"]))))

    def test_dense_layers_and_empty_histograms(self):
        page = self.page(self.write("dense.csv", "layer,expert,count\n0,0,0\n0,1,0\n1,0,3\n1,1,2\n"))
        self.assertIn("1 of 2 records have no routed row", self.text(page, "#heat-map"))
        self.drawn(page)
        page = self.page("counts:0,0,0")
        self.assertEqual(self.text(page, "#slide-fraction"), "0.0 %")

    def test_ranks_follow_the_flag_and_the_choice(self):
        page = self.page(HOT, "--ep", 4)
        bars = page.evaluate("document.getElementById('rank-bars-plot').data[0].y")
        self.assertEqual(bars, [132, 0, 0, 0])
        page.locator("#routing-ep").select_option("8")
        self.assertEqual(page.evaluate("document.getElementById('rank-bars-plot').data[0].y"), [100, 32, 0, 0, 0, 0, 0, 0])

    def test_the_page_counts_as_the_planner_does(self):
        path = self.report(EVEN, HOT, "--ep", 2, "--tiles", "3,8,17", "--capacity", "1.6:eight_row:2")
        self.assertGreater(self.open(path).evaluate("moesaic.agreed.compared"), 100)
        text = path.read_text(encoding="utf-8")
        self.assertEqual(text.count('"row_tiles":20,"padded_rows":160'), 2)
        path.write_text(text.replace('"row_tiles":20,"padded_rows":160', '"row_tiles":20,"padded_rows":161'), encoding="utf-8")
        self.assertIn("the planner has 161, this page 160", self.text(self.open(path), "#disagreement"))

    def test_downloads(self):
        page = self.page(EVEN)
        rows = list(csv.DictReader(io.StringIO(self.download(page, "#tile-padding .csv").decode())))
        self.assertEqual(len(rows), 256)
        self.assertEqual({key: rows[15][key] for key in ("tile", "row_tiles", "padded_rows", "padding_rows", "padding_fraction")},
                         {"tile": "16", "row_tiles": "12", "padded_rows": "192", "padding_rows": "60", "padding_fraction": "0.3125"})
        loads = list(csv.DictReader(io.StringIO(self.download(page, "#load-curves .csv").decode())))
        self.assertEqual((loads[0]["useful_rows"], loads[0]["padded_rows_q32"]), ("132", "256"))
        picture = self.download(page, "#heat-map .png")
        self.assertEqual(picture[:8], b"\x89PNG\r\n\x1a\n")
        self.assertGreater(len(picture), 5000)

    def test_switches_change_the_axes(self):
        page = self.page(EVEN)
        self.assertEqual(page.evaluate("document.getElementById('tile-padding-plot').layout.xaxis.type"), "linear")
        page.locator("#tile-padding button[data-value='log']").click()
        self.assertEqual(page.evaluate("document.getElementById('tile-padding-plot').layout.xaxis.type"), "log")
        self.drawn(page)

    def test_text_of_users_is_never_markup(self):
        name = "</script><img src=x onerror=alert(1)><!--.json".replace("/", "\\")
        path = self.write(name, json.dumps({
            "schema": "moesaic.routing/1", "num_experts": 2, "top_k": 1, "id_space": "logical", "aggregation": "per_step",
            "records": [{"layer": 0, "step": 0, "rank": None, "tokens": 3, "counts": [1, 2],
                         "label": "</script><script>alert(2)</script><img src=x onerror=alert(3)>\u2028"}]}))
        page = self.page("--routing", path, "--title", "<b>mine</b></title><script>alert(4)</script>")
        self.drawn(page)
        self.assertEqual(page.title(), "<b>mine</b></title><script>alert(4)</script>")
        self.assertEqual(page.locator("img").count() + page.locator("h1 b").count(), 0)
        self.assertIn("onerror", page.locator("#routing").inner_text())

    def test_print(self):
        page = self.page(EVEN)
        wide = page.eval_on_selector("#tile-padding-plot .main-svg", "svg => svg.getBoundingClientRect().width")
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(page.eval_on_selector("#tile-padding-plot .main-svg", "svg => svg.getBoundingClientRect().width"), 690)
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        page.wait_for_function(f"document.querySelector('#tile-padding-plot .main-svg').getBoundingClientRect().width > {wide - 2}")
        self.assertEqual(page.pdf(format="A4")[:5], b"%PDF-")


class Explorer(PageTest):
    def row(self, page, strategy):
        return page.locator(f"#explore-strategies tr[data-strategy='{strategy}'] td").all_inner_texts()[1:]

    def tile(self, page, tile):
        return page.locator(f"#explore-tiles tr[data-tile='{tile}'] td").all_inner_texts()[1:]

    def test_the_reports_drawing(self):
        page = self.page("counts:1,4,3,2")
        for field, wanted in (("capacity", "4"), ("rho", "37.5 %"), ("multiplied", "16"), ("overflow", "0"), ("rows", "10"), ("offsets", "1, 5, 8, 10")):
            self.assertEqual(self.text(page, f"#explore-{field}"), wanted, field)
        # rows in, padding before, tiles of 2, rows executed, tail padding, waste, launches, host reads counts
        self.assertEqual(self.row(page, "padded_bmm"), ["16", "6", "8", "16", "0", "37.5 %", "1", "no"])
        self.assertEqual(self.row(page, "block-aligned"), ["32", "22", "16", "32", "0", "68.8 %", "1", "no"])
        self.assertEqual(self.row(page, "host_loop"), ["10", "0", "6", "12", "2", "16.7 %", "4", "yes"])
        self.assertEqual(self.row(page, "grouped"), ["10", "0", "6", "12", "2", "16.7 %", "1", "no"])

    def test_editing_changes_the_numbers_to_the_golden_ones(self):
        page = self.page("counts:1")
        page.locator("#explore-counts").fill("17,17,17,17,16,16,16,16")
        self.assertEqual([self.tile(page, q) for q in (8, 16, 32)],
                         [["20", "160", "28", "17.50 %"], ["12", "192", "60", "31.25 %"], ["8", "256", "124", "48.44 %"]])
        self.assertEqual(self.text(page, "#explore-effective"), "7.99")
        page.locator("#explore-counts").fill("100 32 0 0 0 0 0 0")
        self.assertEqual([self.tile(page, q) for q in (8, 32)], [["17", "136", "4", "2.94 %"], ["5", "160", "28", "17.50 %"]])
        self.assertEqual(self.text(page, "#explore-effective"), "1.58")
        self.assertEqual((self.text(page, "#explore-capacity"), self.text(page, "#explore-overflow")), ("21", "90"))
        page.locator("[aria-label='one row more for expert 1']").click()
        self.assertEqual(page.locator("#explore-counts").input_value(), "100, 33, 0, 0, 0, 0, 0, 0")
        self.assertEqual(self.tile(page, 32), ["6", "192", "59", "30.73 %"])

    def test_the_capacity_factor_is_exact(self):
        page = self.page("counts:1")
        page.locator("#explore-counts").fill("1,4,3,2")
        page.locator("#explore-factor").fill("160")  # 1.6 times 2.5 is 4, whatever doubles make of it
        self.assertEqual((self.text(page, "#explore-factor-value"), self.text(page, "#explore-capacity")), ("1.6", "4"))

    def test_bad_text_is_named_and_changes_nothing(self):
        page = self.page("counts:1")
        for text, word in (("1,x", '"x"'), ("-3", '"-3"'), ("1.5", '"1.5"'), ("", "none"), ("<b>", '"<b>"')):
            page.locator("#explore-counts").fill(text)
            self.assertIn(word, self.text(page, "#explore-problem"))
            self.assertEqual(self.text(page, "#explore-rows"), "10")
        page.locator("#explore-counts").fill("7")
        self.assertFalse(page.locator("#explore-problem").is_visible())
        self.assertEqual(self.text(page, "#explore-rows"), "7")

    def test_every_example_is_drawn_and_kept_as_csv(self):
        page = self.page("zipf:1", "--rows", 4096, "--experts", 256)
        for name in page.eval_on_selector_all("[data-example]", "buttons => buttons.map((button) => button.dataset.example)"):
            page.locator(f"[data-example=\"{name}\"]").click()
            self.assertEqual(page.locator("svg.drawing").count(), 3)
            self.assertFalse(re.search(r"NaN|undefined|Infinity", page.locator("#explorer").inner_html()), name)
        rows = list(csv.DictReader(io.StringIO(self.download(page, "#explore-csv").decode())))
        self.assertEqual([row["strategy"] for row in rows], ["padded_bmm", "block-aligned", "host_loop", "grouped"])
        self.assertEqual(rows[3]["rows_in"], "4096")


if __name__ == "__main__":
    unittest.main()
