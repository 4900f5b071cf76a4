#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the package finds and binds libmoesaic.so. Needs the standard library alone."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import moesaic
from moesaic import _library

ROOT = Path(__file__).resolve().parents[2]
MIRRORS = {
    "moesaic_device": _library.Device,
    "moesaic_device_info": _library.DeviceInfo,
    "moesaic_tensor": _library.Tensor,
    "moesaic_gemm_problem": _library.GemmProblem,
    "moesaic_plan_options": _library.PlanOptions,
    "moesaic_operand": _library.Operand,
    "moesaic_gemm_args": _library.GemmArgs,
    "moesaic_workspace": _library.Workspace,
    "moesaic_fault": _library.FaultRecord,
    "moesaic_expert_mlp_problem": _library.ExpertMlpProblem,
    "moesaic_expert_mlp_forward_args": _library.ExpertMlpForwardArgs,
    "moesaic_expert_mlp_backward_args": _library.ExpertMlpBackwardArgs,
    "moesaic_rendezvous": _library.Rendezvous,
    "moesaic_ep_group_options": _library.EpGroupOptions,
    "moesaic_ep_pool_usage": _library.EpPoolUsage,
    "moesaic_ep_problem": _library.EpProblem,
    "moesaic_ep_options": _library.EpOptions,
    "moesaic_ep_route_maps_args": _library.EpRouteMapsArgs,
    "moesaic_ep_dispatch_put_args": _library.EpDispatchPutArgs,
    "moesaic_ep_combine_get_args": _library.EpCombineGetArgs,
    "moesaic_ep_gather_get_args": _library.EpGatherGetArgs,
    "moesaic_ep_probs_grad_args": _library.EpProbsGradArgs,
    "moesaic_ep_route_fault": _library.EpRouteFault,
}


def in_fresh_python(code, *arguments, **environment):
    variables = {name: value for name, value in os.environ.items() if name != "MOESAIC_LIBRARY"}
    return subprocess.run([sys.executable, "-B", "-c", code, *arguments], env={**variables, **environment},
                          capture_output=True, text=True, check=False)


class Layout(unittest.TestCase):
    def test_mirrors_have_the_frozen_layout(self):
        text = (ROOT / "tests/c_api/layout.inc").read_text(encoding="utf-8")
        fields = re.findall(r"^MOESAIC_FIELD\((\w+), (\w+), (\d+)\)", text, re.MULTILINE)
        sizes = re.findall(r"^MOESAIC_SIZE\((\w+), (\d+)\)", text, re.MULTILINE)
        for struct, size in sizes:
            if struct in MIRRORS:
                mirror = MIRRORS[struct]
                with self.subTest(struct=struct):
                    self.assertEqual(_library.ctypes.sizeof(mirror), int(size))
                    named = [(f, int(o)) for s, f, o in fields if s == struct]
                    mine = [(f[0].rstrip("_"), getattr(mirror, f[0]).offset) for f in mirror._fields_]
                    self.assertEqual(mine, named)
        self.assertEqual(set(MIRRORS) - {struct for struct, _ in sizes}, set())

    def test_exports_are_the_functions_of_the_header(self):
        header = "".join((ROOT / "include/moesaic" / name).read_text(encoding="utf-8")
                         for name in ("c_api.h", "c_api_exchange.h"))
        declared = set(re.findall(r"^MOESAIC_API [^(]*?(moesaic_\w+)\(", header, re.MULTILINE))
        self.assertGreater(len(declared), 50)
        listed = subprocess.run(["nm", "-D", "--defined-only", os.environ["MOESAIC_LIBRARY"]],
                                capture_output=True, text=True, check=True).stdout
        exported = {line.split()[-1] for line in listed.splitlines()}
        self.assertEqual(exported, declared)


class Loading(unittest.TestCase):
    def test_version_says_what_is_loaded(self):
        self.assertRegex(moesaic.version(), r"^\d+\.\d+\.\d+ \(")

    def test_import_loads_nothing(self):
        result = in_fresh_python("import moesaic, sys; print(sorted(set(sys.modules) & {'numpy', 'torch'}))",
                                 MOESAIC_LIBRARY="/nowhere/libmoesaic.so")
        self.assertEqual((result.stdout, result.returncode), ("[]\n", 0), result.stderr)

    def test_a_missing_library_is_named(self):
        result = in_fresh_python("import moesaic; moesaic.version()",
                                 MOESAIC_LIBRARY="/nowhere/libmoesaic.so")
        self.assertIn("looked at: /nowhere/libmoesaic.so", result.stderr)

    def test_all_places_are_named_without_the_variable(self):
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder) / "site/moesaic"
            package.mkdir(parents=True)
            for source in (ROOT / "python/moesaic").glob("*.py"):
                (package / source.name).write_bytes(source.read_bytes())
            for variable in ({}, {"MOESAIC_LIBRARY": ""}):
                result = in_fresh_python("import moesaic; moesaic.version()",
                                         PYTHONPATH=str(package.parent), **variable)
                self.assertIn(str(package / "libmoesaic.so"), result.stderr)
                self.assertIn("set MOESAIC_LIBRARY", result.stderr)

    def test_another_library_is_refused(self):
        result = in_fresh_python("import moesaic; moesaic.version()", MOESAIC_LIBRARY=self.libc())
        self.assertIn("is no moesaic library of this version: it lacks moesaic_", result.stderr)

    def test_a_file_that_is_no_library_is_refused(self):
        result = in_fresh_python("import moesaic; moesaic.version()", MOESAIC_LIBRARY=__file__)
        self.assertIn("could not be loaded", result.stderr)

    @staticmethod
    def libc():
        with open("/proc/self/maps", encoding="utf-8") as maps:
            return next(line.split()[-1] for line in maps if "libc.so" in line or "libc-" in line)


class Candidates(unittest.TestCase):
    def test_each_has_a_reason_or_fits(self):
        found = moesaic.candidates("forward", num_experts=4, max_rows=64, n=64, k=64)
        self.assertTrue(any(candidate.ok for candidate in found))
        for candidate in found:
            self.assertNotEqual(candidate.ok, bool(candidate.reason), candidate)

    def test_a_malformed_problem_is_every_ones_reason(self):
        found = moesaic.candidates("wgrad", num_experts=4, max_rows=64, n=63, k=64)
        self.assertTrue(found)
        for candidate in found:
            self.assertIn("n: expected", candidate.reason)

    def test_no_experts_are_every_ones_reason(self):
        # "cuda" refuses where there is no device or no such backend; nothing may end the process.
        for device in ("cpu", "cuda"):
            with self.subTest(device=device):
                result = in_fresh_python(
                    "import moesaic, sys\n"
                    "try:\n"
                    "    found = moesaic.candidates(num_experts=0, max_rows=8, n=8, k=8, device=sys.argv[1])\n"
                    "    assert found and all('num_experts: expected' in c.reason for c in found), found\n"
                    "except moesaic.DeviceFailure as error:\n"
                    "    assert sys.argv[1] == 'cuda', error\n"
                    "print('alive')\n", device, MOESAIC_LIBRARY=os.environ["MOESAIC_LIBRARY"])
                self.assertEqual((result.returncode, result.stdout), (0, "alive\n"), result.stderr)

    def test_unknown_words_are_refused(self):
        with self.assertRaisesRegex(moesaic.InvalidArgument, "weights: expected 'enk' or 'ekn'"):
            moesaic.candidates(num_experts=1, max_rows=1, n=8, k=8, weights="nek")
        with self.assertRaisesRegex(moesaic.InvalidArgument, "device: expected"):
            moesaic.candidates(num_experts=1, max_rows=1, n=8, k=8, device="tpu")


if __name__ == "__main__":
    unittest.main()
