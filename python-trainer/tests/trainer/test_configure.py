# SPDX-License-Identifier: Apache-2.0
"""Configure of a model that takes long to load: asked again it goes on, and says how far it is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
import torch
from compute_device import DEVICE
from trainer_client import Trainer, refused
from trainer_kit import Sampler, Stream, configure_request, group, grpo_spec, until, until_configured
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_models import folder
from whetstone_trainer.backends.local import policy
from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.service.run import JobRun

# The first load of a process imports much of PyTorch.
WAIT_S = 60.0


class SlowLoad:
    """Stops every load of a model before each part of it until there is a permit, and counts the loads."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.loads, self._permits = 0, threading.Semaphore(0)
        self._is_open = False
        self.has_begun = False
        original = folder.load_model

        def load(directory, device, on_bytes):
            self.loads += 1

            def parts(count: int) -> None:
                if not self._is_open:
                    self.has_begun = True
                    self._permits.acquire(timeout=30)
                on_bytes(count)

            return original(directory, device=device, on_bytes=parts)

        patch.setattr(policy, "load_model", load)

    def go(self, parts: int) -> None:
        self._permits.release(parts)

    def open(self) -> None:
        self._is_open = True
        self._permits.release(1000)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowLoad]:
    monkeypatch.setattr("whetstone_trainer.service.state.ANSWER_AFTER_S", 0.05)
    load = SlowLoad(monkeypatch)
    yield load
    load.open()


async def status(trainer: Trainer) -> wire.StatusResponse:
    return await trainer.stub.Status(wire.StatusRequest())


async def test_a_slow_load_is_joined_and_its_progress_grows(trainer: Trainer, model_path: Path, slow: SlowLoad) -> None:
    request = configure_request(grpo_spec(model_path), trainer.run_path)
    heard: list[float] = []
    for parts in (2, 2, 2):
        slow.go(parts)
        before = heard[-1] if heard else 0.0

        async def has_grown(before: float = before) -> bool:
            answer = await trainer.stub.Configure(request)
            assert (answer.progress.phase, answer.HasField("weights")) == ("loading", False)
            heard.append(answer.progress.share)
            return answer.progress.share > before

        await until(has_grown, WAIT_S)
    assert 0 < heard[-1] < 1
    told = await status(trainer)
    assert (told.configuring.phase, told.HasField("job_uid")) == ("loading", False)
    error = await refused(asyncio.ensure_future(trainer.train(b"")))
    assert (error.code(), "not ready" in (error.details() or "")) == (grpc.StatusCode.UNAVAILABLE, True)
    slow.open()
    answer = await until_configured(trainer.stub, request)
    assert (answer.step, answer.weights.path, slow.loads) == (0, str(model_path), 1)
    told = await status(trainer)
    assert (told.HasField("configuring"), told.job_uid) == (False, "uid-1")


async def test_a_controller_that_takes_over_joins_the_load(trainer: Trainer, model_path: Path, slow: SlowLoad) -> None:
    spec = grpo_spec(model_path)
    assert (await trainer.stub.Configure(configure_request(spec, trainer.run_path, epoch=1))).HasField("progress")
    assert (await trainer.stub.Configure(configure_request(spec, trainer.run_path, epoch=2))).HasField("progress")
    error = await refused(trainer.stub.Configure(configure_request(spec, trainer.run_path, epoch=1)))
    assert "epoch 1 is older than 2" in (error.details() or "")
    slow.open()
    await trainer.configure(spec, epoch=2)
    assert (slow.loads, (await status(trainer)).epoch) == (1, 2)


async def test_a_failed_load_is_told_once_and_then_tried_again(
    trainer: Trainer, model_path: Path, slow: SlowLoad, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = grpo_spec(model_path)
    request = configure_request(spec, trainer.run_path)
    with monkeypatch.context() as patch:
        patch.setattr(policy, "require_finite", lambda *_: (_ for _ in ()).throw(OSError("the disk went away")))
        assert (await trainer.stub.Configure(request)).HasField("progress")
        slow.open()
        await until(lambda: _not_at_work(trainer), WAIT_S)
    error = await refused(trainer.stub.Configure(request))
    assert (error.code(), "OSError" in (error.details() or "")) == (grpc.StatusCode.INTERNAL, True)
    assert slow.loads == 1
    assert (await trainer.configure(spec)).step == 0
    assert slow.loads == 2


async def _at_work(trainer: Trainer) -> bool:
    return (await status(trainer)).HasField("configuring")


async def _has_begun(slow: SlowLoad) -> bool:
    return slow.has_begun


async def _is_stopped(trainer: Trainer) -> bool:
    configuring = trainer.server.state.configuring
    return configuring is not None and configuring.is_stopped


async def _not_at_work(trainer: Trainer) -> bool:
    return not await _at_work(trainer)


async def test_a_failure_that_nobody_asked_for_is_forgotten_in_time(
    trainer: Trainer, model_path: Path, slow: SlowLoad, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whetstone_trainer.service.configuring.KEPT_S", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(policy, "require_finite", lambda *_: (_ for _ in ()).throw(OSError("the disk went away")))
        await trainer.stub.Configure(configure_request(grpo_spec(model_path), trainer.run_path))
        slow.open()
        await until(lambda: _not_at_work(trainer), WAIT_S)
    assert (await trainer.configure(grpo_spec(model_path))).step == 0


async def test_another_job_stops_the_load_and_takes_over(
    trainer: Trainer, model_path: Path, tmp_path: Path, slow: SlowLoad
) -> None:
    first = configure_request(grpo_spec(model_path), trainer.run_path)
    assert (await trainer.stub.Configure(first)).HasField("progress")
    await until(lambda: _has_begun(slow), WAIT_S)
    run = trainer.server.state.configuring
    assert run is not None
    other = configure_request(grpo_spec(model_path), tmp_path / "other", uid="uid-2")
    assert (await trainer.stub.Configure(other)).HasField("progress")
    assert run.task is not None
    slow.open()
    await until_configured(trainer.stub, other)
    assert "was given another job" in str(run.task.exception())
    assert ((await status(trainer)).job_uid, slow.loads) == ("uid-2", 2)


async def test_a_checkpoint_is_restored_with_progress(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    await trainer.configure(grpo_spec(model_path))
    await trainer.train(await stream.manifest(0, group(sampler)))
    run = trainer.server.state.run
    assert run is not None
    told: list[tuple[str, float]] = []
    backend = LocalBackend(DEVICE, torch.float32)
    JobRun(run.settings, run.folder, run.job_uid, backend, lambda phase, share: told.append((phase, share)))
    for phase in ("loading", "restoring"):
        shares = [share for one, share in told if one == phase]
        assert shares == sorted(shares)
        assert len(shares) > 3
        assert shares[-1] == pytest.approx(1, abs=0.1)
    assert told.index(("loading", 0.0)) == 0


async def test_a_trainer_that_is_told_to_end_while_it_loads_ends_at_once(
    trainer: Trainer, model_path: Path, slow: SlowLoad, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whetstone_trainer.service.state.ANSWER_AFTER_S", 30.0)
    call = trainer.stub.Configure(configure_request(grpo_spec(model_path), trainer.run_path))
    await until(lambda: _has_begun(slow), WAIT_S)
    assert await _at_work(trainer)
    closing = asyncio.create_task(trainer.server.close(grace_s=20.0))
    await until(lambda: _is_stopped(trainer), WAIT_S)
    slow.go(1)
    await asyncio.wait_for(closing, 20)
    error = await refused(call)
    assert (error.code(), "is ending" in (error.details() or "")) == (grpc.StatusCode.UNAVAILABLE, True)
