# SPDX-License-Identifier: Apache-2.0
"""Direct preference optimization: a whole step beside a naive one, how it may be cut, and through the service."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_gradients import SETTINGS, adam, make_rows
from test_whole_step import flat, logprobs
from torch import Tensor
from trainer_client import Trainer, probability
from trainer_kit import Stream, dpo_spec, pair
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_models.folder import load_model
from whetstone_models.hugging_face import load_causal_lm
from whetstone_trainer.algorithms.preference import is_chosen, judged_pairs, with_pairs
from whetstone_trainer.backends.local.memory import TokenBudget
from whetstone_trainer.backends.local.policy import TransformerPolicy
from whetstone_trainer.backends.local.preference_learner import train_pairs
from whetstone_trainer.batch.rows import Row, with_shares
from whetstone_trainer.batch.trajectories import Trajectory
from whetstone_trainer.contract.rules import with_defaults
from whetstone_trainer.contract.settings import AlgorithmSettings, TrainSettings

OPTIONS = {
    "dpo": with_defaults(jobs.Dpo(beta=0.3)),
    "smoothed": with_defaults(jobs.Dpo(beta=0.3, label_smoothing=0.2)),
    "ipo": with_defaults(jobs.Dpo(variant=jobs.DPO_VARIANT_IPO, beta=0.3)),
}


def pairs() -> list[Row]:
    """Four pairs; the last conversation has two rows. References are not far from what random weights give."""
    rng = np.random.default_rng(3)
    rows = []
    for index, row in enumerate(with_shares([replace(one, trajectory=min(one.episode, 7)) for one in make_rows(9)])):
        tokens, sign = len(row.positions), 1.0 if row.trajectory % 2 == 0 else -1.0
        reference = rng.normal(-5.5, 0.5, tokens).astype(np.float32)
        columns = {"reference": reference, "advantages": np.full(tokens, sign, dtype=np.float32)}
        rows.append(replace(row, episode=index, pair=row.trajectory // 2, **columns))
    return rows


def settings_of(options: jobs.Dpo, **batching: Any) -> TrainSettings:
    algorithm = AlgorithmSettings("dpo", "preference", "", preference=options)
    rates = adam(learning_rate=1, gradient_clip=1e9)
    return replace(SETTINGS, algorithm=algorithm, optimizer=rates, batching=with_defaults(jobs.Batching(**batching)))


def trained(model_path: Path, rows: list[Row], settings: TrainSettings, tokens: int = 10**6):
    """What a step of plain gradient descent with rate 1 adds to each weight, and its metrics."""
    policy = TransformerPolicy(load_model(model_path))
    before = {name: one.detach().double().clone() for name, one in policy.module.named_parameters()}
    sgd = torch.optim.SGD(policy.module.parameters())
    metrics = train_pairs(policy, sgd, rows, settings, 0, lambda _: None, TokenBudget(tokens))
    return {name: one.detach().double() - before[name] for name, one in policy.module.named_parameters()}, metrics


def naive_loss(model: torch.nn.Module, rows: list[Row], options: jobs.Dpo) -> Tensor:
    """Every formula written out again, in float64, pair by pair."""
    losses = []
    for index in sorted({row.pair for row in rows}):
        sides = []
        for chosen in (True, False):
            own = [row for row in rows if row.pair == index and (row.advantages[0] > 0) == chosen]
            ratios = torch.cat([logprobs(model, row) - torch.from_numpy(row.reference).double() for row in own])
            sides.append(ratios.mean() if options.variant == jobs.DPO_VARIANT_IPO else ratios.sum())
        h = sides[0] - sides[1]
        if options.variant == jobs.DPO_VARIANT_IPO:
            losses.append((h - 1 / (2 * options.beta)) ** 2)
        else:
            eps = options.label_smoothing
            losses.append(
                -(1 - eps) * torch.sigmoid(options.beta * h).log() - eps * torch.sigmoid(-options.beta * h).log()
            )
    return torch.stack(losses).mean()


@pytest.mark.parametrize("name", OPTIONS)
def test_a_step_is_the_naive_one(model_path: Path, name: str) -> None:
    rows, options = pairs(), OPTIONS[name]
    model = load_causal_lm(model_path).double()
    loss = naive_loss(model, rows, options)
    loss.backward()
    expected = {name: -one.grad for name, one in model.named_parameters() if one.grad is not None}
    added, metrics = trained(model_path, rows, settings_of(options))
    weights = flat({name: one.detach() for name, one in load_causal_lm(model_path).double().named_parameters()})
    moved, found = flat(expected), flat(added)
    assert metrics["loss"] == pytest.approx(float(loss.detach()), rel=1e-6)
    assert moved.norm() > 1e-2
    assert (found - moved).norm() < 1e-6 * (weights + moved).norm()
    assert (found - moved).norm() < 1e-4 * moved.norm()


@pytest.mark.parametrize("name", ["dpo", "ipo"])
def test_how_it_is_cut_changes_nothing(model_path: Path, name: str) -> None:
    """The two of a pair, and the rows of one conversation, may be in different micro-batches (I10)."""
    whole, _ = trained(model_path, pairs(), settings_of(OPTIONS[name]))
    cut, _ = trained(model_path, pairs(), settings_of(OPTIONS[name]), tokens=8)
    assert (flat(whole) - flat(cut)).norm() < 1e-5 * flat(whole).norm()


def test_mini_batches_keep_pairs_whole(model_path: Path) -> None:
    """Where weights hardly move, the mean of the mini-batches' losses is that of the batch: no pair was cut in two."""
    hardly = replace(settings_of(OPTIONS["dpo"]), optimizer=adam(learning_rate=1e-12))
    _, whole = trained(model_path, pairs(), hardly)
    cut = with_defaults(jobs.Batching(mini_batches=2, epochs=2))
    _, metrics = trained(model_path, pairs(), replace(hardly, batching=cut))
    assert metrics["optimizer_steps"] == 4
    assert metrics["loss"] == pytest.approx(whole["loss"], rel=1e-6)


def test_where_the_policy_is_the_reference_nothing_is_preferred_yet() -> None:
    rows = pairs()
    judged = judged_pairs(rows, [row.reference for row in rows], OPTIONS["dpo"])
    assert judged.metrics["loss"] == pytest.approx(float(F.softplus(torch.zeros(()))))
    assert (judged.metrics["rewards/margins"], judged.metrics["rewards/accuracies"]) == (0, 0)
    assert all((slope < 0) == is_chosen(row) for slope, row in zip(judged.slopes, rows, strict=True))


def test_rows_know_their_pair() -> None:
    rows = pairs()
    trajectories = [Trajectory(index, f"g{index // 2}", "agent", 1.0 - index % 2, True) for index in range(8)]
    assert [row.pair for row in with_pairs(rows, trajectories)] == [row.pair for row in rows]


@pytest.mark.parametrize("variant", [jobs.DPO_VARIANT_DPO, jobs.DPO_VARIANT_IPO])
async def test_what_was_chosen_becomes_likelier(
    trainer: Trainer, stream: Stream, model_path: Path, variant: jobs.DpoVariant
) -> None:
    await trainer.configure(dpo_spec(model_path, variant))
    chosen, rejected = await probability(trainer, 70), await probability(trainer, 71)
    margins, accuracies = [], []
    for step in range(3):
        batch = [one for i in range(2) for one in pair(2 * step + i, [70, 260], [71, 80 + i, 260])]
        result = await trainer.train(await stream.manifest(step, batch))
        margins.append(result.metrics["rewards/margins"])
        accuracies.append(result.metrics["rewards/accuracies"])
        assert (result.rows, result.tokens_trained) == (4, 10)
    assert margins[0] == pytest.approx(0, abs=1e-6)
    assert margins[0] < margins[1] < margins[2]
    assert accuracies[-1] == 1
    assert await probability(trainer, 70) / chosen > await probability(trainer, 71) / rejected


async def test_a_pair_of_which_one_is_gone_is_dropped_whole(trainer: Trainer, stream: Stream, model_path: Path) -> None:
    await trainer.configure(dpo_spec(model_path))
    broken = pair(0, [70, 260], [71, 260])
    broken[1].calls[0].demonstration_mask.append(1)
    result = await trainer.train(await stream.manifest(0, [*broken, *pair(1, [70, 260], [72, 260])]))
    assert [one.reason for one in result.dropped] == ["GroupIncomplete", "NotTrainable"]
    assert result.rows == 2


async def test_a_reference_of_another_vocabulary_is_refused_by_its_path(
    trainer: Trainer, model_path: Path, tmp_path: Path
) -> None:
    spec = dpo_spec(model_path)
    spec.algorithm.dpo.reference = str(tmp_path)
    with pytest.raises(Exception, match=r"algorithm\.dpo\.reference"):
        await trainer.configure(spec)
