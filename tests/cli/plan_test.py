# SPDX-License-Identifier: Apache-2.0
"""moesaic plan: figures, keys in order, selection, text, CSV; the same bytes for the same input."""
import csv
import gzip
import io
import json
import math
import pathlib
import unittest

from harness import CliTest, npy_bytes

KEYS = ["source", "layer", "step", "rank", "aggregation", "dense", "experts", "invalid_slots", "useful_rows", "active_experts",
        "effective_experts", "i_h", "i_max", "max_rows", "tiles", "capacity", "offsets", "cost",
        "label", "suggested_tile", "kernel_s", "roofline_s", "device", "verdict"]


def spec(counts):
    return "counts:" + ",".join(map(str, counts))


class Figures(CliTest):
    def agrees(self, layer, counts):
        rows, squares = sum(counts), sum(c * c for c in counts)
        self.assertEqual(layer["experts"], len(counts))
        self.assertEqual(layer["useful_rows"], rows)
        self.assertEqual(layer["active_experts"], sum(1 for c in counts if c))
        self.assertEqual(layer["max_rows"], max(counts))
        self.assertAlmostEqual(layer["effective_experts"], rows * rows / squares if rows else 0, places=9)
        self.assertAlmostEqual(layer["i_max"], max(counts) * len(counts) / rows if rows else 0, places=9)
        entropy = sum(c / rows * math.log(c / rows) for c in counts if c)
        want = 1 + entropy / math.log(len(counts)) if rows and len(counts) > 1 else 0
        self.assertAlmostEqual(layer["i_h"], want, places=9)
        for tile in layer["tiles"]:
            q = tile["tile"]
            padded = sum(-(-c // q) * q for c in counts)
            self.assertEqual(tile["padded_rows"], padded)
            self.assertEqual(tile["padding_rows"], padded - rows)
            self.assertAlmostEqual(tile["padding_fraction"], (padded - rows) / padded if padded else 0, places=12)
        ends = [sum(counts[:i + 1]) for i in range(len(counts))]
        self.assertEqual(layer["offsets"], ends)
        self.assertEqual(layer["dense"], rows == 0)

    def test_histograms(self):
        for counts in ([17] * 4 + [16] * 4, [100, 32] + [0] * 6, [0] * 8, [0, 3, 2, 0], [9], [127, 128, 129],
                       [i * 7 % 11 for i in range(1025)], [1] * 60):
            with self.subTest(counts=counts[:8]):
                self.agrees(self.layers(spec(counts))[0], counts)

    def test_keys_in_order(self):
        layer = self.layers("counts:1,4,3,2", "--shape", "d=64,h=96")[0]
        self.assertEqual(list(layer), KEYS)
        self.assertEqual(list(layer["tiles"][0]), ["tile", "padded_rows", "padding_rows", "padding_fraction"])
        self.assertEqual(list(layer["capacity"]), ["rule", "factor", "capacity", "rho_pad", "overflow_rows"])
        self.assertEqual(list(layer["cost"]), ["mma_s", "weight_s", "launch_s", "communication_s"])
        self.assertIsNone(layer["rank"])
        self.assertEqual([t["tile"] for t in layer["tiles"]], [8, 16, 32, 64, 128])

    def test_cost_needs_a_shape(self):
        self.assertIsNone(self.layers("counts:1,4,3,2")[0]["cost"])
        alone = self.layers("counts:9,4,3,2", "--shape", "d=512,h=256")[0]["cost"]
        self.assertGreater(alone["weight_s"], 0)
        self.assertEqual(alone["communication_s"], 0)
        shared = self.layers("counts:9,4,3,2", "--shape", "d=512,h=256", "--ep", 2)[0]["cost"]
        self.assertGreater(shared["communication_s"], 0)

    def test_capacity(self):
        capacity = self.layers("counts:1,4,3,2", "--capacity", "1.6")[0]["capacity"]
        self.assertEqual(capacity, {"rule": "ceil_mean", "factor": 1.6, "capacity": 4, "rho_pad": 0.375, "overflow_rows": 0})
        self.assertEqual(self.layers("counts:9,1,0,0")[0]["capacity"]["overflow_rows"], 5)
        eight = self.layers("counts:64,64", "--capacity", "1.25:eight_row:2")[0]["capacity"]
        self.assertEqual((eight["rule"], eight["capacity"]), ("eight_row", 80))


    def test_what_the_estimate_says_for_programs(self):
        layer = self.layers("uniform", "--rows", 1000000, "--experts", 8, "--shape", "d=256,h=64")[0]
        self.assertEqual((layer["suggested_tile"], layer["device"], layer["verdict"]), (128, "h200", "recommend_trial"))
        self.assertGreaterEqual(layer["kernel_s"], layer["roofline_s"])
        bare = self.layers("counts:1,4,3,2")[0]
        self.assertEqual([bare[key] for key in KEYS[-5:]], [None] * 5)
        self.assertIn("made 10 rows", bare["label"])


class Ranks(CliTest):
    def test_capacity_is_the_whole_layers(self):
        counts = [4096 - 63] + [1] * 63
        layers = self.layers(spec(counts), "--ep", 8)
        self.assertEqual({l["capacity"]["capacity"] for l in layers}, {80})

    def test_an_idle_rank_is_not_dense(self):
        layers = self.layers("counts:5,3,0,0", "--ep", 2)
        self.assertEqual([l["dense"] for l in layers], [False, False])
        self.assertEqual([l["dense"] for l in self.layers("counts:0,0,0,0", "--ep", 2)], [True, True])
        out = self.fine("plan", "counts:5,3,0,0", "--ep", 2).out
        self.assertIn("no rows on this rank", out)
        self.assertNotIn("dense: no rows", out)

    def test_layers_are_counted_and_the_slowest_rank_is_shown(self):
        out = self.fine("plan", "counts:900,900,3,5", "--ep", 2, "--shape", "d=512,h=256").out
        self.assertIn("of 1 layer record;", out)
        self.assertIn("Padding of layer 0, rank 0 (the slowest rank of the worst layer)", out)

    def test_a_source_rank_is_not_overwritten(self):
        path = self.write("r.csv", "layer,expert,count,rank\n0,0,4,0\n0,1,5,0\n0,0,6,1\n0,1,7,1\n")
        self.assertEqual([l["rank"] for l in self.layers(path)], [0, 1])
        self.refused("plan", path, "--ep", 2, words=("--ep 2", "--rank 0", "layer 0, step 0"))


class Selection(CliTest):
    def test_a_spec_says_which_record_it_is(self):
        self.refused("plan", "counts:1,2", "--layer", 5, words=("--layer 5", "layer 0, step 0"))
        self.refused("plan", "", words=("empty name",))

    def test_huge_rows_name_the_flag(self):
        self.refused("plan", "uniform", "--rows", 2**63 - 1, "--experts", 3, words=("--rows",))

    def dump(self, layers=4, experts=8):
        rows = [[(3 * layer + 5 * e) % 13 for e in range(experts)] for layer in range(layers)]
        rows[0] = [0] * experts
        return self.write("dump.json", json.dumps({"logical_count": [[float(c) for c in row] for row in rows]})), rows

    def test_every_layer_is_listed_and_dense_ones_say_so(self):
        path, rows = self.dump()
        layers = self.layers(path)
        self.assertEqual([l["layer"] for l in layers], [0, 1, 2, 3])
        self.assertEqual([l["dense"] for l in layers], [True, False, False, False])
        self.assertEqual([l["useful_rows"] for l in layers], [sum(r) for r in rows])

    def test_layer_rescaled_before_the_rank_share(self):
        path, rows = self.dump()
        whole = self.layers(path, "--layer", 2, "--rows", 4096)[0]
        self.assertEqual(whole["useful_rows"], 4096)
        ranks = self.layers(path, "--layer", 2, "--rows", 4096, "--ep", 4)
        self.assertEqual([l["rank"] for l in ranks], [0, 1, 2, 3])
        self.assertEqual(sum(l["useful_rows"] for l in ranks), 4096)
        offsets = [0] + whole["offsets"]
        self.assertEqual([l["useful_rows"] for l in ranks], [offsets[2 * r + 2] - offsets[2 * r] for r in range(4)])
        one = self.layers(path, "--layer", 2, "--rows", 4096, "--ep", 4, "--rank", 3)
        self.assertEqual(one, ranks[3:])

    def test_stdin_gzip_globs_and_crlf(self):
        path, _ = self.dump()
        text = pathlib.Path(path).read_text()
        plain = [l["offsets"] for l in self.layers(path)]
        self.assertEqual([l["offsets"] for l in self.layers("-", stdin=text)], plain)
        self.assertEqual([l["offsets"] for l in self.layers("-", stdin=gzip.compress(text.encode()))], plain)
        self.assertEqual([l["offsets"] for l in self.layers(self.write("d.gz", gzip.compress(text.encode())))], plain)
        self.write("b.csv", "layer,expert,count\r\n1,0,4\r\n1,1,0\r\n")
        self.write("a.csv", "layer,expert,count\r\n7,0,2\r\n7,1,9\r\n")
        layers = self.layers(str(self.folder / "*.csv"))
        self.assertEqual([(l["layer"], l["offsets"]) for l in layers], [(7, [2, 11]), (1, [4, 4])])
        self.assertTrue(layers[0]["source"].endswith("a.csv"))

    def test_ids_with_padding(self):
        path = self.write("ids.npy", npy_bytes("<i8", (4, 1, 2), [0, 3, -1, -1, 2, 3, 1, -1]))
        layer = self.layers(path, "--experts", 5)[0]
        self.assertEqual((layer["offsets"], layer["invalid_slots"]), ([1, 2, 3, 5, 5], 3))

    def test_an_existing_file_wins_over_a_spec(self):
        self.write("uniform", '{"logical_count": [[2, 0]]}')
        layers = json.loads(self.fine("plan", "uniform", "--json", cwd=self.folder).out)["layers"]
        self.assertEqual(layers[0]["offsets"], [2, 2])

    def test_specs_are_exact_and_seeded(self):
        for name in ("uniform", "zipf:1.3", "dirichlet:0.4", "hotspot:0.8,2", "one-hot"):
            size = ("--rows", 5003, "--experts", 48)
            first = self.layers(name, *size, "--seed", 5)
            self.assertEqual(first[0]["useful_rows"], 5003)
            self.assertEqual(first, self.layers(name, *size, "--seed", 5))
        shape = self.layers("uniform", "--shape", "small-2")[0]
        self.assertEqual((shape["experts"], shape["useful_rows"]), (8, 96 * 1024))


class Text(CliTest):
    def setUp(self):
        super().setUp()
        rows = [[0] * 4, [40, 8, 8, 8], [1, 1, 1, 1], [16, 16, 16, 16]]
        self.path = self.write("dump.json", json.dumps({"logical_count": rows}))

    def test_worst_layer_first_and_the_rest_counted(self):
        out = self.fine("plan", self.path, "--top", 2, "--tiles", "16").out
        table = out[out.index("Worst first"):].splitlines()
        self.assertEqual([line.split()[0] for line in table[2:4]], ["2", "1"])
        self.assertIn("and 2 more", out)
        self.assertNotIn("more (--top", self.fine("plan", self.path, "--top", 0).out)

    def test_rescaled_is_said_everywhere(self):
        note = "rescaled to 640 rows from 64"
        self.assertIn(note, self.fine("plan", self.path, "--rows", 640).out)
        rows = list(csv.DictReader(io.StringIO(self.fine("plan", self.path, "--rows", 640, "--csv").out)))
        self.assertIn(note, rows[1]["label"])
        self.assertIn(note, self.layers(self.path, "--rows", 640)[1]["label"])

    def test_two_notions_of_capacity_padding(self):
        out = self.fine("plan", "counts:9,1,0,0").out  # C = 4: 16 rows and 5 of overflow, of which 11 idle
        self.assertIn("16 rows in the batch and 5 of overflow; rho_pad (Eq. 14) 37.5 %; idle 11 rows, 52.4 % of the rows", out)

    def test_no_recommendation_without_a_shape(self):
        out = self.fine("plan", "counts:9,1,3").out
        self.assertIn("Verdict: insufficient_evidence\n", out)
        self.assertIn("no widths (--shape), so no recommendation; tail padding of 13 rows: 59.4 % at tile 8", out)
        shaped = self.fine("plan", "counts:900,1,3", "--shape", "d=256,h=64").out
        self.assertIn("(exact rows, grouped, over a batch padded to C)", shaped)
        self.assertIn("no number of rows repays reading the weights", shaped)
        self.assertNotIn("0 rows to balance", shaped)

    def test_three_ledgers_stay_apart(self):
        out = self.fine("plan", self.path).out
        for word in ("tail tile", "capacity   1.25:ceil_mean", "alignment  fp8 (16)", "Verdict:"):
            self.assertEqual(out.count(word), 1, word)
        self.assertNotIn("Estimated cost", out)
        self.assertIn("Estimated cost", self.fine("plan", self.path, "--shape", "d=512,h=256").out)

    def test_ranks_show_maximum_and_sum(self):
        out = self.fine("plan", self.path, "--ep", 2).out
        self.assertIn("rows: max 48 (rank 0), sum 64", out)
        self.assertIn("P at q = 8: max 48 (rank 0), sum 64", out)
        self.assertNotIn("longest rank tail", self.fine("plan", self.path, "--ep", 2, "--rank", 1).out)

    def test_by_shows_the_worst_of_each(self):
        out = self.fine("plan", self.path, "--ep", 2, "--by", "layer", "--top", 0).out
        rows = out[out.index("Worst first"):out.index("Padding of")].strip().splitlines()[2:]
        self.assertEqual(sorted(line.split()[0] for line in rows), ["0", "1", "2", "3"])
        out = self.fine("plan", self.path, "--ep", 2, "--by", "rank", "--top", 0).out
        rows = out[out.index("Worst first"):out.index("Padding of")].strip().splitlines()[2:]
        self.assertEqual(sorted(line.split()[2] for line in rows), ["0", "1"])

    def test_definitions_on_request(self):
        self.assertIn("effective_experts", self.fine("plan", self.path, "--explain").out)
        self.assertNotIn("Definitions", self.fine("plan", self.path).out)
        result = self.fine("plan", self.path, "--explain", "--json")
        json.loads(result.out)
        self.assertIn("Definitions", result.err)

    def test_what_the_reader_found(self):
        head = self.fine("plan", self.path).out.splitlines()[0]
        for word in ("dump.json", "logical_count", "counts", "4 layers", "4 experts"):
            self.assertIn(word, head)
        result = self.fine("plan", self.path, "--json")
        self.assertIn("logical_count", result.err)
        self.assertIn("warning", result.err)  # an all-zero layer, unequal sums

    def test_same_bytes(self):
        for flags in ((), ("--json",), ("--csv",), ("--ep", "2", "--shape", "d=64,h=96")):
            self.assertEqual(self.fine("plan", self.path, *flags).stdout, self.fine("plan", self.path, *flags).stdout)

    def test_csv_agrees_with_json(self):
        flags = (self.path, "--ep", 2, "--shape", "d=64,h=96")
        rows = list(csv.DictReader(io.StringIO(self.fine("plan", *flags, "--csv").out)))
        layers = self.layers(*flags)
        self.assertEqual(len(rows), len(layers))
        for row, layer in zip(rows, layers):
            for key in ("layer", "step", "rank", "experts", "useful_rows", "active_experts", "max_rows"):
                self.assertEqual(int(row[key]), layer[key])
            self.assertEqual(float(row["effective_experts"]), layer["effective_experts"])
            self.assertEqual(int(row["tile32_padded_rows"]), layer["tiles"][2]["padded_rows"])
            self.assertEqual(float(row["rho_pad"]), layer["capacity"]["rho_pad"])
            self.assertEqual(row["mma_s"] == "", layer["cost"] is None)


class Help(CliTest):
    def test_help_and_version(self):
        self.assertRegex(self.fine("--version").out, r"^moesaic \d+\.\d+\.\d+ \(")
        overview = self.fine("help").out
        for verb in ("info", "plan", "run", "verify"):
            self.assertIn(f"  {verb} ", overview)
            text = self.fine("help", verb).out
            self.assertIn(f"moesaic {verb}", text)
            self.assertIn("Example", text)
            self.assertEqual(text, self.fine(verb, "--help").out)
            self.assertEqual(text, self.fine(verb, "-h").out)
        self.assertIn("--tiles", self.fine("help", "plan").out)


if __name__ == "__main__":
    unittest.main()
