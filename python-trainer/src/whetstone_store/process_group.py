# SPDX-License-Identifier: Apache-2.0
"""A process group of torch.distributed that bytes are broadcast in: by NCCL between GPUs, by gloo elsewhere.

Rank 0 sends, and every other rank takes part in each broadcast, in the same order. What a rank does not do in time ends
the group for all of its ranks; none of them waits longer than QUIET_S.
"""

from __future__ import annotations

import contextlib
import datetime
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage]

# Bytes of one broadcast; two of them are under way at a time.
PART_BYTES = 16 << 20
# A group whose ranks do not meet, or in which no broadcast ends, for so long is over.
QUIET_S = 10.0
_LOOK_S = 0.0005
_QUIET = datetime.timedelta(seconds=QUIET_S)
# Of NCCL's own watch, which would end the process: the group is over long before.
_NEVER = datetime.timedelta(hours=1)
_SENDER = 0


class GroupError(Exception):
    """The group is over: a rank is gone, did not come or is too slow, or it was given up."""


@dataclass(frozen=True)
class Membership:
    """Where a group meets, and which of its ranks one is."""

    # Of the store in which ranks find each other: the sender's machine.
    host: str
    port: int
    rank: int
    # Ranks, the sender among them.
    size: int
    # "nccl" or "gloo".
    backend: str
    # By NCCL: the GPU that its bytes go through.
    device: torch.device | str = "cuda"


def gpu_of(device: torch.device | str) -> str:
    """The identity of a GPU; empty for a CPU."""
    device = torch.device(device)
    return str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else ""


def backend_of(gpus: Sequence[str]) -> str:
    """What a group of ranks with these GPUs uses: NCCL refuses a GPU that two ranks have."""
    return "nccl" if all(gpus) and len(set(gpus)) == len(gpus) else "gloo"


def open_store(host: str) -> TCPStore:
    """The sender's store, at a free port of that address alone. Raises OSError."""
    family, kind, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind)
    listener.bind(address)
    listener.listen()
    port = listener.getsockname()[1]
    return TCPStore(host, port, None, True, _QUIET, False, master_listen_fd=listener.detach())


def join_store(host: str, port: int) -> TCPStore:
    """Another rank's way to it. Raises GroupError."""
    try:
        return TCPStore(host, port, None, False, _QUIET, False)
    except (RuntimeError, ValueError) as error:
        raise GroupError(f"{host}:{port}, where the group meets, does not answer: {error}") from error


class ProcessGroup:
    """One rank's end of a group."""

    def __init__(self, store: TCPStore, member: Membership, stopped: Callable[[], bool] = lambda: False) -> None:
        """Waits for the other ranks. `stopped` is asked while it waits for a broadcast. Raises GroupError."""
        self._stopped, self._store, self._member = stopped, store, member
        self._device = torch.device(member.device if member.backend == "nccl" else "cpu")
        try:
            self._say("here")
            self._hear("here")
            # Its methods are written in C++, and the types of PyTorch do not name all of them.
            self._group: Any = _nccl(store, member) if member.backend == "nccl" else _gloo(store, member)
        except (RuntimeError, ValueError, OSError) as error:
            raise GroupError(f"its {member.size} ranks did not meet: {error}") from error
        self._options = dist.BroadcastOptions()
        self._options.rootRank, self._options.rootTensor = _SENDER, 0

    def broadcast(self, view: memoryview) -> Broadcast:
        """Begins to send `view`, or to fill it; it stays as it is until the broadcast has ended. Raises GroupError."""
        memory = torch.frombuffer(view, dtype=torch.uint8)
        placed = memory if self._device.type == "cpu" else memory.to(self._device)
        try:
            return Broadcast(self._group.broadcast([placed], self._options), memory, placed, self._stopped)
        except RuntimeError as error:
            raise GroupError(str(error)) from error

    def finish(self) -> None:
        """After the last broadcast. The sender, at whom the others find each other, waits for them a while."""
        with contextlib.suppress(RuntimeError):
            self._say("done")
            if self._member.rank == _SENDER:
                self._hear("done")

    def close(self) -> None:
        """Leaves the group; for the other ranks it is over, too. Safe after any failure."""
        self._group.abort()

    def _say(self, word: str) -> None:
        self._store.set(f"{word}/{self._member.rank}", "")

    def _hear(self, word: str) -> None:
        """Until every rank has said it."""
        self._store.wait([f"{word}/{rank}" for rank in range(self._member.size)], _QUIET)


@dataclass(frozen=True)
class Broadcast:
    """One that has begun."""

    work: dist.Work
    memory: torch.Tensor
    # The same bytes on the device that sends or receives them; on the CPU it is `memory`.
    placed: torch.Tensor
    stopped: Callable[[], bool]

    def wait(self) -> None:
        """Until it has ended, and `memory` holds what was sent. Raises GroupError."""
        until = time.monotonic() + QUIET_S
        while not self.work.is_completed():
            if self.stopped():
                raise GroupError("it was given up")
            if time.monotonic() > until:
                raise GroupError(f"no part of it came for {QUIET_S:g} s")
            time.sleep(_LOOK_S)
        try:
            self.work.wait()
        except RuntimeError as error:
            raise GroupError(str(error)) from error
        if self.placed is not self.memory:
            self.memory.copy_(self.placed)


def parts_of(view: memoryview) -> Iterator[memoryview]:
    """What is broadcast one after the other of a tensor's bytes; sender and receivers cut alike."""
    return (view[at : at + PART_BYTES] for at in range(0, len(view), PART_BYTES))


def part_sizes(sizes: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Index of a tensor, offset within it and bytes of each part, of tensors of these sizes, in their order."""
    for index, size in enumerate(sizes):
        for at in range(0, size, PART_BYTES):
            yield index, at, min(PART_BYTES, size - at)


def _gloo(store: TCPStore, member: Membership) -> dist.ProcessGroupGloo:
    options = dist.ProcessGroupGloo._Options()  # pyright: ignore[reportAttributeAccessIssue]
    options._timeout = _QUIET
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=_own_address(member))]
    return dist.ProcessGroupGloo(store, member.rank, member.size, options)


def _nccl(store: TCPStore, member: Membership) -> dist.ProcessGroupNCCL:
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = _NEVER
    return dist.ProcessGroupNCCL(store, member.rank, member.size, options)


def _own_address(member: Membership) -> str:
    """The address by which this machine is reached from where the group meets. Nothing is sent."""
    family, kind, _, _, address = socket.getaddrinfo(member.host, member.port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as way:
        way.connect(address)
        return way.getsockname()[0]
