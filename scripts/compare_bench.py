# SPDX-License-Identifier: Apache-2.0
"""The device of compare_torch.py: operands of the case at hand, in which order its arms run, times."""
import gc
import random

import torch

import moesaic.torch as mt
from compare_arms import KINDS, REFERENCE
from torch_device import clocks_of


class Bench:
    """One device with the operands of the case at hand."""

    reference = REFERENCE

    def __init__(self, device, seed, method):
        self.device, self.seed, self.operands = device, seed, None
        self.circumstances = {"method": method if device.cuda else method + "; here, on a CPU, at most 2 warm-ups and no delay",
                              "device": {"count": 1, "sms": None, "driver": "", "power_limit_w": None, **device.circumstances["device"]},
                              "toolchain": {"cuda": torch.version.cuda if device.cuda else "", "torch": torch.__version__,
                                            "moesaic": mt.version()}}

    def prepare(self, case):
        self.operands = None  # before others are allocated
        gc.collect()  # arms hold their operands, which hold them
        if self.device.cuda:
            torch.cuda.empty_cache()
        self.operands = KINDS[case.kind](case, self.device.name, self.seed)

    def check(self, arm):
        return self.operands.check(arm)

    def time(self, case):
        """{"gated", "clocks", "arms": {arm: {"samples_s"}}}; of sustained work an arm also has calls in a sample, and the
        clocks of each of its passes."""
        times = self.sustained(case) if case.regions else self.burst(case)
        return {"gated": self.device.cuda, **times}

    def burst(self, case):
        order, calls = random.Random(f"{self.seed} {case.rows[0].name}"), self.operands.arms
        warm_ups = self.device.warm_ups(case.warm_ups)
        rounds = [order.sample(case.arms, len(case.arms)) for _ in range(warm_ups + case.samples)]
        looks = self.device.looks()
        seconds = iter(self.device.timed([calls[arm] for arms in rounds for arm in arms]))
        clocks = clocks_of(looks.stop())
        samples = {arm: [] for arm in case.arms}
        for number, arms in enumerate(rounds):
            for arm in arms:
                second = next(seconds)
                if number >= warm_ups:
                    samples[arm].append(second)
        return {"clocks": clocks, "arms": {arm: {"samples_s": samples[arm]} for arm in case.arms}}

    def sustained(self, case):
        """Each arm alone, to and fro, so that a drift of the device meets all of them alike."""
        units, times, all_looks = {}, {}, []
        for arm in case.arms:
            call = self.operands.arms[arm]
            once = self.device.timed([call] * (case.warm_ups + 1))[-1]
            calls = max(1, round(case.regions["unit_s"] / once))
            units[arm] = self.device.unit(call, calls), calls * once
            times[arm] = {"samples_s": [], "calls_per_sample": calls, "clocks": []}
        for arm in (*case.arms, *reversed(case.arms)):
            seconds, looks = self.device.regions(*units[arm], case.regions)
            times[arm]["samples_s"] += [second / times[arm]["calls_per_sample"] for second in seconds]
            times[arm]["clocks"].append(clocks_of(looks))
            all_looks += looks
        return {"clocks": clocks_of(all_looks), "arms": times}
