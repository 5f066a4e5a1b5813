# SPDX-License-Identifier: Apache-2.0
"""Tensors by broadcast: engines that take the same version at the same time get its bytes from the trainer at once.

What the group does not bring goes over HTTP, as if there were none: an engine alone is never worse off for long.
"""

from __future__ import annotations

import http.client
import json
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from whetstone_models.tensors import TensorEntry
from whetstone_store.process_group import (
    PART_BYTES,
    Broadcast,
    GroupError,
    Membership,
    ProcessGroup,
    gpu_of,
    join_store,
    parts_of,
)
from whetstone_store.transfer import TrainerOrigin, Transfer

log = logging.getLogger("whetstone_engine")

# Fewer bytes are here over HTTP before a group has met.
LEAST_BYTES = 16 << 20
_UNDER_WAY = 2


class Received:
    """The engine's end of a group. Its tensors come in one order, and each is asked for at most once."""

    def __init__(self, group: ProcessGroup, tensors: Sequence[TensorEntry]) -> None:
        self._group, self._coming = group, deque(tensors)
        self._names = {entry.name for entry in tensors}

    def parts(self, entry: TensorEntry, view: memoryview) -> Iterator[memoryview]:
        """Fills `view`, and gives each part that has come; none of a tensor that does not come. Raises GroupError."""
        if entry.name not in self._names:
            return
        self._skip_to(entry)
        running = deque[tuple[memoryview, Broadcast]]()
        for part in parts_of(view):
            running.append((part, self._group.broadcast(part)))
            if len(running) == _UNDER_WAY:
                yield _ended(*running.popleft())
        while running:
            yield _ended(*running.popleft())
        self._finish()

    def finish(self) -> None:
        """Takes part in what is left: the others would lose the group. Raises GroupError."""
        self._skip_to(None)
        self._finish()

    def close(self) -> None:
        """Leaves the group; unless all has come, it is over for the others, too. Safe after any failure."""
        self._group.close()

    def _finish(self) -> None:
        if not self._coming:
            self._group.finish()

    def _skip_to(self, entry: TensorEntry | None) -> None:
        scratch = memoryview(bytearray(PART_BYTES))
        while self._coming:
            each = self._coming.popleft()
            self._names.discard(each.name)
            if entry is not None and each.name == entry.name:
                return
            for at in range(0, each.size, PART_BYTES):
                self._group.broadcast(scratch[: min(PART_BYTES, each.size - at)]).wait()


def _ended(part: memoryview, broadcast: Broadcast) -> memoryview:
    broadcast.wait()
    return part


def join(
    transfer: Transfer, listed: Sequence[TensorEntry], wanted: Sequence[TensorEntry], device: torch.device | str
) -> Received | None:
    """A group in which the trainer sends at least the wanted ones of the tensors that a manifest lists.

    None: there is none, or it is not worth while. Waits some seconds for other engines.
    """
    origin = transfer.origin
    if not isinstance(origin, TrainerOrigin) or sum(entry.size for entry in wanted) < LEAST_BYTES:
        return None
    names = {entry.name for entry in wanted}
    indices = [index for index, entry in enumerate(listed) if entry.name in names]
    try:
        met = _ask(origin, {"tensors": indices, "gpu": gpu_of(device)})
        if met is None:
            return None
        tensors = [listed[index] for index in met["tensors"]]
        member = Membership(met["host"], met["port"], met["rank"], met["size"], met["backend"], device)
        group = ProcessGroup(join_store(member.host, member.port), member, lambda: transfer.is_stopped)
    except (OSError, http.client.HTTPException, ValueError, KeyError, IndexError, TypeError, GroupError) as error:
        log.warning("weight_group_missed", extra={"url": origin.url, "reason": repr(error)})
        return None
    return Received(group, tensors)


def _ask(origin: TrainerOrigin, body: dict[str, Any]) -> dict[str, Any] | None:
    """Where the group meets. None: the trainer forms none."""
    connection = origin.connect()
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", origin.target("group"), json.dumps(body), headers)
        answer = connection.getresponse()
        return json.loads(answer.read()) if answer.status == 200 else None
    finally:
        connection.close()
