# SPDX-License-Identifier: Apache-2.0
"""What holds of every estimator and every loss whatever the batch, over random ones in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from trainer_kit import agg_loss
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_trainer.algorithms.advantages import ESTIMATORS
from whetstone_trainer.algorithms.estimates import estimate_advantages
from whetstone_trainer.algorithms.estimator import Member
from whetstone_trainer.algorithms.importance import importance_weights
from whetstone_trainer.algorithms.losses import TOKEN_LOSSES
from whetstone_trainer.algorithms.rejection import kept_tokens
from whetstone_trainer.algorithms.token_loss import TokenLossInput
from whetstone_trainer.contract.rules import with_defaults
from whetstone_trainer.contract.settings import AGGREGATIONS, AlgorithmSettings

CASES = settings(max_examples=200, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)
OPTIONS = with_defaults(jobs.PolicyGradient(dro_beta=0.1, gamma=0.9, gae_lambda=0.8))
MODES = sorted(set(AGGREGATIONS.values()))
COMPARING = sorted(name for name, one in ESTIMATORS.items() if one.compares)


class Case:
    """Up to nine sequences of up to six tokens; a token that is not trained may be anywhere."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.rows = int(rng.integers(2, 10))
        shape = (self.rows, 6)
        self.mask = torch.from_numpy(rng.random(shape) < 0.6)
        self.mask[:, 0] = True
        self.old = torch.from_numpy(np.log(rng.uniform(0.05, 0.9, shape)))
        self.new = torch.from_numpy(np.minimum(self.old.numpy() + rng.normal(0, 0.4, shape), -0.01))
        self.advantages = torch.from_numpy(rng.normal(size=(self.rows, 1))).expand(shape)

    def members(self) -> list[Member]:
        found = []
        for index in range(self.rows):
            tokens, reward = int(self.mask[index].sum()), float(self.rng.integers(0, 4))
            rewards_K = np.zeros(tokens)
            rewards_K[-1] = reward
            group = int(self.rng.integers(0, 3))
            found.append(Member(group, reward, rewards_K, self.rng.normal(size=tokens), baseline=0.25 * group))
        return found


def gradient(name: str, case: Case, mode: str, chosen: np.ndarray, workers: int = 1, new: torch.Tensor | None = None):
    """Of the chosen rows' part of the whole batch's loss, [rows, 6], and that part."""
    logprobs = (case.new if new is None else new).clone().requires_grad_()
    loss, mask = TOKEN_LOSSES[name], case.mask
    terms = loss.sequence_term((logprobs - case.old).detach(), case.advantages, OPTIONS).where(mask, torch.tensor(0.0))
    means = terms.sum(1, keepdim=True) / mask.sum(1, keepdim=True)
    losses = loss.losses(TokenLossInput(logprobs, case.old, case.advantages, means.expand_as(logprobs)), OPTIONS)
    totals = {"total_tokens": float(mask.sum()), "total_rows": float(case.rows), "scale_factor": 6.0}
    part = agg_loss(losses.losses_N[chosen], mask[chosen], mode, workers, **totals)
    return torch.autograd.grad(part, logprobs)[0], part.detach()


def estimated(name: str, members: list[Member], options: jobs.PolicyGradient = OPTIONS) -> list[np.ndarray]:
    fewest = ESTIMATORS[name].fewest_members
    return estimate_advantages(members, AlgorithmSettings("x", name, "clipped", min_group=fewest, options=options))


def close(found: list[np.ndarray], expected: list[np.ndarray], atol: float = 1e-9) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=atol)


@pytest.mark.parametrize("name", sorted(TOKEN_LOSSES))
@CASES
@given(SEEDS, st.sampled_from(MODES), st.integers(1, 4))
def test_1_no_split_and_no_number_of_workers_changes_a_gradient(name: str, seed: int, mode: str, workers: int) -> None:
    case = Case(seed)
    whole, _ = gradient(name, case, mode, np.arange(case.rows))
    part_of = case.rng.integers(0, workers, case.rows)
    parts = [gradient(name, case, mode, np.flatnonzero(part_of == part), workers)[0] for part in range(workers)]
    np.testing.assert_allclose(sum(parts) / workers, whole, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", sorted(TOKEN_LOSSES))
@CASES
@given(SEEDS, st.sampled_from(MODES))
def test_2_a_token_that_is_not_trained_has_no_gradient_and_no_say(name: str, seed: int, mode: str) -> None:
    case = Case(seed)
    before, loss = gradient(name, case, mode, np.arange(case.rows))
    assert not before[~case.mask].any()
    changed = torch.where(case.mask, case.new, torch.tensor(-7.0, dtype=torch.float64))
    after, same = gradient(name, case, mode, np.arange(case.rows), new=changed)
    assert torch.equal(loss, same)
    assert torch.equal(before, after)


@pytest.mark.parametrize("name", COMPARING)
@CASES
@given(SEEDS)
def test_3_equal_rewards_say_nothing(name: str, seed: int) -> None:
    members = [replace(one, reward=0.1 * one.group + 0.3) for one in Case(seed).members()]  # type: ignore
    assert not any(one.any() for one in estimated(name, members))


@pytest.mark.parametrize("name", sorted(set(TOKEN_LOSSES) - {"nll"}))
@CASES
@given(SEEDS)
def test_4_on_policy_all_losses_have_one_gradient(name: str, seed: int) -> None:
    """Under the token mean; those with a ratio a sequence under the mean of sequences' means."""
    case, mode = Case(seed), "seq-mean-token-mean" if TOKEN_LOSSES[name].of_sequences else "token-mean"
    everything = np.arange(case.rows)
    found, _ = gradient(name, case, mode, everything, new=case.old)
    expected, _ = gradient("reinforce", case, mode, everything, new=case.old)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)


@CASES
@given(SEEDS, st.sampled_from([jobs.CORRECTION_LEVEL_TOKEN, jobs.CORRECTION_LEVEL_SEQUENCE]))
def test_5_without_a_cap_weights_are_the_ratios_and_of_one_policy_they_are_1(seed: int, level: int) -> None:
    case = Case(seed)
    ratios = [row[kept].numpy() for row, kept in zip(case.new - case.old, case.mask, strict=True)]
    whole = [np.exp(one if level == jobs.CORRECTION_LEVEL_TOKEN else one.sum() + 0 * one) for one in ratios]
    close(importance_weights(ratios, jobs.Correction(level=level, cap=1e9))[0], whole)  # type: ignore
    same = [0 * one for one in ratios]
    for normalize in (False, True):
        weights, out = importance_weights(same, jobs.Correction(level=level, normalize=normalize))  # type: ignore
        assert all((one == 1).all() for one in weights)
        assert out == 0
    rejections = [jobs.Rejection(statistic=one, high=1.001) for one in jobs.RejectionStatistic.values() if one]  # type: ignore
    assert all(one.all() for one in kept_tokens(same, rejections))


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
@CASES
@given(SEEDS)
def test_6_the_order_of_members_changes_nothing(name: str, seed: int) -> None:
    case = Case(seed)
    members = case.members()
    order = case.rng.permutation(len(members))
    if name == "grpo-pass-at-k":
        members = [replace(one, reward=one.reward + index / 100) for index, one in enumerate(members)]
    whole, shuffled = estimated(name, members), estimated(name, [members[index] for index in order])
    close(shuffled, [whole[index] for index in order])


@pytest.mark.parametrize("name", sorted(TOKEN_LOSSES))
@CASES
@given(SEEDS, st.sampled_from(MODES))
def test_6_the_order_of_rows_changes_nothing(name: str, seed: int, mode: str) -> None:
    case = Case(seed)
    order = case.rng.permutation(case.rows)
    whole, loss = gradient(name, case, mode, np.arange(case.rows))
    shuffled, same = gradient(name, case, mode, order)
    np.testing.assert_allclose(same, loss, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(shuffled, whole, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["grpo", "rloo", "opo", "reinforce++-baseline", "grpo-pass-at-k"])
@CASES
@given(SEEDS, st.integers(-8, 8))
def test_7_a_constant_added_to_a_groups_rewards_changes_nothing(name: str, seed: int, constant: int) -> None:
    members = Case(seed).members()
    shifted = [replace(one, reward=one.reward + constant * one.group) for one in members]  # type: ignore
    close(estimated(name, shifted), estimated(name, members), atol=1e-6)


@pytest.mark.parametrize("name", ["grpo", "grpo-pass-at-k"])
@CASES
@given(SEEDS, st.floats(0.1, 100))
def test_7_the_unit_of_rewards_changes_grpo_by_its_epsilon_only(name: str, seed: int, factor: float) -> None:
    members = Case(seed).members()
    scaled = [replace(one, reward=one.reward * factor) for one in members]
    close(estimated(name, scaled), estimated(name, members), atol=1e-4)
