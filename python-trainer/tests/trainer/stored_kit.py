# SPDX-License-Identifier: Apache-2.0
"""Trainers whose jobs go through a real object store."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

from object_server import ObjectServer, open_store
from trainer_client import Trainer, start
from trainer_kit import UID, Sampler, Stream, group, until
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.weights.checkpoint import check_files

RUN = f"runs/{UID}"


def stored(spec: jobs.JobSpec, lag: int = 4) -> jobs.JobSpec:
    """With `lag`, since all episodes are sampled by version 0."""
    spec.weights.transport.object_store.SetInParent()
    spec.loop.max_policy_lag = lag
    return spec


@contextlib.asynccontextmanager
async def running(nats_url: str, run_path: Path) -> AsyncIterator[Trainer]:
    """A trainer that has the object store."""
    trainer, channel = await start(nats_url, run_path, store=open_store())
    try:
        yield trainer
    finally:
        await channel.close()
        await trainer.server.close(0.1)


async def copied(objects: ObjectServer, step: int) -> None:
    """Once the copy of a checkpoint is whole."""

    folder = objects.file(f"{RUN}/checkpoints/step-{step}")

    async def is_there() -> bool:
        with contextlib.suppress(OSError, ValueError, TrainerError):
            check_files(folder, json.loads((folder / "state.json").read_text()))
            return True
        return False

    await until(is_there)


async def steps_of(
    trainer: Trainer, stream: Stream, sampler: Sampler, count: int, objects: ObjectServer
) -> tuple[list[bytes], list[wire.TrainResult]]:
    manifests = [await stream.manifest(step, group(sampler, step)) for step in range(count)]
    results = [await trainer.train(manifest) for manifest in manifests]
    await copied(objects, count)
    return manifests, results
