# SPDX-License-Identifier: Apache-2.0
"""The ranks of expert parallelism, and the memory that they share."""

import collections
import ctypes
import datetime
import gc
import math
import os
import weakref
from typing import NamedTuple

import torch

from .. import _gemm, _library
from .._errors import Error, refuse

_DEFAULT_HEAP_BYTES = 4 << 30
_groups_made = collections.Counter()  # by name and ranks: every rank counts alike


class PoolUsage(NamedTuple):
    """What of a group's pool is in use on this process, in bytes but for `leases`."""
    leases: int
    leased: int
    high_water: int
    pooled: int


class _StoreRendezvous:
    """A torch.distributed store as the C library calls it."""

    def __init__(self, store):
        self._store = store
        self.failure = None
        self.functions = _library.Rendezvous(
            None, _library.Rendezvous._fields_[1][1](self._set),
            _library.Rendezvous._fields_[2][1](self._get))

    def _set(self, _, key, value, size):
        try:
            # Hexadecimal: some stores cut a value at a zero byte.
            self._store.set(key.decode(), ctypes.string_at(value, size).hex())
        except Exception as failure:  # it must not pass through C
            self.failure = failure
            return 1
        return 0

    def _get(self, _, key, timeout_ms, value, room, size):
        try:
            name = key.decode()
            self._store.wait([name], datetime.timedelta(milliseconds=max(timeout_ms, 1)))
            found = bytes.fromhex(self._store.get(name).decode())
            size[0] = len(found)
            ctypes.memmove(value, found, min(len(found), room))
        except Exception as failure:
            self.failure = failure
            return 1
        return 0


class Lease:
    """A symmetric buffer. It goes back to the pool when the last tensor over it is gone: ranks that
    run the same program then lease and release in the same order."""

    def __init__(self, group, size_bytes):
        self.group, self.size_bytes = group, size_bytes
        number = ctypes.c_int64()
        self.addresses = (ctypes.c_void_p * group.num_local_ranks)()
        group.call("group_lease", size_bytes, number, self.addresses)
        self.id = number.value
        group.leased[self.id] = tuple(self.addresses), size_bytes

    def __del__(self):
        if getattr(self, "id", None) is not None and self.group.handle:
            del self.group.leased[self.id]
            self.group.native.moesaic_ep_group_release(self.group.handle, self.id)


class _DeviceMemory:
    """What torch.as_tensor() takes for CUDA memory, and keeps as long as a tensor is over it."""

    def __init__(self, lease, address):
        self.lease = lease
        self.__cuda_array_interface__ = {
            "data": (address, False), "shape": (lease.size_bytes,), "typestr": "|u1", "version": 2}


def _bytes_of(lease, address, device):
    if device.type == "cuda":
        return torch.as_tensor(_DeviceMemory(lease, address), device=device)
    memory = type("HostMemory", (ctypes.c_uint8 * lease.size_bytes,), {}).from_address(address)
    memory.lease = lease  # torch keeps `memory`
    return torch.frombuffer(memory, dtype=torch.uint8)


class ExpertParallelGroup:
    """The ranks that exchange rows. Made by one of its class methods; close() it on all ranks.

    Where this process holds one rank, calls take and return its tensors; where it holds several (a
    simulated group holds all), they take and return lists with an entry for each of local_ranks.
    """

    def __init__(self, handle, device, rank=None, rendezvous=None):
        self.native = _library.load()
        self.exchanges = weakref.WeakSet()
        self.leased = {}  # id -> (address of each local rank, bytes), while leased
        self.handle, self.device, self.rendezvous = handle, device, rendezvous
        self.num_ranks = self.native.moesaic_ep_group_num_ranks(handle)
        self.num_local_ranks = self.native.moesaic_ep_group_num_local_ranks(handle)
        self.local_ranks = tuple(range(self.num_ranks)) if rank is None else (rank,)

    @classmethod
    def simulated(cls, num_ranks):
        """All ranks in this process, on the CPU: what every transport must do, without one."""
        handle = ctypes.c_void_p()
        library = _library.load()
        _library.check(library.moesaic_ep_group_simulated(num_ranks, handle))
        return cls(handle.value, torch.device("cpu"))

    @classmethod
    def from_store(cls, store, rank, num_ranks, *, device=None, heap_bytes=_DEFAULT_HEAP_BYTES,
                   timeout=60.0):
        """Joins a group of one process per GPU; collective.

        store       a torch.distributed store that its ranks share and nobody else uses (PrefixStore
                    makes one of another): no process group is needed or touched.
        device      this rank's GPU; by default the current one.
        heap_bytes  memory that peers can reach, reserved by the process's first group for all of
                    its groups.
        timeout     seconds that a rank waits for another, here and in a barrier on the device.

        The first group of a process begins NVSHMEM among its ranks; each later one must be of ranks
        of that first group.
        """
        if device is None:
            device = torch.device("cuda", torch.cuda.current_device()
                                  if torch.cuda.is_available() else 0)
        device = torch.device(device)
        if device.type != "cuda":
            refuse("device", "a CUDA device; ExpertParallelGroup.simulated() is for the CPU", device)
        device = torch.device("cuda", device.index or 0)
        rendezvous = _StoreRendezvous(store)
        options = _library.EpGroupOptions(
            rank=rank, num_ranks=num_ranks, device=_gemm.to_device(("cuda", device.index)),
            heap_bytes=int(heap_bytes), timeout_seconds=float(timeout),
            rendezvous=rendezvous.functions)
        handle = ctypes.c_void_p()
        check_status(rendezvous, _library.load().moesaic_ep_group_nvshmem(options, handle))
        return cls(handle.value, device, rank, rendezvous)

    @classmethod
    def from_environment(cls, *, ranks=None, name="default", device=None, **options):
        """The same, among the processes that torchrun started, or those of them in `ranks`.

        RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT tell where the store is; `device` is by default
        cuda:LOCAL_RANK. `ranks` are numbers of processes, in the order of the group's ranks, the same
        on all of them. Groups with equal `name` and `ranks` are told apart by the order in which
        they are made.
        """
        missing = [key for key in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
                   if key not in os.environ]
        if missing:
            raise Error("from_environment: expected the environment that torchrun makes, got none of "
                        + ", ".join(missing))
        own, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        ranks = tuple(range(world)) if ranks is None else tuple(ranks)
        if len(set(ranks)) != len(ranks) or not all(0 <= rank < world for rank in ranks):
            refuse("ranks", f"different numbers from 0 to {world - 1}", list(ranks))
        if own not in ranks:
            refuse("ranks", f"a group with this process, {own}", list(ranks))
        key = f"{name}/{','.join(map(str, ranks))}"
        prefix = f"moesaic/ep/{key}/{_groups_made[key]}"
        _groups_made[key] += 1
        store, _, _ = next(torch.distributed.rendezvous("env://", own, world))
        if device is None:
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        return cls.from_store(torch.distributed.PrefixStore(prefix, store), ranks.index(own),
                              len(ranks), device=device, **options)

    def call(self, function, *arguments):
        """moesaic_ep_{function} of this group."""
        if not self.handle:
            raise Error("this group is closed")
        status = getattr(self.native, "moesaic_ep_" + function)(self.handle, *arguments)
        check_status(self.rendezvous, status)

    @property
    def stream(self):
        """The current stream's address; None on the CPU."""
        if self.device.type == "cpu":
            return None
        return torch.cuda.current_stream(self.device).cuda_stream

    @property
    def barriers(self):
        """Barriers of all ranks so far, as enqueued by this process."""
        return self.native.moesaic_ep_group_barriers(self.handle) if self.handle else 0

    def pool_usage(self):
        usage = _library.EpPoolUsage()
        self.call("group_pool_usage", usage)
        return PoolUsage(usage.leases, usage.leased_bytes, usage.high_water_bytes,
                         usage.pooled_bytes)

    def lease(self, shape, dtype):
        """Uninitialized tensors that all ranks can reach, one for each local rank; collective. They
        go back to the pool with the last tensor over their memory."""
        size_bytes = max(1, math.prod(shape)) * dtype.itemsize
        lease = Lease(self, size_bytes)
        return [_bytes_of(lease, address, self.device)[:math.prod(shape) * dtype.itemsize]
                .view(dtype).view(shape) for address in lease.addresses]

    def owns(self, index, tensor):
        """Whether the tensor lies in memory that local rank `index` has leased now."""
        begin, size = tensor.data_ptr(), tensor.untyped_storage().nbytes()
        return any(addresses[index] <= begin < addresses[index] + max(size_bytes, 1) and size > 0
                   for addresses, size_bytes in self.leased.values())

    def barrier(self):
        """Enqueues a barrier of all ranks on the current stream."""
        self.call("group_barrier", self.stream)

    def check(self):
        """Waits for the current stream; raises DeviceFailure when a rank was waited for in vain."""
        self.call("group_check", self.stream)

    def close(self):
        """Gives everything back, exchanges too; collective. Refuses while tensors over leased memory
        are alive. A group that is not closed ends with its process, which waits for nobody."""
        if not self.handle:
            return
        if self.leased:
            gc.collect()  # a traceback or a cycle may hold the last of them
        if self.leased:
            raise Error(f"close: expected no tensor over leased memory, got {len(self.leased)} "
                        "buffer(s) that are still in use")
        for exchange in list(self.exchanges):
            exchange.destroy()
        handle, self.handle = self.handle, None
        self.native.moesaic_ep_group_destroy(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def check_status(rendezvous, status):
    """Raises what a call failed with, and why, where it was the rendezvous of a group of processes."""
    if status == 0:
        return
    failure = None
    if rendezvous is not None:
        failure, rendezvous.failure = rendezvous.failure, None
    raise _library.error(status) from failure
