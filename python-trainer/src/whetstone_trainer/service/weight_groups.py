# SPDX-License-Identifier: Apache-2.0
"""Engines that ask for the same version at the same time get it by one broadcast, and the trainer reads it once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from whetstone_models.errors import ModelError
from whetstone_models.manifest import read_manifest
from whetstone_trainer.weights.group_sender import Order

log = logging.getLogger(__name__)

# A group begins when no engine has joined for so long, or after the longest wait since the first.
_QUIET_S, _LONGEST_S = 0.3, 2.0
# For the sender to start, which imports PyTorch, and to say where the group meets.
_MEET_S = 30.0
# A whole broadcast; what is left then goes over HTTP.
_SEND_S = 600.0


@dataclass
class _Gathering:
    """Engines that wait for one version."""

    folder: Path
    # Of tensors in its manifest.
    indices: set[int] = field(default_factory=set[int])
    # With the identity of each one's GPU.
    members: dict[asyncio.Future[dict[str, Any] | None], str] = field(default_factory=dict[Any, str])


class WeightGroups:
    """Forms one group at a time."""

    def __init__(self, address: str) -> None:
        """`address`: of this machine, for engines; the sender is reached at free ports of it."""
        self._address = address
        self._gathering: _Gathering | None = None
        self._forming: asyncio.Task[None] | None = None
        self._sender: asyncio.subprocess.Process | None = None

    async def join(self, folder: Path, indices: list[int], gpu: str) -> dict[str, Any] | None:
        """Where an engine with that GPU, or none, meets others, and which tensors of the manifest come, in their order.

        None: another group is under way, or none could be formed.
        """
        if self._gathering is None:
            if self._forming is not None and not self._forming.done():
                return None
            self._gathering = _Gathering(folder)
            self._forming = asyncio.create_task(self._form(self._gathering))
        gathering = self._gathering
        if gathering.folder != folder:
            return None
        gathering.indices.update(indices)
        member = asyncio.get_running_loop().create_future()
        gathering.members[member] = gpu
        try:
            return await member
        finally:
            # An engine that has hung up meanwhile is not waited for by the others.
            gathering.members.pop(member, None)

    @property
    def sender_pid(self) -> int | None:
        """Of the process that sends. None: there is none yet, or not any more."""
        return self._sender.pid if self._sender is not None else None

    async def close(self) -> None:
        """Ends the sender, and the group that it has. Safe to call again."""
        if self._forming is not None:
            self._forming.cancel()
            await asyncio.wait([self._forming])
        await self._end_sender()

    async def _form(self, gathering: _Gathering) -> None:
        try:
            await self._gathered(gathering)
            self._gathering = None
            await self._send(gathering)
        except (OSError, ValueError, TimeoutError, ModelError) as error:
            log.warning("weight_group_failed", extra={"folder": str(gathering.folder), "reason": repr(error)})
            await self._end_sender()
        finally:
            self._gathering = None
            _answer(gathering, [None] * len(gathering.members))

    async def _gathered(self, gathering: _Gathering) -> None:
        """Once nobody else comes."""
        loop, seen = asyncio.get_running_loop(), 0
        until = loop.time() + _LONGEST_S
        while len(gathering.members) != seen and loop.time() < until:
            seen = len(gathering.members)
            await asyncio.sleep(_QUIET_S)

    async def _send(self, gathering: _Gathering) -> None:
        """Raises OSError, ValueError, TimeoutError or ModelError."""
        listed = read_manifest(gathering.folder).tensors
        chosen = [index for index in sorted(gathering.indices) if 0 <= index < len(listed)]
        gpus = list(gathering.members.values())
        if not gpus or not chosen:
            return
        tensors = [(one.file, one.offset, one.size) for one in (listed[index] for index in chosen)]
        order = Order(str(gathering.folder), tensors, gpus)
        sender = await self._started_sender()
        met = await self._ask(sender, order)
        answer = {"host": self._address, "size": len(gpus) + 1, "tensors": chosen} | met
        _answer(gathering, [answer | {"rank": rank} for rank in range(1, len(gpus) + 1)])
        ended = await asyncio.wait_for(_words(sender), _SEND_S)
        log.info("weight_group_ended", extra={"folder": order.folder, "ranks": len(gpus) + 1} | ended)

    async def _ask(self, sender: asyncio.subprocess.Process, order: Order) -> dict[str, Any]:
        """Port and backend of the group."""
        assert sender.stdin is not None, "it is piped"
        sender.stdin.write((json.dumps(asdict(order)) + "\n").encode())
        await sender.stdin.drain()
        met = await asyncio.wait_for(_words(sender), _MEET_S)
        if "error" in met:
            raise OSError(met["error"])
        return met

    async def _started_sender(self) -> asyncio.subprocess.Process:
        if self._sender is None or self._sender.returncode is not None:
            command = (sys.executable, "-m", "whetstone_trainer.weights.group_sender", self._address)
            pipe, path = asyncio.subprocess.PIPE, os.pathsep.join(filter(None, sys.path))
            environment = {**os.environ, "PYTHONPATH": path}
            self._sender = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, env=environment)
        return self._sender

    async def _end_sender(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None and sender.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                sender.kill()
            await sender.wait()


def _answer(gathering: _Gathering, answers: list[Any]) -> None:
    for member, answer in zip(list(gathering.members), answers, strict=False):
        if not member.done():
            member.set_result(answer)


async def _words(sender: asyncio.subprocess.Process) -> dict[str, Any]:
    """The next line that the sender says. Raises OSError once it has ended."""
    assert sender.stdout is not None, "it is piped"
    line = await sender.stdout.readline()
    if not line:
        raise OSError("the sender of weights ended")
    return json.loads(line)
