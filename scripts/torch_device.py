# SPDX-License-Identifier: Apache-2.0
"""What torch_arm.py and compare_torch.py need of PyTorch: operands, checks, times behind a gate, clocks through NVML where it is."""
import functools
import math
import subprocess
import threading
import time
from pathlib import Path

import torch

GROUPED_MM = getattr(torch.nn.functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
ROWS_PER_EXPERT = 4  # checked: first, last and some between
LOOK_SECONDS = 0.005
# A gate holds the device while the host enqueues; of a Python that was busy elsewhere it is tried again with a longer one.
LEAST_GATE_SECONDS, GATE_SECONDS_PER_PIECE, LONGER_GATE, GATE_TRIES = 0.005, 0.0002, 4, 4
GATE_CYCLES_PER_SECOND = 2e9  # of torch.cuda._sleep; a slower clock holds longer
THROTTLING = {0x4: "sw_power_cap", 0x8: "hw_slowdown", 0x20: "sw_thermal_slowdown", 0x40: "hw_thermal_slowdown", 0x80: "hw_power_brake"}


@functools.lru_cache(maxsize=None)
def nvml_device(uuid):
    """NVML and its handle of the device, found once in a process; (None, None) without."""
    try:
        import pynvml
        pynvml.nvmlInit()
        return pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except Exception:  # the package, the library or the right to look is missing: rows then have no clocks
        return None, None


class Looks:
    """Looks at clock, power, temperature and reasons from a thread; nothing without NVML (package nvidia-ml-py)."""

    def __init__(self, uuid):
        self.samples, self.stopping, self.thread = [], threading.Event(), None
        self.nvml, self.handle = nvml_device(uuid)
        if self.nvml is None:
            return
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self):
        nvml, handle = self.nvml, self.handle
        reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", nvml.nvmlDeviceGetCurrentClocksThrottleReasons)
        while not self.stopping.is_set():
            self.samples.append((time.monotonic(), nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
                                 nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM), nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
                                 nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU), reasons(handle)))
            self.stopping.wait(LOOK_SECONDS)

    def stop(self, last_seconds=None):
        """What was seen, of the last seconds alone where they are given."""
        self.stopping.set()
        if self.thread:
            self.thread.join()
        if last_seconds is None or not self.samples:
            return self.samples
        return [sample for sample in self.samples if sample[0] >= self.samples[-1][0] - last_seconds]


def clocks_of(samples):
    """The member "clocks" of looks, those of several regions too; None without any."""
    if not samples:
        return None
    _, sm, mem, power, temp, reasons = zip(*samples)
    seen = 0
    for bits in reasons:
        seen |= bits
    words = [word for bit, word in THROTTLING.items() if seen & bit]
    return {"samples": len(samples), "sm_mhz": {"min": min(sm), "median": sorted(sm)[len(sm) // 2]}, "mem_mhz": sorted(mem)[len(mem) // 2],
            "temp_c": max(temp), "power_w": max(power), "throttled": bool(words), "throttle_reasons": words}


def telemetry_of(samples):
    """The member "telemetry" of one region's looks; None of fewer than two."""
    if len(samples) < 2:
        return None
    at, sm, _, power, temp, reasons = zip(*samples)
    return {"interval_ms": 1000 * (at[-1] - at[0]) / (len(at) - 1), "sm_mhz": list(sm), "power_w": list(power), "temp_c": list(temp),
            "reasons": list(reasons)}


def power_limit_w(uuid):
    """The limit that the driver holds the device to, through NVML or else nvidia-smi; None without either."""
    nvml, handle = nvml_device(uuid)
    if nvml is not None:
        try:
            return round(nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000)
        except nvml.NVMLError:  # not every driver tells everyone
            pass
    try:
        done = subprocess.run(["nvidia-smi", f"--id={uuid}", "--query-gpu=power.limit", "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, check=True)
        return round(float(done.stdout))
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None


def sampled_rows(offs):
    """(expert, rows) for every expert that has some; `offs`: end rows, on the host."""
    begin = 0
    for expert, end in enumerate(offs):
        count = min(ROWS_PER_EXPERT, end - begin)
        if count:
            yield expert, torch.linspace(begin, end - 1, count).round().long()
        begin = end


class BoundCheck:
    """Products against sums in double precision, by the bound of moesaic's contract.

    All of it on the device, which is waited for once."""

    def __init__(self, device):
        self.elements = 0
        self.mismatches = torch.zeros((), dtype=torch.int64, device=device)
        self.worst = torch.zeros((), dtype=torch.float64, device=device)

    def add(self, got, a, b):
        """got [r, n], BF16 or FP32, against a [r, k] times b [k, n]."""
        a, b = a.double(), b.double()
        want, sums = a @ b, a.abs() @ b.abs()
        significant_bits = 8 if got.dtype == torch.bfloat16 else 24
        half_ulp = torch.exp2(torch.floor(torch.log2(want.abs().clamp_min(2.0 ** -126))) - significant_bits)
        share = (got.double() - want).abs() / (64 * 2.0 ** -24 * sums + half_ulp)
        self.elements += share.numel()
        self.mismatches += (~(share <= 1)).sum()
        self.worst = torch.maximum(self.worst, share.nan_to_num(math.inf).max())

    def result(self):
        return {"worst_element": float(self.worst), "elements": self.elements, "mismatches": int(self.mismatches)}


def compare(pairs, tolerance):
    """(got, wanted) pairs -> elements, mismatches and the worst share of the tolerance, which is of an element and of what is usual
    beside it."""
    elements, mismatches, worst = 0, 0, 0.0
    for got, want in pairs:
        got, want = got.detach().float(), want.detach().float()
        elements += want.numel()
        if got.shape != want.shape or not want.numel():
            mismatches += want.numel()
            continue
        share = (got - want).abs() / (tolerance * (want.pow(2).mean().sqrt() + want.abs()).clamp_min(1e-30))
        mismatches += int((~(share <= 1)).sum())
        worst = max(worst, float(share.nan_to_num(float("inf")).max()))
    return {"elements": elements, "mismatches": mismatches, "worst_element": worst}


class Device:
    """One device with the operands of the case at hand: x [M, K], w [E, N, K], offs."""

    def __init__(self, name):
        self.name, self.shape = name, None
        self.cuda = name == "cuda"
        self.circumstances = {"device": self.describe(), "toolchain": {
            "compiler": "", "build_type": "", "onednn": "", "cuda": f"CUDA {torch.version.cuda}" if self.cuda else "",
            "torch": torch.__version__}}

    def describe(self):
        if not self.cuda:
            lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
            return {"kind": "cpu", "name": models[0] if models else "unknown", "threads": torch.get_num_threads(), "features": []}
        properties = torch.cuda.get_device_properties(0)
        driver = Path("/proc/driver/nvidia/version")
        words = driver.read_text(encoding="utf-8").split() if driver.exists() else []
        return {"kind": "cuda", "name": properties.name, "cc": 10 * properties.major + properties.minor,
                "sms": properties.multi_processor_count, "l2_bytes": getattr(properties, "L2_cache_size", 0),
                "driver": next((word for word in words if word.count(".") == 2 and word.replace(".", "").isdigit()), ""),
                "ecc": None, "power_limit_w": power_limit_w(self.uuid()), "peak": None}

    def prepare(self, case):
        """Operands drawn as ours are, N(0, 1) and N(0, 0.02), by another generator; kept while the shape stays."""
        offs, n, k = case["routing"]["offs"], case["n"], case["k"]
        shape = (offs[-1], len(offs), n, k, case["repeated_rows"], case["seed"])
        self.offs = torch.tensor(offs, dtype=torch.int32, device=self.name)
        self.host_offs = offs
        if shape == self.shape:
            return
        self.x = self.w = self.y = None  # before others are allocated
        generator = torch.Generator(self.name).manual_seed(case["seed"])
        rows = offs[0] if case["repeated_rows"] else offs[-1]
        x = torch.randn(rows, k, generator=generator, device=self.name, dtype=torch.bfloat16)
        self.x = x.repeat(len(offs), 1) if case["repeated_rows"] else x
        self.w = torch.randn(len(offs), n, k, generator=generator, device=self.name, dtype=torch.bfloat16).mul_(0.02)
        self.shape = shape

    def call(self):
        self.y = GROUPED_MM(self.x, self.w.transpose(-2, -1), offs=self.offs)

    def check(self, case):
        """Sampled rows of every expert."""
        self.call()
        check = BoundCheck(self.name)
        for expert, rows in sampled_rows(self.host_offs):
            rows = rows.to(self.name)
            check.add(self.y[rows], self.x[rows], self.w[expert].t())
        return check.result()

    def synchronize(self):
        if self.cuda:
            torch.cuda.synchronize()

    def uuid(self):
        return f"GPU-{getattr(torch.cuda.get_device_properties(0), 'uuid', '')}" if self.cuda else ""

    def looks(self):
        return Looks(self.uuid())

    def timed(self, pieces):
        """Seconds of every piece, all of them behind one gate on a GPU."""
        if not self.cuda:
            seconds = []
            for piece in pieces:
                start = time.perf_counter()
                piece()
                seconds.append(time.perf_counter() - start)
            return seconds
        gate = max(LEAST_GATE_SECONDS, GATE_SECONDS_PER_PIECE * len(pieces))
        for _ in range(GATE_TRIES):
            seconds, late = self.gated(pieces, gate)
            if not late:
                return seconds
            gate *= LONGER_GATE
        raise RuntimeError(f"expected work to be enqueued before the device comes to it, got {late} of {len(pieces)} pieces later, the last "
                           f"time behind {gate / LONGER_GATE:.3f} s of a gate")

    def gated(self, pieces, gate):
        """Seconds of every piece behind a gate of so many seconds, and how many pieces the device came to before all of them was
        enqueued: their times hold the host's launches. A host that waits, since the device's queue is full, is not late."""
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in pieces]
        torch.cuda.synchronize()
        torch.cuda._sleep(int(gate * GATE_CYCLES_PER_SECOND))
        late = 0
        for piece, (before, after) in zip(pieces, events):
            before.record()
            piece()
            after.record()
            late += before.query()  # asked behind both events: none is missed
        torch.cuda.synchronize()
        return [before.elapsed_time(after) / 1000 for before, after in events], late

    def warm_ups(self, asked):
        return asked if self.cuda else min(2, asked)

    def burst(self, timing):
        looks = self.looks()
        warm_ups = self.warm_ups(timing["warm_ups"])
        seconds = self.timed([self.call] * (warm_ups + timing["samples"]))[warm_ups:]
        return {"samples_s": seconds, "gated": self.cuda, "clocks": clocks_of(looks.stop()), "telemetry": None}

    def unit(self, call, calls):
        """`calls` calls without a gap: a CUDA graph on a GPU."""
        if not self.cuda:
            return lambda: [call() for _ in range(calls)]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(calls):
                call()
        return graph.replay

    def regions(self, unit, unit_seconds, timing):
        """Conditioning, then measurement, without a gap: seconds of every measured unit, and looks at them."""
        conditioning = math.ceil(1.05 * timing["conditioning_s"] / unit_seconds)
        measured = max(5, math.ceil(1.05 * timing["measured_s"] / unit_seconds))
        looks = self.looks()
        seconds = self.timed([unit] * (conditioning + measured))[conditioning:]
        return seconds, looks.stop(sum(seconds))

    def sustained(self, timing):
        first = self.timed([self.call] * (timing["warm_ups"] + 1))
        calls = max(1, min(20000, round(timing["unit_s"] / first[-1])))
        unit = self.unit(self.call, calls)
        pilot = self.timed([unit] * max(1, math.ceil(timing["pilot_s"] / (calls * first[-1]))))
        seconds, looks = self.regions(unit, sum(pilot) / len(pilot), timing)
        return {"samples_s": [second / calls for second in seconds], "calls_per_sample": calls, "gated": self.cuda,
                "clocks": clocks_of(looks), "telemetry": telemetry_of(looks)}


def open_device(name, refused, code):
    """The device; raises `refused` with `code` when PyTorch has no such device or no grouped_mm."""
    if GROUPED_MM is None:
        raise refused(f"torch: expected a PyTorch with grouped_mm, got {torch.__version__}", code)
    if name == "cuda" and not torch.cuda.is_available():
        raise refused("--device cuda: expected a CUDA device that PyTorch sees, got none", code)
    return Device(name)
