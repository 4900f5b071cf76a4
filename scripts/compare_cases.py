# SPDX-License-Identifier: Apache-2.0
"""The measurements of compare_torch.py as data: sizes, arms, samples, and the rows that each gives. Knows no PyTorch.

Names of rows are read by performance_tables.py and by people: of FULL a name stands for one size for good.
"""
from typing import Callable, NamedTuple

from performance_tables import EXPERTS, dense_seconds, stream_seconds

OURS = ("moesaic", "balanced", "accumulate")  # arms that are moesaic's


class Sizes(NamedTuple):
    """What is measured. Widths are d = h of a square product unless a shape says more."""
    forward: dict      # width -> rows
    loop_from: int     # rows from which the loop over experts is timed too
    stream_to: int     # rows up to which the weights' stream is what counts
    split: tuple       # (k, n of all experts together, rows each)
    skew: tuple        # (rows, width)
    gradients: tuple   # (experts, rows, k, n)
    experts: dict      # name -> (experts, rows, d, h)
    sustained: tuple   # (width, rows each)
    regions: dict      # seconds of sustained work


FULL = Sizes(
    forward={4096: (64, 256, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072), 2048: (4096, 8192, 65536, 262144)},
    loop_from=32768, stream_to=256,
    split=(8192, 81920, (1, 16, 128, 256, 512, 1024, 2048, 4096)),
    skew=(65536, 4096),
    gradients=((16, 16384, 4096, 4096), (16, 65536, 4096, 4096), (8, 98304, 2048, 5120), (16, 98304, 3584, 8192),
               (4, 65536, 8192, 20480)),
    experts={"small-2": (8, 98304, 2048, 2560), "small-4": (16, 196608, 1536, 1536), "medium-2": (16, 98304, 3584, 4096),
             "large-2": (16, 32768, 6144, 8192), "ultra-2": (4, 65536, 8192, 10240), "qwen3-30b": (128, 65536, 2048, 768)},
    sustained=(4096, (512, 2048, 8192)), regions={"unit_s": 0.05, "conditioning_s": 3.0, "measured_s": 1.5})

# Every kind of measurement in sizes that a CPU has done in seconds; the times say nothing.
TINY = Sizes(
    forward={64: (32, 64)}, loop_from=64, stream_to=32, split=(64, 128, (1, 3)), skew=(512, 32), gradients=((4, 64, 32, 48),),
    experts={"tiny": (4, 64, 32, 24)}, sustained=(32, (4,)), regions={"unit_s": 1e-3, "conditioning_s": 0.01, "measured_s": 5e-3})


class Row(NamedTuple):
    """A row of a measurement. Functions take the seconds of each arm in one round; what a row says is the median over rounds.

    Where the power limit takes effect the clock falls for some 50 ms; whose call that meets is chance, and a mean of ten would hold
    it. And arms may become slower halfway through a burst, which those of a round share (NB-0019).
    """
    name: str
    arms: tuple        # whose samples the row keeps
    ratio: Callable
    fields: dict = {}


class Case(NamedTuple):
    """Arms that are timed together on the same operands."""
    group: str
    kind: str          # of operands and arms: a key of compare_arms.KINDS
    counts: tuple      # rows of every expert
    n: int             # widths of the product; of an expert n = 2h, k = d
    k: int
    arms: tuple        # "moesaic" first
    warm_ups: int
    samples: int
    rows: tuple
    source: dict = {}  # of a given routing
    regions: dict = {}  # of sustained work

    @property
    def problem(self):
        """What makes two rows of one name the same measurement."""
        offs, end = [], 0
        for count in self.counts:
            end += count
            offs.append(end)
        return {"kind": self.kind, "experts": len(offs), "rows": end, "n": self.n, "k": self.k, "offs": offs}


def us(arm="moesaic"):
    return lambda t: 1e6 * t[arm]


def ratio(other, ours="moesaic"):
    return lambda t: t[other] / t[ours]


def tflops(flops, arm="moesaic"):
    return lambda t: flops / t[arm] * 1e-12


def beside(name, other, ours="moesaic", **fields):
    return Row(name, (ours, other), ratio(other, ours), fields)


def equal(rows, experts):
    return (rows // experts,) * experts


def forward_cases(sizes):
    for width, all_rows in sizes.forward.items():
        for m in all_rows:
            here, flops = f"fwd {width} M={m} ", 2 * m * width * width
            arms = ("moesaic", "torch", "padded", "dense")
            rows = [beside(here + "vs torch", "torch", tflops=tflops(flops), us=us()),
                    beside(here + "vs bmm1.25", "padded", bmm_us=us("padded")),
                    beside(here + "vs dense", "dense", dense_tflops=tflops(flops, "dense"))]
            if m >= sizes.loop_from:
                arms += ("loop",)
                rows.append(beside(here + "vs loop", "loop", loop_tflops=tflops(flops, "loop")))
            if m <= sizes.stream_to:
                tera_bytes = 2e-12 * EXPERTS * width * width
                rows.append(Row(here + "weight TB/s", ("moesaic",), lambda t, all_of_them=tera_bytes: all_of_them / t["moesaic"]))
            yield Case("fwd", "forward", equal(m, EXPERTS), width, width, arms, 10, 20, tuple(rows))


def split_cases(sizes):
    k, n, each = sizes.split
    for t in each:
        for experts in (4, 8):
            arms = ("moesaic", "torch", "dense")
            row = Row(f"split {experts} T={t} vs dense", arms, ratio("dense"), {"torch_ratio": ratio("dense", "torch")})
            yield Case("split", "split", (t,) * experts, n // experts, k, arms, 5, 10, (row,))


def in_eights(shares, rows):
    """Rows of experts in multiples of 8, at least 8; the hottest takes the difference. Shares are of all rows."""
    counts = [max(8, 8 * int(share * rows / 8 + 0.5)) for share in shares]
    counts[counts.index(max(counts))] += rows - sum(counts)
    return tuple(counts)


def skewed_shares(experts):
    """Histogram -> shares. Spike, three-hot and one-hot: the hot ones named, the rest even."""
    def hot(share, *places):
        rest = (1 - share) / (experts - len(places))
        return [share / len(places) if expert in places else rest for expert in range(experts)]
    harmonic = sum(1 / (expert + 1) for expert in range(experts))
    return {"balanced": hot(1 / experts, 0), "spike": hot(0.3167, 0), "three-hot": hot(0.95, 0, 5, 10), "one-hot": hot(0.95, 0),
            "zipf": [1 / (expert + 1) / harmonic for expert in range(experts)],
            # Up to a fifth of the mean more or less, in no order.
            "ragged": [(1 + (expert * 977 % 1600 - 800) / 4096) / experts for expert in range(experts)]}


def skew_cases(sizes):
    m, width = sizes.skew
    for name, shares in skewed_shares(EXPERTS).items():
        arms = ("moesaic", "torch", "balanced")
        row = Row(f"skew {name} vs balanced", arms, ratio("balanced"), {"vs_torch": ratio("torch")})
        yield Case("skew", "skew", in_eights(shares, m), width, width, arms, 10, 10, (row,))


def gradient_cases(sizes):
    for experts, m, k, n in sizes.gradients:
        shape, flops, counts = f"{experts}x{m}x{k}x{n}", 2 * m * k * n, equal(m, experts)
        arms = ("moesaic", "torch", "dense")
        row = Row(f"dgrad {shape} vs torch", arms, ratio("torch"), {"tflops": tflops(flops), "vs_dense": ratio("dense")})
        yield Case("dgrad", "dgrad", counts, n, k, arms, 4, 10, (row,))
        rows = (beside(f"wgrad {shape} vs bmm", "batched", tflops=tflops(flops)),
                beside(f"wgrad {shape} vs torch", "torch"),
                beside(f"wgrad+=fp32 {shape} vs bmm", "batched", "accumulate", tflops=tflops(flops, "accumulate")))
        yield Case("wgrad", "wgrad", counts, n, k, ("moesaic", "torch", "batched", "accumulate"), 4, 10, rows)


def expert_cases(sizes):
    for name, (experts, m, d, h) in sizes.experts.items():
        arms = ("moesaic", "eager", "compiled")
        for what, kind, factor, warm_ups in (("fwd", "expert", 1, 3), ("fwd+bwd", "expert_step", 3, 2)):
            fields = {"tflops": tflops(factor * 6 * m * d * h), "eager_ratio": ratio("eager"), "compiled_ratio": ratio("compiled")}
            row = Row(f"mlp {what} {name}", arms, lambda t: min(t["eager"], t["compiled"]) / t["moesaic"], fields)
            yield Case("mlp", kind, equal(m, experts), 2 * h, d, arms, warm_ups, 10, (row,))


def real_case(name, counts, n, k, source):
    """A given routing. Of many rows the floor is a dense product of the same FLOPs in the same queue, since power counts."""
    m, active = sum(counts), sum(count > 0 for count in counts)
    arms = ("moesaic", "torch") + (("dense",) if m >= 8192 else ())

    def floor(t):
        return max(stream_seconds(active, m, n, k), t.get("dense", dense_seconds(m, n, k)))
    row = Row("real " + name, arms, ratio("torch"), {"us": us(), "of_floor": lambda t: floor(t) / t["moesaic"],
                                                     "torch_of_floor": lambda t: floor(t) / t["torch"]})
    return Case("real", "forward", tuple(counts), n, k, arms, 5, 20, (row,), source)


def sustained_cases(sizes):
    width, all_rows = sizes.sustained
    for each in all_rows:
        throughput = tflops(2 * EXPERTS * each * width * width)
        rows = tuple(beside(f"sustained {each} vs {arm}", arm, tflops=throughput) for arm in ("torch", "dense"))
        yield Case("sustained", "forward", (each,) * EXPERTS, width, width, ("moesaic", "torch", "dense"), 2, 0, rows,
                   regions=sizes.regions)


GROUPS = ("fwd", "split", "skew", "dgrad", "wgrad", "mlp", "real", "sustained")


def all_cases(sizes=FULL, real=()):
    """In the order of the tables; `real`: those of given routings."""
    return [*forward_cases(sizes), *split_cases(sizes), *skew_cases(sizes), *gradient_cases(sizes), *expert_cases(sizes), *real,
            *sustained_cases(sizes)]


def method(sizes):
    """How rows of these sizes are measured, whichever of them are asked for."""
    rounds = {}
    for case in all_cases(sizes, [real_case("", (8,), 8, 8, {})]):
        if not case.regions:
            names = rounds.setdefault(f"{case.warm_ups} + {case.samples}", [])
            name = case.rows[0].name.rpartition(" ")[0] if case.group == "mlp" else case.group
            names += [] if name in names else [name]
    words = ", ".join(f"{counts} ({', '.join(names)})" for counts, names in rounds.items())
    regions = sizes.regions
    return (f"arms in another shuffled order in each round, in one queue behind a device-side delay; warm-up rounds + event pairs: "
            f"{words}; figures are medians over rounds; sustained: each arm alone, to and fro, in units of {1000 * regions['unit_s']:g} ms, "
            f"{regions['conditioning_s']:g} s of conditioning and {regions['measured_s']:g} s measured without a gap, medians of each arm; "
            "ratio = other arm's time / ours")


# Expected times: orders of magnitude, which a run corrects by the cases behind it.
REACHED_SHARE = 0.85   # of the floor
CASE_SECONDS = 1.0     # operands and checks
COMPILE_SECONDS = 30.0
FLOPS_FACTOR = {"expert": 3, "expert_step": 9}  # of 2 M n k


def expected_seconds(case):
    """About how long a measurement takes on one NVIDIA H200."""
    if case.regions:
        once = case.regions["conditioning_s"] + case.regions["measured_s"] + 4 * case.regions["unit_s"]
        return CASE_SECONDS + 2 * len(case.arms) * once
    problem = case.problem
    flops_seconds = FLOPS_FACTOR.get(case.kind, 2) / 2 * dense_seconds(problem["rows"], case.n, case.k)
    call = max(flops_seconds, stream_seconds(problem["experts"], problem["rows"], case.n, case.k)) / REACHED_SHARE
    compiling = COMPILE_SECONDS if "compiled" in case.arms else 0
    return CASE_SECONDS + compiling + len(case.arms) * (case.warm_ups + case.samples) * call
