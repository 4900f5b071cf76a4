#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""moesaic.torch.ep on simulated ranks: values and gradients against the layer without ranks, what is
dropped, what is refused, whose memory it is."""

import gc
import os
import unittest
from unittest import mock

from torch_cases import BF16, MoesaicTest

import torch

import moesaic
from moesaic.torch import ep

F32 = torch.float32


def exchange_of(ranks=2, experts=4, topk=2, tokens=12, d=16, dtype=F32, **options):
    return ep.Exchange(ep.ExpertParallelGroup.simulated(ranks), num_experts=experts, topk=topk,
                       max_tokens=tokens, hidden_size=d, dtype=dtype, **options)


def poison(exchange):
    """Leaves NaN in the buffers that the pool will hand out next."""
    held = [exchange.lease_rows() for _ in range(4)]
    for tensors in held:
        for tensor in exchange.as_list("rows", tensors):
            tensor.fill_(float("nan"))


class Layer:
    """Tokens of each rank with ids and probs; experts are one matrix each, or SwiGLU."""

    def __init__(self, exchange, counts, seed=0, ids=None):
        self.exchange, self.counts = exchange, counts
        generator = torch.Generator().manual_seed(seed)
        d, e, k = exchange.hidden_size, exchange.num_experts, exchange.topk

        def normal(*shape, dtype=exchange.dtype):
            return torch.randn(shape, generator=generator).to(dtype)
        self.x = [normal(n, d).requires_grad_() for n in counts]
        self.probs = [torch.rand(n, k, generator=generator).requires_grad_() for n in counts]
        self.w = normal(e, d, d).requires_grad_()
        self.dy = [normal(n, d) for n in counts]
        self.ids = ids or [torch.randint(-1, e, (n, k), generator=generator) for n in counts]

    def _given(self, values):
        return self.exchange.as_given(values)

    def run(self, **options):
        """The outputs of all ranks; the experts' matrices are applied with torch's own products."""
        exchange = self.exchange
        maps = exchange.route_maps(self._given(self.ids))
        rows = exchange.as_list("rows", ep.dispatch(self._given(self.x), maps, exchange))
        self.maps = [maps] if isinstance(maps, ep.RouteMaps) else maps
        local = exchange.local_experts
        outs = []
        for rank, (own, one) in enumerate(zip(rows, self.maps)):
            pieces, low = [], 0
            for e, high in enumerate(one.offs.tolist()):
                pieces.append(own[low:high] @ self.w[rank * local + e].t())
                low = high
            pieces.append(torch.zeros(exchange.max_rows - low, exchange.hidden_size, dtype=own.dtype))
            outs.append(torch.cat(pieces))
        return exchange.as_list("out", ep.combine(self._given(outs), maps, self._given(self.probs),
                                                  exchange, **options))

    def dense(self):
        """FP64 leaves and outputs; the maps of the last run say which routes were kept."""
        leaves = [[v.detach().double().requires_grad_() for v in values]
                  for values in (self.x, self.probs, [self.w])]
        x, probs, (w,) = leaves
        outs = []
        for rank, ids in enumerate(self.ids):
            kept = self.maps[rank].dst_rows >= 0
            rows = torch.einsum("tkij,tj->tki", w[ids.clamp(min=0)], x[rank])
            outs.append((rows * (probs[rank] * kept).unsqueeze(-1)).sum(1))
        return [*x, *probs, w], outs


def leaves_of(layer):
    return [*layer.x, *layer.probs, layer.w]


class Gradients(MoesaicTest):
    def check(self, layer, tolerance, **options):
        outs = layer.run(**options)
        torch.autograd.backward([out for out in outs], layer.dy)
        wanted_leaves, wanted = layer.dense()
        gradients = torch.autograd.grad(wanted, wanted_leaves, [dy.double() for dy in layer.dy])
        for got, want in zip(outs, wanted):
            torch.testing.assert_close(got.double(), want, **tolerance)
        for leaf, want in zip(leaves_of(layer), gradients):
            torch.testing.assert_close(leaf.grad.double(), want, **tolerance)

    def test_against_the_layer_without_ranks(self):
        tight = {"rtol": 1e-5, "atol": 1e-5}
        for ranks, experts, counts in ((1, 4, [9]), (2, 4, [12, 5]), (4, 8, [3, 12, 0, 1])):
            for fused, form in ((True, "direct"), (False, "direct"), (True, "fan_out")):
                with self.subTest(ranks=ranks, fused=fused, dispatch=form):
                    exchange = exchange_of(ranks, experts, dispatch=form)
                    poison(exchange)
                    self.check(Layer(exchange, counts), tight, fused=fused)
                    self.assertEqual(exchange.read_fault(), exchange.as_given([None] * ranks))

    def test_the_form_of_dispatch_that_nobody_named(self):
        # One barrier before, one behind, and by fan-out one inside.
        for tokens, form, barriers in ((12, "direct", 2), (8192, "fan_out", 3)):
            with self.subTest(form):
                exchange = exchange_of(2, 8, topk=8, tokens=tokens, d=64)
                self.assertEqual(exchange.dispatch, form)
                self.check(Layer(exchange, [12, 5]), {"rtol": 1e-4, "atol": 1e-4})
                maps = exchange.route_maps([torch.zeros(3, 8, dtype=torch.int32)] * 2)
                before = exchange.group.barriers
                ep.dispatch([torch.zeros(3, 64)] * 2, maps, exchange)
                self.assertEqual(exchange.group.barriers - before, barriers)
        self.assertEqual(exchange_of(2, 8, topk=8, tokens=8192, d=64, dispatch="direct").dispatch, "direct")
        self.assertEqual(exchange_of(dispatch="fan_out").dispatch, "fan_out")

    def test_bf16(self):
        exchange = exchange_of(2, 4, topk=3, dtype=BF16)
        poison(exchange)
        self.check(Layer(exchange, [12, 7]), {"rtol": 0.05, "atol": 0.15})

    def test_hostile_routings(self):
        tight = {"rtol": 1e-5, "atol": 1e-5}
        for name, value in (("one expert", 3), ("no route", -1)):
            with self.subTest(name):
                ids = [torch.full((12, 2), value), torch.full((7, 2), value)]
                self.check(Layer(exchange_of(capacity_factor=2.0), [12, 7], ids=ids), tight)

    def test_dropped_routes_have_no_gradient(self):
        exchange = exchange_of(capacity_factor=0.5)
        ids = [torch.full((12, 2), 3), torch.full((12, 2), 3)]
        layer = Layer(exchange, [12, 12], ids=ids)
        self.check(layer, {"rtol": 1e-5, "atol": 1e-5})
        self.assertEqual(exchange.max_rows, 12)
        self.assertEqual(exchange.dropped_routes(), [12, 24])
        self.assertEqual(float(layer.probs[1].grad.abs().max()), 0.0)

    def test_only_what_requires_a_gradient(self):
        for frozen in ("x", "probs"):
            with self.subTest(frozen=frozen):
                layer = Layer(exchange_of(), [12, 5])
                for tensor in getattr(layer, frozen):
                    tensor.requires_grad_(False)
                torch.autograd.backward(layer.run(), layer.dy)
                self.assertTrue(all(t.grad is None for t in getattr(layer, frozen)))
                other = layer.probs if frozen == "x" else layer.x
                self.assertTrue(all(float(t.grad.abs().max()) > 0 for t in other))

    def test_a_second_derivative_is_refused(self):
        layer = Layer(exchange_of(), [12, 5])
        outs = layer.run()
        (dx, *_) = torch.autograd.grad([out.sum() for out in outs], layer.x, create_graph=True)
        with self.assertRaisesRegex(moesaic.Unsupported, "differentiated once"):
            dx.sum().backward()


class Operations(MoesaicTest):
    def setUp(self):
        self.exchange = exchange_of(2, 4, topk=2, tokens=6)
        self.layer = Layer(self.exchange, [6, 4])
        self.maps = self.exchange.route_maps(self.layer.ids)
        self.columns = [m.dst_ranks for m in self.maps], [m.dst_rows for m in self.maps]

    def test_put_get_gather_agree(self):
        exchange, columns = self.exchange, self.columns
        x = [one.detach() for one in self.layer.x]
        rows = exchange.lease_rows()
        ep.rowwise_dispatch_put(x, rows, *columns, exchange)
        gathered = [torch.empty(n, 2, 16) for n in (6, 4)]
        ep.rowwise_gather_get(rows, gathered, *columns, exchange)
        for one, source, ids in zip(gathered, x, self.layer.ids):
            self.same(one, source.unsqueeze(1) * (ids >= 0).unsqueeze(-1))
        probs = [p.detach() for p in self.layer.probs]
        outs = [[torch.empty_like(one) for one in x] for _ in range(2)]
        kept = [torch.empty_like(one) for one in gathered]
        ep.rowwise_combine_get(rows, outs[0], *columns, exchange, probs=probs, gathered_out=kept)
        ep.rowwise_combine_get_fused(rows, outs[1], *columns, exchange, probs=probs)
        for a, b, c, d in zip(*outs, kept, gathered):
            self.same(a, b)
            self.same(c, d)

    def test_barriers_as_asked_for(self):
        exchange, columns, group = self.exchange, self.columns, self.exchange.group
        x, rows = [one.detach() for one in self.layer.x], self.exchange.lease_rows()
        outs = [torch.empty_like(one) for one in x]
        before = group.barriers
        ep.rowwise_dispatch_put(x, rows, *columns, exchange)
        ep.rowwise_combine_get(rows, outs, *columns, exchange)
        self.assertEqual(group.barriers - before, 2)
        ep.rowwise_dispatch_put(x, rows, *columns, exchange, pre_barrier=True, post_barrier=False)
        ep.rowwise_combine_get(rows, outs, *columns, exchange, pre_barrier=False)
        self.assertEqual(group.barriers - before, 3)
        group.barrier()
        group.check()
        self.assertEqual(group.barriers - before, 4)

    def test_faults_are_told(self):
        exchange = self.exchange
        ids = [one.clone() for one in self.layer.ids]
        ids[1][2, 1] = 2**40
        exchange.route_maps(ids)
        self.assertEqual(exchange.read_fault(),
                         [None, ep.RouteFault("expert_out_of_range", 2, 1, 2**31 - 1)])
        self.assertEqual(exchange.read_fault(), [None, None])


class Refusals(MoesaicTest):
    def test_lists_and_shapes(self):
        exchange = exchange_of()
        for value in (torch.zeros(3, 2, dtype=torch.int64), [torch.zeros(3, 2, dtype=torch.int64)]):
            with self.assertRaisesRegex(moesaic.InvalidArgument, "expert_ids.*each of the 2"):
                exchange.route_maps(value)
        with self.assertRaisesRegex(moesaic.InvalidArgument, "expert_ids.*integers"):
            exchange.route_maps([torch.zeros(3, 2), torch.zeros(3, 2)])
        with self.assertRaisesRegex(moesaic.InvalidArgument, "dispatch.*auto.*fan_out"):
            exchange_of(dispatch="fan-out")
        with self.assertRaisesRegex(moesaic.InvalidArgument, "max_tokens = 12"):
            exchange.route_maps([torch.zeros(13, 2, dtype=torch.int32)] * 2)
        maps = exchange.route_maps([torch.zeros(3, 2, dtype=torch.int32)] * 2)
        with self.assertRaisesRegex(moesaic.InvalidArgument, "tokens.*float32"):
            ep.dispatch([torch.zeros(3, 16, dtype=BF16)] * 2, maps, exchange)

    def test_problems(self):
        for options, name in (({"experts": 3}, "num_experts"), ({"topk": 0}, "topk"),
                              ({"d": 12}, "^d:"), ({"capacity_factor": 0}, "capacity_factor"),
                              ({"dtype": torch.float16}, "dtype")):
            with self.subTest(name), self.assertRaisesRegex(moesaic.InvalidArgument, name):
                exchange_of(**options)

    def test_the_environment(self):
        make = ep.ExpertParallelGroup.from_environment
        with mock.patch.dict(os.environ, clear=True), self.assertRaisesRegex(moesaic.Error, "RANK"):
            make()
        told = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
        with mock.patch.dict(os.environ, told):
            for ranks in ([0, 2], [1, 1], [1, 4]):
                with self.subTest(ranks=ranks), \
                        self.assertRaisesRegex(moesaic.InvalidArgument, "ranks"):
                    make(ranks=ranks)

    def test_a_group_of_processes_needs_a_gpu_each(self):
        store = torch.distributed.HashStore()
        with self.assertRaisesRegex(moesaic.InvalidArgument, "device.*simulated"):
            ep.ExpertParallelGroup.from_store(store, 0, 1, device="cpu")
        if not torch.cuda.is_available():
            with self.assertRaises((moesaic.DeviceFailure, moesaic.Unsupported)):
                ep.ExpertParallelGroup.from_store(store, 0, 1, timeout=1.0)

    def test_a_closed_group(self):
        exchange = exchange_of()
        exchange.group.close()
        exchange.group.close()
        with self.assertRaisesRegex(moesaic.Error, "closed"):
            exchange.route_maps([torch.zeros(3, 2, dtype=torch.int32)] * 2)


class Memory(MoesaicTest):
    def test_leases_end_with_their_tensors(self):
        exchange = exchange_of()
        group, size = exchange.group, exchange.max_rows * 16 * 4
        rows = exchange.lease_rows()
        second = rows[1][3:5]
        del rows
        gc.collect()
        self.assertEqual(group.pool_usage(), (1, size, size, size))
        del second
        gc.collect()
        self.assertEqual(group.pool_usage(), (0, 0, size, size))

    def test_close_refuses_while_tensors_live(self):
        exchange = exchange_of()
        rows = exchange.lease_rows()
        with self.assertRaisesRegex(moesaic.Error, "1 buffer.*in use"):
            exchange.group.close()
        rows[0].fill_(1)  # the memory is still there
        del rows
        exchange.group.close()

    def test_a_step_gives_everything_back(self):
        exchange = exchange_of()
        layer = Layer(exchange, [12, 5])
        marks = []
        for _ in range(3):
            outs = layer.run()
            torch.autograd.backward(outs, layer.dy)
            del outs
            gc.collect()
            marks.append(exchange.group.pool_usage())
            self.assertEqual(marks[-1].leases, 0)
        self.assertEqual(marks[0], marks[2])

    def test_leased_rows_are_not_copied(self):
        exchange = exchange_of()
        maps = exchange.route_maps(Layer(exchange, [12, 5]).ids)
        probs = [torch.rand(n, 2) for n in (12, 5)]
        rows = [one.zero_() for one in exchange.lease_rows()]
        before = exchange.group.barriers
        ep.combine(rows, maps, probs, exchange)
        self.assertEqual(exchange.group.pool_usage().leases, 1)
        self.assertEqual(exchange.group.barriers - before, 1)
        ep.combine([one.clone() for one in rows], maps, probs, exchange)
        self.assertEqual(exchange.group.barriers - before, 3)


class MoELayer(MoesaicTest):
    def layers(self, ranks, dtype=F32, **options):
        """The layer on simulated ranks and on one rank, with the same weights."""
        made = []
        for count in (ranks, 1):
            torch.manual_seed(3)
            exchange = exchange_of(count, 8, topk=2, tokens=24, dtype=dtype, capacity_factor=8.0)
            poison(exchange)
            made.append(ep.MoELayer(exchange, 24, order="up_gate", **options))
        many, one = made
        with torch.no_grad():
            one.router.weight.copy_(many.router.weight)
            for name in ("w_up_gate", "w_down"):
                getattr(one.experts, name).copy_(
                    torch.cat([getattr(experts, name) for experts in many.experts]))
        return many, one

    def test_ranks_do_not_change_the_layer(self):
        for ranks, recompute in ((2, False), (4, True)):
            with self.subTest(ranks=ranks):
                many, one = self.layers(ranks, recompute=recompute)
                x = torch.randn(24, 16)
                pieces = list(x.split([24 - 3 * (ranks - 1)] + [3] * (ranks - 1)))
                pieces = [piece.clone().requires_grad_() for piece in pieces]
                whole = x.clone().requires_grad_()
                dy = torch.randn(24, 16)
                outs = many(pieces)
                torch.cat(outs).backward(dy)
                want = one(whole)
                want.backward(dy)
                near = {"rtol": 1e-4, "atol": 1e-5}
                torch.testing.assert_close(torch.cat(outs), want, **near)
                torch.testing.assert_close(torch.cat([p.grad for p in pieces]), whole.grad, **near)
                torch.testing.assert_close(many.router.weight.grad, one.router.weight.grad, **near)
                for name in ("w_up_gate", "w_down"):
                    torch.testing.assert_close(
                        torch.cat([getattr(experts, name).grad for experts in many.experts]),
                        getattr(one.experts, name).grad, **near)

    def test_one_rank_is_the_dense_layer(self):
        _, layer = self.layers(2)
        x = torch.randn(2, 12, 16)
        probs, ids = layer.route(x.view(-1, 16))
        want = layer.experts(x.view(-1, 16), ids, probs).view(2, 12, 16)
        torch.testing.assert_close(layer(x), want, rtol=1e-4, atol=1e-5)

    def test_without_gradients(self):
        many, _ = self.layers(2, BF16)
        with torch.no_grad():
            outs = many([torch.randn(5, 16, dtype=BF16), torch.randn(0, 16, dtype=BF16)])
        self.assertEqual([tuple(out.shape) for out in outs], [(5, 16), (0, 16)])
        self.assertTrue(bool(outs[0].isfinite().all()))


if __name__ == "__main__":
    unittest.main()
