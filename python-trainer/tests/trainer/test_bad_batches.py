# SPDX-License-Identifier: Apache-2.0
"""Ten bad episodes of each kind in a batch, for every algorithm: the step is that of the batch without them."""

from __future__ import annotations

import hashlib
import math
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from trainer_kit import JOB, PROMPT, UID, Sampler, Turn, demonstration, grpo_spec, sft_spec
from whetstone.events.v1 import events_pb2 as events
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_models.init import VOCAB
from whetstone_trainer.algorithms.advantages import ESTIMATORS
from whetstone_trainer.algorithms.losses import TOKEN_LOSSES
from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.contract.settings import parse_settings
from whetstone_trainer.service.run import JobRun, untold
from whetstone_trainer.service.step import StepRequest
from whetstone_trainer.weights.run_folder import RunFolder

GROUPS, MEMBERS, OF_EACH_KIND = 3, 4, 10
TOKENS, CONTEXT = range(65, 91), 1024


def greedy(episode: types.Episode, chance: random.Random) -> None:
    for call in episode.calls:
        call.sampling.temperature = 0


def without_logprobs(episode: types.Episode, chance: random.Random) -> None:
    del chance.choice(episode.calls).logprobs[chance.randint(0, 1) :]


def wrong_vocabulary(episode: types.Episode, chance: random.Random) -> None:
    call = chance.choice(episode.calls)
    ids = chance.choice([call.prompt_ids, call.completion_ids])
    ids[chance.randrange(len(ids))] = chance.choice([VOCAB, 10**6, 2**32 - 1])


def huge(episode: types.Episode, chance: random.Random) -> None:
    if chance.random() < 0.5:
        episode.calls[0].prompt_ids.extend(chance.choices(TOKENS, k=chance.randint(CONTEXT, 100 * CONTEXT)))
    else:
        episode.reward = chance.choice([-1, 1]) * 10 ** chance.uniform(13, 300)


def empty(episode: types.Episode, chance: random.Random) -> None:
    if chance.random() < 0.5:
        del episode.calls[:]
    for call in episode.calls:
        for field in ("completion_ids", "logprobs", "version_spans", "demonstration_mask"):
            call.ClearField(field)


def not_a_number(episode: types.Episode, chance: random.Random) -> None:
    value = chance.choice([math.nan, math.inf, -math.inf])
    where = chance.choice(["reward", "trajectory", "logprob", "temperature"])
    if where == "reward":
        episode.reward = value
    elif where == "trajectory":
        episode.trajectories.add(role="agent", reward=value)
    elif where == "logprob":
        call = chance.choice(episode.calls)
        call.logprobs[chance.randrange(len(call.logprobs))] = value
    else:
        for call in episode.calls:
            call.sampling.temperature = value


def alien_label(episode: types.Episode, chance: random.Random) -> None:
    spans = chance.choice(episode.calls).version_spans
    spans[0].policy_version = chance.choice([1, 2, 10**6, 2**63, 2**64 - 1])
    if chance.random() < 0.5:
        spans[0].policy_version = 0
        spans[0].end = chance.choice([0, 1, 10**6])


# How an episode is broken, and what the step says of it.
KINDS: dict[Callable[[types.Episode, random.Random], None], str] = {
    greedy: "every call was greedy",
    without_logprobs: r"\d completion ids but [01] logprobs",
    wrong_vocabulary: "is not below",
    huge: f"longer than the {CONTEXT} of the model|reward is beyond",
    empty: "no token of it was sampled",
    not_a_number: "is not finite|every call was greedy",
    alien_label: "is newer than step 0|has no policy version|version span",
}


def specs() -> Iterator[tuple[str, Callable[[Path], jobs.JobSpec]]]:
    """Of every advantage with a loss and every loss with an advantage that there are, and of SFT."""
    for name, estimator in ESTIMATORS.items():
        if estimator.wire is not None:
            yield name, lambda model, wire=estimator.wire: _spec(model, advantage=wire)
    for name, loss in TOKEN_LOSSES.items():
        if loss.wire is not None:
            yield name, lambda model, wire=loss.wire: _spec(model, loss=wire)
    yield "sft", sft_spec


def _spec(model: Path, **options: object) -> jobs.JobSpec:
    spec = grpo_spec(model, batch_groups=GROUPS)
    chosen = spec.algorithm.policy_gradient
    chosen.MergeFrom(jobs.PolicyGradient(**options))  # type: ignore[arg-type]
    chosen.batching.MergeFrom(jobs.Batching(mini_batches=2))
    if chosen.advantage == types.ADVANTAGE_ESTIMATOR_NONE:
        chosen.entropy_coefficient = 0.01
    if chosen.advantage == types.ADVANTAGE_ESTIMATOR_GAE:
        chosen.critic.SetInParent()
    return spec


def sampled(sampler: Sampler, group: int, sample: int, chance: random.Random) -> types.Episode:
    turns = [Turn([*PROMPT, *chance.choices(TOKENS, k=n)], chance.choices(TOKENS, k=3 + n)) for n in range(2)]
    return sampler.episode(group, sample, turns, float(sample == 0 or chance.random() < 0.5) - (sample == 1))


def broken(
    break_it: Callable[[types.Episode, random.Random], None], sampler: Sampler, index: int, chance: random.Random
) -> types.Episode:
    """In a group of sound ones, or in one of its own."""
    episode = sampled(sampler, chance.randrange(2 * GROUPS), 100 + index, chance)
    break_it(episode, chance)
    return episode


def request(episodes: list[types.Episode]) -> StepRequest:
    bodies = [episode.SerializeToString() for episode in episodes]
    entries = [events.BatchEntry(episode_id=one.id, group=one.group, reward=one.reward) for one in episodes]
    groups = sorted({one.group for one in episodes})
    baselines = [events.BaselineEntry(episode_id=f"{JOB}/b{group}", group=group, reward=0.5) for group in groups]
    manifest = events.BatchManifest(job=JOB, step=0, epoch=1, entries=entries, baselines=baselines)
    return StepRequest(manifest, "digest", bodies, 0.0)


def trained(spec: jobs.JobSpec, episodes: list[types.Episode], run_path: Path) -> tuple[list[str], dict[str, str]]:
    """Digests of weights and critic after the step, and what it says of the episodes that it left out."""
    settings = parse_settings(spec)
    folder = RunFolder(run_path, Path(settings.model_path))
    run = JobRun(settings, folder, UID, LocalBackend(torch.device("cpu"), torch.float32))
    result = run.train(request(episodes), untold)
    assert result.metrics["optimizer_steps"] > 0
    assert all(map(math.isfinite, result.metrics.values()))
    files = [folder.weights(1) / "model.safetensors", *sorted(folder.checkpoint(1).glob("critic.safetensors"))]
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    assert {one.reason for one in result.dropped} <= {"NotTrainable"}
    return digests, {one.episode_id: one.message for one in result.dropped}


@pytest.mark.parametrize(("seed", "name", "spec"), [(seed, *one) for seed, one in enumerate(specs())])
def test_a_batch_with_bad_episodes_trains_as_the_batch_without_them(
    seed: int, name: str, spec: Callable[[Path], jobs.JobSpec], model_path: Path, sampler: Sampler, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    if name == "sft":
        good = [demonstration(index, PROMPT, chance.choices(TOKENS, k=6)) for index in range(GROUPS * MEMBERS)]
    else:
        places = [(group, sample) for group in range(GROUPS) for sample in range(MEMBERS)]
        good = [sampled(sampler, *place, chance) for place in places]
    bad: dict[str, str] = {}
    mixed = list(good)
    for kind, (break_it, words) in enumerate(KINDS.items()):
        for index in range(OF_EACH_KIND):
            one = broken(break_it, sampler, OF_EACH_KIND * kind + index, chance)
            bad[one.id] = words
            mixed.insert(chance.randint(0, len(mixed)), one)
    weights, left_out = trained(spec(model_path), mixed, tmp_path / "mixed")
    assert left_out.keys() == bad.keys()
    for episode, message in left_out.items():
        assert re.search(bad[episode], message), f"{episode}: {message}"
    assert weights == trained(spec(model_path), good, tmp_path / "good")[0]
