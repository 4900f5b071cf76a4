# SPDX-License-Identifier: Apache-2.0
"""Routing for the tests of expert parallelism: ids of a recording, ids of a given histogram, and
MoELayer with given ids in the place of its router's."""

import ast

import torch

from moesaic.torch import ep

_NPY_MAGIC = b"\x93NUMPY"


def read_routes(path):
    """Expert ids [tokens, layers, topk] of a .npy file of unsigned bytes, as int64."""
    with open(path, "rb") as file:
        content = file.read()
    if content[:6] != _NPY_MAGIC or content[6:8] != b"\x01\x00":
        raise ValueError(f"{path}: expected a .npy file of version 1.0, got {content[:8]!r}")
    begin = 10 + int.from_bytes(content[8:10], "little")
    header = ast.literal_eval(content[10:begin].decode("latin1"))
    if header["descr"] != "|u1" or header["fortran_order"] or len(header["shape"]) != 3:
        raise ValueError(f"{path}: expected unsigned bytes [tokens, layers, topk] in C order, got {header}")
    return torch.frombuffer(bytearray(content[begin:]), dtype=torch.uint8).view(header["shape"]).long()


def skewed_counts(experts, tokens, topk):
    """Rows of each expert: one that every token takes, a tail like 1 / n, a quarter with none. They
    sum to tokens * topk, none above tokens."""
    counts, left = [tokens] + [0] * (experts - 1), tokens * (topk - 1)
    busy = experts - experts // 4
    weights = [1 / (e + 1) for e in range(1, busy)]
    for e, weight in enumerate(weights, 1):
        counts[e] = min(tokens, int(left * weight / sum(weights)))
    missing = tokens * topk - sum(counts)
    for e in range(1, busy):
        more = min(missing, tokens - counts[e])
        counts[e] += more
        missing -= more
    if missing:
        raise ValueError(f"topk: expected at most the {busy} experts that are busy, got {topk}")
    return counts


def ids_of(counts, topk, seed=0):
    """Ids [tokens, topk] with exactly these counts, no expert twice in a token; tokens and slots are
    in random order. No count is above the number of tokens."""
    tokens, rest = divmod(sum(counts), topk)
    if rest or max(counts) > tokens:
        raise ValueError(f"counts: expected a sum divisible by {topk}, none above it, got {counts}")
    # Runs of one expert are no longer than a column: each of its rows is of another token.
    ids = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts)).view(topk, tokens).t()
    generator = torch.Generator().manual_seed(seed)
    ids = ids[torch.randperm(tokens, generator=generator)]
    slots = torch.rand(tokens, topk, generator=generator).argsort(1)
    return ids.gather(1, slots).contiguous()


def shares(tokens, ranks):
    """Tokens of each rank, later ones with more."""
    weights = [ranks + rank for rank in range(ranks)]
    cuts = [tokens * sum(weights[:rank]) // sum(weights) for rank in range(ranks + 1)]
    return [high - low for low, high in zip(cuts, cuts[1:])]


class GivenRoutes(ep.MoELayer):
    """The layer with ids and probabilities that are given, for each local rank, before each call."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.given = []

    def route(self, tokens):
        return self.given.pop(0)
