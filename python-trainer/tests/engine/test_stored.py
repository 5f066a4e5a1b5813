# SPDX-License-Identifier: Apache-2.0
"""Weights out of a real object store: what is fetched, and what happens when the store or an object fails."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
from iep_target import Api, choice, start_engine
from object_server import ObjectServer, as_client, object_server, open_store
from stream_kit import LARGE, PLACE, change, fetch, make_run, same_answers, weight_bytes

from whetstone_engine.weights.fetcher import Fetcher
from whetstone_engine.weights.stream import Published
from whetstone_models.errors import WeightsError
from whetstone_models.manifest import read_manifest
from whetstone_store.transfer import TransferError
from whetstone_trainer.weights.run_folder import RunFolder, manifest_digest
from whetstone_trainer.weights.stored_run import StoredRun

SMALL = 64 << 10
BASE = "runs/uid-1/weights"
URL = f"s3://bucket/team/{BASE}"


@pytest.fixture
def objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    with object_server(tmp_path / "objects") as server:
        as_client(server, monkeypatch)
        yield server


@pytest.fixture
def run(tmp_path: Path, objects: ObjectServer) -> RunFolder:
    """Versions 1 and 2, which are in the store and nowhere else that an engine sees."""
    run = make_run(tmp_path)
    change(run, 2, LARGE)
    stored = StoredRun(open_store(), run, "uid-1")
    stored.claim()
    for version in (1, 2):
        stored.put_weights(version)
    return run


@contextlib.asynccontextmanager
async def fetching(folder: Path | None = None) -> AsyncIterator[Fetcher]:
    fetcher = Fetcher(folder, None, open_store())
    try:
        yield fetcher
    finally:
        await fetcher.close()


def place_of(objects: ObjectServer, run: RunFolder, name: str = LARGE) -> tuple[Path, int]:
    """File and first byte of a tensor of version 1."""
    entry = next(one for one in read_manifest(run.weights(1)).tensors if one.name == name)
    return objects.file(f"{BASE}/v1/{entry.file}"), entry.offset


async def test_a_version_is_fetched_whole_then_only_what_changed(run: RunFolder, tmp_path: Path) -> None:
    async with fetching(tmp_path / "store") as fetcher:
        served = await fetch(fetcher, URL, run, 1)
        assert same_answers(served, run.weights(1))
        received = fetcher.counters.received_bytes
        assert weight_bytes(run, 1) <= received <= weight_bytes(run, 1) + SMALL
        assert same_answers(await fetch(fetcher, URL, run, 2, served), run.weights(2))
        assert 1 << 20 <= fetcher.counters.received_bytes - received <= (1 << 20) + SMALL


async def test_a_damaged_object_is_refused_by_tensor_and_name(run: RunFolder, objects: ObjectServer) -> None:
    shard, at = place_of(objects, run)
    data = bytearray(shard.read_bytes())
    data[at + 5] ^= 1
    shard.write_bytes(data)
    async with fetching() as fetcher:
        with pytest.raises(WeightsError, match=rf"{LARGE}: content differs .* {URL}/v1/{shard.name} is damaged"):
            await fetch(fetcher, URL, run, 1)


async def test_an_object_that_is_cut_short_is_refused_by_byte_and_name(run: RunFolder, objects: ObjectServer) -> None:
    shard, at = place_of(objects, run)
    shard.write_bytes(shard.read_bytes()[: at + 1000])
    async with fetching() as fetcher:
        said = rf"{shard.name}: {URL}/v1 answered 416: it ends before byte {at + 1000}"
        with pytest.raises(TransferError, match=said):
            await fetch(fetcher, URL, run, 1)


async def test_a_version_that_is_gone_and_a_key_that_is_refused_are_told(
    run: RunFolder, objects: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fetching() as fetcher:
        with pytest.raises(TransferError, match=rf"{URL}/v9 answered 404: NoSuchKey: "):
            await fetcher.fetch(Published(f"{URL}/v9", "beef"), PLACE, None)
        with pytest.raises(
            TransferError, match=r"s3://other/v1 is not in the object store of this engine, s3://bucket"
        ):
            await fetcher.fetch(Published("s3://other/v1", "beef"), PLACE, None)
    as_client(objects, monkeypatch, "another secret")
    async with fetching() as fetcher:
        with pytest.raises(TransferError, match=rf"{URL}/v1 answered 403: SignatureDoesNotMatch: "):
            await fetch(fetcher, URL, run, 1)
    without = Fetcher(None, None)
    with pytest.raises(TransferError, match="is in an object store; start this engine with --object-store"):
        await fetch(without, URL, run, 1)


async def test_a_store_that_is_away_in_the_middle_is_said_and_what_came_is_kept(
    run: RunFolder, objects: ObjectServer, tmp_path: Path
) -> None:
    async with fetching(tmp_path / "store") as fetcher:
        broken = asyncio.create_task(fetch(fetcher, URL, run, 1))
        while not any((tmp_path / "store/tensors").glob("[!.]*[!p]")):
            await asyncio.sleep(0.001)
        objects.stop()
        with pytest.raises(TransferError, match="broke off 6 times at byte"):
            await broken
        received = fetcher.counters.received_bytes
        objects.start()
        assert same_answers(await fetch(fetcher, URL, run, 1), run.weights(1))
        assert fetcher.counters.received_bytes - received < weight_bytes(run, 1)


async def test_a_store_that_is_slow_is_waited_for(run: RunFolder, objects: ObjectServer) -> None:
    """It stands still for two seconds, again and again, and gives bytes for a moment in between."""
    over, rests = threading.Event(), 0

    def brake() -> None:
        nonlocal rests
        while not over.is_set() and rests < 3:
            objects.freeze(True)
            over.wait(2)
            objects.freeze(False)
            rests += 1
            over.wait(0.01)

    thread = threading.Thread(target=brake)
    thread.start()
    try:
        started = time.monotonic()
        async with fetching() as fetcher:
            assert same_answers(await fetch(fetcher, URL, run, 1), run.weights(1))
            assert fetcher.counters.received_bytes <= weight_bytes(run, 1) + SMALL
        assert time.monotonic() - started >= 2
    finally:
        over.set()
        thread.join()


async def test_an_engine_stages_what_is_in_the_store(run: RunFolder, tmp_path: Path) -> None:
    name = "/trainer/only/v2"
    option = ("--object-store", "s3://bucket/team")
    with start_engine(run.weights(1), tmp_path / "log", *option) as (address, _):
        async with aiohttp.ClientSession() as session:
            api = Api(session, address)
            status, models = await api.get("/v1/models")
            can = {"object_store": "s3://bucket/team", "names_support": ["top_p", "top_k", "min_p"]}
            assert (status, models["data"][0] | can) == (200, models["data"][0])
            stream = {"url": f"{URL}/v2", "manifest_digest": manifest_digest(run.weights(2))}
            status, body = await api.post("/stage_weights", {"weights_path": name, "stream": stream})
            assert (status, body) == (200, {"success": True})
            await api.switch(Path(name), "v2")
            after = choice(await api.generate([256, 65, 257], max_tokens=8))
            assert after["weight_versions"][0]["version"] == "v2"
