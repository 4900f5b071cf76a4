#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times expert parallelism of moesaic against PyTorch with NCCL, in turn, in one run, on the same routings.

    scripts/run_ranks.sh 2 python3 scripts/ep_torch_arm.py --output ep_torch.jsonl     # a GPU for each rank
    python3 scripts/ep_torch_arm.py --simulated 2 --tokens 64 --d 64 --h 32 --experts 8 --topk 2 --output rows.jsonl

exchange  maps, dispatch and fused combine, against the same by sorting, all_to_all_single and sorting back: written
          plainly (arm torch), and with inverse permutations and one batched product for the sum (torch_lean)
layer     moesaic.torch.ep.MoELayer, forward and backward, against a layer of all_to_all_single, grouped_mm and silu * up

Arms are compared before they are timed: where one is wrong there is no row, and the exit code is 1. No route is
dropped. Rank 0 appends a JSON row for each arm. Without PyTorch, moesaic's library or the GPUs: exit code 3.
"""
import argparse
import json
import os
import sys
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

from torch_arm import BAD_INPUT, CHECK_FAILED, NO_DEVICE, Refused, git_state, quantile  # noqa: E402

SCHEMA = "moesaic.ep_arm/1"
COMPARISONS = ("exchange", "layer")
WARM_UPS = 3


class Routing(NamedTuple):
    name: str
    exponent: float


def parse_routing(text):
    if text == "uniform":
        return Routing(text, 0.0)
    kind, _, exponent = text.partition(":")
    try:
        if kind == "zipf" and 0 <= float(exponent) <= 10:
            return Routing(text, float(exponent))
    except ValueError:
        pass
    raise Refused(f"--routing: expected uniform, or zipf:S with S from 0 to 10, got {text!r}")


def parse_git(text):
    sha, _, rest = text.partition(",")
    if not sha or rest not in ("", "dirty"):
        raise Refused(f"--git: expected a commit, or COMMIT,dirty, got {text!r}")
    return {"sha": sha, "dirty": rest == "dirty"}


def parse_comparisons(text):
    words = text.split(",")
    for word in words:
        if word not in COMPARISONS:
            raise Refused(f"--what: expected some of {', '.join(COMPARISONS)}, got {word!r}")
    return words


def in_turn(arms, sample):
    """The order of a sample: each arm is first as often as any other."""
    first = sample % len(arms)
    return arms[first:] + arms[:first]


def time_arms(site, arms, flags):
    """Seconds of every sample of every arm, in turn."""
    for arm in arms:
        site.sample(arm, WARM_UPS)
    seconds = {arm: [] for arm in arms}
    for sample in range(flags.samples):
        for arm in in_turn(arms, sample):
            seconds[arm].append(site.sample(arm, flags.calls))
    return seconds


def make_row(site, flags, comparison, routing, arm, words, timing, check):
    problem = {"dtype": "bf16", "experts": flags.experts, "topk": flags.topk, "tokens": flags.tokens, "d": flags.d,
               "capacity_factor_millionths": site.num_ranks * 1_000_000, "max_rows": site.max_rows,
               "dispatch": site.dispatch}
    if comparison == "layer":
        problem.update(h=flags.h, order="up_gate")
    return {"schema": SCHEMA, "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "git": flags.git,
            "command": " ".join(sys.argv), **site.circumstances, "problem": problem,
            "routing": {"name": routing.name, "seed": flags.seed, **site.traffic}, "comparison": comparison, "arm": arm,
            "implementation": words, "timing": timing[arm],
            "derived": {"ratio_to_moesaic": timing[arm]["slowest_s"] / timing["moesaic"]["slowest_s"]}, "check": check}


def timing_of(site, samples, flags):
    """The member "timing": medians of all ranks, the spread of this one's."""
    medians = site.share(median(samples))
    return {"regime": "short_burst", "warm_ups": WARM_UPS, "samples": len(samples), "calls_per_sample": flags.calls, "median_s": medians,
            "p05_s": quantile(samples, 0.05), "p95_s": quantile(samples, 0.95), "slowest_s": max(medians)}


def table_line(row):
    slowest = row["timing"]["slowest_s"] * 1e3
    return (f"{row['comparison']:<9} {row['routing']['name']:<9} {row['arm']:<11} {slowest:9.3f} ms "
            f"{row['derived']['ratio_to_moesaic']:6.2f}")


def run(site, flags, told=None):
    """Every comparison on every routing; returns how many were wrong."""
    wrong, told = 0, told or sys.stdout
    if site.writes:
        device = site.circumstances["device"]
        print(f"{device['name']}, {device['ranks']} ranks, {device['transport']}; times of the slowest rank, over moesaic's", file=told)
    for comparison in flags.what:
        for routing in flags.routings:
            arms = site.prepare(comparison, routing)
            check = site.check()
            if check["mismatches"]:
                wrong += 1
                if site.writes:
                    print(f"ep_torch_arm: {comparison}, {routing.name}: {check['mismatches']} of {check['elements']} elements wrong, "
                          f"worst {check['worst_element']:.3g} of its bound; not timed", file=sys.stderr)
                continue
            seconds = time_arms(site, list(arms), flags)
            timing = {arm: timing_of(site, samples, flags) for arm, samples in seconds.items()}
            if not site.writes:
                continue
            with open(flags.output, "a", encoding="utf-8") as file:
                for arm, words in arms.items():
                    row = make_row(site, flags, comparison, routing, arm, words, timing, check)
                    file.write(json.dumps(row) + "\n")
                    print(table_line(row), file=told, flush=True)
    return wrong


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def number(flag, default, text, low=1):
        def read(word):
            if not word.isdigit() or int(word) < low:
                raise Refused(f"{flag}: expected a number from {low} on, got {word!r}")
            return int(word)
        parser.add_argument(flag, type=read, default=default, metavar="N", help=f"{text} ({default})")
    parser.add_argument("--output", required=True, help="file that rank 0 appends rows to")
    parser.add_argument("--what", type=parse_comparisons, default=list(COMPARISONS), help="exchange,layer (both)")
    parser.add_argument("--routing", type=lambda text: [parse_routing(word) for word in text.split(",")], dest="routings",
                        default=[parse_routing("uniform"), parse_routing("zipf:1")], help="uniform|zipf:S,... (uniform,zipf:1)")
    number("--tokens", 8192, "tokens of every rank")
    number("--topk", 8, "experts of a token")
    number("--experts", 64, "experts of all ranks, a multiple of their number")
    number("--d", 4096, "elements of a row, a multiple of 8")
    number("--h", 1536, "hidden width of an expert, a multiple of 8")
    number("--samples", 15, "samples of every arm", low=3)
    number("--calls", 5, "calls in a sample")
    number("--seed", 1, "seed of the routing", low=0)
    parser.add_argument("--dispatch", choices=("auto", "direct", "fan_out"), default="auto",
                        help="how moesaic sends a token to a rank with several rows of it (auto); rows name the form taken")
    number("--simulated", 0, "that many ranks in this process, on the CPU: for tests, its times say nothing")
    parser.add_argument("--git", type=parse_git, help="commit that the rows name, COMMIT or COMMIT,dirty (that of this checkout)")
    flags = parser.parse_args(argv)
    flags.git = flags.git or git_state()
    if flags.topk > flags.experts:
        raise Refused(f"--topk: expected at most the {flags.experts} experts, got {flags.topk}")
    return flags


def open_site(flags):
    try:
        import torch
    except ImportError as error:
        raise Refused(f"torch: expected PyTorch to be importable by {sys.executable}, got: {error}", NO_DEVICE) from None
    sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "python"))
    if not flags.simulated:
        missing = [name for name in ("RANK", "WORLD_SIZE", "MOESAIC_RENDEZVOUS") if name not in os.environ]
        if missing:
            raise Refused(f"ranks: expected {', '.join(missing)} in the environment (scripts/run_ranks.sh N python3 "
                          "scripts/ep_torch_arm.py …), or --simulated R")
        ranks = int(os.environ["WORLD_SIZE"])
        if torch.cuda.device_count() < ranks:
            raise Refused(f"ranks: expected a GPU for each of {ranks} ranks, PyTorch sees {torch.cuda.device_count()}; --simulated "
                          f"{ranks} runs them on the CPU", NO_DEVICE)
    try:
        import moesaic
        import ep_torch_site
        return ep_torch_site.Site(flags)
    except moesaic.Error as error:
        raise Refused(str(error), BAD_INPUT if isinstance(error, moesaic.InvalidArgument) else NO_DEVICE) from None


def main(argv=None):
    try:
        flags = parse(argv)
        site = open_site(flags)
        wrong = run(site, flags)
        site.close()
        return CHECK_FAILED if wrong else 0
    except Refused as refused:
        print(f"ep_torch_arm: {refused}", file=sys.stderr)
        return refused.code
    except OSError as error:
        print(f"ep_torch_arm: {error.filename}: expected a file that can be opened, got: {error.strerror}", file=sys.stderr)
        return BAD_INPUT
    except ValueError as error:  # what moesaic refuses
        print(f"ep_torch_arm: {error}", file=sys.stderr)
        return BAD_INPUT
    except RuntimeError as error:  # of PyTorch or of moesaic: out of memory, a rank that does not come
        print(f"ep_torch_arm: {str(error).splitlines()[0]}; rows that stand are kept", file=sys.stderr)
        return NO_DEVICE


if __name__ == "__main__":
    sys.exit(main())
