# SPDX-License-Identifier: Apache-2.0
"""Jobs whose weights and checkpoints go into an object store: a lost disk, a damaged object, what is old."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
import torch
from compute_device import DEVICE
from object_server import ObjectServer, open_store
from stored_kit import RUN, copied, running, steps_of, stored
from trainer_client import Trainer, refused
from trainer_kit import UID, Sampler, Stream, configure_request, group, grpo_spec, ppo_spec, until, until_configured
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_engine.weights.building import Place
from whetstone_engine.weights.fetcher import Fetcher
from whetstone_engine.weights.stream import Published
from whetstone_models.folder import WeightsForm, load_model, save_weights
from whetstone_models.manifest import verify_manifest
from whetstone_models.transformer import Transformer
from whetstone_trainer.service.run import untold
from whetstone_trainer.weights.run_folder import RunFolder, manifest_digest
from whetstone_trainer.weights.stored_run import StoredRun


async def test_a_trainer_without_a_store_refuses_by_path(trainer: Trainer, model_path: Path) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match=r"weights.transport.objectStore: this trainer has no object store"):
        await until_configured(trainer.stub, configure_request(stored(grpo_spec(model_path)), trainer.run_path))
    assert (await trainer.stub.Status(wire.StatusRequest())).object_store == ""


async def test_engines_find_each_version_where_the_trainer_says(
    objects: ObjectServer, nats_url: str, stream: Stream, sampler: Sampler, tmp_path: Path, model_path: Path
) -> None:
    async with running(nats_url, tmp_path / "run") as trainer:
        assert (await trainer.stub.Status(wire.StatusRequest())).object_store == "s3://bucket/team"
        first = await trainer.configure(stored(grpo_spec(model_path)))
        assert first.weights.url == f"s3://bucket/team/{RUN}/weights"
        _, (result,) = await steps_of(trainer, stream, sampler, 1, objects)
        fetcher = Fetcher(None, None, open_store())
        published = Published(f"{result.weights.url}/v1", result.weights.manifest_digest)
        held = await fetcher.fetch(published, Place(torch.float32, DEVICE.type), None)
    tokens = torch.tensor([[5, 77, 130]])
    with torch.no_grad():
        assert torch.equal(held.model(tokens), load_model(Path(result.weights.path)).fuse()(tokens))


@pytest.mark.parametrize("spec_of", [grpo_spec, ppo_spec])
async def test_a_lost_disk_costs_nothing(
    spec_of: Callable[[Path], jobs.JobSpec],
    objects: ObjectServer,
    nats_url: str,
    stream: Stream,
    sampler: Sampler,
    tmp_path: Path,
    model_path: Path,
) -> None:
    spec = stored(spec_of(model_path))
    async with running(nats_url, tmp_path / "run") as trainer:
        await trainer.configure(spec)
        manifests, results = await steps_of(trainer, stream, sampler, 3, objects)
        manifests.append(await stream.manifest(3, group(sampler, 3)))
        undisturbed = (await trainer.train(manifests[3])).weights
        assert len({one.weights.manifest_digest for one in results} | {undisturbed.manifest_digest}) == 4
        await copied(objects, 4)
    # As if the last step had not been.
    shutil.rmtree(tmp_path / "run")
    shutil.rmtree(objects.file(f"{RUN}/checkpoints/step-4"))
    shutil.rmtree(objects.file(f"{RUN}/weights/v4"))
    async with running(nats_url, tmp_path / "run") as trainer:
        configured = await trainer.configure(spec)
        assert (configured.step, configured.weights) == (3, results[2].weights)
        assert not configured.notices
        again = await trainer.train(manifests[2])
        assert (again.replayed, again.weights) == (True, results[2].weights)
        assert (await trainer.train(manifests[3])).weights == undisturbed
        state = json.loads((tmp_path / "run/checkpoints/step-4/state.json").read_text())
        assert [one["step"] for one in state["consumed"]] == [0, 1, 2, 3]


async def test_steps_after_the_copy_are_done_again_and_keep_their_weights(
    objects: ObjectServer, nats_url: str, stream: Stream, sampler: Sampler, tmp_path: Path, model_path: Path
) -> None:
    spec = stored(grpo_spec(model_path, checkpoint_every=2))
    async with running(nats_url, tmp_path / "run") as trainer:
        await trainer.configure(spec)
        manifests, _ = await steps_of(trainer, stream, sampler, 2, objects)
        manifests.append(await stream.manifest(2, group(sampler, 2)))
        third = (await trainer.train(manifests[2])).weights
    # As if another machine had computed it, in another order of additions: engines may serve it.
    other = RunFolder(tmp_path / "other", model_path)
    save_weights(nudged(tmp_path / "run/weights/v3"), other.weights(3), 3, model_path, WeightsForm())
    elsewhere = StoredRun(open_store(), other, UID)
    elsewhere.claim()
    elsewhere.put_weights(3)
    shutil.rmtree(tmp_path / "run")
    async with running(nats_url, tmp_path / "run") as trainer:
        assert (await trainer.configure(spec)).step == 2
        again = await trainer.train(manifests[2])
        assert (again.replayed, again.weights.manifest_digest) == (False, manifest_digest(other.weights(3)))
        assert again.weights.manifest_digest != third.manifest_digest


def nudged(folder: Path) -> Transformer:
    """Almost the same weights."""
    model = load_model(folder)
    with torch.no_grad():
        next(iter(model.parameters())).view(-1)[0] += 1e-6
    return model


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[ObjectServer], object]] = {
    "optimizer gone": lambda objects: objects.file(f"{RUN}/checkpoints/step-3/optimizer.pt").unlink(),
    "optimizer flipped": lambda objects: flip(objects.file(f"{RUN}/checkpoints/step-3/optimizer.pt")),
    "optimizer cut": lambda objects: objects.file(f"{RUN}/checkpoints/step-3/optimizer.pt").write_bytes(b"12"),
    "state flipped": lambda objects: flip(objects.file(f"{RUN}/checkpoints/step-3/state.json")),
    "weights flipped": lambda objects: flip(objects.file(f"{RUN}/weights/v3/model.safetensors")),
    "weights gone": lambda objects: shutil.rmtree(objects.file(f"{RUN}/weights/v3")),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_copy_is_told_and_the_one_before_is_used(
    damage: str,
    objects: ObjectServer,
    nats_url: str,
    stream: Stream,
    sampler: Sampler,
    tmp_path: Path,
    model_path: Path,
) -> None:
    spec = stored(grpo_spec(model_path))
    async with running(nats_url, tmp_path / "run") as trainer:
        await trainer.configure(spec)
        manifests, results = await steps_of(trainer, stream, sampler, 3, objects)
    shutil.rmtree(tmp_path / "run")
    DAMAGES[damage](objects)
    async with running(nats_url, tmp_path / "run") as trainer:
        configured = await trainer.configure(spec)
        assert configured.step == 2
        (notice,) = configured.notices
        assert notice.reason == "CheckpointDamaged"
        for part in ("of step 3 is damaged: ", "s3://bucket/team/runs/uid-1", "goes on from that of step 2"):
            assert part in notice.message
        again = await trainer.train(manifests[2])
        assert again.weights == results[2].weights
        run = trainer.server.state.run
        assert run is not None
        assert run._copies is not None
        await asyncio.to_thread(run._copies.wait, untold)
    # Whatever was damaged is whole again.
    shutil.rmtree(tmp_path / "run")
    async with running(nats_url, tmp_path / "run") as trainer:
        configured = await trainer.configure(spec)
        assert (configured.step, list(configured.notices)) == (3, [])


async def test_what_is_damaged_on_disk_comes_from_the_store(
    objects: ObjectServer, nats_url: str, stream: Stream, sampler: Sampler, tmp_path: Path, model_path: Path
) -> None:
    spec = stored(grpo_spec(model_path))
    async with running(nats_url, tmp_path / "run") as trainer:
        await trainer.configure(spec)
        _, results = await steps_of(trainer, stream, sampler, 2, objects)
    flip(tmp_path / "run/checkpoints/step-2/optimizer.pt")
    flip(tmp_path / "run/weights/v2/model.safetensors")
    async with running(nats_url, tmp_path / "run") as trainer:
        configured = await trainer.configure(spec)
        assert (configured.step, configured.weights) == (2, results[1].weights)
        (notice,) = configured.notices
        assert "of step 2 was damaged on disk" in notice.message
        assert "Its copy in the store is used" in notice.message


async def repaired(trainer: Trainer, version: int) -> wire.Weights:
    return (await trainer.stub.RepairWeights(wire.RepairWeightsRequest(epoch=1, policy_version=version))).weights


async def test_what_engines_find_damaged_is_written_again(
    objects: ObjectServer, nats_url: str, stream: Stream, sampler: Sampler, tmp_path: Path, model_path: Path
) -> None:
    async with running(nats_url, tmp_path / "run") as trainer:
        await trainer.configure(stored(grpo_spec(model_path)))
        _, results = await steps_of(trainer, stream, sampler, 3, objects)
        for version, file in ((2, "model.safetensors"), (3, "manifest.json")):
            flip(objects.file(f"{RUN}/weights/v{version}/{file}"))
            assert await repaired(trainer, version) == results[version - 1].weights
            there = objects.file(f"{RUN}/weights/v{version}")
            assert manifest_digest(there) == results[version - 1].weights.manifest_digest
            verify_manifest(there)
        # Here, too: of the present version, which is in memory.
        flip(tmp_path / "run/weights/v3/model.safetensors")
        shutil.rmtree(objects.file(f"{RUN}/weights/v3"))
        assert await repaired(trainer, 3) == results[2].weights
        verify_manifest(objects.file(f"{RUN}/weights/v3"))
        flip(tmp_path / "run/weights/v2/model.safetensors")
        for version, said in (
            (0, "version 0 is not there"),
            (2, "version 2 is damaged on disk, too"),
            (9, "version 9"),
        ):
            error = await refused(asyncio.ensure_future(repaired(trainer, version)))
            assert error.code() == grpc.StatusCode.NOT_FOUND
            assert said in (error.details() or "")


async def test_a_version_is_there_once_its_manifest_is_and_not_before(
    objects: ObjectServer, nats_url: str, stream: Stream, sampler: Sampler, tmp_path: Path, model_path: Path
) -> None:
    async with running(nats_url, tmp_path / "run") as trainer:
        await trainer.configure(stored(grpo_spec(model_path)))
        await steps_of(trainer, stream, sampler, 1, objects)
    manifest = objects.file(f"{RUN}/weights/v1/manifest.json")
    run = StoredRun(open_store(), RunFolder(tmp_path / "run", model_path), UID)
    run.claim()

    def killed(_: int) -> None:
        raise InterruptedError

    flip(manifest)  # So that all of it is put again: it goes first, and comes last.
    with pytest.raises(InterruptedError):
        run.put_weights(1, killed)
    assert not manifest.exists()
    run.put_weights(1)
    assert manifest.exists()


async def test_nobody_needs_what_is_old(
    objects: ObjectServer, nats_url: str, stream: Stream, sampler: Sampler, tmp_path: Path, model_path: Path
) -> None:
    async with running(nats_url, tmp_path / "run") as trainer:
        await trainer.configure(stored(grpo_spec(model_path, checkpoints_kept=1), lag=1))
        await steps_of(trainer, stream, sampler, 5, objects)

        async def is_pruned() -> bool:
            names = {
                path.name for part in ("weights", "checkpoints") for path in objects.file(f"{RUN}/{part}").iterdir()
            }
            return names == {"step-5", "v3", "v4", "v5"}

        await until(is_pruned, 10)
        local = {path.name for part in ("weights", "checkpoints") for path in (tmp_path / "run" / part).iterdir()}
        assert local == {"step-5", "v3", "v4", "v5"}
