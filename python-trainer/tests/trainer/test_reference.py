# SPDX-License-Identifier: Apache-2.0
"""Divergence from a reference: in the loss, in the reward, and the coefficient that adapts, over a restart too."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from compute_device import DEVICE
from test_gradients import GRPO, gradient, make_rows
from trainer_kit import JOB, UID, Sampler, done, group, grpo_spec
from whetstone.events.v1 import events_pb2 as events
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_models.folder import load_model
from whetstone_models.init import init_model
from whetstone_trainer.algorithms.kl import DIVERGENCE_OF
from whetstone_trainer.algorithms.reference import with_reference
from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.backends.local.policy import TransformerPolicy
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.errors import SettingsError
from whetstone_trainer.contract.rules import with_defaults
from whetstone_trainer.contract.settings import parse_settings
from whetstone_trainer.service.run import JobRun, untold
from whetstone_trainer.service.step import StepRequest
from whetstone_trainer.weights.run_folder import RunFolder


def request(step: int, episodes: Sequence[types.Episode]) -> StepRequest:
    bodies = [episode.SerializeToString() for episode in episodes]
    entries = [
        events.BatchEntry(
            episode_id=one.id, group=one.group, digest=hashlib.sha256(body).hexdigest(), reward=one.reward
        )
        for one, body in zip(episodes, bodies, strict=True)
    ]
    manifest = events.BatchManifest(job=JOB, step=step, epoch=1, entries=entries)
    return StepRequest(manifest, f"digest-{step}", bodies, 0.0)


def start(model: Path, run: Path, kl: jobs.KlPenalty | None, **options: object) -> JobRun:
    spec = grpo_spec(model, max_policy_lag=8)
    if kl is not None:
        spec.algorithm.policy_gradient.kl.CopyFrom(kl)
    spec.algorithm.policy_gradient.MergeFrom(jobs.PolicyGradient(**options))  # type: ignore
    return JobRun(parse_settings(spec), RunFolder(run, model), UID, LocalBackend(DEVICE, torch.float32), untold)


def trained(run: JobRun, episodes: Sequence[types.Episode], steps: int) -> list[dict[str, float]]:
    return [dict(done(run, request(run.step, episodes)).metrics) for _ in range(steps)]


def weights(run: JobRun) -> torch.Tensor:
    module = load_model(Path(run.weights().path))
    return torch.cat([one.detach().flatten() for one in module.parameters()])


@pytest.mark.parametrize("place", [jobs.KL_PLACE_LOSS, jobs.KL_PLACE_REWARD])
def test_coefficient_0_is_no_reference_bit_for_bit(
    model_path: Path, tmp_path: Path, sampler: Sampler, place: jobs.KlPlace
) -> None:
    episodes = group(sampler)
    absent = start(model_path, tmp_path / "absent", None)
    zero = start(model_path, tmp_path / "zero", jobs.KlPenalty(coefficient=0, applied_to=place))
    on = start(model_path, tmp_path / "on", jobs.KlPenalty(coefficient=0.5, applied_to=place))
    assert "kl/reference" not in trained(absent, episodes, 2)[1] | trained(zero, episodes, 2)[1]
    trained(on, episodes, 2)
    assert torch.equal(weights(absent), weights(zero))
    assert not torch.equal(weights(absent), weights(on))


def test_the_reference_is_the_start_and_stays_while_the_policy_moves(
    model_path: Path, tmp_path: Path, sampler: Sampler
) -> None:
    run = start(model_path, tmp_path, jobs.KlPenalty(coefficient=0.01))
    first, second = trained(run, group(sampler), 2)
    assert first["kl/reference"] == pytest.approx(0, abs=1e-7)
    assert second["kl/reference"] > 1e-4
    assert first["kl/reference_bytes"] == sum(one.nbytes for one in load_model(model_path).parameters())


def test_a_folder_of_ones_own_is_the_reference(model_path: Path, tmp_path: Path, sampler: Sampler) -> None:
    init_model(tmp_path / "other", seed=9, hidden_size=32, num_hidden_layers=1, num_attention_heads=4)
    run = start(model_path, tmp_path / "run", jobs.KlPenalty(coefficient=0.01, model=str(tmp_path / "other")))
    assert trained(run, group(sampler), 1)[0]["kl/reference"] > 1e-3


def test_a_reference_that_is_not_there_is_refused_by_its_field(model_path: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        start(model_path, tmp_path / "run", jobs.KlPenalty(coefficient=0.01, model=str(tmp_path / "none")))
    assert caught.value.violations[0]["path"] == "algorithm.policyGradient.kl.model"


def test_the_coefficient_that_adapts_survives_a_restart_to_the_bit(
    model_path: Path, tmp_path: Path, sampler: Sampler
) -> None:
    kl = jobs.KlPenalty(coefficient=0.1, applied_to=jobs.KL_PLACE_REWARD, target=1e-5, horizon=7)
    episodes = group(sampler)
    whole = trained(start(model_path, tmp_path / "whole", kl), episodes, 4)
    cut = trained(start(model_path, tmp_path / "cut", kl), episodes, 2)
    cut += trained(start(model_path, tmp_path / "cut", kl), episodes, 2)
    coefficients = [metrics["kl/coefficient"] for metrics in whole]
    assert coefficients[0] == 0.1
    assert len(set(coefficients)) == 4
    assert [metrics["kl/coefficient"] for metrics in cut] == coefficients
    assert torch.equal(
        weights(start(model_path, tmp_path / "whole", kl)), weights(start(model_path, tmp_path / "cut", kl))
    )


def plain(policy: TransformerPolicy, rows: list[Row], estimator: jobs.KlEstimator) -> torch.Tensor:
    """Gradient of the token mean of the divergence, row by row."""
    policy.module.zero_grad(set_to_none=True)
    tokens = sum(len(row.positions) for row in rows)
    for row in rows:
        logits_TV = policy.module(torch.from_numpy(row.token_ids)[None])[0]
        table = (logits_TV[row.positions - 1] / torch.from_numpy(row.temperatures)[:, None]).log_softmax(-1)
        logprobs_K = table.gather(1, torch.from_numpy(row.token_ids[row.positions])[:, None])[:, 0]
        (DIVERGENCE_OF[estimator](logprobs_K, torch.from_numpy(row.reference)).sum() / tokens).backward()
    return torch.cat([one.grad.flatten() for one in policy.module.parameters() if one.grad is not None])


@pytest.mark.parametrize("estimator", sorted(DIVERGENCE_OF))
def test_the_gradient_is_that_of_the_plain_formula(model_path: Path, estimator: jobs.KlEstimator) -> None:
    policy, rng = TransformerPolicy(load_model(model_path)), np.random.default_rng(2)
    rows = [
        replace(row, reference=(row.logprobs + rng.normal(size=len(row.logprobs)) / 2).astype(np.float32))
        for row in make_rows(7)
    ]
    silent = [replace(row, advantages=np.zeros_like(row.advantages)) for row in rows]
    kl = with_defaults(jobs.KlPenalty(coefficient=0.3, estimator=estimator))
    options = with_defaults(jobs.PolicyGradient(kl=kl))
    found = gradient(policy, [silent[:3], silent[3:]], replace(GRPO, options=options))
    expected = 0.3 * plain(policy, rows, estimator)
    assert expected.abs().max() > 1e-4
    assert (found - expected).abs().max() < 2e-6 * max(1.0, float(expected.abs().max()))


def test_in_the_reward_each_token_is_charged_its_own() -> None:
    row = replace(
        make_rows(1)[0],
        old_logprobs=np.array([-1.0, -2.0], dtype=np.float32),
    )
    options = jobs.PolicyGradient(
        kl=jobs.KlPenalty(coefficient=0.5, estimator=jobs.KL_ESTIMATOR_K1, applied_to=jobs.KL_PLACE_REWARD)
    )
    (charged,), metrics = with_reference([row], options, {}, lambda rows: [np.array([-1.5, -1.0])])
    np.testing.assert_allclose(charged.penalties, [0.25, -0.5])
    assert metrics["kl/reference"] == pytest.approx(-0.25)
