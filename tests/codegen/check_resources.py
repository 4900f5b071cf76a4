#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a compiled kernel uses local memory: a stack frame, a local array or a register spill.

Reads `cuobjdump --dump-resource-usage` of the objects. Without cuobjdump it compiles --source once more
and reads what ptxas says about it. Prints one line per kernel.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass


@dataclass
class Usage:
    kernel: str
    registers: int
    local_bytes: int  # stack frame, local arrays and spills together: anything above 0 is wrong


def parse_cuobjdump(text):
    """Lines « Function NAME:» each followed by « REG:14 STACK:0 SHARED:0 LOCAL:0 …»."""
    usages = []
    for name, figures in re.findall(r"^\s*Function\s+(\S+?):\s*\n\s*(\S.*)$", text, re.MULTILINE):
        value = {key: int(n) for key, n in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", figures)}
        if set(value) != {"REG", "STACK", "LOCAL"}:
            raise ValueError(f"{name}: expected REG, STACK and LOCAL, got «{figures}»")
        usages.append(Usage(name, value["REG"], value["STACK"] + value["LOCAL"]))
    return usages


def parse_ptxas(text):
    """What `ptxas -v` prints for each entry function."""
    usages = []
    for part in text.split("Compiling entry function '")[1:]:
        name = part.split("'", 1)[0]
        sizes = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part)
        registers = re.search(r"Used (\d+) registers", part)
        if sizes is None or registers is None:
            raise ValueError(f"{name}: ptxas said nothing about its stack frame or registers")
        usages.append(Usage(name, int(registers.group(1)), sum(map(int, sizes.groups()))))
    return usages


def read_usages(args):
    if args.cuobjdump:
        usages = []
        for path in args.objects:
            usages += parse_cuobjdump(run([args.cuobjdump, "--dump-resource-usage", path]))
        return usages
    if not (args.nvcc and args.source):
        raise ValueError("without --cuobjdump, expected --nvcc and --source")
    with tempfile.TemporaryDirectory() as folder:
        command = [args.nvcc, "-std=c++20", "-O3", "-gencode=arch=compute_90a,code=sm_90a", "-Xptxas", "-v",
                   "-cubin", "-o", os.path.join(folder, "check.cubin"), args.source]
        return parse_ptxas(run(command + [f"-I{path}" for path in args.include]))


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(f"{' '.join(command)} failed:\n{done.stdout}")
    return done.stdout


def verdict(usages, min_kernels):
    """The complaints; none means that all is well."""
    complaints = [f"{u.kernel}: expected no local memory, got {u.local_bytes} bytes" for u in usages
                  if u.local_bytes != 0]
    if len(usages) < min_kernels:
        complaints.append(f"expected at least {min_kernels} kernels, got {len(usages)}")
    return complaints


def self_test():
    good = "Fatbin elf code:\n Function a_kernel:\n  REG:14 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:552 TEXTURE:0\n"
    stack = good.replace("STACK:0", "STACK:16")
    local = good.replace("LOCAL:0", "LOCAL:8")
    ptxas = ("ptxas info    : Compiling entry function 'a_kernel' for 'sm_90a'\n"
             "    0 bytes stack frame, 0 bytes spill stores, 4 bytes spill loads\n"
             "ptxas info    : Used 14 registers, used 0 barriers\n")
    assert parse_cuobjdump(good) == [Usage("a_kernel", 14, 0)]
    assert verdict(parse_cuobjdump(good), 1) == []
    assert len(verdict(parse_cuobjdump(good), 2)) == 1
    assert len(verdict(parse_cuobjdump(stack), 1)) == 1
    assert len(verdict(parse_cuobjdump(local), 1)) == 1
    assert parse_ptxas(ptxas) == [Usage("a_kernel", 14, 4)]
    assert len(verdict([], 1)) == 1
    for parse, text in ((parse_cuobjdump, " Function a_kernel:\n  REG:14\n"),
                        (parse_ptxas, "Compiling entry function 'a_kernel'\n")):
        try:
            parse(text)
        except ValueError:
            continue
        raise AssertionError("figures that are missing must not pass")
    print("self-test passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("objects", nargs="*")
    parser.add_argument("--cuobjdump")
    parser.add_argument("--nvcc")
    parser.add_argument("--source")
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--min-kernels", type=int, default=1, help="fail when fewer were found")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        self_test()
        return 0
    try:
        usages = read_usages(args)
    except (OSError, ValueError) as error:
        print(f"check_resources: {error}", file=sys.stderr)
        return 1
    for usage in sorted(usages, key=lambda u: u.kernel):
        print(f"{usage.registers:4d} registers {usage.local_bytes:6d} local bytes  {usage.kernel}")
    complaints = verdict(usages, args.min_kernels)
    for complaint in complaints:
        print(f"check_resources: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
