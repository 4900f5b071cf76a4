# SPDX-License-Identifier: Apache-2.0
"""Rows of every experiment with made-up times, for tests of the page: schema as in docs/guide/experiments.md.

Nothing here was measured. Times follow simple rules, so that a test can say what a figure must show:
grouped runs at RATE, other arms at the factors of SLOWER, concentration costs 10 % over the range of I_H.
"""
import math

RATE = 700e12  # useful FLOP/s of the grouped arm
SLOWER = {"grouped": 1.0, "padded_bmm": 1.25, "host_loop": 1.5, "dense": 0.9, "torch": 1.1}
EXPERTS = 16
DEVICE = {"kind": "cuda", "name": "Made-up GPU", "cc": 90, "sms": 132, "driver": "0.0", "power_limit_w": 700,
          "peak": {"bf16_flops_per_second": 989e12, "bf16_source": "made up", "dram_bytes_per_second": 4.8e12, "dram_source": "made up"}}


def row(counts, width, arm, seconds, n=None, **extra):
    """One row of moesaic.bench/1; `extra` replaces or adds whole fields."""
    rows, n, offs, end = sum(counts), n or width, [], 0
    for count in counts:
        end += count
        offs.append(end)
    flops = 2.0 * rows * width * n
    made = {
        "schema": "moesaic.bench/1", "date": "2026-01-02T03:04:05Z", "git": {"sha": "0123456789ab", "dirty": False}, "command": "made up",
        "device": DEVICE, "toolchain": {"compiler": "made up 1.0", "cuda": "13.0"},
        "clocks": {"samples": 9, "sm_mhz": {"min": 1700, "median": 1800}, "temp_c": 50, "power_w": 600, "throttled": False, "throttle_reasons": []},
        "problem": {"pass": "forward", "proj": "square", "strategy": arm, "dtype": "bf16", "d": width, "h": width, "experts": len(counts), "n": n, "k": width},
        "routing": {"name": "made up", "seed": 1, "label": "", "layer": 0, "step": 0, "rank": None, "experts": len(counts), "rows": rows, "offs": offs},
        "implementation": f"made/up/{arm}",
        "timing": {"regime": "short_burst", "warm_ups": 10, "samples": 20, "median_s": seconds, "mean_s": seconds, "p05_s": 0.98 * seconds, "p95_s": 1.02 * seconds, "samples_s": [seconds] * 3},
        "work": {"useful_flops": flops, "executed_flops": flops * (1.25 if arm == "padded_bmm" else 1), "min_bytes": 2.0 * (rows * (width + n) + len(counts) * width * n)},
        "check": {"reference": "made up", "worst_element": 0.5, "elements": 1024, "mismatches": 0},
    }
    made.update(extra)
    return made


def experiment(name, case, arm, factors, protocol="full", process=0, order=0):
    return {"name": name, "protocol": protocol, "case": case, "arm": arm, "process": process, "order": order, "factors": factors}


def seconds_of(counts, width, arm, n=None, factor=1.0):
    return 2.0 * sum(counts) * width * (n or width) / RATE * SLOWER[arm] * factor


def even(rows, experts=EXPERTS):
    return [rows // experts + (e < rows % experts) for e in range(experts)]


def sweep(name="fig38", protocol="full", factor=1.0, sizes=(64, 1024, 8192, 65536, 131072), width=4096):
    for order, rows in enumerate(sizes):
        for arm in SLOWER:
            counts = even(rows)
            yield row(counts, width, arm, seconds_of(counts, width, arm, factor=factor),
                      experiment=experiment(name, f"rows={rows}", arm, {"rows": rows}, protocol, order=order))


def sustained(regions, mhz, watts):
    looks = 15
    return {"telemetry": {"interval_ms": 100, "sm_mhz": [mhz] * looks, "power_w": [watts] * looks, "temp_c": [60] * looks, "reasons": [4] * looks},
            "timing": dict(regions, regime="sustained", pilot_s=3, conditioning_s=8, measured_s=1.5, calls_per_sample=9)}


def table44(trials=8, tokens=(1, 128, 4096, 65536)):
    for trial in range(trials):
        for t in tokens:
            for partition in (4, 8):
                for arm in ("grouped", "dense"):
                    counts, n = [t] * partition, 81920 // partition
                    seconds = seconds_of(counts, 8192, arm, n, 1 + 0.01 * (trial - 3.5))
                    part = sustained({"samples": 15, "median_s": seconds, "mean_s": seconds, "samples_s": [seconds]}, 1500, 690)
                    yield row(counts, 8192, arm, seconds, n, **part, experiment=experiment(
                        "table44", f"tokens={t} partition={partition} trial={trial}", arm, {"tokens": t, "partition": partition, "trial": trial}))


def fig73(trials=8):
    for trial in range(trials):
        for rows in (4096, 8192, 16384, 32768):
            for arm in ("grouped", "dense", "padded_bmm"):
                counts = [rows] * EXPERTS
                seconds = seconds_of(counts, 4096, arm, factor=1 + 0.01 * (trial - 3.5))
                part = sustained({"samples": 15, "median_s": seconds, "mean_s": seconds, "samples_s": [seconds]}, 1700 - rows // 100, 695)
                throttled = {"sm_mhz": {"min": 1300, "median": 1400}, "temp_c": 60, "power_w": 695, "throttled": True, "throttle_reasons": ["sw_power_cap"]}
                yield row(counts, 4096, arm, seconds, **part, clocks=throttled, experiment=experiment(
                    "fig73", f"rows_per_expert={rows} trial={trial}", arm, {"rows_per_expert": rows, "trial": trial}))


def entropy_deficit(counts):
    total = sum(counts)
    return 1 + sum(c / total * math.log(c / total) for c in counts if c) / math.log(len(counts))


def spike(rows, share, hot=1, base=0, experts=EXPERTS):
    """`share` of the rows evenly on `hot` experts."""
    each = int(rows * share / hot)
    counts = even(rows - hot * each, experts - hot)
    for i in range(hot):
        counts.insert((base + 5 * i) % experts, each)
    return counts


def fig40(processes=3, bins=10, per_bin=2, permutations=2, rows=65536):
    """Throughput relative to balanced is 1 - 0.1 I_H without tile tails; whole tiles are 1 % faster."""
    for process in range(processes):
        order, block = 0, 0
        drift = 1 + 0.05 * process  # a slow process is slow for its controls too

        def control():
            counts = even(rows)
            return row(counts, 4096, "grouped", seconds_of(counts, 4096, "grouped", factor=drift), experiment=experiment(
                "fig40", f"control block={block} run={process}", "grouped", {"control": True, "block": block}, process=process, order=order))

        for h in range(bins * per_bin):
            if h % 5 == 0:
                yield control()
                order, block = order + 1, block + 1
            counts = spike(rows, 1 / EXPERTS + (1 - 1 / EXPERTS) * math.sqrt((h + 0.5) / (bins * per_bin)))
            relative = 1 - 0.1 * entropy_deficit(counts)
            for p in range(permutations):
                for aligned in (False, True):
                    shifted = counts[p:] + counts[:p]
                    seconds = seconds_of(counts, 4096, "grouped", factor=drift / (relative + 0.01 * aligned))
                    yield row(shifted, 4096, "grouped", seconds, experiment=experiment(
                        "fig40", f"histogram={h} permutation={p} {'aligned' if aligned else 'tails'} run={process}", "grouped",
                        {"control": False, "bin": min(bins - 1, int(entropy_deficit(counts) * bins)), "histogram": h, "permutation": p, "aligned": aligned},
                        process=process, order=order))
                    order += 1
        yield control()


def fig72():
    """A single spike runs at 95 % of balanced, three hot experts at 88 %."""
    speed = {"balanced": 1.0, "single_spike": 0.95, "three_hot": 0.88}
    for process, base in enumerate((0, 3, 6, 9, 12)):
        for rows in (16384, 65536):
            for pair in ("i_max", "i_h", "effective_experts"):
                for load, relative in speed.items():
                    counts = even(rows) if load == "balanced" else spike(rows, 0.3167, 1, base) if load == "single_spike" else spike(rows, 0.95, 3, base)
                    seconds = seconds_of(counts, 4096, "grouped", factor=(1 + 0.02 * process) / relative)
                    yield row(counts, 4096, "grouped", seconds, experiment=experiment(
                        "fig72", f"rows={rows} base={base} pair={pair} {load}", "grouped",
                        {"rows": rows, "load": load, "base_expert": base, "pair": pair}, process=process))


def skew(experts=32):
    for layer in range(6):
        for bucket, rows in (("decode", 256), ("prefill", 16384)):
            counts = spike(rows, 0.1 + 0.1 * layer, 2, layer, experts)
            for arm in ("grouped", "padded_bmm", "host_loop", "torch"):
                yield row(counts, 2048, arm, seconds_of(counts, 2048, arm), experiment=experiment(
                    "skew", f"made.json layer={layer} step=0 rows={rows}", arm, {"source": "made.json", "layer": layer, "step": 0, "bucket": bucket}))
    for load, counts in (("broad", even(4096, experts)), ("concentrated", spike(4096, 0.9, 1, 0, experts))):
        for arm in ("grouped", "padded_bmm"):
            slow = 1.1 if load == "concentrated" else 1.0
            yield row(counts, 2048, arm, seconds_of(counts, 2048, arm, factor=slow), experiment=experiment(
                "skew", f"pair experts={experts} rows=4096 {load}", arm,
                {"source": "made.json", "layer": 0, "step": 0, "bucket": "prefill", "pair": f"experts={experts} rows=4096", "load": load}))


def bench(sizes=(4096, 16384), width=4096, experts=16, factor=1.0):
    """Rows as `moesaic bench` writes them: no experiment, no mean."""
    for rows in sizes:
        for arm in ("grouped", "padded_bmm", "host_loop"):
            counts = even(rows, experts)
            made = row(counts, width, arm, seconds_of(counts, width, arm, factor=factor))
            for name in ("mean_s", "samples_s"):
                del made["timing"][name]
            yield made


EXCHANGE = {"route_maps": 0, "dispatch_put": 300e9, "dispatch_put_fan_out": 200e9, "combine_get_fused": 250e9}  # bytes/s with 64 blocks


def exchange_row(schema, ranks, routing, seconds, transport="nvshmem", tokens=1024, **extra):
    """What rows of both schemas of the exchange between ranks have: the slowest rank is the last, by 10 % over the first."""
    return {"schema": schema, "date": "2026-01-02T03:04:05Z", "git": {"sha": "0123456789ab", "dirty": False}, "command": "made up",
            "device": {"name": "Made-up GPU", "ranks": ranks, "transport": transport, "driver": "0.0", "cuda": "CUDA 13.0"},
            "problem": {"dtype": "bf16", "experts": 64, "topk": 8, "tokens": tokens, "d": 4096, "capacity_factor_millionths": 1250000, "max_rows": 10240},
            "routing": {"name": routing, "seed": 1, "routes": 8192, "dropped_routes": 0},
            "timing": {"warm_ups": 5, "samples": 20, "median_s": [seconds / 1.1] * (ranks - 1) + [seconds], "slowest_s": seconds},
            "check": {"reference": "made up", "elements": 1024, "mismatches": 0}, **extra}


def exchange(ranks=2, blocks=(0, 16, 64), routings=("uniform", "zipf:1"), factor=1.0, **extra):
    """Rows of `bench ep`: the rate grows with the thread blocks up to 64, which is also what 0 takes; zipf:1 is half as fast."""
    for routing in routings:
        for nblocks in blocks:
            for operation, rate in EXCHANGE.items():
                rate = rate * (nblocks or 64) / 64 / factor / (1 if routing == "uniform" else 2)
                moved = 10_000_000 if rate else 0
                made = exchange_row("moesaic.bench_ep/1", ranks, routing, moved / rate if rate else 3e-5, **extra)
                made.update(implementation="made/up/rowwise", operation=operation, nblocks=nblocks,
                            derived={"remote_bytes": moved, "remote_bytes_per_second": rate})
                if routing != "uniform":
                    made["routing"].update(routes=6144, dropped_routes=2048)
                yield made


def exchange_arms(ranks=2, forms=("direct", "fan_out"), factor=1.0):
    """Rows of ep_torch_arm.py: PyTorch takes 4 and 3 times as long as direct dispatch, fan-out half of that; a form of None is not said."""
    for form in forms:
        for comparison, arms in (("exchange", {"moesaic": 1, "torch": 4, "torch_lean": 3}), ("layer", {"moesaic": 10, "torch": 15})):
            own = arms["moesaic"] * (0.5 if form == "fan_out" else 1)
            for arm, times in arms.items():
                seconds = 1e-3 * factor * (own if arm == "moesaic" else times)
                made = exchange_row("moesaic.ep_arm/1", ranks, "uniform", seconds)
                made.update(comparison=comparison, arm=arm, implementation=f"made/up/{arm}", derived={"ratio_to_moesaic": seconds / (1e-3 * factor * own)})
                del made["routing"]["dropped_routes"]
                if form:
                    made["problem"]["dispatch"] = form
                if comparison == "layer":
                    made["problem"].update(h=1536, order="up_gate")
                yield made


def everything(factor=1.0):
    for make in (sweep(factor=factor), sweep("fig71", factor=factor, sizes=(4096, 16384, 262144), width=2048), table44(), fig40(), fig72(), fig73(), skew(), bench(factor=factor),
                 exchange(factor=factor), exchange_arms(factor=factor)):
        yield from make
