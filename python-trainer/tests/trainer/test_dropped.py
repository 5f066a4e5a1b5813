# SPDX-License-Identifier: Apache-2.0
"""An episode that cannot be trained costs the step that episode, never the job, and the books say so."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from trainer_client import Trainer, probability, start
from trainer_kit import Sampler, Stream, group, grpo_spec, manifest_of
from whetstone.events.v1 import events_pb2 as events
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.trainer.v1 import trainer_pb2 as wire
from whetstone.types.v1 import types_pb2 as types

from whetstone_models.folder import load_model


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whetstone_trainer.batch.ingest.BEHIND_S", 0.3)


def unlabelled(episode: types.Episode) -> None:
    episode.calls[0].version_spans[0].end = 1


def too_new(episode: types.Episode) -> None:
    episode.calls[0].version_spans[0].policy_version = 9


def unknown_token(episode: types.Episode) -> None:
    episode.calls[0].completion_ids[0] = 1_000_000


def greedy(episode: types.Episode) -> None:
    episode.calls[0].sampling.temperature = 0


def reasons(result: wire.TrainResult) -> list[tuple[str, str]]:
    return [(one.episode_id, one.reason) for one in result.dropped]


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (unlabelled, "token 1 of 2 has no policy version"),
        (too_new, "version 9 is newer than step 0"),
        (unknown_token, "token id 1000000 is not below"),
        (greedy, "every call was greedy"),
    ],
)
async def test_one_episode_that_breaks_the_contract_is_dropped_and_the_others_are_trained(
    trainer: Trainer,
    stream: Stream,
    sampler: Sampler,
    model_path: Path,
    break_it: Callable[[types.Episode], None],
    words: str,
) -> None:
    await trainer.configure(grpo_spec(model_path))
    episodes = group(sampler)
    break_it(episodes[1])
    result = await trainer.train(await stream.manifest(0, episodes))
    assert reasons(result) == [("toy/g0/s1", "NotTrainable")]
    assert words in result.dropped[0].message
    assert (result.rows, result.metrics["episodes"], result.metrics["episodes_dropped"]) == (3, 3, 1)
    # Rewards 1, 1, 0: the statistics of the group do not see the lost member.
    assert result.metrics["reward/agent/mean"] == pytest.approx(2 / 3)
    assert [notice.reason for notice in result.notices] == ["EpisodesDropped"]


async def test_a_body_that_is_gone_or_differs_costs_one_episode_and_the_same_step_again_drops_the_same(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path, nats_url: str
) -> None:
    await trainer.configure(grpo_spec(model_path))
    episodes = group(sampler)
    entries = [await stream.publish(episode) for episode in episodes[:3]]
    entries[0].sequence = 999
    entries.append(await stream.publish(episodes[3], body=b"another"))
    manifest = manifest_of(0, entries)
    result = await trainer.train(manifest)
    assert reasons(result) == [("toy/g0/s0", "Unreadable"), ("toy/g0/s3", "Unreadable")]
    assert "sequence 999: no such message" in result.dropped[0].message
    assert "digest" in result.dropped[1].message
    state = json.loads((trainer.run_path / "checkpoints" / "step-1" / "state.json").read_text())
    assert (state["consumed"][0]["episodes"], state["consumed"][0]["dropped"]) == (2, ["toy/g0/s0", "toy/g0/s3"])
    restarted, channel = await start(nats_url, trainer.run_path)
    try:
        await restarted.configure(grpo_spec(model_path))
        again = await restarted.train(manifest)
        assert (again.replayed, list(again.dropped)) == (True, list(result.dropped))
    finally:
        await channel.close()
        await restarted.server.close(0.1)


async def test_a_step_done_again_leaves_out_what_its_record_says(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    """The body is there again, but the first result did not see it: the weights that follow must be the same."""
    await trainer.configure(grpo_spec(model_path))
    recorded = [jobs.DroppedEpisode(episode_id="toy/g0/s2", reason="Unreadable", message="no such message")]
    result = await trainer.train(await stream.manifest(0, group(sampler)), dropped=recorded)
    assert (list(result.dropped), result.rows) == (recorded, 3)


async def test_a_token_older_than_the_lag_is_not_trained(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    """Admission makes it impossible (I3), and the audit counts it; the trainer trusts neither."""
    await trainer.configure(grpo_spec(model_path))
    await trainer.train(await stream.manifest(0, group(sampler)))
    episodes = group(sampler, 1, version=1)
    episodes[2].calls[0].version_spans[0].policy_version = 0
    result = await trainer.train(await stream.manifest(1, episodes))
    assert reasons(result) == [("toy/g1/s2", "NotTrainable")]
    assert "sampled by version 0, step 1 trains versions from 1 on" in result.dropped[0].message


async def test_a_group_whose_baseline_has_no_reward_is_dropped_whole(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    spec = grpo_spec(model_path, batch_groups=2)
    spec.algorithm.policy_gradient.advantage = types.ADVANTAGE_ESTIMATOR_REMAX
    await trainer.configure(spec)
    manifest = events.BatchManifest.FromString(await stream.manifest(0, [*group(sampler), *group(sampler, 1)]))
    for name, reward in {"g0": 0.5, "g1": math.nan}.items():
        manifest.baselines.add(episode_id=f"toy/b{name}/s0", group=name, reward=reward)
    result = await trainer.train(manifest.SerializeToString())
    assert reasons(result) == [(f"toy/g1/s{sample}", "GroupIncomplete") for sample in range(4)]
    assert (result.rows, result.metrics["optimizer_steps"]) == (4, 1)


async def test_a_group_left_too_small_is_dropped_whole(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    spec = grpo_spec(model_path, batch_groups=2)
    spec.loop.group_policy.partial.min_size = 4
    await trainer.configure(spec)
    episodes = [*group(sampler), *group(sampler, 1)]
    unlabelled(episodes[2])
    result = await trainer.train(await stream.manifest(0, episodes))
    assert [reason for _, reason in reasons(result)] == ["GroupIncomplete"] * 2 + ["NotTrainable", "GroupIncomplete"]
    assert (result.rows, result.metrics["groups"]) == (4, 1)


async def test_a_batch_of_which_nothing_is_left_is_a_step_that_changes_nothing_and_says_so(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Path
) -> None:
    await trainer.configure(grpo_spec(model_path))
    before = await probability(trainer, 70)
    episodes = group(sampler)
    for episode in episodes:
        unlabelled(episode)
    result = await trainer.train(await stream.manifest(0, episodes))
    assert (len(result.dropped), result.weights.policy_version, result.metrics["optimizer_steps"]) == (4, 1, 0)
    assert await probability(trainer, 70) == before
    load_model(Path(result.weights.path))
    shutil.rmtree(trainer.run_path / "checkpoints")
    assert (await trainer.train(await stream.manifest(1, group(sampler, 1)))).step == 1
