# SPDX-License-Identifier: Apache-2.0
"""Steps done again from ledger, episodes and checkpoint come to the published weights, or it is said why not."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import torch
from compute_device import DEVICE
from nats.aio.client import Client
from trainer_client import Trainer
from trainer_kit import JOB, UID, Sampler, Stream, connect, group, grpo_spec
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.retrain import JOBS, LEDGER, CannotRetrain, Span, retrain, with_folders

STEPS = 3


@pytest.fixture
async def client(nats_url: str) -> AsyncIterator[Client]:
    client = await connect(nats_url)
    yield client
    for bucket in (JOBS, LEDGER):
        await client.jetstream().delete_key_value(bucket)
    await client.close()


@pytest.fixture
async def runs(
    client: Client, trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path, tmp_path: Path
) -> Path:
    """The run folders, after three steps whose books are kept as a controller keeps them."""
    spec = grpo_spec(model_path, max_policy_lag=STEPS)
    buckets = {name: await client.jetstream().create_key_value(bucket=name) for name in (JOBS, LEDGER)}
    await buckets[JOBS].put(JOB, jobs.Job(spec=spec, uid=UID).SerializeToString())
    await trainer.configure(spec)
    for step in range(STEPS):
        episodes = group(sampler, step)
        # The second step has an episode that it cannot train.
        episodes[0].calls[0].version_spans[0].end = 1 if step == 1 else 2
        manifest = await stream.manifest(step, episodes)
        await buckets[LEDGER].put(f"{JOB}.batch.{step}", manifest)
        result = await trainer.train(manifest)
        record = jobs.StepRecord(step=step, dropped=result.dropped, weights_digest=result.weights.manifest_digest)
        await buckets[LEDGER].put(f"{JOB}.step.{step}", record.SerializeToString())
    (tmp_path / "runs").mkdir()
    return trainer.run_path.rename(tmp_path / "runs" / UID).parent


async def again(client: Client, runs: Path, first: int, last: int) -> list[tuple[int, bool | None]]:
    """Of each version that was made again: whether it is the published one; None: that one is gone."""
    backend = LocalBackend(DEVICE, torch.float32)
    found = await retrain(client, runs, Span(JOB, first, last), backend)
    return [(one["version"], one["published"] and one["published"] == one["retrained"]) for one in found]


async def test_the_same_weights_from_any_checkpoint(client: Client, runs: Path) -> None:
    assert await again(client, runs, 2, 3) == [(3, True)]
    before = sorted(path for path in runs.rglob("*"))
    assert await again(client, runs, 0, 3) == [(1, True), (2, True), (3, True)]
    assert sorted(path for path in runs.rglob("*")) == before


async def test_a_version_whose_folder_is_gone_is_compared_by_its_record(client: Client, runs: Path) -> None:
    shutil.rmtree(runs / UID / "weights" / "v3")
    assert await again(client, runs, 2, 3) == [(3, True)]
    ledger = await client.jetstream().key_value(LEDGER)
    record = jobs.StepRecord.FromString((await ledger.get(f"{JOB}.step.2")).value or b"")
    record.weights_digest = "0" * 64
    await ledger.put(f"{JOB}.step.2", record.SerializeToString())
    assert await again(client, runs, 2, 3) == [(3, False)]


async def test_a_record_without_a_digest_leaves_it_to_the_folder(client: Client, runs: Path) -> None:
    ledger = await client.jetstream().key_value(LEDGER)
    for step in range(STEPS):
        record = jobs.StepRecord.FromString((await ledger.get(f"{JOB}.step.{step}")).value or b"")
        record.ClearField("weights_digest")
        await ledger.put(f"{JOB}.step.{step}", record.SerializeToString())
    assert await again(client, runs, 2, 3) == [(3, True)]
    shutil.rmtree(runs / UID / "weights" / "v2")
    assert await again(client, runs, 0, 3) == [(1, True), (2, None), (3, True)]
    shutil.rmtree(runs / UID / "weights" / "v3")
    with pytest.raises(CannotRetrain, match="--to: version 3 is not there"):
        await again(client, runs, 0, 3)


async def test_another_learning_rate_shows_at_the_first_version(client: Client, runs: Path) -> None:
    bucket = await client.jetstream().key_value(JOBS)
    job = jobs.Job.FromString((await bucket.get(JOB)).value or b"")
    job.spec.algorithm.policy_gradient.optimizer.learning_rate *= 1.001
    await bucket.put(JOB, job.SerializeToString())
    assert await again(client, runs, 0, 3) == [(1, False)]


async def test_what_is_gone_is_named_with_what_can_be_done(
    client: Client, runs: Path, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whetstone_trainer.batch.ingest.BEHIND_S", 0.3)
    with pytest.raises(CannotRetrain, match="--from: there is no checkpoint of 1 steps; there are those of 0, 2, 3"):
        await again(client, runs, 1, 3)
    with pytest.raises(CannotRetrain, match="--to: version 9 is not there"):
        await again(client, runs, 2, 9)
    with pytest.raises(CannotRetrain, match="--to: must be above --from"):
        await again(client, runs, 2, 2)
    await stream.js.delete_msg(f"WS_EPISODE_{JOB}", 7)
    with pytest.raises(CannotRetrain, match=r"an episode of step 1 is gone: .* up to --to 1 it can be retrained"):
        await again(client, runs, 0, 3)
    assert await again(client, runs, 0, 1) == [(1, True)]
    ledger = await client.jetstream().key_value(LEDGER)
    await ledger.delete(f"{JOB}.batch.2")
    with pytest.raises(CannotRetrain, match="no manifest of step 2; take a later checkpoint"):
        await again(client, runs, 2, 3)
    with pytest.raises(CannotRetrain, match="no such job"):
        await retrain(client, runs, Span("other", 0, 1), LocalBackend(DEVICE, torch.float32))


async def test_the_program_answers_in_json(client: Client, runs: Path, nats_url: str) -> None:
    async def run(*span: str) -> tuple[int | None, str, str]:
        where = ("--nats", nats_url, "--runs", str(runs))
        command = (sys.executable, "-m", "whetstone_trainer.retrain", JOB, *span, *where)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        child = await asyncio.create_subprocess_exec(*command, env=environment, stdout=PIPE, stderr=PIPE)
        stdout, stderr = await child.communicate()
        return child.returncode, stdout.decode(), stderr.decode()

    done, refused = await asyncio.gather(run("--from", "2", "--to", "3"), run("--from", "7", "--to", "8"))
    assert (done[0], refused[0]) == (0, 2)
    assert json.loads(done[1])["same"] is True
    assert json.loads(refused[2].splitlines()[-1])["error"]["field"] == "--from"


def test_artifacts_that_a_job_names_become_folders() -> None:
    pinned = f"artifact://models/tiny@sha256:{'ab' * 32}"
    folder = f"/data/artifacts/sha256/{'ab' * 32}/files"
    spec = jobs.JobSpec()
    spec.model.path = pinned
    spec.algorithm.policy_gradient.kl.model = pinned
    resolved = with_folders(spec, Path("/data"))
    assert resolved.model.path == resolved.algorithm.policy_gradient.kl.model == folder
    assert not resolved.algorithm.policy_gradient.HasField("critic")
    assert spec.model.path == pinned
    spec.model.path = "/models/own"
    assert with_folders(spec, Path("/data")).model.path == "/models/own"
