#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of setup.sh with a PATH on which apt-get, dpkg-query and id are stand-ins that keep a log."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SETUP = Path(__file__).resolve().parents[2] / "scripts" / "setup.sh"
TOOLS = ("bash", "cat", "mktemp", "rm")


class Machine:
    """A folder as the whole PATH: the few tools of the base system, and the stand-ins."""

    def __init__(self, folder, uid=0, installed=None, apt_status=0):
        self.bin = Path(folder)
        self.log = self.bin / "log"
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.write("id", f"echo {uid}")
        self.write("venv/bin/python3", "exit 0")  # a complete .venv
        if installed is not None:
            self.write("dpkg-query", f'case " {installed} " in *" ${{@: -1}} "*) printf installed ;;\n'
                                     "*) exit 1 ;; esac")
            self.write("apt-get", f'echo "$@" >>{self.log}; echo trouble; exit {apt_status}')

    def write(self, name, body):
        path = self.bin / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
        path.chmod(0o755)

    def setup(self, *arguments, script=SETUP):
        return subprocess.run([script, *arguments], env={"PATH": str(self.bin), "TMPDIR": str(self.bin),
                                                     "MOESAIC_VENV": str(self.bin / "venv")},
                              capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)

    def apt_calls(self):
        """What the stand-ins logged: apt-get, and pip where a test lets it log."""
        return self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []


BUILD = ("make git g++ cmake ninja-build python3 python3-venv libdnnl-dev ocl-icd-opencl-dev libcli11-dev "
         "nlohmann-json3-dev zlib1g-dev libgtest-dev libbenchmark-dev")


class SetupTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def machine(self, **options):
        return Machine(self.folder.name, **options)

    def test_nothing_missing_does_nothing(self):
        for uid in (0, 1000):
            with self.subTest(uid=uid), tempfile.TemporaryDirectory() as folder:
                machine = Machine(folder, uid=uid, installed=BUILD)
                done = machine.setup()
                self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))
                self.assertEqual(machine.apt_calls(), [])

    def test_root_installs_only_what_is_missing(self):
        machine = self.machine(installed=BUILD.replace("cmake ", "").replace(" zlib1g-dev", ""))
        self.assertEqual(machine.setup().returncode, 0)
        self.assertEqual(machine.apt_calls(),
                         ["-q update", "-q -y --no-install-recommends install cmake zlib1g-dev"])

    def test_lint_adds_its_tools(self):
        machine = self.machine(installed=BUILD)
        self.assertEqual(machine.setup("--lint").returncode, 0)
        self.assertTrue(machine.apt_calls()[1].endswith("install clang clang-format libomp-dev"))

    def test_lint_adds_one_version_of_clang_tidy(self):
        machine = self.machine(installed=f"{BUILD} clang clang-format libomp-dev")
        for there, calls in (("exit 0", []), ('[[ "$2" != *metadata* ]]', ["-m pip install -q clang-tidy==23.1.4"])):
            machine.write("venv/bin/python3", f'if [[ $1 == -c ]]; then {there}; else echo "$@" >>{machine.log}; fi')
            self.assertEqual(machine.setup("--lint").returncode, 0)
            self.assertEqual(machine.apt_calls(), calls)

    def test_a_user_is_told_one_line(self):
        machine = self.machine(uid=1000, installed=BUILD.replace("cmake ", ""))
        done = machine.setup()
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr.splitlines()[-1], "sudo apt-get install -y cmake")
        self.assertEqual(machine.apt_calls(), [])

    def test_a_failing_apt_is_shown(self):
        done = self.machine(installed="", apt_status=100).setup()
        self.assertEqual(done.returncode, 1)
        self.assertIn("trouble", done.stderr)
        self.assertIn("could not install: make git", done.stderr)

    def test_elsewhere_it_names_what_is_missing(self):
        machine = self.machine()
        for tool in ("make", "git", "cmake", "ninja", "python3"):
            machine.write(tool, "exit 0")
        machine.write("c++", 'read -r line; [[ "$line" != *dnnl* ]]')
        done = machine.setup()
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.endswith("what is missing: <dnnl.hpp>\n"), done.stderr)
        machine.write("c++", "exit 0")
        self.assertEqual(machine.setup().returncode, 0)

    def test_python_gets_a_venv_once(self):
        machine = self.machine(installed=BUILD)
        machine.write("python3", f'echo "$@" >>{machine.log}; printf \'#!/bin/bash\\necho "$@" >>'
                                 f"{machine.log}\\n' >$3/bin/python3")
        machine.write("venv/bin/python3", "exit 1")
        done = machine.setup()
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertEqual(machine.apt_calls(), [f"-m venv {machine.bin}/venv",
                                               "-m pip install -q numpy ml_dtypes plotly"])
        self.assertEqual(machine.setup().stderr, "")  # what it made answers now

    def test_without_network_setup_goes_on(self):
        machine = self.machine(installed=BUILD)
        machine.write("venv/bin/python3", "exit 1")
        machine.write("python3", "exit 1")
        done = machine.setup()
        self.assertEqual(done.returncode, 0)
        self.assertIn("NumPy tests of the Python package will be skipped", done.stderr)

    def test_what_failed_is_not_tried_again_for_a_day(self):
        machine = self.machine(installed=BUILD)
        machine.write("venv/bin/python3", f'[[ $1 == -c ]] || echo "$@" >>{machine.log}; exit 1')
        machine.write("python3", "exit 0")
        once = ["-m pip install -q numpy ml_dtypes plotly"]
        machine.setup()
        self.assertEqual(machine.apt_calls(), once)
        done = machine.setup()
        self.assertEqual((done.returncode, machine.apt_calls()), (0, once))
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertIn("remove it to try again", done.stderr)
        stamp = machine.bin / "venv/failed_numpy"
        stamp.write_text(str(int(stamp.read_text()) - 90000), encoding="utf-8")
        machine.setup()
        self.assertEqual(machine.apt_calls(), once * 2)

    def test_a_build_folder_that_cannot_be_written_is_one_line(self):
        machine = self.machine(installed=BUILD)
        script = machine.bin / "checkout/scripts/setup.sh"
        script.parent.mkdir(parents=True)
        shutil.copy(SETUP, script)
        self.assertEqual(machine.setup(script=script).returncode, 0)
        (script.parents[1] / "build").write_text("", encoding="utf-8")  # permissions do not stop root
        done = machine.setup(script=script)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1))
        self.assertIn("build/ cannot be written", done.stderr)

    def test_cuobjdump_comes_where_nvcc_is_and_it_is_not(self):
        machine = self.machine(installed=BUILD)
        tool = machine.bin / "venv/lib/python3.11/site-packages/nvidia/cu13/bin/cuobjdump"
        machine.write("venv/bin/python3", f'[[ $1 == -c ]] || echo "$@" >>{machine.log}')
        machine.setup()
        self.assertEqual(machine.apt_calls(), [])  # no nvcc, no need
        machine.write("nvcc", "exit 0")
        done = machine.setup()
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertEqual(machine.apt_calls(), ["-m pip install -q nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm"])
        machine.log.unlink()
        machine.write(str(tool.relative_to(machine.bin)), "exit 0")
        self.assertEqual((machine.setup().stderr, machine.apt_calls()), ("", []))
        tool.unlink()
        machine.write("cuobjdump", "exit 0")  # the toolkit's own
        self.assertEqual((machine.setup().stderr, machine.apt_calls()), ("", []))

    def test_without_cuobjdump_setup_goes_on(self):
        machine = self.machine(installed=BUILD)
        machine.write("venv/bin/python3", "[[ $1 == -c ]]")
        machine.write("nvcc", "exit 0")
        done = machine.setup()
        self.assertEqual(done.returncode, 0)
        self.assertIn("machine code will be skipped", done.stderr)
        self.assertEqual(machine.setup().stderr, "")  # not for a day

    def test_nvshmem_comes_where_it_is_asked_for_and_nvcc_is(self):
        machine = self.machine(installed=BUILD)
        header = machine.bin / "venv/lib/python3.11/site-packages/nvidia/nvshmem/include/nvshmem.h"
        machine.write("venv/bin/python3", f'[[ $1 == -c ]] || echo "$@" >>{machine.log}')
        machine.write("cuobjdump", "exit 0")
        machine.setup("--nvshmem")
        self.assertEqual(machine.apt_calls(), [])  # no nvcc, no use
        machine.write("nvcc", "exit 0")
        machine.setup()
        self.assertEqual(machine.apt_calls(), [])  # not asked for
        done = machine.setup("--nvshmem")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertEqual(machine.apt_calls(), ["-m pip install -q nvidia-nvshmem-cu13==3.4.5"])
        machine.write(str(header.relative_to(machine.bin)), "")
        self.assertEqual((machine.setup("--nvshmem").stderr, len(machine.apt_calls())), ("", 1))

    def test_without_nvshmem_setup_goes_on(self):
        machine = self.machine(installed=BUILD)
        machine.write("venv/bin/python3", "[[ $1 == -c ]]")
        machine.write("cuobjdump", "exit 0")
        machine.write("nvcc", "exit 0")
        done = machine.setup("--nvshmem")
        self.assertEqual(done.returncode, 0)
        self.assertIn("built without expert parallelism between GPUs", done.stderr)
        self.assertEqual(machine.setup("--nvshmem").stderr, "")  # not for a day

    def test_torch_is_added_once_where_it_is_asked_for(self):
        machine = self.machine(installed=BUILD + " python3-dev")
        have = machine.bin / "torch"
        machine.write("venv/bin/python3", f'case "$*" in *==*) [[ -e {have} ]];; esac\n'
                                          f'code=$?; [[ $1 == -c ]] && exit $code; echo "$@" >>{machine.log}')
        self.assertEqual(machine.setup().returncode, 0)
        self.assertEqual(machine.apt_calls(), [])
        done = machine.setup("--torch")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertEqual(len(machine.apt_calls()), 1)
        self.assertRegex(machine.apt_calls()[0], r"^-m pip install -q torch==2\.\d+\.\d+ transformers==5\S+ nvidia-ml-py==13\.")
        have.touch()
        self.assertEqual((machine.setup("--torch", "--torch").stderr, len(machine.apt_calls())), ("", 1))

    def test_torch_needs_the_headers_of_python(self):
        machine = self.machine(installed=BUILD)
        self.assertEqual(machine.setup("--torch").returncode, 0)
        self.assertEqual(machine.apt_calls()[1], "-q -y --no-install-recommends install python3-dev")

    def test_without_torch_setup_goes_on(self):
        machine = self.machine(installed=BUILD + " python3-dev")
        machine.write("venv/bin/python3", '[[ "$*" == *numpy* ]]')
        done = machine.setup("--torch")
        self.assertEqual(done.returncode, 0)
        self.assertIn("tests of moesaic.torch will be skipped", done.stderr)

    def test_the_browser_comes_with_what_drives_it(self):
        machine = self.machine(installed=BUILD + " chromium")
        machine.write("venv/bin/python3", f'[[ "$*" == *numpy* ]] || {{ echo "$@" >>{machine.log}; [[ $1 != -c ]]; }}')
        self.assertEqual(machine.setup("--browser").returncode, 0)
        self.assertEqual(machine.apt_calls()[1:], ["-q -y --no-install-recommends install fonts-dejavu-core",
                                                   "-c import playwright", "-m pip install -q playwright"])

    def test_unknown_arguments_are_refused(self):
        done = self.machine(installed=BUILD).setup("--lnt")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--lnt", done.stderr)


if __name__ == "__main__":
    unittest.main()
