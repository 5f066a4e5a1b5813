# SPDX-License-Identifier: Apache-2.0
"""Processes of episodes, without the service before them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from whetstone_env.errors import EpisodeError
from whetstone_env.processes import ForkServer, Workers

TROUBLED = str(Path(__file__).parent / "troubled.py")


@pytest.fixture
async def server() -> AsyncIterator[ForkServer]:
    server = await ForkServer.start([TROUBLED], memory_mib=512)
    yield server
    await server.close()


async def play(workers: Workers, action: str) -> str:
    worker = await workers.take()
    try:
        await workers.call(worker, "reset", 30, kind="troubled", args={}, seed=1)
        return (await workers.call(worker, "step", 30, action=action))["text"]
    finally:
        await workers.give_back(worker)


async def test_who_leaves_at_any_moment_leaves_nothing(server: ForkServer) -> None:
    """Also while a process is being forked or ended for them."""
    workers, rng = Workers(server), random.Random(1)
    for _ in range(3):
        actions = [rng.choice(["go", "loop", "vanish", "raise"]) for _ in range(20)]
        plays = [asyncio.create_task(play(workers, action)) for action in actions]
        for task in plays:
            asyncio.get_running_loop().call_later(rng.random() * 0.2, task.cancel)
        ended = await asyncio.gather(*plays, return_exceptions=True)
        assert all(isinstance(each, str | EpisodeError | asyncio.CancelledError) for each in ended), ended
    assert await asyncio.gather(*(play(workers, "go") for _ in range(10))) == ["done"] * 10
    end = time.monotonic() + 60
    while not children_of(server.pid) <= set(workers.pids):
        assert time.monotonic() < end, "a process is left that nobody knows"
        await asyncio.sleep(0.02)


async def test_no_more_descriptors_are_told_and_survived(server: ForkServer) -> None:
    with pytest.raises(OSError, match="too many open files"):
        await server._ask({"fork": True})  # Without the descriptor, as where there are too many open.
    assert await play(Workers(server), "go") == "done"


def children_of(pid: int) -> set[int]:
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
