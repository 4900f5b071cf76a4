#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that check_layers.py sees a breach of every rule, and lets through what is allowed."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import check_layers  # noqa: E402

# Files that includes below resolve to; none of them breaks a rule.
BASE = {
    "include/moesaic/error.hpp": "#include <string>\n",
    "include/moesaic/interop/cuda.hpp": "#include <cuda_runtime_api.h>\n#include \"moesaic/error.hpp\"\n",
    "include/moesaic/c_api.h": "#include <stdint.h>\n",
    "include/moesaic/c_api_exchange.h": '#include "moesaic/c_api.h"\n',
    "src/math/integer.hpp": "#include <cstdint>\n",
    "src/core/validate.hpp": '#include "math/integer.hpp"\n',
    "src/planner/roofline.hpp": '#include "moesaic/error.hpp"\n',
    "src/routing/reader.hpp": "#include <nlohmann/json.hpp>\n#include <zlib.h>\n",
    "src/backends/backend.hpp": '#include "core/validate.hpp"\n',
    "src/backends/host_rows.hpp": '#include "backends/backend.hpp"\n',
    "src/backends/reference/loops.hpp": '#include "backends/backend.hpp"\n'
                                        '#include "backends/host_rows.hpp"\n',
    "src/backends/onednn/matmul.hpp": "#include <dnnl.hpp>\n#include <omp.h>\n",
    "src/backends/cuda/sm90_config.hpp": '#include "math/integer.hpp"\n',
    "src/backends/cuda/ptx/wgmma.cuh": '#include <cuda/ptx>\nvoid f() { asm volatile(""); }\n',
    "src/backends/cuda/block/mainloop.cuh": '#include "backends/cuda/ptx/wgmma.cuh"\n',
    "src/backends/cuda/transport/peer.cuh": "#include <nvshmem.h>\n",
    "src/backends/cuda/kernels/forward.cuh": '#include "backends/cuda/block/mainloop.cuh"\n'
                                             '#include "backends/cuda/transport/peer.cuh"\n',
    "src/backends/cuda/launch/launch.cu": '#include "backends/cuda/kernels/forward.cuh"\n'
                                          "void g() { cudaLaunchKernelEx(); }\n",
    "src/backends/cuda/launch/launch.hpp": "#include <cuda_runtime_api.h>\n",
    "src/backends/cuda/cuda_backend.cpp": '#include "backends/cuda/launch/launch.hpp"\n',
    "src/dispatch/backends.hpp": '#include "backends/onednn/matmul.hpp"\n',
    "src/ops/mlp.hpp": '#include "dispatch/backends.hpp"\n',
    "src/check/oracle.hpp": '#include "dispatch/backends.hpp"\n',
    "src/c_api/c_api.cpp": '#include "moesaic/c_api.h"\n#include "ops/mlp.hpp"\n',
    "tools/moesaic/table.hpp": "#include <CLI/CLI.hpp>\n",
    "tools/moesaic/main.cpp": '#include <unistd.h>\n#include "moesaic_build_info.hpp"\n#include "table.hpp"\n',
    "bench/harness/timer.hpp": "#include <benchmark/benchmark.h>\n",
    "bench/baselines/dense.hpp": "#include <dnnl.hpp>\n#include <omp.h>\n",
    "bench/compare_bench.cpp": '#include "baselines/dense.hpp"\n#include "harness/timer.hpp"\n',
    "examples/plan.cpp": '#include "moesaic/error.hpp"\n',
    "tests/support/random.hpp": "#include <random>\n",
    "tests/core/validate_test.cpp": '#include <gtest/gtest.h>\n#include "core/validate.hpp"\n'
                                    '#include "math/integer.hpp"\n#include "support/random.hpp"\n',
    "tests/math/integer_test.cu": "#include <cuda_runtime.h>\nvoid h() { kernel<<<1, 1>>>(); }\n",
}

# path of the breaking file | its text | what the message must name
BREACHES = [
    ("src/math/bad.hpp", "#include <vector>\n", "includes vector"),
    ("src/math/bad.hpp", "#include <cuda_runtime.h>\n", "includes cuda_runtime.h"),
    ("src/math/bad.hpp", "#include <limits.h>\n", "includes limits.h"),
    ("src/math/bad.hpp", '#include "moesaic/error.hpp"\n', "includes include/moesaic/error.hpp"),
    ("src/math/bad.hpp", "inline void f() { throw 1; }\n", "holds throw"),
    ("src/math/bad.hpp", "inline int f() { return blockIdx.x; }\n", "holds blockIdx"),
    ("include/moesaic/bad.hpp", "#include <cuda_runtime_api.h>\n", "includes cuda_runtime_api.h"),
    ("include/moesaic/bad.hpp", '#include "math/integer.hpp"\n', "includes src/math/integer.hpp"),
    ("include/moesaic/bad.hpp", '#include "moesaic/interop/cuda.hpp"\n', "interop/cuda.hpp"),
    ("include/moesaic/bad.hpp", "#include <moesaic/interop/cuda.hpp>\n", "interop/cuda.hpp"),
    ("include/moesaic/c_api.h", "#include <cstdint>\n", "includes cstdint"),
    ("include/moesaic/c_api_exchange.h", "#include <stdint.h>\n", "includes stdint.h"),
    ("src/core/parallel.hpp", '#include "core/validate.hpp"\n', "includes src/core/validate.hpp"),
    ("src/core/bad.cpp", '#include "planner/roofline.hpp"\n', "includes src/planner/roofline.hpp"),
    ("src/core/bad.cpp", "#include <nlohmann/json.hpp>\n", "includes nlohmann/json.hpp"),
    ("src/planner/bad.cpp", '#include "core/validate.hpp"\n', "includes src/core/validate.hpp"),
    ("src/planner/bad.cpp", '#include "backends/backend.hpp"\n', "includes src/backends/backend.hpp"),
    ("src/planner/bad.cpp", '#include "../math/integer.hpp"\n', "written from src/"),
    ("src/planner/bad.cpp", '#include "roofline.hpp"\n', "write it from src/"),
    ("src/planner/bad.cpp", "#define H <vector>\n#include H\n", "cannot be checked"),
    ("src/routing/bad.cpp", '#include "core/validate.hpp"\n', "includes src/core/validate.hpp"),
    ("src/routing/bad.cpp", "#include <dnnl.hpp>\n", "includes dnnl.hpp"),
    ("src/backends/bad.hpp", '#include "backends/onednn/matmul.hpp"\n', "onednn/matmul.hpp"),
    ("src/backends/reference/bad.cpp", '#include "backends/onednn/matmul.hpp"\n', "onednn/matmul.hpp"),
    ("src/backends/reference/bad.cpp", "#include <dnnl.hpp>\n", "includes dnnl.hpp"),
    ("src/backends/reference/bad.cpp", '#include "dispatch/backends.hpp"\n', "dispatch/backends.hpp"),
    ("src/backends/onednn/bad.cpp", '#include "backends/reference/loops.hpp"\n', "reference/loops.hpp"),
    ("src/backends/onednn/bad.cpp", "#include <cuda_runtime.h>\n", "includes cuda_runtime.h"),
    ("src/backends/onednn/bad.cpp", '#include "routing/reader.hpp"\n', "includes src/routing/reader.hpp"),
    ("src/backends/cuda/ptx/bad.cuh", '#include "backends/cuda/block/mainloop.cuh"\n', "block/mainloop.cuh"),
    ("src/backends/cuda/block/bad.cuh", '#include "backends/cuda/kernels/forward.cuh"\n', "kernels/forward"),
    ("src/backends/cuda/block/bad.cuh", '#include "backends/cuda/transport/peer.cuh"\n', "transport/peer"),
    ("src/backends/cuda/block/bad.cuh", "#include <nvshmem.h>\n", "includes nvshmem.h"),
    ("src/backends/cuda/block/bad.cuh", 'void f() { asm volatile("nop;"); }\n', "holds asm"),
    ("src/backends/cuda/transport/bad.cuh", '#include "backends/cuda/block/mainloop.cuh"\n', "block/mainloop"),
    ("src/backends/cuda/kernels/bad.cuh", '#include "backends/cuda/launch/launch.hpp"\n', "launch/launch.hpp"),
    ("src/backends/cuda/kernels/bad.cuh", "void f() { k<<<1, 2>>>(); }\n", "holds <<<"),
    ("src/backends/cuda/kernels/bad.cuh", "void f() { cudaLaunchKernelEx(); }\n", "cudaLaunchKernelEx"),
    ("src/backends/cuda/launch/bad.cu", "#include <nvshmemx.h>\n", "includes nvshmemx.h"),
    ("src/backends/cuda/launch/bad.cu", "void f() { k<<<1, 2>>>(); }\n", "launch_kernel()"),
    ("src/backends/cuda/launch/bad.cu", '#include "backends/onednn/matmul.hpp"\n', "onednn/matmul.hpp"),
    ("src/backends/cuda/bad.hpp", '#include "backends/cuda/launch/launch.hpp"\n', "launch/launch.hpp"),
    ("src/dispatch/bad.cpp", '#include "ops/mlp.hpp"\n', "includes src/ops/mlp.hpp"),
    ("src/dispatch/bad.cpp", "#include <dnnl.hpp>\n", "includes dnnl.hpp"),
    ("src/ops/bad.cpp", '#include "backends/reference/loops.hpp"\n', "reference/loops.hpp"),
    ("src/ops/bad.cpp", '#include "backends/backend.hpp"\n', "includes src/backends/backend.hpp"),
    ("src/ops/bad.cpp", '#include "check/oracle.hpp"\n', "includes src/check/oracle.hpp"),
    ("src/check/bad.cpp", '#include "backends/reference/loops.hpp"\n', "reference/loops.hpp"),
    ("src/c_api/bad.cpp", '#include "backends/cuda/launch/launch.hpp"\n', "launch/launch.hpp"),
    ("tools/moesaic/bad.cpp", '#include "math/integer.hpp"\n', "includes src/math/integer.hpp"),
    ("tools/moesaic/bad.cpp", "#include <benchmark/benchmark.h>\n", "benchmark/benchmark.h"),
    ("bench/harness/bad.cpp", '#include "planner/roofline.hpp"\n', "includes src/planner/roofline.hpp"),
    ("bench/harness/bad.cpp", "#include <dnnl.hpp>\n", "includes dnnl.hpp"),
    ("bench/bad_bench.cpp", "#include <omp.h>\n", "includes omp.h"),
    ("bench/baselines/bad.cpp", '#include "backends/onednn/matmul.hpp"\n', "onednn/matmul.hpp"),
    ("bench/baselines/bad.cpp", '#include "harness/timer.hpp"\n', "bench/harness/timer.hpp"),
    ("examples/bad.cpp", "#include <CLI/CLI.hpp>\n", "includes CLI/CLI.hpp"),
    ("examples/bad.cpp", '#include "math/integer.hpp"\n', "includes src/math/integer.hpp"),
    ("tests/core/bad_test.cpp", '#include "planner/roofline.hpp"\n', "includes src/planner/roofline.hpp"),
    ("tests/core/bad_test.cpp", "void f() { k<<<1, 2>>>(); }\n", "holds <<<"),
    ("tests/cli/bad_test.cpp", '#include "ops/mlp.hpp"\n', "includes src/ops/mlp.hpp"),
    ("tests/device/bad_test.cpp", '#include "ops/mlp.hpp"\n', "includes src/ops/mlp.hpp"),
    ("tests/fuzz/bad.cpp", '#include "ops/mlp.hpp"\n', "includes src/ops/mlp.hpp"),
    ("src/newcomer/bad.cpp", "#include <vector>\n", "no row of RULES"),
]


def run(files):
    """(exit code, lines on stdout) of the checker on a tree of BASE and the given files."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in {**BASE, **files}.items():
            target = Path(folder) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            code = check_layers.main(["--root", folder])
        return code, out.getvalue().splitlines()


class CheckLayersTest(unittest.TestCase):
    def test_the_clean_tree_passes(self):
        self.assertEqual(run({}), (0, []))

    def test_every_breach_is_reported_once_at_its_line(self):
        for path, text, wanted in BREACHES:
            with self.subTest(path=path, text=text):
                code, lines = run({path: "// SPDX\n" + text})
                self.assertEqual(code, 1)
                self.assertEqual(len(lines), 1, lines)
                line_of_breach = text.count("\n") + 1 if wanted != "no row of RULES" else 1
                self.assertTrue(lines[0].startswith(f"{path}:{line_of_breach}: "), lines[0])
                self.assertIn(wanted, lines[0])

    def test_every_row_of_the_table_has_a_breach(self):
        rules = check_layers.parse_rules(check_layers.RULES)
        hit = {next((r.files for r in rules if check_layers.fnmatch.fnmatchcase(path, r.files)), None)
               for path, _, _ in BREACHES}
        untested = {r.files for r in rules} - hit
        # These two rows only add to what the row below them forbids.
        self.assertEqual(untested, {"include/moesaic/interop/cuda.hpp", "src/backends/cuda/*.cpp"})

    def test_comments_and_strings_are_not_code(self):
        text = ('// #include <vector>\n/* asm\n#include <map>\n throw */\n'
                "constexpr int kMany = 1'000'000;  // asm 'new'\n"
                'constexpr const char* kText = "throw <<<";\n'
                'constexpr const char* kRaw = R"x(asm "new" throw)x";\n'
                "constexpr char kQuote = '\"';\n")
        self.assertEqual(run({"src/math/fine.hpp": text}), (0, []))
        code, lines = run({"src/math/fine.hpp": text + "inline void f() { throw 1; }\n"})
        self.assertEqual(code, 1)
        self.assertTrue(lines[0].startswith("src/math/fine.hpp:9: holds throw"), lines)

    def test_an_empty_tree_is_no_success(self):
        with tempfile.TemporaryDirectory() as folder:
            with contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual(check_layers.main(["--root", folder]), 1)


if __name__ == "__main__":
    unittest.main()
