# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false
"""Our numbers beside those of an installed verl (0.9.1 was tried), on random batches in float64."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import verl.trainer.ppo.core_algos as core
import verl.trainer.ppo.rollout_corr_helper as helper
from trainer_kit import agg_loss
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_trainer.algorithms.estimates import estimate_advantages
from whetstone_trainer.algorithms.estimator import Member
from whetstone_trainer.algorithms.importance import importance_weights, off_policy_metrics
from whetstone_trainer.algorithms.kl import DIVERGENCE_OF
from whetstone_trainer.algorithms.losses import TOKEN_LOSSES
from whetstone_trainer.algorithms.rejection import kept_tokens
from whetstone_trainer.algorithms.token_loss import TokenLossInput
from whetstone_trainer.contract.rules import with_defaults
from whetstone_trainer.contract.settings import AlgorithmSettings

SEEDS = range(20)
CLOSE: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-9}


class Fixture:
    """Eight responses of up to six tokens to three prompts; one prompt has a single response."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.lengths = rng.integers(1, 7, 8)
        self.mask = torch.from_numpy((np.arange(6) < self.lengths[:, None]).astype(np.float64))
        self.old = torch.from_numpy(np.log(rng.uniform(0.05, 0.95, (8, 6))))
        self.new = torch.from_numpy(np.minimum(self.old.numpy() + rng.normal(0, 0.4, (8, 6)), -1e-3))
        self.advantages = torch.from_numpy(rng.normal(size=(8, 1))).expand(8, 6)
        self.groups = np.array(["a", "a", "a", "b", "b", "b", "b", "c"])
        self.rewards = rng.integers(0, 3, 8) / 2
        self.token_rewards = torch.zeros(8, 6, dtype=torch.float64)
        self.token_rewards[torch.arange(8), torch.from_numpy(self.lengths - 1)] = torch.from_numpy(self.rewards)
        self.values = torch.from_numpy(rng.normal(size=(8, 6)))

    def ragged(self, values: torch.Tensor) -> list[np.ndarray]:
        return [row[:length].numpy() for row, length in zip(values, self.lengths, strict=True)]

    def members(self) -> list[Member]:
        columns = zip(self.groups, self.rewards, self.ragged(self.token_rewards), self.ragged(self.values), strict=True)
        return [Member(group, float(reward), r_K, values_K=v_K) for group, reward, r_K, v_K in columns]


# Our estimator → verl's function, and what it is given beside rewards, mask and groups.
ESTIMATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "grpo": ("grpo", {"norm_adv_by_std_in_grpo": True}),
    "rloo": ("rloo", {}),
    "opo": ("opo", {}),
    "gpg": ("gpg", {}),
    "reinforce++-baseline": ("reinforce_plus_plus_baseline", {}),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_advantages(name: str, seed: int) -> None:
    given, (theirs, options) = Fixture(seed), ESTIMATORS[name]
    function = getattr(core, f"compute_{theirs}_outcome_advantage")
    expected, _ = function(given.token_rewards.clone(), given.mask, index=given.groups, **options)
    found = estimate_advantages(given.members(), settings(name))
    compare(found, given.ragged(expected))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_reinforce_plus_plus(gamma: float, seed: int) -> None:
    given = Fixture(seed)
    function = core.compute_reinforce_plus_plus_outcome_advantage
    expected, _ = function(given.token_rewards, given.mask, config=SimpleNamespace(gamma=gamma))
    compare(estimate_advantages(given.members(), settings("reinforce++", gamma=gamma)), given.ragged(expected))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 1.0), (0.99, 0.95)])
def test_gae(gamma: float, lam: float, seed: int) -> None:
    given = Fixture(seed)
    expected, _ = core.compute_gae_advantage_return(given.token_rewards, given.values, given.mask, gamma, lam)
    compare(estimate_advantages(given.members(), settings("gae", gamma=gamma, gae_lambda=lam)), given.ragged(expected))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("by_std", [True, False])
def test_grpo_pass_at_k(by_std: bool, seed: int) -> None:
    given = Fixture(seed)
    config = {"norm_adv_by_std_in_grpo": by_std}
    groups = np.array(["a", "a", "a", "b", "b", "b", "b", "b"])
    expected, _ = core.compute_grpo_passk_outcome_advantage(
        given.token_rewards, given.mask, index=groups, config=config
    )
    given.groups = groups
    compare(
        estimate_advantages(given.members(), settings("grpo-pass-at-k", normalize_by_std=by_std)),
        given.ragged(expected),
    )


# Our loss → verl's name, the aggregation and clip_ratio_c.
LOSSES = {
    "clipped": ("vanilla", "token-mean", 3.0),
    "gspo": ("gspo", "seq-mean-token-mean", 3.0),
    "cispo": ("cispo", "token-mean", 3.0),
    "sapo": ("sapo", "seq-mean-token-mean", 3.0),
    "reinforce": ("gpg", "token-mean", 3.0),
    "gmpo": ("geo_mean", "seq-mean-token-mean", 3.0),
    "dppo-tv": ("dppo_tv", "token-mean", 1.5),
    "dppo-kl": ("dppo_kl", "token-mean", 1.5),
    "dro": ("dro", "token-mean", 3.0),
}


def test_every_loss_is_compared() -> None:
    assert set(LOSSES) == {one.name for one in TOKEN_LOSSES.values() if one.wire is not None}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_gradients(name: str, seed: int) -> None:
    given, (theirs, mode, cap) = Fixture(seed), LOSSES[name]
    config = verl_config(cap)
    logprobs = given.new.clone().requires_grad_()
    expected, _ = core.get_policy_loss_fn(theirs)(given.old, logprobs, given.advantages, given.mask, mode, config)
    (gradient,) = torch.autograd.grad(expected, logprobs)
    options = with_defaults(jobs.PolicyGradient(clip_low=0.2, clip_high=0.28, clip_dual=cap, dro_beta=0.1))
    own = given.new.clone().requires_grad_()
    terms = TOKEN_LOSSES[name].sequence_term((own - given.old).detach(), given.advantages, options)
    means = (terms * given.mask).sum(1, keepdim=True) / given.mask.sum(1, keepdim=True)
    inputs = TokenLossInput(own, given.old, given.advantages, means.expand_as(own))
    loss = agg_loss(TOKEN_LOSSES[name].losses(inputs, options).losses_N, given.mask, mode)
    (own_gradient,) = torch.autograd.grad(loss, own)
    np.testing.assert_allclose(loss.item(), expected.item(), **CLOSE)
    np.testing.assert_allclose(own_gradient, gradient, **CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("estimator", sorted(DIVERGENCE_OF))
def test_divergences(estimator: int, seed: int) -> None:
    given, name = Fixture(seed), jobs.KlEstimator.Name(estimator).removeprefix("KL_ESTIMATOR_")
    logprobs = given.new.clone().requires_grad_()
    expected = core.kl_penalty(logprobs, given.old, name.lower().replace("_plus", "+"))
    (gradient,) = torch.autograd.grad(expected.sum(), logprobs)
    found = DIVERGENCE_OF[estimator](logprobs, given.old)
    np.testing.assert_allclose(found.detach(), expected.detach(), **CLOSE)
    np.testing.assert_allclose(torch.autograd.grad(found.sum(), logprobs)[0], gradient, **CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("threshold", ["2.0", "0.5_2.0"])
@pytest.mark.parametrize("normalize", [False, True])
def test_importance_weights(level: str, threshold: str, normalize: bool, seed: int) -> None:
    given = Fixture(seed)
    ratios = given.new - given.old
    expected, _ = helper.compute_rollout_correction_weights(ratios, given.mask, level, threshold, normalize)
    correction = jobs.Correction(level=f"CORRECTION_LEVEL_{level.upper()}", cap=2, normalize=normalize)
    if "_" in threshold:
        correction.floor = 0.5
    compare(importance_weights(given.ragged(ratios), correction)[0], given.ragged(expected))
    theirs, ours = (
        helper.compute_offpolicy_metrics(given.new, given.old, given.mask),
        off_policy_metrics(given.ragged(ratios)),
    )
    for name in ("kl", "k3_kl", "chi2_token", "chi2_seq"):
        assert ours[f"importance/{name}"] == pytest.approx(theirs[name], rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("statistic", sorted(jobs.RejectionStatistic.values())[1:])
def test_rejection(statistic: int, seed: int) -> None:
    given = Fixture(seed)
    ratios = given.new - given.old
    name = jobs.RejectionStatistic.Name(statistic).removeprefix("REJECTION_STATISTIC_").lower()
    threshold = "0.7_1.3" if name.endswith("k1") else "0.1"
    expected, _ = helper.compute_rollout_rejection_mask(ratios, given.mask, name, threshold)
    bounds = {"low": 0.7, "high": 1.3} if name.endswith("k1") else {"high": 0.1}
    found = kept_tokens(given.ragged(ratios), [jobs.Rejection(statistic=statistic, **bounds)])  # type: ignore
    compare([kept.astype(float) for kept in found], given.ragged(expected))


def settings(name: str, **options: Any) -> AlgorithmSettings:
    return AlgorithmSettings("policy_gradient", name, "clipped", options=with_defaults(jobs.PolicyGradient(**options)))


def verl_config(cap: float) -> Any:
    from verl.workers.config import ActorConfig  # pyright: ignore[reportMissingImports]

    config = ActorConfig(
        strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1, clip_ratio_low=0.2, clip_ratio_high=0.28,
        clip_ratio_c=cap,
    )  # fmt: skip
    object.__setattr__(config.policy_loss, "dro_beta", 0.1)
    return config


def compare(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=2e-7)
