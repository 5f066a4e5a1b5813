# SPDX-License-Identifier: Apache-2.0
"""The service end to end: gRPC in front, a real nats-server behind."""

from __future__ import annotations

import hashlib
import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from compute_device import DEVICE
from trainer_client import Trainer, probability, start
from trainer_kit import (
    PROMPT,
    Sampler,
    Stream,
    Turn,
    configure_request,
    demonstration,
    group,
    grpo_spec,
    manifest_of,
    sft_spec,
    until_configured,
)
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_models.folder import save_weights
from whetstone_models.manifest import verify_manifest
from whetstone_trainer.backends.local.learner import train_rows


async def test_grpo_raises_the_probability_of_rewarded_tokens(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    configured = await trainer.configure(grpo_spec(model_path))
    assert (configured.step, configured.weights.path, configured.device) == (0, str(model_path), DEVICE.type)
    before = await probability(trainer, 70)
    episodes = group(sampler)
    episodes[0].metrics["moves"], episodes[1].metrics["moves"] = 2, 5
    result = await trainer.train(await stream.manifest(0, episodes))
    assert await probability(trainer, 70) > before
    assert result.metrics["episode/moves"] == 3.5
    assert (result.step, result.weights.policy_version, result.rows, result.replayed) == (0, 1, 4, False)
    assert result.metrics["logprob_diff/max"] < 1e-5
    assert result.metrics["logprob_diff/episodes_checked"] == 4
    assert result.metrics["reward/mean"] == 0.5
    assert result.metrics["ratio/mean"] == pytest.approx(1, abs=1e-5)
    assert verify_manifest(Path(result.weights.path)).version == 1


async def test_a_batch_of_whole_groups_takes_no_more_optimizer_steps_than_it_has_groups(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    spec = grpo_spec(model_path, batch_groups=2)
    spec.algorithm.policy_gradient.batching.MergeFrom(jobs.Batching(mini_batches=4, whole_groups=True))
    await trainer.configure(spec)
    result = await trainer.train(await stream.manifest(0, [*group(sampler, 0), *group(sampler, 1)]))
    assert result.metrics["optimizer_steps"] == 2


async def test_sft_lowers_the_loss(trainer: Trainer, stream: Stream, model_path: Path) -> None:
    await trainer.configure(sft_spec(model_path))
    losses = []
    for step in range(3):
        batch = [demonstration(step * 2 + i, PROMPT, [70 + i, 80, 260]) for i in range(2)]
        result = await trainer.train(await stream.manifest(step, batch))
        losses.append(result.metrics["loss"])
        assert result.tokens_trained == 4
    assert losses[2] < losses[1] < losses[0]


async def test_same_step_again_gives_the_first_result(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path, nats_url: str
) -> None:
    await trainer.configure(grpo_spec(model_path))
    manifest = await stream.manifest(0, group(sampler))
    first = await trainer.train(manifest)
    again = await trainer.train(manifest)
    assert again.replayed
    again.replayed = False
    assert again == first
    restarted, channel = await start(nats_url, trainer.run_path)
    try:
        assert (await restarted.configure(grpo_spec(model_path))).step == 1
        replayed = await restarted.train(manifest)
        assert (replayed.replayed, replayed.weights, replayed.metrics) == (True, first.weights, first.metrics)
    finally:
        await channel.close()
        await restarted.server.close(0.1)


async def test_bodies_in_the_object_store_are_fetched(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    await trainer.configure(grpo_spec(model_path))
    store = await stream.js.create_object_store("ws-claims")
    episodes, entries = group(sampler), []
    for episode in episodes:
        body = episode.SerializeToString()
        await store.put(episode.id, body)
        claim = {"name": episode.id, "sha256": hashlib.sha256(body).hexdigest()}
        headers = {"Whetstone-Claim": json.dumps(claim | {"size": len(body)})}
        entries.append(await stream.publish(episode, body=b"", headers=headers))
    assert (await trainer.train(manifest_of(0, entries))).rows == 4


async def test_a_second_call_joins_the_running_step_even_if_the_first_went_away(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    await trainer.configure(grpo_spec(model_path))
    run = trainer.server.state.run
    assert run is not None
    started, original = 0, run.train

    def slow(*arguments, **named):
        nonlocal started
        started += 1
        time.sleep(0.3)
        return original(*arguments, **named)

    run.train = slow
    manifest = await stream.manifest(0, group(sampler))
    first = trainer.stub.TrainStep(wire.TrainStepRequest(epoch=1, manifest=manifest))
    await first.read()
    first.cancel()
    assert (await trainer.stub.Status(wire.StatusRequest())).busy
    result = await trainer.train(manifest)
    assert (started, result.replayed, result.step) == (1, False, 0)


async def test_what_was_solved_and_how_long_the_answers_are_shows(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    await trainer.configure(grpo_spec(model_path))
    unsolved = [sampler.episode(1, sample, [Turn(PROMPT, [71, 72, 260])], 0.0) for sample in range(2)]
    metrics = (await trainer.train(await stream.manifest(0, [*group(sampler), *unsolved]))).metrics
    assert [metrics[f"batch/solve_{kind}"] for kind in ("none", "all", "partial")] == [1, 0, 1]
    lengths = [metrics[f"response_length/{kind}"] for kind in ("min", "mean", "max")]
    assert lengths == [2, pytest.approx(14 / 6), 3]


async def test_a_wrong_logprob_shows(trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path) -> None:
    await trainer.configure(grpo_spec(model_path))
    episodes = group(sampler)
    episodes[2].calls[0].logprobs[1] += 0.01
    metrics = (await trainer.train(await stream.manifest(0, episodes))).metrics
    assert metrics["logprob_diff/max"] == pytest.approx(0.01, rel=1e-3)
    assert metrics["logprob_diff/episodes_over_1e-4"] == 1


async def test_lagging_tokens_are_checked_with_the_weights_that_sampled_them(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path, nats_url: str
) -> None:
    spec = grpo_spec(model_path, max_policy_lag=1)
    await trainer.configure(spec)
    await trainer.train(await stream.manifest(0, group(sampler)))
    lagging = await stream.manifest(1, group(sampler, 1))
    restarted, channel = await start(nats_url, trainer.run_path)
    try:
        await restarted.configure(spec)
        for one in (trainer, restarted):
            metrics = (await one.train(lagging)).metrics
            assert metrics["logprob_diff/max"] < 1e-5
            assert (metrics["lag/max"], metrics["logprob_diff/tokens_unchecked"]) == (1, 0)
            assert {name: metrics[name] for name in metrics if name.startswith("lag/share")} == {"lag/share/1": 1}
            assert abs(metrics["importance/mean"] - 1) > 1e-5
        too_old = await trainer.train(await stream.manifest(2, group(sampler, 2)))
        assert (len(too_old.dropped), too_old.metrics["logprob_diff/episodes_checked"]) == (4, 0)
    finally:
        await channel.close()
        await restarted.server.close(0.1)


async def test_old_checkpoints_and_weights_are_removed(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path, tmp_path: Path
) -> None:
    await trainer.configure(grpo_spec(model_path, checkpoints_kept=2, max_policy_lag=1))
    for step in range(5):
        await trainer.train(await stream.manifest(step, group(sampler, step)))
    run = trainer.run_path
    assert sorted(path.name for path in run.glob("checkpoints/*")) == ["step-4", "step-5"]
    assert sorted(path.name for path in run.glob("weights/*")) == ["v3", "v4", "v5"]


async def test_checkpoints_every_second_step_publish_weights_every_step(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path, nats_url: str
) -> None:
    spec = grpo_spec(model_path, checkpoint_every=2)
    await trainer.configure(spec)
    manifests = [await stream.manifest(step, group(sampler, step)) for step in range(3)]
    results = [await trainer.train(manifest) for manifest in manifests]
    assert [path.name for path in trainer.run_path.glob("checkpoints/*")] == ["step-2"]
    restarted, channel = await start(nats_url, trainer.run_path)
    try:
        assert (await restarted.configure(spec)).step == 2
        again = await restarted.train(manifests[2])
        assert (again.weights, again.replayed) == (results[2].weights, False)
    finally:
        await channel.close()
        await restarted.server.close(0.1)


async def test_an_empty_batch_is_a_step_that_changes_no_weight(
    trainer: Trainer, stream: Stream, model_path: Path
) -> None:
    await trainer.configure(grpo_spec(model_path))
    result = await trainer.train(manifest_of(0, []))
    assert (result.weights.policy_version, result.rows, result.tokens_trained) == (1, 0, 0)


async def test_another_job_stops_the_running_step_and_takes_over(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path, tmp_path: Path
) -> None:
    spec = grpo_spec(model_path)
    spec.algorithm.policy_gradient.batching.epochs = 1000
    await trainer.configure(spec)
    first = trainer.stub.TrainStep(wire.TrainStepRequest(epoch=1, manifest=await stream.manifest(0, group(sampler))))
    await first.read()
    other = grpo_spec(model_path)
    other.name = "other"
    await until_configured(trainer.stub, configure_request(other, tmp_path / "other", uid="uid-2"))
    assert await first.code() == grpc.StatusCode.ABORTED
    assert "was given another job" in (await first.details() or "")
    status = await trainer.stub.Status(wire.StatusRequest())
    assert (status.job_uid, status.step, status.busy) == ("uid-2", 0, False)


async def test_a_trainer_that_ends_in_a_step_says_that_another_one_will_do_it(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path, nats_url: str
) -> None:
    spec = grpo_spec(model_path)
    spec.algorithm.policy_gradient.batching.epochs = 1000
    await trainer.configure(spec)
    request = wire.TrainStepRequest(epoch=1, manifest=await stream.manifest(0, group(sampler)))
    first = trainer.stub.TrainStep(request)
    while (await first.read()).progress.phase != "training":
        pass
    await trainer.server.close()
    assert await first.code() == grpc.StatusCode.UNAVAILABLE
    assert "step 0 was stopped: the trainer is ending" in (await first.details() or "")
    successor, channel = await start(nats_url, trainer.run_path)
    try:
        assert (await successor.configure(grpo_spec(model_path))).step == 0
        assert (await successor.train(request.manifest)).step == 0
    finally:
        await channel.close()
        await successor.server.close(0.1)


async def test_progress_comes_at_least_every_second(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*arguments: Any) -> dict[str, float]:
        time.sleep(1.5)
        return train_rows(*arguments)

    monkeypatch.setattr("whetstone_trainer.backends.local.backend.train_rows", slow)
    await trainer.configure(grpo_spec(model_path))
    request = wire.TrainStepRequest(epoch=1, manifest=await stream.manifest(0, group(sampler)))
    heard, phases = [time.monotonic()], set()
    async for response in trainer.stub.TrainStep(request):
        heard.append(time.monotonic())
        phases.add(response.progress.phase)
    assert max(later - earlier for earlier, later in pairwise(heard)) < 1
    assert phases >= {"reading", "training"}


async def test_rows_without_a_signal_are_left_out(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    await trainer.configure(grpo_spec(model_path))
    flat = group(sampler, 1)
    for episode in flat:
        episode.reward = 1
    result = await trainer.train(await stream.manifest(0, [*group(sampler), *flat]))
    counted = ("rows", "rows_trained", "zero_advantage_rows", "groups", "groups_with_signal", "tokens_trained")
    assert [result.metrics[name] for name in counted] == [8, 4, 4, 2, 1, 8]
    assert result.metrics["logprob_diff/episodes_checked"] == 8


async def test_weights_that_exist_are_taken_over_because_a_version_is_immutable(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    await trainer.configure(grpo_spec(model_path))
    there = trainer.run_path / "weights" / "v1"
    save_weights({name: weight + 0.01 for name, weight in sampler.model.named_parameters()}, there, 1, model_path)
    before = (there / "model.safetensors").read_bytes()
    result = await trainer.train(await stream.manifest(0, group(sampler)))
    assert (result.weights.path, (there / "model.safetensors").read_bytes()) == (str(there), before)
    expected = Sampler(there).logprobs(PROMPT, [70])[0]
    assert await probability(trainer, 70) == pytest.approx(np.exp(expected), rel=1e-5)
