# SPDX-License-Identifier: Apache-2.0
"""moesaic report: what it reads and refuses, and how it writes. What the page does is tests/report's."""
import json
import os
import pathlib
import unittest

from harness import CliTest

PLOTLY = "/* plotly.js v0, a stand-in */ var Plotly = {}; // </SCRIPT>"


def bench_row(**changes):
    """A row of `moesaic bench` with made-up times."""
    row = {"schema": "moesaic.bench/1", "date": "2026-01-01T00:00:00Z", "git": {"sha": "0123456789ab", "dirty": False},
           "device": {"kind": "cpu", "name": "made up"}, "timing": {"regime": "short_burst", "median_s": 0.001},
           "routing": {"name": "uniform", "offs": [4, 8]}, "check": {"elements": 8, "mismatches": 0}}
    row.update(changes)
    return row


def exchange_row(operation="dispatch_put", nblocks=0, ranks=2, transport="nvshmem", **changes):
    """A row of `moesaic bench ep`."""
    row = {"schema": "moesaic.bench_ep/1", "git": {"sha": "0123456789ab", "dirty": False},
           "device": {"name": "made up", "ranks": ranks, "transport": transport, "driver": "0.0", "cuda": ""},
           "problem": {"dtype": "bf16", "experts": 8, "topk": 2, "tokens": 64, "d": 32, "capacity_factor_millionths": 1250000},
           "routing": {"name": "uniform", "routes": 128, "dropped_routes": 0}, "operation": operation, "nblocks": nblocks,
           "timing": {"median_s": [0.001, 0.002], "slowest_s": 0.002},
           "derived": {"remote_bytes": 4096, "remote_bytes_per_second": 2048000.0}, "check": {"elements": 8, "mismatches": 0}}
    row.update(changes)
    return row


def arm_row(arm="moesaic", comparison="exchange", dispatch="direct", **changes):
    """A row of scripts/ep_torch_arm.py."""
    row = exchange_row(schema="moesaic.ep_arm/1", comparison=comparison, arm=arm, derived={"ratio_to_moesaic": 1.0}, **changes)
    del row["operation"], row["nblocks"], row["routing"]["dropped_routes"]
    row["problem"] = {**row["problem"], **({"dispatch": dispatch} if dispatch else {}), **({"h": 48} if comparison == "layer" else {})}
    return row


def without(row, path):
    """The row without the field at "timing.slowest_s"."""
    *folders, name = path.split(".")
    row = json.loads(json.dumps(row))
    inner = row
    for folder in folders:
        inner = inner[folder]
    del inner[name]
    return row


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


class ReportTest(CliTest):
    def setUp(self):
        super().setUp()
        self.plotly = ("--plotly", self.write("plotly.js", PLOTLY))
        self.out = str(self.folder / "page.html")

    def read(self, path):
        return pathlib.Path(path).read_text(encoding="utf-8")

    def data(self, text):
        return json.loads(text.split('id="moesaic-data">')[1].split("</script>")[0])

    def page(self, *args, **kwargs):
        """The data of the page."""
        return self.data(self.fine("report", *args, *self.plotly, "-o", "-", **kwargs).out)

    def no(self, *args, words=(), **kwargs):
        self.refused("report", *args, *self.plotly, "-o", self.out, words=words, **kwargs)
        self.assertFalse(os.path.exists(self.out))


class Writing(ReportTest):
    def test_one_file_that_holds_everything(self):
        result = self.fine("report", "counts:1,4,3,2", *self.plotly, "-o", self.out)
        self.assertEqual(result.out, "")
        self.assertIn("1 histograms", result.err)
        text = self.read(self.out)
        self.assertFalse("</SCRIPT>" in text)  # a library cannot end its element either
        self.assertEqual(text.count("</script>"), 3)
        for outside in ("src=", "href=\"http", "@import", "url(h", "url('", "url(\""):
            self.assertFalse(outside in text, outside)
        self.assertEqual([name for name in os.listdir(self.folder) if "part" in name], [])

    def test_an_older_page_is_replaced_and_an_input_never(self):
        rows = self.write("rows.jsonl", lines(bench_row()))
        self.write("page.html", "old")
        self.fine("report", rows, *self.plotly, "-o", self.out)
        self.assertNotEqual(self.read(self.out), "old")
        self.refused("report", rows, *self.plotly, "-o", rows, words=("-o", "another file", "rows.jsonl"))
        self.assertEqual(self.read(rows), lines(bench_row()))

    def test_places_that_cannot_be_written(self):
        for place in (str(self.folder), str(self.folder / "no" / "page.html")):
            self.refused("report", "counts:1", *self.plotly, "-o", place, words=("-o", place))
        self.refused("report", "counts:1", *self.plotly, "-o", "/dev/full", words=("-o", "/dev/full"))

    def test_plotly_is_asked_for_by_name(self):
        self.refused("report", "counts:1", "-o", self.out, "--plotly", self.out + "x", words=("--plotly", "pip install plotly", "setup.sh"))
        self.refused("report", "counts:1", "-o", self.out, "--plotly", self.write("x.js", "alert(1)"), words=("--plotly", "plotly.min.js", "x.js"))


class Usage(ReportTest):
    def test_flags(self):
        self.refused("report", "counts:1", words=("-o", "none"))
        self.refused("report", "-o", self.out, words=("RESULTS", "--routing"))
        self.no("counts:1,2", "--ep", 2, "--rank", 0, words=("--rank", "--ep"))
        self.no("counts:1,2,3", "--ep", 2, words=("--ep", "3 experts"))
        self.no("counts:1", "--tiles", "0", words=("--tiles",))
        self.no(str(self.folder / "absent.jsonl"), words=("absent.jsonl",))
        self.no("--routing", str(self.folder / "absent.json"), words=("absent.json",))

    def test_too_many_rows_for_a_page(self):
        self.no("counts:9007199254740990,3", words=("layer 0", "2^53"))
        self.no("uniform", "uniform", "--experts", 65536, *["uniform"] * 40, "--rows", 1, words=("2,000,000", "--layer"))


class Parts(ReportTest):
    """One file of rows in pieces."""

    def made(self, number, *cases):
        rows = [bench_row(routing={"name": case, "offs": [4, 8]}) for case in cases]
        return self.write(f"fig40.part{number}.jsonl", lines(*rows))

    def test_parts_are_one_file_in_the_order_of_their_numbers(self):
        other = self.write("other.jsonl", lines(bench_row()))
        paths = [self.made("10", "d"), self.made("02", "b", "c"), other, self.made("1", "a", "b")]
        files = self.page(*paths)["results"]["files"]
        self.assertEqual([file["name"] for file in files], [str(self.folder / "fig40.part*.jsonl"), other])
        self.assertEqual([row["routing"]["name"] for row in files[0]["rows"]], ["a", "b", "b", "c", "d"])
        self.assertEqual(files[0]["bytes"], sum(os.path.getsize(path) for path in paths if path != other))
        warning, = files[0]["warnings"]
        self.assertIn("expected all parts up to 10, got none of number 3, 4, 5, 6, 7, 8, 9", warning)

    def test_the_figure_has_one_set_of_all_parts(self):
        figure, = self.page(self.made(1, "a", "b"), self.made(2, "b", "c"))["results"]["figures"]
        one, = figure["sets"]
        self.assertEqual((len(one["rows"]), one["superseded"]), (3, 1))

    def test_names_that_are_none_of_a_part(self):
        names = ("x.partA.jsonl", "x.part.jsonl", "x.part0.jsonl", "x.part1", "part1.jsonl")
        paths = [self.write(name, lines(bench_row())) for name in names]
        files = self.page(*paths)["results"]["files"]
        self.assertEqual([file["name"] for file in files], paths)

    def test_a_part_that_comes_twice_is_refused(self):
        self.no(self.made(1, "a"), self.made("01", "b"), words=("part01.jsonl", "each part once", "number 1 again"))


class Results(ReportTest):
    def refuse_row(self, row, *words):
        content = lines(bench_row()) + "\n" + (row if isinstance(row, str) else json.dumps(row)) + "\n"
        self.no(self.write("rows.jsonl", content), words=("rows.jsonl:3", *words))

    def test_bad_rows_are_named_with_file_and_line(self):
        self.refuse_row("[1]", "a JSON object", "[1]")
        self.refuse_row("{nonsense}", "a JSON object")
        self.refuse_row({"schema": "moesaic.bench/2"}, "schema", "moesaic.bench/1", "moesaic.bench/2")
        self.refuse_row(bench_row(timing={"median_s": 0}), "timing.median_s", "above 0", "0")
        self.refuse_row(bench_row(timing={"median_s": "1"}), "timing.median_s")
        self.refuse_row(bench_row(timing={"median_s": 1, "regime": "long"}), "timing.regime", "short_burst, sustained", "long")
        self.refuse_row(bench_row(device={}), "device.name", "none")
        self.refuse_row(bench_row(git={}), "git.sha", "none")
        self.refuse_row(bench_row(routing={"offs": [3, 2]}), "routing.offs", "do not decrease")
        self.refuse_row(bench_row(routing={"offs": 3}), "routing.offs")

    def test_bad_experiment_rows(self):
        good = {"name": "fig38", "protocol": "full", "case": "rows=8", "arm": "grouped", "process": 0, "order": 0, "factors": {"rows": 8}}
        timing = {"regime": "short_burst", "median_s": 1, "mean_s": 1}
        work = {"useful_flops": 1, "executed_flops": 1}
        for change, words in ((("name", "fig39"), ("experiment.name", "fig38", "fig39")), (("protocol", "half"), ("experiment.protocol", "full, reduced")),
                              (("arm", "fast"), ("experiment.arm", "padded_bmm")), (("factors", []), ("experiment.factors", "an object")),
                              (("case", None), ("experiment.case", "a text"))):
            self.refuse_row(bench_row(experiment=dict(good, **{change[0]: change[1]}), timing=timing, work=work), *words)
        self.refuse_row(bench_row(experiment=good, timing={"regime": "sustained", "median_s": 1}, work=work), "timing.mean_s")
        self.refuse_row(bench_row(experiment=good, timing=timing, work={}), "work.useful_flops", "none")
        self.refuse_row({"schema": "moesaic.compare/1", "case": "x", "device": {"name": "d"}, "git": {"sha": "0"}, "ratio": 0}, "ratio")
        self.refuse_row({"schema": "moesaic.roofline/1", "experiment": dict(good, name="fig2"), "device_preset": "h200", "shape": {}, "points": []}, "points")

    def test_rows_without_a_passed_check_are_left_out_and_said(self):
        rows = [bench_row(), bench_row(check={"elements": 8, "mismatches": 1}), bench_row(check={"elements": 0, "mismatches": 0}), bench_row(check=None)]
        path = self.write("rows.jsonl", lines(*rows))
        result = self.fine("report", path, *self.plotly, "-o", "-")
        self.assertIn("rows.jsonl: 3 rows without a passed check are left out", result.err)
        file = self.data(result.out)["results"]["files"][0]
        self.assertEqual((len(file["rows"]), file["unchecked"]), (1, 3))
        self.no(self.write("none.jsonl", lines(rows[1])), words=("none.jsonl", "passed check"))

    def test_a_row_that_was_cut_off_is_left_out_and_said(self):
        path = self.write("rows.jsonl", lines(bench_row()) + json.dumps(bench_row())[:50])
        result = self.fine("report", path, *self.plotly, "-o", "-")
        self.assertIn("rows.jsonl:2: left out, a row that was cut off", result.err)

    def test_what_does_not_belong_together_is_apart(self):
        def experiment(protocol, regime, name="fig73", seconds=1.0, device="made up"):
            return bench_row(experiment={"name": name, "protocol": protocol, "case": "one", "arm": "grouped", "process": 0, "order": 0, "factors": {}},
                             device={"name": device}, timing={"regime": regime, "median_s": seconds, "mean_s": seconds}, work={"useful_flops": 8, "executed_flops": 8})

        rows = [experiment("full", "sustained"), experiment("reduced", "sustained"), experiment("full", "short_burst"),
                experiment("full", "sustained", seconds=2.0), experiment("full", "sustained", device="another")]
        figures = self.page(self.write("rows.jsonl", lines(*rows)))["results"]["figures"]
        self.assertEqual([(f["protocol"], f["regime"], [(s["device"], s["rows"], s["superseded"]) for s in f["sets"]]) for f in figures],
                         [("full", "short_burst", [("made up", [2], 0)]), ("full", "sustained", [("another", [4], 0), ("made up", [3], 1)]),
                          ("reduced", "sustained", [("made up", [1], 0)])])

    def test_predictions_are_of_the_device_whose_peaks_the_row_has(self):
        peak = {"bf16_flops_per_second": 989e12, "dram_bytes_per_second": 4.8e12}
        row = bench_row(device={"name": "a GPU", "peak": peak}, problem={"pass": "forward", "strategy": "grouped", "dtype": "bf16", "n": 4096, "k": 4096},
                        work={"useful_flops": 1e9, "executed_flops": 1e9, "min_bytes": 1e6})
        results = self.page(self.write("rows.jsonl", lines(row, bench_row())))["results"]
        predicted = results["files"][0]["rows"][0]["predicted"]
        layer = self.layers("counts:4,4", "--shape", "d=4096,h=4096", "--proj", "square", "--device", predicted["preset"])[0]
        self.assertEqual(predicted["kernel_s"], layer["kernel_s"])
        self.assertEqual(predicted["bound_s"], layer["roofline_s"])
        self.assertNotIn("predicted", results["files"][0]["rows"][1])
        self.assertEqual([figure["kind"] for figure in results["figures"]], ["bench", "roofline", "predicted"])


class Exchange(ReportTest):
    """Rows between ranks: `bench ep` and ep_torch_arm.py."""

    COMMON = ("git.sha", "device.name", "device.ranks", "device.transport", "problem.dtype", "problem.experts", "problem.topk", "problem.tokens",
              "problem.d", "problem.capacity_factor_millionths", "routing.name", "routing.routes", "timing.median_s", "timing.slowest_s")

    def refuse_row(self, row, *words):
        self.no(self.write("rows.jsonl", lines(exchange_row(), arm_row(), row)), words=("rows.jsonl:3", *words))

    def figures(self, *rows):
        """[(kind, ranks, transport, rows of every set, superseded)]"""
        figures = self.page(self.write("rows.jsonl", lines(*rows)))["results"]["figures"]
        return [(f["kind"], f["ranks"], f["transport"], [s["rows"] for s in f["sets"]], sum(s["superseded"] for s in f["sets"])) for f in figures]

    def test_a_field_that_is_missing_is_named(self):
        for row, own in ((exchange_row(), ("operation", "nblocks", "routing.dropped_routes", "derived.remote_bytes", "derived.remote_bytes_per_second")),
                         (arm_row(comparison="layer"), ("comparison", "arm", "derived.ratio_to_moesaic", "problem.h"))):
            for path in (*self.COMMON, *own):
                with self.subTest(schema=row["schema"], path=path):
                    self.refuse_row(without(row, path), path + ":", "none")

    def test_a_field_of_another_kind_is_named(self):
        self.refuse_row(exchange_row(schema="moesaic.bench_ep/2"), "schema", "moesaic.bench_ep/1, moesaic.ep_arm/1", "moesaic.bench_ep/2")
        self.refuse_row(exchange_row(ranks=0), "device.ranks", "a whole number from 1 to 2^53", "0")
        self.refuse_row(exchange_row(ranks=1.5), "device.ranks", "1.5")
        self.refuse_row(exchange_row(ranks=2 ** 63), "device.ranks", "9223372036854775808")
        self.refuse_row(exchange_row(transport="mail"), "device.transport", "nvshmem, simulated", "mail")
        self.refuse_row(exchange_row(nblocks=-1), "nblocks", "from 0", "-1")
        self.refuse_row(exchange_row(operation=7), "operation", "a text", "7")
        for median in (0.001, [], [0.001, 0], [0.001, "0.002"], None):
            self.refuse_row(exchange_row(timing={"median_s": median, "slowest_s": 0.002}), "timing.median_s", "a list of numbers above 0")
        self.refuse_row(exchange_row(timing={"median_s": [1], "slowest_s": 0}), "timing.slowest_s", "above 0")
        self.refuse_row(exchange_row(derived={"remote_bytes": -1, "remote_bytes_per_second": 0}), "derived.remote_bytes", "from 0 on", "-1")
        self.refuse_row(arm_row(comparison="nothing"), "comparison", "exchange, layer", "nothing")
        self.refuse_row(arm_row(dispatch="by mail"), "problem.dispatch", "direct, fan_out", "by mail")

    def test_rows_without_a_passed_check_are_left_out_and_said(self):
        wrong = {"elements": 8, "mismatches": 1}
        result = self.fine("report", self.write("rows.jsonl", lines(exchange_row(), exchange_row(check=wrong), arm_row(check=wrong))), *self.plotly, "-o", "-")
        self.assertIn("rows.jsonl: 2 rows without a passed check are left out", result.err)
        file = self.data(result.out)["results"]["files"][0]
        self.assertEqual((len(file["rows"]), file["unchecked"]), (1, 2))

    def test_a_file_of_another_name_is_known_by_its_first_line(self):
        for row in (exchange_row(), arm_row()):
            data = self.page(self.write("rows.txt", lines(row)))
            self.assertEqual(len(data["results"]["files"][0]["rows"]), 1)

    def test_numbers_of_ranks_and_transports_never_share_a_figure(self):
        rows = [exchange_row(), exchange_row(ranks=4), exchange_row(ranks=16), exchange_row(transport="simulated"), arm_row(ranks=4), arm_row()]
        self.assertEqual(self.figures(*rows), [("ep", 2, "nvshmem", [[0]], 0), ("ep", 2, "simulated", [[3]], 0), ("ep", 4, "nvshmem", [[1]], 0),
                                               ("ep", 16, "nvshmem", [[2]], 0), ("ep_arm", 2, "nvshmem", [[5]], 0), ("ep_arm", 4, "nvshmem", [[4]], 0)])

    def test_a_sweep_takes_two_numbers_of_blocks_and_rows_that_move(self):
        still = {"remote_bytes": 0, "remote_bytes_per_second": 0.0}
        maps = [exchange_row("route_maps", nblocks, derived=still) for nblocks in (0, 32)]
        self.assertEqual([kind for kind, *_ in self.figures(*maps)], ["ep"])
        self.assertEqual([kind for kind, *_ in self.figures(exchange_row(), exchange_row("gather_get"))], ["ep"])
        self.assertEqual(self.figures(*maps, exchange_row(), exchange_row(nblocks=32)),
                         [("ep", 2, "nvshmem", [[0, 1, 2, 3]], 0), ("ep_blocks", 2, "nvshmem", [[2, 3]], 0)])

    def test_the_last_row_of_a_case_counts(self):
        routing = {"name": "uniform", "seed": 2, "routes": 128, "dropped_routes": 0}
        self.assertEqual(self.figures(exchange_row(), exchange_row(), exchange_row("gather_get"), exchange_row(routing=routing)), [("ep", 2, "nvshmem", [[1, 2, 3]], 1)])
        # Rows from before there was a choice dispatched directly.
        self.assertEqual(self.figures(arm_row(dispatch=None), arm_row(dispatch="fan_out"), arm_row(), arm_row("torch")), [("ep_arm", 2, "nvshmem", [[2, 1, 3]], 1)])


if __name__ == "__main__":
    unittest.main()
