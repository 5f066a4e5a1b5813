# SPDX-License-Identifier: Apache-2.0
"""Ten bad episodes of each kind in a batch, for every algorithm: the step is that of the batch without them."""

from __future__ import annotations

import hashlib
import itertools
import math
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from bad_episodes import KINDS, PAIR_KINDS, TOKENS, Pair
from compute_device import DEVICE
from trainer_kit import JOB, PROMPT, UID, Sampler, Turn, demonstration, dpo_spec, grpo_spec, pair, sft_spec
from whetstone.events.v1 import events_pb2 as events
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.advantages import ESTIMATORS
from whetstone_trainer.algorithms.custom import ModuleRules
from whetstone_trainer.algorithms.losses import TOKEN_LOSSES
from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.contract.settings import parse_settings
from whetstone_trainer.service.run import JobRun, untold
from whetstone_trainer.service.step import StepRequest
from whetstone_trainer.weights.run_folder import RunFolder

GROUPS, MEMBERS, OF_EACH_KIND = 3, 4, 10

OWN = """
import numpy as np
from whetstone_trainer.algorithms.estimator import Estimator, rewards
from whetstone_trainer.algorithms.token_loss import TokenLoss, TokenLossOutput

def advantages(members, options):
    return rewards(members) - np.median(rewards(members))

def losses(given, options):
    ratio_N = given.ratio_N()
    return TokenLossOutput(-ratio_N * given.advantages_N, ratio_N.detach(), ratio_N.detach() > 2)

ESTIMATOR = Estimator("median", advantages, None, fewest_members=2, batch_factor=lambda members: 12 / len(members))
TOKEN_LOSS = TokenLoss("unclipped", losses, wire=None)
"""


def specs() -> Iterator[tuple[str, Callable[[Path], jobs.JobSpec]]]:
    """Of every advantage with a loss and every loss with an advantage that there are, of a job's own, SFT and DPO."""
    for name, estimator in ESTIMATORS.items():
        if estimator.wire is not None:
            yield name, lambda model, wire=estimator.wire: _spec(model, advantage=wire)
    for name, loss in TOKEN_LOSSES.items():
        if loss.wire is not None:
            yield name, lambda model, wire=loss.wire: _spec(model, loss=wire)
    yield "custom", _own_spec
    yield "sft", sft_spec
    yield "dpo", dpo_spec
    yield "ipo", lambda model: dpo_spec(model, jobs.DPO_VARIANT_IPO)


def _own_spec(model: Path) -> jobs.JobSpec:
    own = {"advantage": types.ADVANTAGE_ESTIMATOR_CUSTOM, "loss": types.POLICY_LOSS_CUSTOM}
    return _spec(model, **own, module=OWN, module_digest=hashlib.sha256(OWN.encode()).hexdigest())


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


def sound(name: str, sampler: Sampler, chance: random.Random) -> list[types.Episode]:
    if name in ("dpo", "ipo"):
        return [one for index in range(GROUPS) for one in sound_pair(index, chance)]
    if name == "sft":
        return [demonstration(index, PROMPT, chance.choices(TOKENS, k=6)) for index in range(GROUPS * MEMBERS)]
    places = [(group, sample) for group in range(GROUPS) for sample in range(MEMBERS)]
    return [sampled(sampler, *place, chance) for place in places]


def sound_pair(index: int, chance: random.Random) -> Pair:
    return pair(index, chance.choices(TOKENS, k=5), chance.choices(TOKENS, k=6))


def unsound(name: str, sampler: Sampler, chance: random.Random) -> Iterator[tuple[types.Episode, str]]:
    """Bad episodes, each with what the step says of it."""
    if name in ("dpo", "ipo"):
        yield from unsound_pairs(sampler, chance)
        return
    for kind, (break_it, words) in enumerate(KINDS.items()):
        for index in range(OF_EACH_KIND):
            yield broken(break_it, sampler, OF_EACH_KIND * kind + index, chance), words


def unsound_pairs(sampler: Sampler, chance: random.Random) -> Iterator[tuple[types.Episode, str]]:
    numbers = itertools.count(GROUPS)
    for break_it, words in KINDS.items():
        for number in itertools.islice(numbers, OF_EACH_KIND):
            bad, other = chance.sample([sampled(sampler, number, sample, chance) for sample in range(2)], 2)
            break_it(bad, chance)
            yield bad, words
            yield other, "1 of group .* are left, it needs 2"
    for break_pair, words in PAIR_KINDS.items():
        for number in itertools.islice(numbers, OF_EACH_KIND):
            yield from ((one, words) for one in break_pair(sound_pair(number, chance)))


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
    run_path.mkdir()
    backend = LocalBackend(DEVICE, torch.float32)
    run = JobRun(settings, folder, UID, backend, modules=ModuleRules(is_allowed=True))
    result = run.train(request(episodes), untold)
    assert result.metrics["optimizer_steps"] > 0
    assert all(map(math.isfinite, result.metrics.values()))
    files = [folder.weights(1) / "model.safetensors", *sorted(folder.checkpoint(1).glob("critic.safetensors"))]
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    reasons = {"NotTrainable", "GroupIncomplete"} if spec.algorithm.HasField("dpo") else {"NotTrainable"}
    assert {one.reason for one in result.dropped} <= reasons
    return digests, {one.episode_id: one.message for one in result.dropped}


@pytest.mark.parametrize(("seed", "name", "spec"), [(seed, *one) for seed, one in enumerate(specs())])
def test_a_batch_with_bad_episodes_trains_as_the_batch_without_them(
    seed: int, name: str, spec: Callable[[Path], jobs.JobSpec], model_path: Path, sampler: Sampler, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    good, bad = sound(name, sampler, chance), dict[str, str]()
    mixed = list(good)
    for one, words in unsound(name, sampler, chance):
        bad[one.id] = words
        mixed.insert(chance.randint(0, len(mixed)), one)
    weights, left_out = trained(spec(model_path), mixed, tmp_path / "mixed")
    assert left_out.keys() == bad.keys()
    for episode, message in left_out.items():
        assert re.search(bad[episode], message), f"{episode}: {message}"
    assert weights == trained(spec(model_path), good, tmp_path / "good")[0]
