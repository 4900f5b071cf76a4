# SPDX-License-Identifier: Apache-2.0
"""Cases of compare_torch.py from given routings. Files are read by `moesaic plan`, so that there is one reader of them."""
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from compare_cases import real_case
from torch_arm import BAD_INPUT, Refused

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / "build/release/tools/moesaic/moesaic"
FLAGS = ("shape", "label", "layer", "rank", "rows", "step", "ep", "experts", "form", "moesaic")  # mean nothing without --routing


def add_flags(parser):
    group = parser.add_argument_group("given routings (group real)")
    group.add_argument("--routing", nargs="+", metavar="FILE", default=[], help="files that moesaic reads: up and gate of every record")
    group.add_argument("--shape", metavar="d=D,h=H", help="widths of the layer; needed")
    group.add_argument("--label", help="begins the names of the cases (the file's name)")
    group.add_argument("--layer", metavar="N,...", help="only these layers, a list")
    group.add_argument("--rank", metavar="N|hottest", help="of --ep this rank, or the one with the most rows")
    group.add_argument("--rows", type=int, metavar="N", help="every case, the rank's part where there is one, is rescaled to so many rows")
    for name, what in (("--step", "N"), ("--ep", "N"), ("--experts", "N"), ("--form", "FORM")):
        group.add_argument(name, metavar=what, help="as for `moesaic plan`")
    group.add_argument("--moesaic", metavar="PATH", help="the command (build/release, or on the path)")


def refuse_flags_without_files(args):
    unused = next((flag for flag in FLAGS if getattr(args, flag) is not None), None)
    if unused and not args.routing:
        raise Refused(f"--{unused}: expected --routing with it, got --{unused} {getattr(args, unused)} alone")


def find_moesaic(given):
    found = given or (str(BUILT) if BUILT.exists() else shutil.which("moesaic"))
    if found is None or shutil.which(found) is None:
        raise Refused(f"--moesaic: expected the command moesaic (make build makes it), got {given or 'none in build/release or on the path'}")
    return found


def plan(command, files, flags, stdin=None):
    """The layers of `moesaic plan --json`; what it says of the files goes to stderr."""
    done = subprocess.run([command, "plan", *files, *flags, "--json"], input=stdin, capture_output=True, text=True)
    if done.returncode:
        words = done.stderr.strip().splitlines() or [f"expected {command} to read the files, got its exit code {done.returncode} without a word"]
        raise Refused(f"--routing: {words[-1]}", done.returncode if done.returncode > 0 else BAD_INPUT)
    if stdin is None:
        print(done.stderr, end="", file=sys.stderr)
    return json.loads(done.stdout)["layers"]


def widths_of(shape):
    """"d=D,h=H" -> (n, k) of the up and gate product."""
    match = re.fullmatch(r"d=(\d+),h=(\d+)", shape or "")
    if not match or not all(int(word) and int(word) % 8 == 0 for word in match.groups()):
        raise Refused(f"--shape: expected d=D,h=H, positive multiples of 8, with --routing, got {shape or 'none'}")
    d, h = map(int, match.groups())
    return 2 * h, d


def of_layers(layers, words):
    """The layers that `words` lists, all of which must be there."""
    if words is None:
        return layers
    there = {layer["layer"] for layer in layers}
    wanted = []
    for word in words.split(","):
        if not word.isdigit() or int(word) not in there:
            raise Refused(f"--layer: expected a list of layers with rows, from {min(there)} to {max(there)}, got {word!r}")
        wanted.append(int(word))
    return [layer for layer in layers if layer["layer"] in wanted]


def hottest_ranks(layers):
    found = {}
    for layer in layers:
        place = layer["source"], layer["layer"], layer["step"]
        if place not in found or layer["useful_rows"] > found[place]["useful_rows"]:
            found[place] = layer
    return list(found.values())


def counts_of(layer):
    offs = layer["offsets"]
    return [end - begin for begin, end in zip([0, *offs], offs)]


def rescaled(command, layers, rows):
    """Counts of each layer, rescaled to `rows` by the command itself, which would take the part of a rank after that."""
    if len({layer["experts"] for layer in layers}) > 1:
        raise Refused("--rows: expected files of one number of experts, got several")
    records = [{"layer": place, "counts": counts_of(layer)} for place, layer in enumerate(layers)]
    text = json.dumps({"schema": "moesaic.routing/1", "num_experts": layers[0]["experts"], "records": records})
    scaled = {layer["layer"]: counts_of(layer) for layer in plan(command, ["-"], ["--rows", str(rows)], text)}
    return [scaled[place] for place in range(len(layers))]


def names_of(layers, label, hottest):
    """A name says the step and the rank where there is more than one; of hottest ranks only that they are, by the label."""
    sources, steps, ranks = ({layer[key] for layer in layers} for key in ("source", "step", "rank"))
    for layer in layers:
        stem = Path(layer["source"]).stem
        words = [label or stem] + ([stem] if label and len(sources) > 1 else [])
        words += [f"step {layer['step']}"] if len(steps) > 1 else []
        words += [f"rank {layer['rank']}"] if len(ranks) > 1 and not hottest else []
        yield " ".join([*words, f"layer {layer['layer']}"])


def source_of(layer, rows):
    return {"name": Path(layer["source"]).name, **{key: layer[key] for key in ("layer", "step", "rank", "aggregation", "label")},
            "rescaled_to": rows}


def read_cases(args):
    """A case for each record of the files, in their order."""
    n, k = widths_of(args.shape)
    hottest = args.rank == "hottest"
    if hottest and not args.ep:
        raise Refused("--rank hottest: expected --ep, the number of ranks, got none")
    if args.rows is not None and args.rows < 1:
        raise Refused(f"--rows: expected at least 1, got {args.rows}")
    command = find_moesaic(args.moesaic)
    given = {"--step": args.step, "--ep": args.ep, "--experts": args.experts, "--form": args.form, "--rank": None if hottest else args.rank}
    flags = [word for pair in given.items() if pair[1] is not None for word in pair]
    layers = [layer for layer in plan(command, args.routing, flags) if not layer["dense"]]
    if not layers:
        raise Refused(f"--routing: expected files with rows, got none in {', '.join(args.routing)}")
    layers = of_layers(layers, args.layer)
    if hottest:
        layers = hottest_ranks(layers)
    counts = rescaled(command, layers, args.rows) if args.rows else [counts_of(layer) for layer in layers]
    return [real_case(name, one, n, k, source_of(layer, args.rows))
            for name, layer, one in zip(names_of(layers, args.label, hottest), layers, counts)]
