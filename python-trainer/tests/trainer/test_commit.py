# SPDX-License-Identifier: Apache-2.0
"""A step's weights are ready before its checkpoint is written, and nothing is lost by that (I1)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from trainer_client import Trainer
from trainer_kit import Sampler, Stream, group, grpo_spec, until
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_trainer.backends.local.backend import LocalBackend

WAIT_S = 30


class SlowSaves:
    """Every checkpoint stands still until it is let go."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._go, self.begun = threading.Event(), 0
        save = LocalBackend.save

        def held(backend: LocalBackend, directory: Path) -> None:
            self.begun += 1
            assert self._go.wait(WAIT_S)
            save(backend, directory)

        patch.setattr(LocalBackend, "save", held)

    def let_go(self) -> None:
        self._go.set()


async def trained(trainer: Trainer, manifest: bytes) -> wire.TrainResult:
    """As soon as the trainer says so."""
    asked = trainer.stub.TrainStep(wire.TrainStepRequest(epoch=1, manifest=manifest))
    return [response async for response in asked][-1].result


async def test_weights_are_ready_while_the_checkpoint_is_still_written(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves = SlowSaves(monkeypatch)
    await trainer.configure(grpo_spec(model_path))
    first = await trained(trainer, await stream.manifest(0, group(sampler)))
    assert Path(first.weights.path).is_dir()
    assert not (trainer.run_path / "checkpoints/step-1").exists()

    newer = Sampler(Path(first.weights.path))
    second = asyncio.create_task(trained(trainer, await stream.manifest(1, group(newer, 1, 1))))
    await until(lambda: _is(saves.begun == 1), WAIT_S)
    done, _ = await asyncio.wait([second], timeout=0.5)
    assert not done, "the model must not change before its checkpoint is written"
    saves.let_go()
    assert (await second).step == 1
    await trainer.server.state.committed()
    assert sorted(path.name for path in (trainer.run_path / "checkpoints").iterdir()) == ["step-1", "step-2"]


async def test_the_last_checkpoint_is_there_before_the_step_is_done(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    spec = grpo_spec(model_path)
    spec.loop.steps = 1
    await trainer.configure(spec)
    await trained(trainer, await stream.manifest(0, group(sampler)))
    assert (trainer.run_path / "checkpoints/step-1").exists()


async def test_a_checkpoint_that_fails_costs_the_step_and_no_more(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await trainer.configure(grpo_spec(model_path))
    manifest = await stream.manifest(0, group(sampler))

    def broken(backend: LocalBackend, directory: Path) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(LocalBackend, "save", broken)
        first = await trained(trainer, manifest)
        await trainer.server.state.committed()
        await until(lambda: _is(trainer.server.state.run is None), WAIT_S)
    assert (await trainer.configure(grpo_spec(model_path))).step == 0
    again = await trainer.train(manifest)
    assert (again.replayed, again.weights) == (False, first.weights)
    assert (trainer.run_path / "checkpoints/step-1").exists()


async def test_without_room_the_wait_is_told_with_the_step(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves = SlowSaves(monkeypatch)
    monkeypatch.setattr("whetstone_trainer.service.commit.free_bytes", lambda path: 1000)
    await trainer.configure(grpo_spec(model_path))
    step = asyncio.create_task(trained(trainer, await stream.manifest(0, group(sampler))))
    await until(lambda: _is(saves.begun == 1), WAIT_S)
    done, _ = await asyncio.wait([step], timeout=0.5)
    assert not done
    saves.let_go()
    await step
    assert (trainer.run_path / "checkpoints/step-1").exists()


async def _is(condition: bool) -> bool:
    return condition
