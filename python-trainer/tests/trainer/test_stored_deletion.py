# SPDX-License-Identifier: Apache-2.0
"""What an object store holds of a run: listed, and deleted for good, also while it is written or the store fails."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import grpc
import pytest
from object_server import ObjectServer, open_store
from stored_kit import RUN, running, steps_of, stored
from trainer_client import Trainer, refused
from trainer_kit import UID, Sampler, Stream, group, grpo_spec
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_trainer.weights.stored_run import StoredRun

URL = f"s3://bucket/team/{RUN}/weights"


async def held(trainer: Trainer, uid: str = UID, url: str = URL) -> wire.GetStoredRunResponse:
    return await trainer.stub.GetStoredRun(wire.GetStoredRunRequest(job_uid=uid, url=url))


async def delete(trainer: Trainer, uid: str = UID, url: str = URL) -> None:
    await trainer.stub.DeleteStoredRun(wire.DeleteStoredRunRequest(job_uid=uid, url=url))


async def refusal(trainer: Trainer, uid: str, url: str = "") -> str:
    error = await refused(asyncio.ensure_future(delete(trainer, uid, url)))
    assert error.code() in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT)
    return error.details() or ""


async def test_a_run_is_listed_and_goes_whole_and_nothing_else(
    objects: ObjectServer,
    nats_url: str,
    stream: Stream,
    sampler: Sampler,
    tmp_path: Path,
    model_path: Path,
) -> None:
    async with running(nats_url, tmp_path / "run") as trainer:
        await trainer.configure(stored(grpo_spec(model_path)))
        await steps_of(trainer, stream, sampler, 2, objects)
        others = (f"runs/{UID}-2/weights/v1/manifest.json", f"runs/{UID}2/writer.json")
        for name in others:
            open_store().put(name, b"{}")
        objects.file(f"{RUN}/checkpoints/step-1/state.json").unlink()  # One that is not whole.
        there = await held(trainer)
        (newest,) = there.checkpoints
        assert (newest.step, newest.policy_version) == (2, 2)
        assert newest.path == f"s3://bucket/team/{RUN}/checkpoints/step-2"
        assert newest.model_path == f"{URL}/v2"
        assert newest.created_at.seconds > 1.7e9
        assert (there.versions, there.state) == (2, b"")
        asked = wire.GetStoredRunRequest(job_uid=UID, with_state=True)
        state = (await trainer.stub.GetStoredRun(asked)).state
        assert state == (tmp_path / "run/checkpoints/step-2/state.json").read_bytes()
        files = [path for path in objects.file(RUN).rglob("*") if path.is_file()]
        assert (there.objects, there.bytes) == (len(files), sum(path.stat().st_size for path in files))
        await delete(trainer)
        await delete(trainer)  # Safe to repeat.
        assert [path for path in objects.file(RUN).rglob("*") if path.is_file()] == []
        assert await held(trainer) == wire.GetStoredRunResponse()
        assert all(objects.file(name).is_file() for name in others)


async def test_who_asks_the_wrong_trainer_is_told(
    objects: ObjectServer,
    nats_url: str,
    tmp_path: Path,
    trainer: Trainer,
) -> None:
    assert f"the run is in {URL}, and the trainer has none: start it with --object-store" in await refusal(
        trainer, UID, URL
    )
    async with running(nats_url, tmp_path / "run") as other:
        elsewhere = f"s3://elsewhere/{RUN}/weights"
        assert "the trainer's object store is s3://bucket/team" in await refusal(other, UID, elsewhere)
        open_store().put("runs/x/weights/v1/file", b"kept")
        for uid in ("", "..", ".", "x/weights"):
            assert "is no job's uid" in await refusal(other, uid)
        assert objects.file("runs/x/weights/v1/file").is_file()


async def test_a_store_that_fails_is_said_and_the_same_call_does_the_rest(
    objects: ObjectServer,
    nats_url: str,
    stream: Stream,
    sampler: Sampler,
    tmp_path: Path,
    model_path: Path,
) -> None:
    async with running(nats_url, tmp_path / "run") as trainer:
        await trainer.configure(stored(grpo_spec(model_path)))
        await steps_of(trainer, stream, sampler, 1, objects)
        objects.stop()
        error = await refused(asyncio.ensure_future(delete(trainer)))
        assert error.code() == grpc.StatusCode.UNAVAILABLE
        assert f"the object store fails: s3://bucket/team/{RUN}" in (error.details() or "")
        objects.start()
        await delete(trainer)
        assert (await held(trainer)).objects == 0


async def test_a_copy_that_is_being_made_does_not_come_back(
    objects: ObjectServer,
    nats_url: str,
    stream: Stream,
    sampler: Sampler,
    tmp_path: Path,
    model_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put, begun, go = StoredRun.put_checkpoint, threading.Event(), threading.Event()

    def slow(self: StoredRun, *arguments: object) -> None:
        begun.set()
        go.wait(30)
        put(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(StoredRun, "put_checkpoint", slow)
    async with running(nats_url, tmp_path / "run") as trainer:
        await trainer.configure(stored(grpo_spec(model_path)))
        await trainer.train(await stream.manifest(0, group(sampler)))
        assert await asyncio.to_thread(begun.wait, 30)
        copies = trainer.server.state.run
        assert copies is not None
        deleting = asyncio.create_task(delete(trainer))
        await asyncio.sleep(0.5)
        assert not deleting.done()
        go.set()
        await deleting
        await asyncio.to_thread(copies.end_copies)
        assert (await held(trainer)).objects == 0


async def test_another_trainer_that_still_writes_stops(
    objects: ObjectServer,
    nats_url: str,
    stream: Stream,
    sampler: Sampler,
    tmp_path: Path,
    model_path: Path,
) -> None:
    async with running(nats_url, tmp_path / "run") as writer, running(nats_url, tmp_path / "other") as trainer:
        await writer.configure(stored(grpo_spec(model_path)))
        await steps_of(writer, stream, sampler, 1, objects)
        await delete(trainer)
        step = writer.train(await stream.manifest(1, group(sampler, 1)))
        error = await refused(asyncio.ensure_future(step))
        assert "has been deleted" in (error.details() or "")
        assert (await held(trainer)).objects == 0
