# SPDX-License-Identifier: Apache-2.0
"""Weights over HTTP from the trainer: what is fetched, and what happens when something breaks."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
import torch
from authorities import OPENSSL, Authority
from iep_target import Api, choice, start_engine, start_stream
from stream_kit import (
    LARGE,
    PLACE,
    Cutter,
    change,
    fetch,
    fetching,
    make_run,
    published,
    same_answers,
    serving,
    weight_bytes,
)

from whetstone_engine.weights.bases import changed_ranges
from whetstone_engine.weights.stream import Published, run_ends
from whetstone_engine.weights.sums import block_sums, copy_checked
from whetstone_models.errors import ManifestError, ModelError, WeightsError
from whetstone_models.manifest import read_manifest
from whetstone_models.tensors import TensorEntry
from whetstone_store.transfer import TransferError
from whetstone_tls import TlsIdentity
from whetstone_trainer.weights.run_folder import RunFolder

# Manifest, blocks and configuration of these small models.
SMALL = 64 << 10


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return make_run(tmp_path)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


async def test_a_version_is_fetched_whole_then_only_what_changed(run: RunFolder, tmp_path: Path) -> None:
    change(run, 2, LARGE)
    async with serving(run) as url, fetching(tmp_path / "store") as fetcher:
        assert same_answers(await fetch(fetcher, url, run, 1), run.weights(1))
        received = fetcher.counters.received_bytes
        assert weight_bytes(run, 1) <= received <= weight_bytes(run, 1) + SMALL
        # Nothing is served yet, so that all of it comes from the store but one block.
        assert same_answers(await fetch(fetcher, url, run, 2), run.weights(2))
        assert 1 << 20 <= fetcher.counters.received_bytes - received <= (1 << 20) + SMALL


async def test_an_engine_that_was_started_again_finds_what_it_had(run: RunFolder, tmp_path: Path) -> None:
    async with serving(run) as url:
        for most in (weight_bytes(run, 1) + SMALL, SMALL):
            async with fetching(tmp_path / "store") as fetcher:
                assert same_answers(await fetch(fetcher, url, run, 1), run.weights(1))
                assert fetcher.counters.received_bytes <= most


async def test_what_is_served_is_shared_and_the_store_holds_one_version(run: RunFolder, tmp_path: Path) -> None:
    change(run, 2, LARGE)
    async with serving(run) as url, fetching(tmp_path / "store") as fetcher:
        served = await fetch(fetcher, url, run, 1)
        staged = await fetch(fetcher, url, run, 2, served)
    names = [name for name, one in staged.model.named_parameters() if one is not served.model.get_parameter(name)]
    assert names == [LARGE]
    assert same_answers(staged, run.weights(2))
    kept = {path.name for path in (tmp_path / "store/tensors").iterdir()}
    assert kept == {entry.sha256 for entry in read_manifest(run.weights(2)).tensors}


async def test_without_a_store_the_served_version_is_the_base(run: RunFolder) -> None:
    change(run, 2, LARGE, "model.layers.0.self_attn.k_proj.weight")
    async with serving(run) as url, fetching(None) as fetcher:
        served = await fetch(fetcher, url, run, 1)
        received = fetcher.counters.received_bytes
        staged = await fetch(fetcher, url, run, 2, served)
        # A block of each; k is smaller than one.
        assert fetcher.counters.received_bytes - received < (1 << 20) + (256 << 10) + SMALL
        assert same_answers(staged, run.weights(2))
        assert same_answers(served, run.weights(1))
        # Memory that is not what its digest says is found out, and the tensor comes whole.
        with torch.no_grad():
            served.model.get_parameter(LARGE)[0, 0] += 1
        received = fetcher.counters.received_bytes
        assert same_answers(await fetch(fetcher, url, run, 2, served), run.weights(2))
        assert fetcher.counters.received_bytes - received > 8 << 20


async def test_what_was_fetched_of_a_tensor_is_checked(run: RunFolder) -> None:
    change(run, 2, LARGE)
    entry = next(entry for entry in read_manifest(run.weights(2)).tensors if entry.name == LARGE)
    async with serving(run) as url, fetching(None) as fetcher:
        served = await fetch(fetcher, url, run, 1)
        flip(run.weights(2) / entry.file, entry.offset + entry.size - 9)
        with pytest.raises(WeightsError, match=f"{LARGE}: content differs from the digest"):
            await fetch(fetcher, url, run, 2, served)
        flip(run.weights(2) / entry.file, entry.offset + entry.size - 9)
        assert same_answers(await fetch(fetcher, url, run, 2, served), run.weights(2))


async def test_a_delta_of_a_delta_knows_the_sums_of_all_of_it(run: RunFolder) -> None:
    for version in (2, 3):
        change(run, version, LARGE)
    async with serving(run) as url, fetching(None) as fetcher:
        held = await fetch(fetcher, url, run, 1)
        for version in (2, 3):
            held = await fetch(fetcher, url, run, version, held)
        assert same_answers(held, run.weights(3))
        whole = await fetch(fetcher, url, run, 3)
    assert held.sums == whole.sums
    assert len(whole.sums[LARGE]) == 8


@pytest.mark.parametrize("size", [0, 5, 8, 1000, 4096 + 3])
def test_a_sum_finds_any_byte_that_is_another(size: int) -> None:
    source = bytearray(range(256)) * (1 + size // 256)
    view = memoryview(source)[:size]
    sums, target = block_sums(view, 1024), memoryview(bytearray(size))
    assert copy_checked(view, target, 1024, sums)
    assert target == view
    for at in range(0, size, 97):
        view[at] ^= 0x80
        assert not copy_checked(view, target, 1024, sums)
        view[at] ^= 0x80


@pytest.mark.parametrize("damage", ["gone", "changed", "no blocks"])
async def test_without_a_whole_base_all_of_it_is_fetched(run: RunFolder, tmp_path: Path, damage: str) -> None:
    change(run, 2, LARGE)
    base = next(entry for entry in read_manifest(run.weights(1)).tensors if entry.name == LARGE)
    async with serving(run) as url, fetching(tmp_path / "store") as fetcher:
        await fetch(fetcher, url, run, 1)
        path, received = tmp_path / "store/tensors" / base.sha256, fetcher.counters.received_bytes
        if damage == "gone":
            path.unlink()
        elif damage == "changed":
            flip(path, 77)
        else:
            (tmp_path / "store/version/blocks.json").write_text("{")
        assert same_answers(await fetch(fetcher, url, run, 2), run.weights(2))
        assert fetcher.counters.received_bytes - received >= base.size


async def test_a_broken_transfer_goes_on_at_its_last_byte(run: RunFolder, tmp_path: Path) -> None:
    async with serving(run) as url:
        parts = urlsplit(url)
        cutter = Cutter(parts.port or 0, 5_000_003, times=3)
        async with cutter as port, fetching(tmp_path / "store") as fetcher:
            held = await fetch(fetcher, f"http://127.0.0.1:{port}{parts.path}", run, 1)
            assert same_answers(held, run.weights(1))
            # No byte came twice.
            assert fetcher.counters.received_bytes <= weight_bytes(run, 1) + SMALL
            assert fetcher.counters.resumed >= 3
    assert cutter.left == 0
    begins = [int(line.partition("=")[2].partition("-")[0]) for line in cutter.ranges]
    starts = {0, *(entry.offset for entry in read_manifest(run.weights(1)).tensors)}
    assert len([begin for begin in begins if begin not in starts]) >= 2, "it went on within tensors"


async def test_one_that_stays_broken_says_so_and_what_came_is_kept(run: RunFolder, tmp_path: Path) -> None:
    async with serving(run) as url, fetching(tmp_path / "store") as fetcher:
        parts = urlsplit(url)
        async with Cutter(parts.port or 0, 20_000_000, times=1) as port:
            broken = asyncio.create_task(fetch(fetcher, f"http://127.0.0.1:{port}{parts.path}", run, 1))
            while not any((tmp_path / "store/tensors").glob("[!.]*[!p]")):
                await asyncio.sleep(0.01)
        with pytest.raises(TransferError, match="is it there"):
            await broken
        received = fetcher.counters.received_bytes
        assert same_answers(await fetch(fetcher, url, run, 1), run.weights(1))
        assert fetcher.counters.received_bytes - received < weight_bytes(run, 1)


async def test_a_damaged_shard_is_refused_by_tensor_and_file(run: RunFolder, tmp_path: Path) -> None:
    entry = next(one for one in read_manifest(run.weights(1)).tensors if one.name == LARGE)
    shard = run.weights(1) / entry.file
    flip(shard, entry.offset + 5)
    async with serving(run) as url, fetching(tmp_path / "store") as fetcher:
        with pytest.raises(WeightsError, match=rf"{LARGE}: content differs .* {url}/v1/{entry.file} is damaged"):
            await fetch(fetcher, url, run, 1)
        assert not (tmp_path / "store/tensors" / entry.sha256).exists()
        flip(shard, entry.offset + 5)
        assert same_answers(await fetch(fetcher, url, run, 1), run.weights(1))


async def test_another_manifest_than_was_announced_is_refused(run: RunFolder, tmp_path: Path) -> None:
    async with serving(run) as url, fetching(tmp_path / "store") as fetcher:
        with pytest.raises(ManifestError, match="expected beef"):
            await fetcher.fetch(Published(f"{url}/v1", "beef"), PLACE, None)


@pytest.mark.parametrize(
    ("url", "said"),
    [("{url}/v9", "404: manifest.json of version 9 is not there"), ("{url}/v0", "404"), ("ftp://x/v1", "not an http")],
)
async def test_what_is_not_there_is_said(run: RunFolder, tmp_path: Path, url: str, said: str) -> None:
    async with serving(run) as base, fetching(tmp_path / "store") as fetcher:
        with pytest.raises(TransferError, match=said):
            await fetcher.fetch(Published(url.format(url=base), "beef"), PLACE, None)


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB."""
    path = tmp_path / "volume"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", path], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("a small volume cannot be mounted here")
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


async def test_a_full_disk_is_said_and_what_came_is_kept(run: RunFolder, volume: Path) -> None:
    async with serving(run) as url, fetching(volume / "store") as fetcher:
        with pytest.raises(ModelError, match=r"weights-dir: No space left on device: .* free some"):
            await fetch(fetcher, url, run, 1)
        received = fetcher.counters.received_bytes
        assert not list(volume.glob("store/tensors/*.tmp"))
        subprocess.run(["mount", "-o", "remount,size=64m", volume], check=True)
        assert same_answers(await fetch(fetcher, url, run, 1), run.weights(1))
        assert fetcher.counters.received_bytes - received < weight_bytes(run, 1)


async def test_a_disk_that_is_full_before_anything_is_kept_is_said_too(run: RunFolder, volume: Path) -> None:
    subprocess.run(["mount", "-o", "remount,nr_inodes=1", volume], check=True)
    async with serving(run) as url, fetching(volume / "store") as fetcher:
        with pytest.raises(ModelError, match=r"weights-dir: No space left on device: .*/store, .* MiB free"):
            await fetch(fetcher, url, run, 1)
        subprocess.run(["mount", "-o", "remount,nr_inodes=0,size=64m", volume], check=True)
        assert same_answers(await fetch(fetcher, url, run, 1), run.weights(1))


async def test_whoever_stops_waiting_ends_the_transfer(run: RunFolder, tmp_path: Path) -> None:
    """Against a server that never answers."""

    async def quiet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await reader.read()
        writer.close()

    server = await asyncio.start_server(quiet, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/weights/uid-1"
    async with server, fetching(tmp_path / "store") as fetcher:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(fetcher.fetch(published(url, run, 1), PLACE, None), 0.3)


async def test_a_store_is_one_engine_s(run: RunFolder, tmp_path: Path) -> None:
    async with serving(run) as url, fetching(tmp_path / "store") as first, fetching(tmp_path / "store") as second:
        await fetch(first, url, run, 1)
        with pytest.raises(ModelError, match="belongs to another engine"):
            await fetch(second, url, run, 1)


@pytest.mark.skipif(OPENSSL is None, reason="certificates are made by openssl")
async def test_only_engines_are_served_where_there_are_certificates(run: RunFolder, tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "ca")
    roles = {
        role: TlsIdentity(authority.issue(tmp_path / role, f"{role}.whetstone"))
        for role in ("trainer", "engine", "gateway")
    }
    async with serving(run, roles["trainer"]) as url:
        assert url.startswith("https://")
        async with fetching(tmp_path / "store", roles["engine"]) as fetcher:
            assert same_answers(await fetch(fetcher, url, run, 1), run.weights(1))
        async with fetching(tmp_path / "store", roles["gateway"]) as fetcher:
            with pytest.raises(TransferError, match="403: only engines"):
                await fetch(fetcher, url, run, 1)
        async with fetching(tmp_path / "store") as fetcher:
            with pytest.raises(TransferError, match="needs certificates"):
                await fetch(fetcher, url, run, 1)
    # Whoever is no trainer is given no bytes to believe.
    async with serving(run, roles["gateway"]) as url, fetching(tmp_path / "store", roles["engine"]) as fetcher:
        with pytest.raises(TransferError, match="certificate"):
            await fetch(fetcher, url, run, 1)


async def test_an_engine_stages_a_stream_while_it_samples(run: RunFolder, tmp_path: Path) -> None:
    """The trainer's folder is named, and is nowhere that this engine could see."""
    change(run, 2, LARGE)
    name = "/trainer/only/v2"
    with start_engine(run.weights(1), tmp_path / "log", "--weights-dir", str(tmp_path / "store")) as (address, _):
        async with serving(run) as url, aiohttp.ClientSession() as session:
            api = Api(session, address)
            running = await start_stream(api, [256, 65, 257], max_tokens=200)
            stream = {"url": f"{url}/v2", "manifest_digest": published(url, run, 2).manifest_digest}
            status, body = await api.post("/stage_weights", {"weights_path": name, "stream": stream})
            assert (status, body) == (200, {"success": True})
            assert choice((await running)[-1])["finish_reason"] == "length"
            before = choice(await api.generate([256, 65, 257], max_tokens=8))
            await api.switch(Path(name), "v2")
            after = choice(await api.generate([256, 65, 257], max_tokens=8))
            assert (before["weight_versions"][0]["version"], after["weight_versions"][0]["version"]) == (
                "default",
                "v2",
            )
            status, text = await api.get("/metrics")
            values = dict(re.findall(r"^whetstone_engine_(\w+)\{.*\} (\S+)$", text, re.MULTILINE))
            assert float(values["weight_transfer_bytes_total"]) < weight_bytes(run, 2)
            assert float(values["weight_transfer_seconds_total"]) > 0
            assert 0 < float(values["paused_seconds_total"]) < 10
            status, body = await api.post("/stage_weights", {"weights_path": name, "stream": {"url": f"{url}/v9"}})
            assert (status, body["error"]["param"]) == (400, "body.stream")
            stream["url"] = f"{url}/v9"
            status, body = await api.post("/stage_weights", {"weights_path": name, "stream": stream})
            assert status == 500
            assert "stage_weights: manifest.json" in body["error"]["message"]


def test_changed_blocks_are_joined_and_too_many_are_none() -> None:
    old, new = list("abcdefgh"), list("aBCdefgH")
    assert changed_ranges(old, new, 10, 75) == [(10, 30), (70, 75)]
    assert changed_ranges(old, list("ABCDEfgh"), 10, 75) is None
    assert changed_ranges(old, new[:-1], 10, 75) is None
    assert changed_ranges(old, new, 0, 75) is None


def test_neighbours_come_with_one_request() -> None:
    def entry(name: str, file: str, offset: int) -> TensorEntry:
        return TensorEntry(name, file, "U8", (10,), offset, 10, "")

    entries = [entry("a", "1", 8), entry("b", "1", 18), entry("d", "1", 38), entry("e", "2", 48)]
    assert run_ends(entries) == {"a": 28, "b": 28, "d": 48, "e": 58}
