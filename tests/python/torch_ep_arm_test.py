#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/ep_torch_arm.py on the CPU: its arms agree on simulated ranks, a wrong one is not timed, and what goes through
torch.distributed (gloo, two processes) is what stays in one process."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import torch_cases  # noqa: E402, F401: says where there is no torch

import torch  # noqa: E402

import ep_torch_arm  # noqa: E402
import ep_torch_moe as moe  # noqa: E402
import ep_torch_site  # noqa: E402

SMALL = ("--tokens", "24", "--d", "64", "--h", "32", "--experts", "8", "--topk", "3", "--samples", "3", "--calls", "1")
EXPERTS, TOPK, D = 6, 2, 8


def leaves(rank, tokens=7):
    generator = torch.Generator().manual_seed(rank)
    ids = ep_torch_site.draw_ids(1.0, tokens + rank, TOPK, EXPERTS, 0, rank)
    x, probs = torch.randn(ids.shape[0], D, generator=generator), torch.rand(ids.shape, generator=generator)
    return ids, x.requires_grad_(), probs.requires_grad_()


def there_and_back(peers, given):
    """Rows tripled at their experts; of each local rank rows, sums and gradients."""
    ids, x, probs = zip(*given)
    routes = moe.find_routes(peers, ids, EXPERTS)
    rows = moe.dispatch(peers, x, routes, TOPK)
    outs = moe.combine(peers, [3 * one for one in rows], routes, probs)
    torch.autograd.backward(outs, [torch.arange(out.numel(), dtype=out.dtype).view_as(out) for out in outs])
    plain, plain_rows = moe.exchange_plainly(peers, [one.detach() for one in x], ids, [one.detach() for one in probs], EXPERTS)
    return [[one.detach() for one in results] + [own.offs]
            for own, *results in zip(routes, rows, outs, [one.grad for one in x], [one.grad for one in probs], plain, plain_rows)]


class Torch(unittest.TestCase):
    def test_against_the_dense_sum(self):
        given = [leaves(rank) for rank in range(2)]
        for (ids, x, probs), (rows, out, dx, dprobs, plain, plain_rows, offs) in zip(given, there_and_back(moe.LocalPeers(2), given)):
            share = probs.detach().sum(1, keepdim=True)
            torch.testing.assert_close(out, 3 * share * x.detach())
            torch.testing.assert_close(plain, share * x.detach())
            self.assertTrue(torch.equal(rows, plain_rows))
            self.assertEqual(int(offs[-1]), rows.shape[0])
            dy = torch.arange(out.numel(), dtype=out.dtype).view_as(out)
            torch.testing.assert_close(dx, 3 * share * dy)
            torch.testing.assert_close(dprobs, (3 * (x.detach() * dy).sum(1, keepdim=True)).expand_as(probs))

    def test_processes_do_what_one_process_does(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([ROOT / "scripts/run_ranks.sh", "--without-gpus", "2", sys.executable, "-B", __file__, folder],
                                  capture_output=True, text=True, check=False, env={**os.environ, "LIMIT_S": "120"})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            wanted = there_and_back(moe.LocalPeers(2), [leaves(rank) for rank in range(2)])
            for rank, want in enumerate(wanted):
                for one, other in zip(torch.load(Path(folder, str(rank))), want):
                    self.assertTrue(torch.equal(one, other))


def one_process(folder):
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = torch.distributed.FileStore(os.environ["MOESAIC_RENDEZVOUS"] + "/store", ranks)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    peers = moe.ProcessPeers()
    assert peers.local_ranks == [rank]
    torch.save(there_and_back(peers, [leaves(rank)])[0], Path(folder, str(rank)))
    torch.distributed.destroy_process_group()


class Arms(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "rows.jsonl")

    def main(self, *words):
        out, told = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
            code = ep_torch_arm.main([*SMALL, "--output", str(self.path), *words])
        return code, told.getvalue()

    def rows(self):
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()] if self.path.exists() else []

    def test_they_agree_on_simulated_ranks(self):
        for ranks, words, dispatch, put in ((2, (), "direct", "dispatch_put"), (2, ("--dispatch", "direct"), "direct", "dispatch_put"),
                                            (4, ("--dispatch", "fan_out"), "fan_out", "dispatch_put_fan_out")):
            self.path.unlink(missing_ok=True)
            self.assertEqual(self.main("--simulated", str(ranks), *words), (0, ""))
            rows = self.rows()
            self.assertEqual((rows[0]["implementation"], rows[0]["problem"]["dispatch"]), (f"maps+{put}+combine_get_fused", dispatch))
            self.assertEqual([row["arm"] for row in rows], 2 * ["moesaic", "torch", "torch_lean"] + 2 * ["moesaic", "torch"])
            for row in rows:
                self.assertEqual(row["check"]["mismatches"], 0)
                self.assertGreater(row["check"]["elements"], 24 * 64)
                self.assertEqual((row["device"]["ranks"], row["device"]["transport"]), (ranks, "simulated"))
                self.assertEqual(row["routing"]["routes"], ranks * 24 * 3)
                self.assertGreater(row["timing"]["slowest_s"], 0)

    def wrong(self, what, **changes):
        with mock.patch.multiple(moe, **changes):
            code, told = self.main("--simulated", "2", "--what", what, "--routing", "uniform")
        self.assertEqual(code, 1)
        self.assertIn("elements wrong", told)
        self.assertEqual(self.rows(), [])

    def test_an_arm_that_is_wrong_is_not_timed(self):
        combine, dispatch = moe.combine, moe.dispatch
        self.wrong("exchange", combine=lambda *args: [1.05 * one for one in combine(*args)])
        self.wrong("layer", combine=lambda *args: [1.3 * one for one in combine(*args)])
        # Sums stay what they are; rows go to the wrong experts and come back.
        self.wrong("exchange", dispatch=lambda *args: [one.flip(0) for one in dispatch(*args)], combine=lambda peers, rows, *args:
                   combine(peers, [one.flip(0) for one in rows], *args))

    def test_what_moesaic_refuses(self):
        for words, message in ((("--experts", "9"), "num_experts"), (("--d", "12"), "d:"), (("--h", "12"), "intermediate_size")):
            with self.subTest(words=words):
                code, told = self.main("--simulated", "2", *words)
                self.assertEqual(code, 2, told)
                self.assertIn(message, told)

    @unittest.skipIf(torch.cuda.is_available(), "there are GPUs")
    def test_without_gpus(self):
        with mock.patch.dict(os.environ, {"RANK": "0", "WORLD_SIZE": "2", "MOESAIC_RENDEZVOUS": "/tmp"}):
            code, told = self.main()
        self.assertEqual(code, 3)
        self.assertIn("a GPU for each of 2 ranks, PyTorch sees 0; --simulated 2", told)

    def test_ids_follow_the_weights(self):
        ids = ep_torch_site.draw_ids(1.0, 4000, 2, 8, 1, 0)
        self.assertTrue(bool((ids[:, 0] != ids[:, 1]).all()))
        counts = torch.bincount(ids.flatten(), minlength=8)
        self.assertEqual(counts.argsort(descending=True).tolist(), list(range(8)))
        self.assertFalse(torch.equal(ids, ep_torch_site.draw_ids(1.0, 4000, 2, 8, 1, 1)))
        self.assertTrue(torch.equal(ids, ep_torch_site.draw_ids(1.0, 4000, 2, 8, 1, 0)))

    def test_traffic(self):
        ids = [torch.tensor([[0, 1], [0, 3]]), torch.tensor([[2, 3], [3, 2]])]
        self.assertEqual(ep_torch_site.traffic_of(ids, 4),
                         {"routes": 8, "max_rows_used": 5, "remote_out_rows": 1, "remote_in_rows": 1})

    def test_comparing(self):
        want = torch.ones(10)
        near = want * 1.009
        near[3] = 1.2
        self.assertEqual(ep_torch_site.compare([(want, want), (near, want)], 0.005)["mismatches"], 1)
        self.assertEqual(ep_torch_site.compare([(torch.full((3,), float("nan")), torch.ones(3))], 0.01)["mismatches"], 3)
        self.assertEqual(ep_torch_site.compare([(torch.ones(4), torch.ones(3))], 0.01)["mismatches"], 3)


if __name__ == "__main__":
    if "RANK" in os.environ:
        one_process(sys.argv[1])
    else:
        unittest.main()
