# SPDX-License-Identifier: Apache-2.0
"""Weights by broadcast: engines that ask at the same time get them at once, and what breaks goes over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import torch
from stream_kit import LARGE, PLACE, change, fetch, fetching, make_run, published, same_answers, serving, weight_bytes

from whetstone_engine.weights.building import Place
from whetstone_engine.weights.fetcher import Fetcher
from whetstone_models.errors import WeightsError
from whetstone_models.folder import WeightsForm, load_model, save_weights
from whetstone_models.manifest import read_manifest
from whetstone_store.process_group import PART_BYTES, QUIET_S, Membership, ProcessGroup, backend_of, join_store
from whetstone_trainer.service.weight_groups import WeightGroups
from whetstone_trainer.weights.run_folder import RunFolder

# Manifest, blocks and configuration of these small models.
SMALL = 64 << 10


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return make_run(tmp_path)


@contextlib.asynccontextmanager
async def engines(count: int) -> AsyncIterator[list[Fetcher]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(fetching(None)) for _ in range(count)]


async def ask(url: str, run: RunFolder) -> Membership:
    """Somebody who asks for all of version 1, as an engine does, and does nothing yet."""
    count = len(read_manifest(run.weights(1)).tensors)
    body = {"tensors": list(range(count)), "gpu": ""}
    async with aiohttp.ClientSession() as session, session.post(f"{url}/v1/group", json=body) as answer:
        assert answer.status == 200, await answer.text()
        met = await answer.json()
    return Membership(met["host"], met["port"], met["rank"], met["size"], met["backend"])


def come(member: Membership) -> ProcessGroup:
    return ProcessGroup(join_store(member.host, member.port), member)


async def test_engines_that_ask_at_once_get_it_by_one_broadcast(run: RunFolder) -> None:
    async with serving(run, groups=WeightGroups("127.0.0.1")) as url, engines(3) as fetchers:
        held = await asyncio.gather(*(fetch(fetcher, url, run, 1) for fetcher in fetchers))
    assert all(same_answers(each, run.weights(1)) for each in held)
    for fetcher in fetchers:
        assert fetcher.counters.broadcast_bytes == weight_bytes(run, 1)
        assert fetcher.counters.received_bytes <= SMALL


async def test_one_gets_what_another_wants_and_keeps_what_it_has(run: RunFolder, tmp_path: Path) -> None:
    model = load_model(run.weights(1))
    rewritten = [name for name, one in model.named_parameters() if "mlp" in name and one.numel() > 1 << 20]
    with torch.no_grad():
        for name in rewritten:
            model.get_parameter(name).mul_(1.5)
    save_weights(model, run.weights(2), 2, run.model_path, WeightsForm(shard_bytes=9 << 20))
    new = sum(entry.size for entry in read_manifest(run.weights(2)).tensors if entry.name in rewritten)
    async with serving(run, groups=WeightGroups("127.0.0.1")) as url, engines(2) as (old, fresh):
        served = await fetch(old, url, run, 1)
        before = old.counters.broadcast_bytes
        held = await asyncio.gather(fetch(old, url, run, 2, served), fetch(fresh, url, run, 2))
    assert all(same_answers(each, run.weights(2)) for each in held)
    assert old.counters.broadcast_bytes - before == new
    assert fresh.counters.broadcast_bytes == weight_bytes(run, 2)


@pytest.mark.parametrize("parts", [0, 2])
async def test_a_rank_that_is_lost_costs_the_others_nothing(run: RunFolder, parts: int) -> None:
    async with serving(run, groups=WeightGroups("127.0.0.1")) as url, engines(2) as fetchers:
        asked = asyncio.create_task(ask(url, run))
        fetches = [asyncio.create_task(fetch(fetcher, url, run, 1)) for fetcher in fetchers]

        def take_some(member: Membership) -> None:
            group, entries = come(member), read_manifest(run.weights(1)).tensors
            for entry in entries[:parts]:
                group.broadcast(memoryview(bytearray(min(PART_BYTES, entry.size)))).wait()
            group.close()

        await asyncio.to_thread(take_some, await asked)
        held = await asyncio.gather(*fetches)
        assert all(same_answers(each, run.weights(1)) for each in held)
        assert all(fetcher.counters.broadcast_bytes < weight_bytes(run, 1) for fetcher in fetchers)
        # The next group is as if nothing had been.
        async with engines(1) as (late,):
            assert same_answers(await fetch(late, url, run, 1), run.weights(1))
            assert late.counters.broadcast_bytes == weight_bytes(run, 1)


async def test_a_rank_that_does_not_come_is_waited_for_a_while_only(run: RunFolder) -> None:
    async with serving(run, groups=WeightGroups("127.0.0.1")) as url, engines(1) as (fetcher,):
        _, held = await asyncio.gather(ask(url, run), fetch(fetcher, url, run, 1))
    assert same_answers(held, run.weights(1))
    assert fetcher.counters.broadcast_bytes == 0
    assert fetcher.counters.fetch_seconds < 4 * QUIET_S


async def test_a_sender_that_is_killed_or_stops_is_replaced(run: RunFolder) -> None:
    groups = WeightGroups("127.0.0.1")
    async with serving(run, groups=groups) as url, engines(1) as (fetcher,):
        member = asyncio.create_task(ask(url, run))
        fetching = asyncio.create_task(fetch(fetcher, url, run, 1))
        idle = await asyncio.to_thread(come, await member)
        # The others wait for this rank, which takes part in nothing.
        assert groups.sender_pid is not None
        os.kill(groups.sender_pid, signal.SIGKILL)
        assert same_answers(await fetching, run.weights(1))
        idle.close()
        async with engines(1) as (late,):
            await fetch(late, url, run, 1)
            assert late.counters.broadcast_bytes == weight_bytes(run, 1)


async def test_a_damaged_shard_is_named(run: RunFolder) -> None:
    entry = next(entry for entry in read_manifest(run.weights(1)).tensors if entry.name == LARGE)
    with (run.weights(1) / entry.file).open("r+b") as file:
        file.seek(entry.offset + 77)
        file.write(b"\xff\xfe")
    async with serving(run, groups=WeightGroups("127.0.0.1")) as url, engines(2) as fetchers:
        fetches = (fetch(fetcher, url, run, 1) for fetcher in fetchers)
        errors = await asyncio.gather(*fetches, return_exceptions=True)
    for error in errors:
        assert isinstance(error, WeightsError)
        assert LARGE in str(error)
        assert "differs" in str(error)


async def test_whoever_is_cancelled_leaves_at_once(run: RunFolder) -> None:
    async with serving(run, groups=WeightGroups("127.0.0.1")) as url, engines(1) as (fetcher,):
        member = asyncio.create_task(ask(url, run))
        fetching = asyncio.create_task(fetcher.fetch(published(url, run, 1), PLACE, None))
        idle = await asyncio.to_thread(come, await member)
        await asyncio.sleep(0.5)
        started = time.monotonic()
        fetching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await fetching
        assert time.monotonic() - started < QUIET_S / 2
        idle.close()


async def test_small_changes_and_other_jobs_have_no_group(run: RunFolder) -> None:
    change(run, 2, LARGE)
    async with serving(run, groups=WeightGroups("127.0.0.1")) as url, engines(1) as (fetcher,):
        served = await fetch(fetcher, url, run, 1)
        before = fetcher.counters.broadcast_bytes
        assert same_answers(await fetch(fetcher, url, run, 2, served), run.weights(2))
        assert fetcher.counters.broadcast_bytes == before
    async with serving(run) as url, engines(1) as (fetcher,):
        assert same_answers(await fetch(fetcher, url, run, 1), run.weights(1))
        assert fetcher.counters.broadcast_bytes == 0


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="NCCL needs a GPU for each rank, and there are not two")
async def test_by_nccl_where_there_are_two_gpus(run: RunFolder) -> None:
    async with serving(run, groups=WeightGroups("127.0.0.1")) as url, engines(1) as (fetcher,):
        held = await fetcher.fetch(published(url, run, 1), Place(torch.float32, "cuda:1"), None)
    assert fetcher.counters.broadcast_bytes == weight_bytes(run, 1)
    whole = load_model(run.weights(1))
    for name, one in held.model.named_parameters():
        assert torch.equal(one.cpu(), whole.get_parameter(name)), name


@pytest.mark.parametrize(
    ("gpus", "backend"), [(["a", "b", "c"], "nccl"), (["a", "b", "a"], "gloo"), (["a", ""], "gloo"), (["", ""], "gloo")]
)
def test_nccl_is_for_ranks_with_a_gpu_each(gpus: list[str], backend: str) -> None:
    assert backend_of(gpus) == backend


async def test_one_group_at_a_time(run: RunFolder) -> None:
    groups = WeightGroups("127.0.0.1")
    joins = [asyncio.create_task(groups.join(folder, [0], "")) for folder in (run.weights(1), run.weights(2))]
    assert await joins[1] is None
    assert (await joins[0] or {})["tensors"] == [0]
    assert await groups.join(run.weights(1), [0], "") is None
    await groups.close()
    assert groups.sender_pid is None


@pytest.mark.parametrize("body", ["{", "[]", '{"tensors": ["x"], "gpu": ""}', '{"tensors": 3}'])
async def test_a_request_that_is_none_is_refused(run: RunFolder, body: str) -> None:
    async with (
        serving(run, groups=WeightGroups("127.0.0.1")) as url,
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/group", data=body) as answer,
    ):
        assert answer.status == 400
        assert "not a request for a group" in await answer.text()
