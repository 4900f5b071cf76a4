# SPDX-License-Identifier: Apache-2.0
"""Bad usage and bad input: exit code, one line that names the place, nothing on stdout."""
import gzip
import unittest

from harness import CliTest, npy_bytes


class Usage(CliTest):
    def test_no_verb_and_unknown_verbs(self):
        self.refused(words=("info, plan, run, verify, bench, experiment, report",))
        for verb in ("paln", ""):
            self.refused(verb, words=(f'"{verb}"', "verify"))

    def test_unknown_flags_name_themselves_and_a_near_one(self):
        for verb in ("info", "plan", "run", "verify", "bench", "experiment", "report"):
            self.refused(verb, "--no-such-flag", words=("--no-such-flag", verb))
        self.refused("plan", "counts:1", "--tile", "8", words=("--tile:", "--tiles"))
        self.refused("plan", "counts:1", "--tile-shape=8", words=("--tile-shape=8",))

    def test_one_line_and_no_usage_dump(self):
        result = self.refused("plan", "counts:1", "--nothing")
        self.assertEqual(len(result.err.strip().splitlines()), 1)

    def test_values_name_flag_expectation_and_what_came(self):
        shape = ("--shape", "d=64,h=96")
        self.refused("plan", "counts:1,2", "--tiles", "0", words=("--tiles", '"0"'))
        self.refused("plan", "counts:1,2", "--tiles", "8,,16", words=("--tiles", '""'))
        self.refused("plan", "counts:1,2", "--tiles", "8,8", words=("--tiles", "once"))
        self.refused("plan", "counts:1,2", "--tiles", "8x", words=("--tiles", '"8x"'))
        self.refused("plan", "counts:1,2", "--top", "-1", words=("--top", '"-1"'))
        self.refused("plan", "counts:1,2", "--layer", "all", words=("--layer", '"all"'))
        self.refused("plan", "counts:1,2", "--by", "expert", words=("--by", "record, layer, step or rank"))
        self.refused("plan", "counts:1,2", "--form", "cumsum", words=("--form", "offsets"))
        self.refused("plan", "counts:1,2", "--capacity", "nine", words=("--capacity", "nine"))
        self.refused("plan", "counts:1,2", "--device", "h900", words=("--device", "h200", "h900"))
        self.refused("plan", "counts:1,2", "--shape", "big", words=("--shape", "big"))
        self.refused("plan", "counts:1,2", "--shape", "d=64,h=60", words=("--shape", "60"))
        self.refused("plan", "counts:1,2", "--seed", "-4", words=("--seed",))
        self.refused("run", "counts:5", *shape, "--pass", "both", words=("--pass", "forward, dgrad, wgrad or mlp"))
        self.refused("run", "counts:5", *shape, "--strategy", "fast", words=("--strategy", "padded_bmm"))
        self.refused("run", "counts:5", *shape, "--dtype", "f16", words=("--dtype", "fp32"))
        self.refused("run", "counts:5", *shape, "--backend", "tpu", words=("--backend", "cuda"))
        self.refused("run", "counts:5", *shape, "--order", "down", words=("--order", "interleaved"))
        self.refused("run", "counts:5", *shape, "--proj", "up", words=("--proj",))

    def test_missing_repeated_and_contrary_flags(self):
        self.refused("plan", words=("FILE or SPEC",))
        self.refused("run", "counts:5", words=("--shape",))
        self.refused("plan", "counts:1", "--rows", words=("--rows", "value"))
        self.refused("plan", "uniform", "--rows", 3, "--rows", 4, words=("--rows", "once"))
        self.refused("plan", "counts:1", "--json", "--csv", words=("--csv", "--json"))
        self.refused("plan", "counts:1", "--json=2", words=("--json", "no value"))
        self.refused("plan", "-", "-", words=("standard input",))
        self.refused("plan", "counts:1,2", "--ep", 2, "--rank", 2, words=("--rank", '"2"'))
        self.refused("plan", "counts:1,2,3", "--ep", 2, words=("--ep", "3"))
        self.refused("verify", "--case", "exact:nowhere", words=("--case", "exact:nowhere"))

    def test_flags_that_cannot_apply(self):
        shape = ("--shape", "d=64,h=96")
        self.refused("run", "counts:5", *shape, "--order", "gate_up", words=("--order", "--pass mlp", "--pass forward"))
        self.refused("run", "counts:5", *shape, "--recompute", "--pass", "wgrad", words=("--recompute", "--pass wgrad"))
        self.refused("run", "counts:5", *shape, "--proj", "down", "--pass", "mlp", words=("--proj", "--pass mlp"))
        self.refused("verify", "--quick", "--case", "exact", "--pass", "mlp", words=("--case, --pass", "exact", "mlp"))

    def test_a_selection_without_records_names_its_flags(self):
        self.refused("plan", "counts:1,2", "--layer", 7, words=("--layer 7",))
        self.refused("plan", "counts:1,2", "--rank", 1, words=("--rank 1", "--ep"))
        path = self.write("two.csv", "layer,expert,count\n3,0,1\n3,1,2\n")
        self.refused("run", path, "--shape", "d=64,h=96", "--layer", 4, words=("layer 4", "two.csv"))


class Input(CliTest):
    def test_files_that_cannot_be_read(self):
        self.refused("plan", str(self.folder / "absent.json"), words=("absent.json",))
        self.refused("plan", str(self.folder / "*.json"), words=("*.json",))
        self.refused("plan", self.write("empty.json", ""), words=("empty.json",))
        self.refused("plan", self.write("noise.json", bytes((37 * i) % 251 for i in range(3000))), words=("noise.json",))
        self.refused("plan", self.write("cut.json", '{"logical_count": [[4, 5'), words=("cut.json",))
        self.refused("plan", self.write("cut.json.gz", gzip.compress(b'{"logical_count": [[4, 5]]}')[:-9]), words=("cut.json.gz",))
        self.refused("plan", self.write("weights.pt", b"PK\x03\x04 and more"), words=("weights.pt", "pickle"))
        self.refused("plan", "-", stdin="", words=())

    def test_counts_that_are_none(self):
        for name, row, word in (("neg", "[3, -7, 1]", "-7"), ("frac", "[3, 0.25, 1]", "0.25"), ("nan", "[NaN, 1, 1]", ""),
                                ("huge", "[1e25, 1, 1]", ""), ("text", '["x", 1, 1]', "")):
            path = self.write(f"{name}.json", '{"logical_count": [%s]}' % row)
            self.refused("plan", path, words=(f"{name}.json", word))
        path = self.write("ragged.json", '{"logical_count": [[1, 2, 3], [4, 5]]}')
        self.refused("plan", path, words=("ragged.json",))

    def test_damage_after_good_layers_leaves_stdout_empty(self):
        good = ",".join(["[%s]" % ",".join("5" for _ in range(64))] * 50)
        for flags in ((), ("--json",), ("--csv",)):
            path = self.write("late.json", '{"logical_count": [%s, [1, 2]]}' % good)
            self.refused("plan", path, *flags, words=("late.json",))

    def test_ids(self):
        ids = npy_bytes("<i4", (2, 1, 2), [0, 6, 1, 2])
        self.refused("plan", self.write("big.npy", ids), "--experts", 6, words=("big.npy", "id 6", "expert"))
        self.refused("plan", self.write("big.npy", ids), words=("big.npy", "--experts"))
        floats = npy_bytes("<f4", (2, 2), [0.0, 1.0, 1.0, 0.0])
        self.refused("plan", self.write("floats.npy", floats), "--experts", 4, words=("floats.npy",))

    def test_csv_needs_three_columns(self):
        self.refused("plan", self.write("pooled.csv", "expert,count\n0,4\n"), words=("pooled.csv", "layer"))

    def test_specs(self):
        size = ("--rows", 64, "--experts", 8)
        self.refused("plan", "normal:1", *size, words=("normal",))
        self.refused("plan", "zipf:1.1,exponent=3", *size, words=("exponent",))
        self.refused("plan", "dirichlet:0", *size, words=("dirichlet",))
        self.refused("plan", "zipf:1.1", "--experts", 8, words=("rows",))
        self.refused("plan", "zipf:1.1", "--rows", 8, words=("experts",))
        self.refused("plan", "counts:4,x", words=("counts",))

    def test_records_that_no_machine_can_hold(self):
        self.refused("run", "counts:3000000000", "--shape", "d=64,h=96", words=("--rows", "2147483647"))
        self.refused("run", "uniform", "--rows", 2000000000, "--experts", 4, "--shape", "ultra-2",
                     words=("--rows", "memory"))
        self.refused("run", "counts:5,6", "--shape", "d=8000000,h=8000000", "--backend", "cpu", words=("--shape:", "memory"))

    def test_too_many_records_for_one_run(self):
        step = "[%s]" % ",".join(["[3, 4]"] * 300)
        path = self.write("many.json", '{"logical_count": %s}' % step)
        self.refused("run", path, "--shape", "d=64,h=96", "--layer", "all", words=("--layer", "--step", "300"))


class Device(CliTest):
    def test_cuda_without_a_device_is_exit_3(self):
        devices = [d["device"] for d in self.json("info")["devices"]]
        if any(d.startswith("cuda") for d in devices):
            self.skipTest("a CUDA device is here")
        self.refused("run", "counts:5,6", "--shape", "d=64,h=96", "--backend", "cuda", code=3, words=("--backend cuda",))
        self.refused("verify", "--backend", "cuda", code=3, words=("--backend cuda",))
        result = self.fine("run", "counts:5,6", "--shape", "d=64,h=96", "--strategy", "grouped")
        self.assertIn("backend cpu", result.err)


    def test_more_rows_than_offsets_can_hold(self):
        for verb in ("run", "bench"):
            self.refused(verb, "counts:9999999999,1", "--shape", "d=64,h=96", "--backend", "cpu",
                         words=("counts:", "2147483647", "got 10000000000", "--rows"))


class FullDevice(CliTest):
    def test_unwritable_stdout_is_said(self):
        import subprocess
        from harness import BINARY
        with open("/dev/full", "wb") as full:
            for args in (("plan", "counts:1,2", "--json"), ("plan", "counts:1,2"), ("info",), ("info", "--json")):
                result = subprocess.run([BINARY, *args], stdout=full, stderr=subprocess.PIPE)
                self.assertEqual(result.returncode, 2)
                self.assertIn(b"standard output", result.stderr)

    def test_closed_stdout_is_said(self):
        import subprocess
        from harness import BINARY
        for args in ("info", "info --json", "plan counts:1,2 --json"):
            result = subprocess.run(["sh", "-c", f'"$0" {args} >&-', BINARY], stderr=subprocess.PIPE)
            self.assertEqual(result.returncode, 2)
            self.assertIn(b"standard output", result.stderr)


if __name__ == "__main__":
    unittest.main()
