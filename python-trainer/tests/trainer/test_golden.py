# SPDX-License-Identifier: Apache-2.0
"""The vectors of proto/golden that are about training; the other files there belong to other suites."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from google.protobuf.json_format import ParseDict
from trainer_kit import agg_loss
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.advantages import ESTIMATOR_OF, ESTIMATORS
from whetstone_trainer.algorithms.estimates import estimate_advantages, with_advantages
from whetstone_trainer.algorithms.estimator import Member, lowered, member
from whetstone_trainer.algorithms.importance import importance_weights, off_policy_metrics
from whetstone_trainer.algorithms.kl import DIVERGENCE_OF
from whetstone_trainer.algorithms.losses import LOSS_OF, TOKEN_LOSSES
from whetstone_trainer.algorithms.overlong import with_overlong
from whetstone_trainer.algorithms.preference import Answers, pair_loss
from whetstone_trainer.algorithms.reference import adapted, discounted
from whetstone_trainer.algorithms.rejection import kept_tokens
from whetstone_trainer.algorithms.token_loss import TokenLossInput
from whetstone_trainer.algorithms.value_loss import value_losses
from whetstone_trainer.batch.episode_rows import episode_rows
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.batch.trajectories import Trajectory
from whetstone_trainer.contract.errors import ContractError
from whetstone_trainer.contract.rules import with_defaults
from whetstone_trainer.contract.settings import AlgorithmSettings

GOLDEN = Path(__file__).parents[3] / "proto" / "golden"
GRPO = AlgorithmSettings("policy_gradient", "grpo", "clipped", options=with_defaults(jobs.PolicyGradient()))
# The vectors are rounded to 6 digits.
TOLERANCE = {"rtol": 0, "atol": 6e-7}


def check_advantages(vector: dict[str, Any]) -> None:
    options = jobs.PolicyGradient(
        normalize_by_std=vector.get("normalizeByStd", True),
        gamma=vector.get("gamma", 1.0),
        gae_lambda=vector.get("gaeLambda", 1.0),
        reward_threshold=vector.get("rewardThreshold"),
    )
    baselines = vector.get("baselines", [None] * len(vector["groups"]))
    members = [replace(one, baseline=own) for one, own in zip(members_of(vector), baselines, strict=True)]
    found = estimate_advantages(members, replace(GRPO, advantage=vector["estimator"], options=options))
    for advantages_K, expected in zip(found, vector["advantages"], strict=True):
        np.testing.assert_allclose(advantages_K, np.broadcast_to(expected, len(advantages_K)), **TOLERANCE)
    returns = ESTIMATORS[vector["estimator"]].returns
    assert (returns is not None) == ("returns" in vector)
    if returns is not None:
        for one, expected in zip(members, vector["returns"], strict=True):
            np.testing.assert_allclose(returns(one, options), expected, **TOLERANCE)


def members_of(vector: dict[str, Any]) -> list[Member]:
    """Of vectors that give one reward a response, or one a token."""
    if "tokenRewards" in vector:
        rewards = [np.array(rewards_K, dtype=np.float64) for rewards_K in vector["tokenRewards"]]
        values = [np.array(values_K) for values_K in vector.get("tokenValues", [[]] * len(rewards))]
        given = zip(vector["groups"], rewards, values, strict=True)
        return [Member(group, float(rewards_K.sum()), rewards_K, values_K) for group, rewards_K, values_K in given]
    tokens = vector.get("tokens", [1] * len(vector["rewards"]))
    return [member(*one) for one in zip(vector["groups"], vector["rewards"], tokens, strict=True)]


def check_policy_loss(vector: dict[str, Any]) -> None:
    names = {"clipLow": "clip_low", "clipHigh": "clip_high", "clipDual": "clip_dual", "droBeta": "dro_beta"}
    given_options: dict[str, Any] = {name: float(vector[key]) for key, name in names.items() if key in vector}
    options = jobs.PolicyGradient(**given_options)
    old = doubles(vector["behaviourProbabilities"]).log()
    logprobs = (old + doubles(vector["ratios"]).log()).requires_grad_()
    mask, advantages = doubles(vector["mask"]), doubles(vector["advantages"]).unsqueeze(1).expand_as(logprobs)
    lengths = mask.sum(1, keepdim=True)
    terms = TOKEN_LOSSES[vector["loss"]].sequence_term((logprobs - old).detach(), advantages, options)
    of_sequence = (terms * mask).sum(1, keepdim=True) / lengths
    given = TokenLossInput(logprobs, old, advantages, of_sequence.expand_as(logprobs))
    out = TOKEN_LOSSES[vector["loss"]].losses(given, options)
    losses = out.losses_N * doubles(vector["weights"]) if "weights" in vector else out.losses_N
    for mode, expected in vector["losses"].items():
        np.testing.assert_allclose(agg_loss(losses, mask, mode).item(), expected, **TOLERANCE)
    if "gradient" in vector:
        mode = vector.get("gradientOf", "token-mean")
        (gradient,) = torch.autograd.grad(agg_loss(out.losses_N, mask, mode), logprobs)
        np.testing.assert_allclose(gradient, vector["gradient"], **TOLERANCE)
    if "clipFraction" in vector:
        assert float(out.clipped_N[mask.bool()].double().mean()) == pytest.approx(vector["clipFraction"])
    if "kl" in vector:
        assert float((old - logprobs).detach()[mask.bool()].mean()) == pytest.approx(vector["kl"], abs=1e-5)


def check_agg_loss(vector: dict[str, Any]) -> None:
    losses, mask = doubles(vector["losses"]), doubles(vector["mask"])
    totals = {"total_tokens": vector.get("totalTokens"), "total_rows": vector.get("totalRows")}
    for mode, expected in vector["expected"].items():
        loss = agg_loss(losses, mask, mode, workers=vector.get("workers", 1), **totals)
        np.testing.assert_allclose(loss.item(), expected, **TOLERANCE)


def check_value_loss(vector: dict[str, Any]) -> None:
    values, returns, old = (doubles(vector[name]) for name in ("values", "returns", "oldValues"))
    losses, clipped = value_losses(values, returns, old, vector["valueClip"])
    mask = doubles(vector["mask"])
    for mode, expected in vector["losses"].items():
        np.testing.assert_allclose(agg_loss(losses, mask, mode).item(), expected, **TOLERANCE)
    assert float(clipped[mask.bool()].double().mean()) == vector["clipFraction"]


def check_sft(vector: dict[str, Any]) -> None:
    logprobs = doubles(vector["logprobs"])
    out = TOKEN_LOSSES["nll"].losses(TokenLossInput(logprobs, logprobs, logprobs, logprobs), jobs.PolicyGradient())
    loss = agg_loss(out.losses_N, doubles(vector["mask"]), "token-mean")
    np.testing.assert_allclose(loss.item(), vector["expected"], **TOLERANCE)


def check_preference(vector: dict[str, Any]) -> None:
    variant = f"DPO_VARIANT_{vector['variant'].upper()}"
    options = jobs.Dpo(variant=variant, beta=vector["beta"], label_smoothing=vector.get("labelSmoothing", 0))
    sides = answers_of(vector, "chosen"), answers_of(vector, "rejected")
    found = pair_loss(*sides, options)
    np.testing.assert_allclose(found.losses_P.mean(), vector["loss"], **TOLERANCE)
    for side, slopes_P in (("chosen", found.chosen_P), ("rejected", found.rejected_P)):
        for slope, expected_K in zip(slopes_P / len(slopes_P), vector["gradient"][side], strict=True):
            np.testing.assert_allclose(np.full(len(expected_K), slope), expected_K, **TOLERANCE)
    for one, side in zip(sides, ("chosen", "rejected"), strict=True):
        np.testing.assert_allclose(options.beta * one.log_ratios_P, vector["rewards"][side], **TOLERANCE)


def answers_of(vector: dict[str, Any], side: str) -> Answers:
    policy, reference = ([sum(row) for row in vector[name]] for name in (side, f"{side}Reference"))
    lengths = [float(len(row)) for row in vector[side]]
    return Answers(*(np.array(of_pairs, dtype=np.float64) for of_pairs in (policy, reference, lengths)))


def check_kl(vector: dict[str, Any]) -> None:
    kl = jobs.KlPenalty(coefficient=vector.get("coefficient", 1))
    if "next" in vector:
        kl.MergeFrom(jobs.KlPenalty(target=vector["target"], horizon=vector["horizon"]))
        found = adapted(kl, kl.coefficient, vector["divergence"], vector["trajectories"])
        return np.testing.assert_allclose(found, vector["next"], rtol=1e-9)
    name = vector["estimator"].upper().replace("+", "_PLUS")
    estimator = DIVERGENCE_OF[jobs.KlEstimator.Value(f"KL_ESTIMATOR_{name}")]
    logprobs, reference = doubles(vector["probabilities"]).log(), doubles(vector["referenceProbabilities"]).log()
    divergences = estimator(logprobs.requires_grad_(), reference)
    if "reward" in vector:
        penalties_K = kl.coefficient * divergences.detach().numpy()
        found = lowered(member("a", vector["reward"], len(penalties_K)), penalties_K).rewards_K
        return np.testing.assert_allclose(found, vector["rewards"], **TOLERANCE)
    if "advantage" in vector:
        kl.MergeFrom(jobs.KlPenalty(**{name: vector[name] for name in ("discount", "clip") if name in vector}))
        found = vector["advantage"] - kl.coefficient * discounted(kl, divergences.detach().numpy())
        return np.testing.assert_allclose(found, vector["advantages"], **TOLERANCE)
    np.testing.assert_allclose(divergences.detach(), vector["divergences"], **TOLERANCE)
    (gradient,) = torch.autograd.grad(divergences.sum(), logprobs)
    np.testing.assert_allclose(gradient, vector["gradient"], **TOLERANCE)
    return None


def check_correction(vector: dict[str, Any]) -> None:
    correction = ParseDict(vector["correction"], jobs.Correction())
    log_ratios = [np.log(np.array(ratios)) for ratios in vector["ratios"]]
    if "weights" in vector:
        weights, _ = importance_weights(log_ratios, with_defaults(correction))
        for found, expected in zip(weights, vector["weights"], strict=True):
            np.testing.assert_allclose(found, expected, **TOLERANCE)
    if "kept" in vector:
        kept = kept_tokens(log_ratios, correction.reject)
        assert [one.astype(int).tolist() for one in kept] == vector["kept"]
    metrics = off_policy_metrics(log_ratios)
    for name, expected in vector.get("metrics", {}).items():
        assert metrics[f"importance/{name}"] == pytest.approx(expected, abs=5e-6)


def check_trainable(vector: dict[str, Any]) -> None:
    episode = ParseDict(vector["episode"], types.Episode())
    if vector["notTrainable"]:
        with pytest.raises(ContractError) as caught:
            episode_rows(episode, 0, step=0)
        assert vector["notTrainable"] in str(caught.value)
    else:
        assert sum(len(row.positions) for row in episode_rows(episode, 0, step=0)) == vector["trainedTokens"]


def check_overlong(vector: dict[str, Any]) -> None:
    settings = {
        "max_tokens": vector["maxTokens"],
        "buffer_tokens": vector["bufferTokens"],
        "penalty": vector["penalty"],
    }
    options = jobs.PolicyGradient(overlong=jobs.Overlong(**settings))
    found = with_overlong(member("a", 1.0, vector["tokens"]), options)
    np.testing.assert_allclose(found.reward, 1 + vector["reward"], **TOLERANCE)
    np.testing.assert_allclose(found.rewards_K.sum(), found.reward, **TOLERANCE)


def check_stepwise(vector: dict[str, Any]) -> None:
    """Each trajectory is a row, each step a call with two tokens."""
    options = jobs.PolicyGradient(
        normalize_by_std=vector.get("normalizeByStd", True), grouping_level=jobs.GROUPING_LEVEL_STEP
    )
    estimator = ESTIMATORS[vector["estimator"]]
    algorithm = replace(GRPO, advantage=estimator.name, min_group=estimator.fewest_members, options=options)
    steps = [tuple((f"c{i}", float(one)) for i, one in enumerate(own)) for own in vector["returns"]]
    played = zip(vector["groups"], steps, strict=True)
    trajectories = [Trajectory(i, group, "agent", 9.0, True, steps=own) for i, (group, own) in enumerate(played)]
    rows = [row_of_calls(i, [name for name, _ in own]) for i, own in enumerate(steps)]
    for row, expected in zip(with_advantages(rows, trajectories, algorithm, {}), vector["advantages"], strict=True):
        np.testing.assert_allclose(row.advantages, np.repeat(expected, 2), **TOLERANCE)


def row_of_calls(trajectory: int, calls: list[str]) -> Row:
    """Two trained tokens a call."""
    tokens = 2 * len(calls)
    ones = np.ones(tokens, dtype=np.float32)
    ids, positions, named = np.arange(tokens + 1), np.arange(1, tokens + 1), tuple((one, 2) for one in calls)
    return Row(trajectory, ids, positions, -ones, np.zeros(tokens, int), ones, ones > 0, ones, trajectory, calls=named)


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "advantages.json": check_advantages,
    "policy_loss.json": check_policy_loss,
    "agg_loss.json": check_agg_loss,
    "value_loss.json": check_value_loss,
    "sft.json": check_sft,
    "preference.json": check_preference,
    "overlong.json": check_overlong,
    "stepwise.json": check_stepwise,
    "kl.json": check_kl,
    "correction.json": check_correction,
    "trainable.json": check_trainable,
}


def vectors() -> list[Any]:
    cases = []
    for path in sorted(GOLDEN.glob("*.json")):
        for vector in json.loads(path.read_text())["vectors"]:
            cases.append(pytest.param(path.name, vector, id=f"{path.stem}: {vector['name']}"))
    return cases


@pytest.mark.parametrize(("file", "vector"), vectors())
def test_vector(file: str, vector: dict[str, Any]) -> None:
    if file not in CHECKS:
        pytest.skip(f"{file} is not about training")
    CHECKS[file](vector)


def test_every_file_of_ours_is_there() -> None:
    assert {path.name for path in GOLDEN.glob("*.json")} >= set(CHECKS)


@pytest.mark.parametrize(
    ("of_contract", "found", "file", "key"),
    [
        (types.AdvantageEstimator, ESTIMATOR_OF, "advantages.json", "estimator"),
        (types.PolicyLoss, LOSS_OF, "policy_loss.json", "loss"),
    ],
    ids=["advantage", "loss"],
)
def test_every_name_of_the_contract_has_its_file_and_its_vectors(
    of_contract: Any, found: dict[Any, Any], file: str, key: str
) -> None:
    named = {name.rpartition("_")[2]: value for name, value in of_contract.items()}
    assert set(found) == set(of_contract.values()) - {named["UNSPECIFIED"], named["CUSTOM"]}
    vectors = json.loads((GOLDEN / file).read_text())["vectors"]
    assert {one.name for one in found.values()} == {vector[key] for vector in vectors}


def doubles(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)
