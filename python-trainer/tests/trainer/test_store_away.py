# SPDX-License-Identifier: Apache-2.0
"""Jobs whose object store is full, away, silent, or another trainer's: what is told, and what is waited for."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from object_server import ObjectServer, as_client, object_server
from stored_kit import RUN, copied, running, steps_of, stored
from trainer_client import Trainer, refused
from trainer_kit import Sampler, Stream, group, grpo_spec
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_trainer.weights.run_folder import RunFolder
from whetstone_trainer.weights.stored_run import StoredRun


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    path = tmp_path / "volume"
    path.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", path], capture_output=True).returncode != 0:
        pytest.skip("a small volume cannot be mounted here")
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


async def told(trainer: Trainer, manifest: bytes, mend: Callable[[], object], after: int = 1) -> tuple[set[str], str]:
    """Trains; mends once a notice came so often. Reasons and messages that were told, and the weights' digest."""
    said, digest = list[tuple[str, str]](), ""
    async for response in trainer.stub.TrainStep(wire.TrainStepRequest(epoch=1, manifest=manifest)):
        if response.progress.phase == "waiting":
            (notice,) = response.progress.notices
            said.append((notice.reason, notice.message))
            if len(said) == after:
                mend()
        digest = response.result.weights.manifest_digest
    return {f"{reason}: {message}" for reason, message in said}, digest


async def test_a_full_bucket_is_told_and_waited_out(
    volume: Path,
    nats_url: str,
    stream: Stream,
    sampler: Sampler,
    tmp_path: Path,
    model_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with object_server(volume) as objects:
        as_client(objects, monkeypatch)
        async with running(nats_url, tmp_path / "run") as trainer:
            await trainer.configure(stored(grpo_spec(model_path)))
            filler = volume / "filler"
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
            manifest = await stream.manifest(0, group(sampler))
            said, digest = await told(trainer, manifest, filler.unlink, after=3)
            (words,) = said
            assert words.startswith("ObjectStoreFull: No space left in the object store: s3://bucket/team/runs/uid-1/")
            assert "InsufficientStorage" in words
            await copied(objects, 1)
            assert RunFolder(tmp_path / "run", model_path).verified_digest(1) == digest


async def test_a_store_that_is_away_in_the_middle_of_an_upload(
    objects: ObjectServer, nats_url: str, stream: Stream, sampler: Sampler, tmp_path: Path, model_path: Path
) -> None:
    async with running(nats_url, tmp_path / "run") as trainer:
        await trainer.configure(stored(grpo_spec(model_path)))
        (manifest, *_), _ = await steps_of(trainer, stream, sampler, 1, objects)
        manifest = await stream.manifest(1, group(sampler, 1))
        objects.stop()
        said, _ = await told(trainer, manifest, objects.start, after=2)
        assert all(words.startswith("ObjectStoreFailing: The object store fails: s3://bucket/team/") for words in said)
        await copied(objects, 2)


async def test_a_checkpoint_is_copied_once_the_store_is_back(
    objects: ObjectServer,
    nats_url: str,
    stream: Stream,
    sampler: Sampler,
    tmp_path: Path,
    model_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The weights are there; only the copy of the checkpoint, which nobody waits for yet, meets the fault."""
    put, begun, go = StoredRun.put_checkpoint, threading.Event(), threading.Event()

    def held(self: StoredRun, *arguments: object) -> None:
        begun.set()
        assert go.wait(30)
        put(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(StoredRun, "put_checkpoint", held)
    async with running(nats_url, tmp_path / "run") as trainer:
        await trainer.configure(stored(grpo_spec(model_path)))
        await trainer.train(await stream.manifest(0, group(sampler)))
        assert begun.wait(30)
        objects.stop()
        go.set()
        await asyncio.sleep(1)
        assert not objects.file(f"{RUN}/checkpoints/step-1/state.json").exists()
        objects.start()
        await copied(objects, 1)


async def test_the_next_checkpoint_waits_for_the_copy_of_the_one_before(
    objects: ObjectServer,
    nats_url: str,
    stream: Stream,
    sampler: Sampler,
    tmp_path: Path,
    model_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put, go = StoredRun.put_checkpoint, threading.Event()

    def held(self: StoredRun, *arguments: object) -> None:
        assert go.wait(30)
        put(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(StoredRun, "put_checkpoint", held)
    async with running(nats_url, tmp_path / "run") as trainer:
        await trainer.configure(stored(grpo_spec(model_path)))
        await trainer.train(await stream.manifest(0, group(sampler)))
        second = asyncio.create_task(trainer.train(await stream.manifest(1, group(sampler, 1))))
        done, _ = await asyncio.wait([second], timeout=1.5)
        assert not done
        assert not (tmp_path / "run/checkpoints/step-2").exists()
        go.set()
        await second
        assert (tmp_path / "run/checkpoints/step-2").exists()


async def test_the_last_checkpoint_is_in_the_store_before_the_step_is_done(
    objects: ObjectServer, nats_url: str, stream: Stream, sampler: Sampler, tmp_path: Path, model_path: Path
) -> None:
    async with running(nats_url, tmp_path / "run") as trainer:
        await trainer.configure(stored(grpo_spec(model_path, steps=1)))
        manifest = await stream.manifest(0, group(sampler))
        async for _ in trainer.stub.TrainStep(wire.TrainStepRequest(epoch=1, manifest=manifest)):
            pass
        assert objects.file(f"{RUN}/checkpoints/step-1/state.json").exists()


async def test_a_store_that_is_away_is_said_before_anything_starts(
    objects: ObjectServer, nats_url: str, tmp_path: Path, model_path: Path
) -> None:
    async with running(nats_url, tmp_path / "run") as trainer:
        objects.stop()
        error = await refused(asyncio.ensure_future(trainer.configure(stored(grpo_spec(model_path)))))
        assert error.code() == grpc.StatusCode.UNAVAILABLE
        assert "The object store fails: s3://bucket/team/runs/uid-1/" in (error.details() or "")
        objects.start()
        assert (await trainer.configure(stored(grpo_spec(model_path)), epoch=2)).step == 0


async def test_a_key_that_is_refused_is_said_with_the_store_s_words(
    objects: ObjectServer, nats_url: str, tmp_path: Path, model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_client(objects, monkeypatch, "another secret")
    async with running(nats_url, tmp_path / "run") as trainer:
        error = await refused(asyncio.ensure_future(trainer.configure(stored(grpo_spec(model_path)))))
        assert error.code() == grpc.StatusCode.UNAVAILABLE
        assert "writer.json: SignatureDoesNotMatch: " in (error.details() or "")


async def test_a_store_that_stands_still_for_a_while_is_waited_for(
    objects: ObjectServer, nats_url: str, stream: Stream, sampler: Sampler, tmp_path: Path, model_path: Path
) -> None:
    async with running(nats_url, tmp_path / "run") as trainer:
        await trainer.configure(stored(grpo_spec(model_path)))
        objects.freeze(True)
        step = asyncio.create_task(trainer.train(await stream.manifest(0, group(sampler))))
        done, _ = await asyncio.wait([step], timeout=3)
        assert not done
        objects.freeze(False)
        await step
        await copied(objects, 1)


async def test_who_lost_the_run_writes_nothing_more(
    objects: ObjectServer, nats_url: str, stream: Stream, sampler: Sampler, tmp_path: Path, model_path: Path
) -> None:
    async with running(nats_url, tmp_path / "run") as former, running(nats_url, tmp_path / "other") as latter:
        await former.configure(stored(grpo_spec(model_path)))
        await latter.configure(stored(grpo_spec(model_path)))
        manifest = await stream.manifest(0, group(sampler))
        with pytest.raises(grpc.aio.AioRpcError, match="written by another trainer"):
            await former.train(manifest)
        assert not objects.file(f"{RUN}/weights/v1").exists()
        await latter.train(manifest)
        assert objects.file(f"{RUN}/weights/v1/manifest.json").exists()


async def test_a_store_that_is_silent_is_not_waited_for_in_vain(
    objects: ObjectServer, nats_url: str, stream: Stream, sampler: Sampler, tmp_path: Path, model_path: Path
) -> None:
    """The trainer ends although the copy of a checkpoint hangs."""
    async with running(nats_url, tmp_path / "run") as trainer:
        await trainer.configure(stored(grpo_spec(model_path)))
        await steps_of(trainer, stream, sampler, 1, objects)
        objects.freeze(True)
        started = time.monotonic()
    assert time.monotonic() - started < 10
    objects.freeze(False)
