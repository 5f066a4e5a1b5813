# SPDX-License-Identifier: Apache-2.0
"""Broadcasts versions to groups of engines, one at a time: `python -m whetstone_trainer.weights.group_sender ADDRESS`.

It is a process of its own, so that nothing which happens in a group can stop a training step. For each line of standard
input, an Order as JSON, it prints where the ranks meet, and then how it ended. It ends with its input.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch

from whetstone_store.process_group import (
    PART_BYTES,
    Broadcast,
    Membership,
    ProcessGroup,
    backend_of,
    gpu_of,
    open_store,
    part_sizes,
)


@dataclass(frozen=True)
class Order:
    """What is to be sent, to whom."""

    # Of a version.
    folder: str
    # File, offset and bytes of each tensor, in the order in which they are sent.
    tensors: list[tuple[str, int, int]]
    # Identities of the receivers' GPUs; empty for one without.
    gpus: list[str]


def main(address: str) -> None:
    # Of a terminal, which tells all of its processes: the trainer closes the input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    for line in sys.stdin:
        try:
            _say({"sent": _send(Order(**json.loads(line)), address)})
        except Exception as error:
            _say({"error": f"{type(error).__name__}: {error}"})


def _say(words: dict[str, Any]) -> None:
    print(json.dumps(words), flush=True)


def _send(order: Order, address: str) -> int:
    """Bytes that were sent. Raises GroupError or OSError."""
    store = open_store(address)
    backend = backend_of([gpu_of("cuda" if torch.cuda.is_available() else "cpu"), *order.gpus])
    _say({"port": store.port, "backend": backend})
    group = ProcessGroup(store, Membership(address, store.port, 0, len(order.gpus) + 1, backend))
    try:
        sent = _broadcast(group, order)
        group.finish()
        return sent
    finally:
        group.close()


def _broadcast(group: ProcessGroup, order: Order) -> int:
    buffers, running, total = [memoryview(bytearray(PART_BYTES)) for _ in range(2)], deque[Broadcast](), 0
    for index, part in enumerate(_parts(order, buffers)):
        running.append(group.broadcast(part))
        total += len(part)
        if index:
            running.popleft().wait()  # Its buffer is the next to be filled.
    for last in running:
        last.wait()
    return total


def _parts(order: Order, buffers: list[memoryview]) -> Iterator[memoryview]:
    """The bytes of each part, in one of the buffers and then in the other. Raises OSError."""
    with contextlib.ExitStack() as stack:
        files = dict[str, BinaryIO]()
        for number, (index, at, size) in enumerate(part_sizes([size for _, _, size in order.tensors])):
            name, offset, _ = order.tensors[index]
            if name not in files:
                files[name] = stack.enter_context((Path(order.folder) / name).open("rb", buffering=0))
            files[name].seek(offset + at)
            view = buffers[number % 2][:size]
            if files[name].readinto(view) != size:  # pyright: ignore[reportAttributeAccessIssue]
                raise OSError(f"{order.folder}/{name} ends before byte {offset + at + size}")
            yield view


if __name__ == "__main__":
    main(sys.argv[1])
