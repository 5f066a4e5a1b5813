# SPDX-License-Identifier: Apache-2.0
"""What the trainer refuses, with which status, and that nothing is trained by it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path

import grpc
import pytest
from trainer_client import Trainer, probability, refused, start
from trainer_kit import (
    Sampler,
    Stream,
    free_port,
    group,
    grpo_spec,
    manifest_of,
)
from whetstone.events.v1 import events_pb2 as events
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_trainer.weights.run_folder import RunFolder


async def test_another_manifest_for_a_done_step_and_a_step_too_early_are_refused(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    await trainer.configure(grpo_spec(model_path))
    entries = [await stream.publish(episode) for episode in group(sampler)]
    await trainer.train(manifest_of(0, entries))
    for step, words in ((0, "was done with manifest"), (2, "step 1 is next")):
        error = await refused(asyncio.ensure_future(trainer.train(manifest_of(step, entries[:2]))))
        assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
        assert words in (error.details() or "")


async def test_fencing(trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path) -> None:
    error = await refused(asyncio.ensure_future(trainer.train(b"")))
    assert error.code() == grpc.StatusCode.UNAVAILABLE
    await trainer.configure(grpo_spec(model_path), epoch=2)
    manifest = await stream.manifest(0, group(sampler))
    for call in (trainer.train(manifest, epoch=1), trainer.configure(grpo_spec(model_path), epoch=1)):
        error = await refused(asyncio.ensure_future(call))
        assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
        trailer = dict(error.trailing_metadata() or ())["whetstone-error-bin"]
        assert json.loads(trailer)["code"] == "STALE_EPOCH"
    assert (await trainer.train(manifest, epoch=3)).step == 0


async def test_a_trainer_whose_job_another_one_has_by_now_writes_nothing(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    await trainer.configure(grpo_spec(model_path))
    manifest = await stream.manifest(0, group(sampler))
    RunFolder(trainer.run_path, model_path).claim("uid-1", 2)
    error = await refused(asyncio.ensure_future(trainer.train(manifest)))
    assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert "epoch 1 is older than 2" in (error.details() or "")
    assert not list(trainer.run_path.glob("weights/*"))
    assert not list(trainer.run_path.glob("checkpoints/*"))
    await trainer.configure(grpo_spec(model_path), epoch=3)
    assert (await trainer.train(manifest, epoch=3)).step == 0


async def test_another_jobs_run_folder_is_refused(trainer: Trainer, model_path: Path, nats_url: str) -> None:
    await trainer.configure(grpo_spec(model_path))
    error = await refused(asyncio.ensure_future(trainer.configure(grpo_spec(model_path), uid="uid-2")))
    assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert "belongs to job uid-1" in (error.details() or "")


async def test_bad_settings_name_their_field(trainer: Trainer, model_path: Path) -> None:
    spec = grpo_spec(model_path)
    spec.algorithm.policy_gradient.optimizer.learning_rate = -1
    error = await refused(asyncio.ensure_future(trainer.configure(spec)))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert error.details() == "algorithm.policyGradient.optimizer.learningRate: must be above 0 and at most 1, got -1"


async def test_a_failure_while_training_leaves_no_trace(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await trainer.configure(grpo_spec(model_path))
    await trainer.train(await stream.manifest(0, group(sampler)))
    before = await probability(trainer, 70)

    def fails(*_: object) -> None:
        raise RuntimeError("disk full")

    manifest = await stream.manifest(1, group(sampler, 1))
    with monkeypatch.context() as patch:
        patch.setattr("whetstone_trainer.backends.local.policy.save_weights", fails)
        error = await refused(asyncio.ensure_future(trainer.train(manifest)))
    assert (error.code(), "disk full" in (error.details() or "")) == (grpc.StatusCode.INTERNAL, False)
    assert await probability(trainer, 70) == before
    assert (await trainer.train(manifest)).step == 1


async def test_a_server_that_is_behind_is_asked_again(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    await trainer.configure(grpo_spec(model_path))
    *first, last = group(sampler)
    entries = [await stream.publish(episode) for episode in first]
    digest = hashlib.sha256(last.SerializeToString()).hexdigest()
    late = events.BatchEntry(episode_id=last.id, group=last.group, sequence=entries[-1].sequence + 1, digest=digest)
    late.reward = last.reward
    training = asyncio.ensure_future(trainer.train(manifest_of(0, [*entries, late])))
    await asyncio.sleep(0.8)
    assert not training.done()
    assert (await stream.publish(last)).sequence == late.sequence
    assert (await training).step == 0


async def test_without_its_stream_a_step_is_unavailable(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    await trainer.configure(grpo_spec(model_path))
    manifest = await stream.manifest(0, group(sampler))
    await stream.js.delete_stream("WS_EPISODE_toy")
    error = await refused(asyncio.ensure_future(trainer.train(manifest)))
    assert error.code() == grpc.StatusCode.UNAVAILABLE
    await stream.create()


async def test_an_episode_listed_twice_is_refused(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    await trainer.configure(grpo_spec(model_path))
    entries = [await stream.publish(episode) for episode in group(sampler)]
    error = await refused(asyncio.ensure_future(trainer.train(manifest_of(0, [*entries, entries[0]]))))
    assert "listed twice (I1)" in (error.details() or "")


async def test_a_restarted_trainer_still_knows_the_epoch(trainer: Trainer, model_path: Path, nats_url: str) -> None:
    await trainer.configure(grpo_spec(model_path), epoch=5)
    restarted, channel = await start(nats_url, trainer.run_path)
    try:
        error = await refused(asyncio.ensure_future(restarted.configure(grpo_spec(model_path), epoch=4)))
        assert "epoch 4 is older than 5" in (error.details() or "")
        assert (await restarted.configure(grpo_spec(model_path), epoch=5)).step == 0
    finally:
        await channel.close()
        await restarted.server.close(0.1)


async def test_without_nats_a_step_is_unavailable(
    model_path: Path, stream: Stream, sampler: Sampler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whetstone_trainer.batch.ingest.CONNECT_TIMEOUT_S", 0.1)
    trainer, channel = await start(f"nats://127.0.0.1:{free_port()}", tmp_path / "run")
    try:
        await trainer.configure(grpo_spec(model_path))
        error = await refused(asyncio.ensure_future(trainer.train(await stream.manifest(0, group(sampler)))))
        assert error.code() == grpc.StatusCode.UNAVAILABLE
        assert (await trainer.stub.Status(wire.StatusRequest())).step == 0
    finally:
        await channel.close()
        await trainer.server.close(0.1)
