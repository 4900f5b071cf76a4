#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the compiled kernels of sm90_instances.def to their table, and their machine code to what they must be.

--check resources: registers, static shared memory, stack and spills of every row equal sm90_resources.csv;
stack and spills are 0 there. Read from the objects by cuobjdump; without it every kernel is compiled once
more and ptxas is asked. --check sass: the code multiplies with HGMMA, at least a stage of them before it waits,
copies with UTMALDG and UTMASTG, keeps what the lanes of a warp share in uniform registers, and never touches local
memory; where other warps apply an activation, these load and store 16 bytes a lane and nothing is stored in bulk.
Without cuobjdump it exits with 77, which ctest counts as skipped. --check flags: the build lets no ptxas warning pass.
A serialized wgmma (C7510 and its family, C7514 for one) is no warning but information: only the code shows it.
"""
import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SKIPPED = 77
COLUMNS = ("registers", "static_smem_bytes", "stack_bytes", "spill_bytes")
WANTED = {"HGMMA": "a warpgroup multiplication", "UTMALDG": "a bulk tensor load", "UTMASTG": "a bulk tensor store"}
# 16 bytes a lane past L1: what the activation warps alone do (block/activation_warps.cuh).
WIDE = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?\w+\s+)?(LDG|STG)\.E\.NA\.128\b", re.MULTILINE)
FORBIDDEN = {"LDL": "a read of local memory", "STL": "a write to local memory", "CALL": "a function call"}
# A stage's multiplications go to the tensor cores together: a contraction of 64 takes four of 16. Where ptxas
# serializes them, it waits after every one; where it injects a wait (C7517), after fewer than that.
WGMMAS_PER_STAGE = 4


class Fault(Exception):
    """Something does not hold, or cannot be asked."""


def instances(table):
    """Names of the rows of sm90_instances.def."""
    return re.findall(r"^MOESAIC_SM90_INSTANCE\((\w+),", Path(table).read_text(encoding="utf-8"), re.MULTILINE)


def expected(path):
    with open(path, encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {row["kernel"]: {column: int(row[column]) for column in COLUMNS} for row in rows}


def objects_of(names, paths):
    """Instance name -> its object, by the object's file name."""
    by_stem = {Path(path).name.split(".")[0]: path for path in paths}
    missing = [name for name in names if name not in by_stem]
    if missing:
        raise Fault(f"expected an object of every instance, got none of: {', '.join(missing)}")
    return {name: by_stem[name] for name in names}


def run(command, environment=None):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          env=environment)
    if done.returncode != 0:
        raise Fault(f"{' '.join(command)} failed:\n{done.stdout}")
    return done.stdout


def parse_cuobjdump(text):
    """One kernel's figures. A spilled register lies on the stack, so STACK holds both."""
    lines = re.findall(r"^\s*Function\s+\S+:\s*\n\s*(\S.*)$", text, re.MULTILINE)
    if len(lines) != 1:
        raise Fault(f"expected one kernel in the object, got {len(lines)}")
    value = {key: int(number) for key, number in re.findall(r"\b(REG|STACK|SHARED|LOCAL):(\d+)", lines[0])}
    if len(value) != 4:
        raise Fault(f"expected REG, STACK, SHARED and LOCAL, got '{lines[0]}'")
    # ptxas reserves 1 KiB of shared memory in every kernel of this architecture; cuobjdump counts it.
    return {"registers": value["REG"], "static_smem_bytes": max(0, value["SHARED"] - 1024),
            "stack_bytes": value["STACK"] + value["LOCAL"], "spill_bytes": 0}


def parse_ptxas(text):
    sizes = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", text)
    used = re.findall(r"Used (\d+) registers(.*)", text)
    if len(sizes) != 1 or len(used) != 1:
        raise Fault(f"expected what ptxas says about one kernel, got:\n{text}")
    stack, stores, loads = map(int, sizes[0])
    shared = re.search(r"(\d+) bytes smem", used[0][1])
    return {"registers": int(used[0][0]), "static_smem_bytes": int(shared.group(1)) if shared else 0,
            "stack_bytes": stack, "spill_bytes": stores + loads}


def compile_again(nvcc, source, include):
    with tempfile.TemporaryDirectory() as folder:
        return run([nvcc, "-std=c++20", "-O3", "-gencode=arch=compute_90a,code=sm_90a", "-Xptxas", "-v", "-cubin", "-o",
                    os.path.join(folder, "kernel.cubin"), f"-I{include}", str(source)])


def compare(name, want, got):
    """The complaints about one kernel; stack and spills are wrong whatever the table says."""
    complaints = [f"{name}: expected {want[column]} {column}, got {got[column]}" for column in COLUMNS
                  if want[column] != got[column]]
    complaints += [f"{name}: expected no {column}, got {got[column]}" for column in ("stack_bytes", "spill_bytes")
                   if got[column] != 0 and got[column] == want[column]]
    return complaints


def check_resources(args):
    names = instances(args.instances)
    table = expected(args.expected)
    if sorted(table) != sorted(names):
        raise Fault(f"{args.expected}: expected one row per instance, got {sorted(set(table) ^ set(names))} "
                    "on one side only")
    if args.cuobjdump:
        found = {name: parse_cuobjdump(run([args.cuobjdump, "--dump-resource-usage", path]))
                 for name, path in objects_of(names, args.objects).items()}
    else:
        print("no cuobjdump: every kernel is compiled once more")
        sources = [Path(args.sources) / f"{name}.cu" for name in names]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            texts = pool.map(lambda source: compile_again(args.nvcc, source, args.include), sources)
            found = dict(zip(names, map(parse_ptxas, texts)))
    complaints = []
    for name in names:
        print(f"{name:34s}" + "".join(f" {found[name][column]:6d} {column}" for column in COLUMNS))
        complaints += compare(name, table[name], found[name])
    return complaints


def opcodes(sass):
    """Instruction -> how often, without its modifiers."""
    found = {}
    for opcode in re.findall(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?\w+\s+)?([A-Z][A-Z0-9_]*)", sass, re.MULTILINE):
        found[opcode] = found.get(opcode, 0) + 1
    return found


def shortest_chain(sass):
    """The least number of HGMMAs between two waits for them; None without such a wait."""
    chains, chain = [], 0
    for step in re.findall(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?\w+\s+)?(HGMMA|WARPGROUP\.DEPBAR)\b", sass, re.MULTILINE):
        if step == "HGMMA":
            chain += 1
        elif chain > 0:  # else a second wait for the same ones
            chains.append(chain)
            chain = 0
    return min(chains, default=None)


def judge_chain(name, chain):
    if chain is None:
        return [f"{name}: expected a wait for HGMMAs (WARPGROUP.DEPBAR), got none"]
    if chain < WGMMAS_PER_STAGE:
        return [f"{name}: expected {WGMMAS_PER_STAGE} HGMMAs or more before every wait, got {chain}: ptxas serialized "
                "them, or had to wait for an accumulator; its output says why (C75..)"]
    return []


def diverged_waits(sass):
    """Waits for a barrier whose address is in an ordinary register: ptxas takes the warp to be diverged there. In a
    producer it then takes every operand of every bulk copy from ordinary registers, which cost up to 2.6 % of a product
    (NB-0015)."""
    return len(re.findall(r"\bSYNCS\.PHASECHK\S*TRYWAIT\S* \w+, \[R\d", sass))


def judge_waits(name, waits):
    if waits > 0:
        return [f"{name}: expected no waits for a barrier that is not in a uniform register, got {waits}: ptxas "
                "takes the warp to be diverged; a branch on a loaded value is to be on what a shfl of it gives"]
    return []


def judge_activation(name, sass):
    """Of a kernel with an activation: its warps store wide, dswiglu's load U wide, and nothing is stored in bulk."""
    wide = set(WIDE.findall(sass))
    wanted = {"STG", "LDG"} if "dswiglu" in name else {"STG"}
    complaints = [f"{name}: expected a {opcode} of 16 bytes, got none" for opcode in sorted(wanted - wide)]
    if "UTMASTG" in opcodes(sass):
        complaints.append(f"{name}: expected no bulk tensor store (UTMASTG), got one")
    return complaints


def judge_sass(name, found):
    if not found:
        return [f"{name}: expected instructions, got none"]
    complaints = [f"{name}: expected {what} ({opcode}), got none" for opcode, what in WANTED.items()
                  if opcode not in found and not ("swiglu" in name and opcode == "UTMASTG")]
    complaints += [f"{name}: expected no {opcode}, {what}, got {found[opcode]}" for opcode, what in FORBIDDEN.items()
                   if opcode in found]
    return complaints


def check_sass(args):
    names = instances(args.instances)
    # cuobjdump starts nvdisasm, which its package puts beside it.
    folder = os.path.dirname(os.path.abspath(args.cuobjdump))
    environment = dict(os.environ, PATH=os.pathsep.join([folder, os.environ.get("PATH", "")]))
    complaints = []
    for name, path in objects_of(names, args.objects).items():
        sass = run([args.cuobjdump, "-sass", path], environment)
        found, chain = opcodes(sass), shortest_chain(sass)
        print(f"{name:34s}" + "".join(f" {found.get(opcode, 0):4d} {opcode}" for opcode in [*WANTED, *FORBIDDEN])
              + f" {chain} at least before a wait")
        complaints += judge_sass(name, found) + judge_chain(name, chain) + judge_waits(name, diverged_waits(sass))
        if "swiglu" in name:
            complaints += judge_activation(name, sass)
    return complaints


def judge_flags(name, command):
    """ptxas gets its flag from one of nvcc's comma-separated lists."""
    lists = re.findall(r"(?:-Xptxas|--ptxas-options)[= ](\S+)", command)
    strict = any("--warning-as-error" in options.split(",") or "-Werror" in options.split(",") for options in lists)
    complaints = [] if strict else [f"{name}: expected ptxas warnings to be errors, got: {command}"]
    if "-G" in command.split():
        complaints.append(f"{name}: expected optimized device code, got -G")
    return complaints


def check_flags(args):
    names = instances(args.instances)
    commands = {Path(entry["file"]).stem: entry["command"]
                for entry in json.loads(Path(args.compile_commands).read_text(encoding="utf-8"))
                if entry["file"].endswith(".cu")}
    complaints = [f"{name}: expected to be compiled, got no command" for name in names if name not in commands]
    for name in names:
        complaints += judge_flags(name, commands.get(name, "")) if name in commands else []
    print(f"{len(names)} kernels")
    return complaints


def self_test():
    dump = " Function kernel:\n  REG:168 STACK:0 SHARED:1024 LOCAL:0 CONSTANT[0]:1192 TEXTURE:0\n"
    good = {"registers": 168, "static_smem_bytes": 0, "stack_bytes": 0, "spill_bytes": 0}
    assert parse_cuobjdump(dump) == good
    ptxas = ("    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
             "ptxas info    : Used 168 registers, used 3 barriers\n")
    assert parse_ptxas(ptxas) == good
    assert compare("k", good, good) == []
    for column in COLUMNS:
        bad = dict(good, **{column: good[column] + 8})
        assert len(compare("k", good, bad)) == 1, column
    spilled = dict(good, spill_bytes=8)
    assert len(compare("k", spilled, spilled)) == 1  # no table makes a spill right
    assert parse_ptxas(ptxas.replace("0 bytes spill loads", "4 bytes spill loads"))["spill_bytes"] == 4
    assert parse_cuobjdump(dump.replace("STACK:0", "STACK:16"))["stack_bytes"] == 16
    sass = ("        /*0000*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24 ;\n"
            "        /*0010*/              @!P0 UTMALDG.2D [UR8], [UR4] ;\n"
            "        /*0020*/                   UTMASTG.4D [UR8], [UR4] ;\n")
    assert opcodes(sass) == {"HGMMA": 1, "UTMALDG": 1, "UTMASTG": 1}
    assert judge_sass("k", opcodes(sass)) == []
    assert len(judge_sass("k", {})) == 1
    for opcode in WANTED:
        assert len(judge_sass("k", opcodes(sass.replace(opcode, "NOP")))) == 1, opcode
    handed = sass.replace("UTMASTG.4D [UR8], [UR4]", "@P1 STG.E.NA.128 desc[UR4][R4.64], R32")
    assert judge_sass("k_swiglu", opcodes(handed)) == [] and judge_activation("k_swiglu", handed) == []
    assert len(judge_activation("k_swiglu", sass)) == 2
    assert len(judge_activation("k_swiglu", handed.replace(".NA.128", ""))) == 1
    assert len(judge_activation("k_dswiglu", handed)) == 1
    for opcode in ("LDL.64", "STL", "CALL.REL.NOINC"):
        assert len(judge_sass("k", opcodes(f"{sass}        /*0030*/    {opcode} R1 ;\n"))) == 1, opcode
    multiply = "        /*0000*/                   HGMMA.64x128x16.F32.BF16 R88, gdesc[UR8], R88, gsb0 ;\n"
    wait = "        /*0010*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;\n"
    other = "        /*0020*/              @!P0 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R6+URZ+0x38020], RZ ;\n"
    arrive = "        /*0030*/                   WARPGROUP.ARRIVE ;\n"
    stage = arrive + 4 * multiply
    assert shortest_chain(stage + arrive + 2 * multiply + wait + other + wait + stage + wait) == 4
    assert shortest_chain(stage + other + wait + multiply) == 4  # nobody waits for the last one
    assert shortest_chain(stage) is None and len(judge_chain("k", None)) == 1
    assert judge_chain("k", shortest_chain(2 * (stage + other + wait))) == []
    serialized = 8 * (arrive + multiply + wait)
    injected = stage + wait + arrive + 2 * multiply + wait + arrive + 2 * multiply + wait
    for slow in (serialized, stage + wait + serialized, injected):
        assert len(judge_chain("k", shortest_chain(slow))) == 1, slow
    uniform = "        /*0040*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P5, [UR38+0x38020], R6 ;\n"
    diverged = uniform.replace("[UR38+", "[R11+URZ+")
    assert diverged_waits(2 * uniform) == 0 and judge_waits("k", 0) == []
    assert diverged_waits(uniform + 2 * diverged) == 2 and len(judge_waits("k", 2)) == 1
    assert judge_flags("k", "nvcc --ptxas-options=-v,--warning-as-error -c k.cu") == []
    assert len(judge_flags("k", "nvcc --ptxas-options=-v -c k.cu")) == 1
    assert len(judge_flags("k", "nvcc -Xptxas -Werror -G -c k.cu")) == 1
    for broken in (lambda: parse_cuobjdump(""), lambda: parse_ptxas(""), lambda: objects_of(["k"], ["a/other.cu.o"])):
        try:
            broken()
        except Fault:
            continue
        raise AssertionError("figures that are missing must not pass")
    print("self-test passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("objects", nargs="*")
    parser.add_argument("--check", choices=("resources", "sass", "flags"))
    parser.add_argument("--instances", help="sm90_instances.def")
    parser.add_argument("--expected", help="sm90_resources.csv")
    parser.add_argument("--cuobjdump", default="")
    parser.add_argument("--nvcc")
    parser.add_argument("--sources", help="folder of the generated NAME.cu")
    parser.add_argument("--include")
    parser.add_argument("--compile-commands")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        self_test()
        return 0
    if args.check == "sass" and not args.cuobjdump:
        print("skipped: no cuobjdump here, which reads machine code; scripts/setup.sh puts one into .venv")
        return SKIPPED
    try:
        complaints = {"resources": check_resources, "sass": check_sass, "flags": check_flags}[args.check](args)
    except (OSError, KeyError, ValueError, Fault) as error:
        complaints = [str(error)]
    for complaint in complaints:
        print(f"check_sm90: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
