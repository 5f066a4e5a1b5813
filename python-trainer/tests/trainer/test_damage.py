# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that are damaged or incomplete, and a disk that is full."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from trainer_client import Trainer, refused, start
from trainer_kit import Sampler, Stream, configure_request, group, grpo_spec, until_configured
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_trainer.backends.local.learner import train_rows
from whetstone_trainer.weights.disk_space import is_out_of_space, mount_point


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing optimizer": lambda run: (run / "checkpoints/step-3/optimizer.pt").unlink(),
    "empty optimizer": lambda run: (run / "checkpoints/step-3/optimizer.pt").write_bytes(b""),
    "truncated optimizer": lambda run: truncate(run / "checkpoints/step-3/optimizer.pt"),
    "a byte flipped in optimizer": lambda run: flip(run / "checkpoints/step-3/optimizer.pt"),
    "missing state.json": lambda run: (run / "checkpoints/step-3/state.json").unlink(),
    "a digit changed in state.json": lambda run: edit_state(run, 3, lambda raw: raw["consumed"].pop()),
    "a byte flipped in weights": lambda run: flip(run / "weights/v3/model.safetensors"),
    "missing weights": lambda run: shutil.rmtree(run / "weights/v3"),
}


def edit_state(run: Path, step: int, change: Callable[[Any], object]) -> None:
    path = run / f"checkpoints/step-{step}/state.json"
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))


def consumed(run: Path, step: int) -> list[int]:
    return [one["step"] for one in json.loads((run / f"checkpoints/step-{step}/state.json").read_text())["consumed"]]


@contextlib.asynccontextmanager
async def successor(nats_url: str, run_path: Path) -> AsyncIterator[Trainer]:
    trainer, channel = await start(nats_url, run_path)
    try:
        yield trainer
    finally:
        await channel.close()
        await trainer.server.close(0.1)


async def three_steps(trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path) -> list[bytes]:
    await trainer.configure(grpo_spec(model_path))
    manifests = [await stream.manifest(step, group(sampler, step)) for step in range(3)]
    for manifest in manifests:
        await trainer.train(manifest)
    return manifests


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_newest_checkpoint_is_set_aside_and_the_one_before_is_used(
    damage: str, trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path, nats_url: str
) -> None:
    manifests = await three_steps(trainer, stream, sampler, model_path)
    first = (await trainer.train(manifests[2])).weights
    run = trainer.run_path
    DAMAGES[damage](run)
    async with successor(nats_url, run) as other:
        configured = await other.configure(grpo_spec(model_path))
        assert configured.step == 2
        (notice,) = configured.notices
        assert notice.reason == "CheckpointDamaged"
        for part in ("checkpoint of step 3 is damaged: ", "goes on from that of step 2", "damaged-step-3"):
            assert part in notice.message
        assert (run / "checkpoints/damaged-step-3").is_dir()
        again = await other.train(manifests[2])
        # The engines serve version 3 already: done again, it is the same.
        assert (again.weights.path, again.weights.manifest_digest) == (first.path, first.manifest_digest)
        assert consumed(run, 3) == [0, 1, 2]


async def test_without_a_whole_checkpoint_nothing_starts_over(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path, nats_url: str
) -> None:
    await three_steps(trainer, stream, sampler, model_path)
    for step in (2, 3):
        flip(trainer.run_path / f"checkpoints/step-{step}/optimizer.pt")
    async with successor(nats_url, trainer.run_path) as other:
        for _ in range(2):
            error = await refused(asyncio.ensure_future(other.configure(grpo_spec(model_path))))
            assert error.code() == grpc.StatusCode.DATA_LOSS
            for part in (f"no checkpoint in {trainer.run_path}/checkpoints is whole", "step-2", "step-3", "start over"):
                assert part in (error.details() or "")


async def test_a_checkpoint_without_digests_is_read(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path, nats_url: str
) -> None:
    await three_steps(trainer, stream, sampler, model_path)
    for step in (2, 3):
        edit_state(trainer.run_path, step, lambda raw: (raw.pop("files"), raw.pop("digest")))
    async with successor(nats_url, trainer.run_path) as other:
        assert (await other.configure(grpo_spec(model_path))).step == 3
    truncate(trainer.run_path / "checkpoints/step-3/optimizer.pt")
    async with successor(nats_url, trainer.run_path) as other:
        assert (await other.configure(grpo_spec(model_path))).step == 2


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    path = tmp_path / "volume"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", path], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("a small volume cannot be mounted here")
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


def fill(volume: Path) -> Path:
    path = volume / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass
    return path


async def test_a_full_disk_is_waited_out_and_the_step_is_trained_once(
    volume: Path,
    stream: Stream,
    sampler: Sampler,
    model_path: Path,
    nats_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trained = []
    monkeypatch.setattr(
        "whetstone_trainer.backends.local.backend.train_rows",
        lambda *arguments: trained.append(1) or train_rows(*arguments),
    )
    async with successor(nats_url, volume / "run") as trainer:
        await trainer.configure(grpo_spec(model_path))
        filler = fill(volume)
        said: set[str] = set()
        last = wire.TrainStepResponse()
        request = wire.TrainStepRequest(epoch=1, manifest=await stream.manifest(0, group(sampler)))
        async for response in trainer.stub.TrainStep(request):
            last = response
            if response.progress.phase == "waiting":
                (notice,) = response.progress.notices
                assert notice.reason == "DiskFull"
                said.add(notice.message)
                assert list((volume / "run").glob("**/.*.tmp")) == []
                filler.unlink(missing_ok=True)
        assert (last.WhichOneof("kind"), last.result.step) == ("result", 0)
        assert trained == [1]
        await trainer.server.state.committed()
        assert any(f"the disk of {volume}: {volume}/run/weights/v1 needs about" in text for text in said)
        assert list((volume / "run").glob("**/.*.tmp")) == []
        assert consumed(volume / "run", 1) == [0]


async def test_a_step_that_waits_for_space_can_be_stopped(
    volume: Path, stream: Stream, sampler: Sampler, model_path: Path, nats_url: str, tmp_path: Path
) -> None:
    async with successor(nats_url, volume / "run") as trainer:
        await trainer.configure(grpo_spec(model_path))
        fill(volume)
        call = trainer.stub.TrainStep(wire.TrainStepRequest(epoch=1, manifest=await stream.manifest(0, group(sampler))))
        while (await call.read()).progress.phase != "waiting":
            pass
        other = configure_request(grpo_spec(model_path), tmp_path / "other", uid="uid-2")
        await asyncio.wait_for(until_configured(trainer.stub, other), 60)
        assert await call.code() == grpc.StatusCode.ABORTED


async def test_a_run_folder_on_a_full_disk_is_asked_for_again(volume: Path, model_path: Path, nats_url: str) -> None:
    fill(volume)
    async with successor(nats_url, volume / "run") as trainer:
        error = await refused(asyncio.ensure_future(trainer.configure(grpo_spec(model_path))))
        assert error.code() == grpc.StatusCode.UNAVAILABLE
        assert "no space left on a disk of the trainer" in (error.details() or "")


def test_want_of_space_is_recognised_however_it_is_wrapped(volume: Path) -> None:
    fill(volume)
    tensors = {"a": torch.zeros(1 << 20)}
    with pytest.raises(SafetensorError) as safetensors:
        save_file(tensors, volume / "a.safetensors")
    assert is_out_of_space(safetensors.value)
    with pytest.raises((RuntimeError, OSError)) as pytorch, (volume / "a.pt").open("wb") as file:
        torch.save(tensors, file)
    assert is_out_of_space(pytorch.value)
    assert is_out_of_space(OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)))
    wrapped = ValueError("saving failed")
    wrapped.__cause__ = OSError(errno.ENOSPC, "full")
    assert is_out_of_space(wrapped)
    for other in (OSError(errno.EACCES, "denied"), RuntimeError("file write failed"), ValueError("no")):
        assert not is_out_of_space(other)
    assert mount_point(volume / "not" / "there") == volume
