# SPDX-License-Identifier: Apache-2.0
"""Rollout correction: what another policy sampled is anchored at the one that enters the step, weighed, rejected."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from test_gradients import GRPO, gradient, make_rows, scores
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_models.folder import load_model
from whetstone_trainer.algorithms.proximal import anchor
from whetstone_trainer.backends.local.policy import TransformerPolicy
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.rules import with_defaults

DEFAULT = with_defaults(jobs.Correction())


@pytest.fixture(name="policy")
def _policy(model_path: Path) -> TransformerPolicy:
    return TransformerPolicy(load_model(model_path))


def exact(policy: TransformerPolicy, row: Row) -> np.ndarray:
    return scores(policy, [row])[row.episode]


def anchored_at(policy: TransformerPolicy, rows: list[Row], step: int, correction: jobs.Correction = DEFAULT):
    return anchor(rows, step, correction, lambda asked: [exact(policy, row) for row in asked])


def shifted(rows: list[Row], shifts: list[float]) -> list[Row]:
    """Rows whose tokens the present policy finds exp(shift) times as likely as the one that sampled did."""
    return [
        replace(row, logprobs=np.zeros_like(row.logprobs) - np.float32(shift))
        for row, shift in zip(rows, shifts, strict=True)
    ]


def test_tokens_of_the_current_version_stay_as_they_are(policy: TransformerPolicy) -> None:
    rows = make_rows(8)
    anchored, metrics = anchored_at(policy, rows, step=0)
    assert all(after.old_logprobs is before.logprobs for after, before in zip(anchored, rows, strict=True))
    assert metrics.pop("importance/mean") == 1.0
    assert set(metrics.values()) == {0.0}


def test_older_tokens_get_the_proximal_logprob_and_a_capped_weight(policy: TransformerPolicy) -> None:
    rows = make_rows(8)
    anchored, _ = anchored_at(policy, rows, step=1)
    for before, after in zip(rows, anchored, strict=True):
        proximal = exact(policy, before)
        np.testing.assert_allclose(after.old_logprobs, proximal, atol=1e-5)
        expected = np.minimum(np.exp(proximal - before.logprobs), 2.0)
        np.testing.assert_allclose(after.importance, expected, rtol=1e-4)


def test_tokens_of_the_current_version_are_corrected_on_request(policy: TransformerPolicy) -> None:
    rows = make_rows(8)
    anchored, _ = anchored_at(policy, rows, 0, with_defaults(jobs.Correction(same_version=True)))
    for before, after in zip(rows, anchored, strict=True):
        np.testing.assert_allclose(after.old_logprobs, exact(policy, before), atol=1e-5)
    assert any((row.importance != 1).any() for row in anchored)


def test_weight_times_ratio_is_the_ratio_to_the_sampling_policy(policy: TransformerPolicy) -> None:
    row = make_rows(1)[0]
    anchored, _ = anchored_at(policy, [row], 1, with_defaults(jobs.Correction(cap=1e9)))
    current = exact(policy, row) + 0.1
    whole = np.exp(current - row.logprobs)
    np.testing.assert_allclose(np.exp(current - anchored[0].old_logprobs) * anchored[0].importance, whole, rtol=1e-4)


def test_off_takes_ratios_to_the_policy_that_sampled(policy: TransformerPolicy) -> None:
    rows = make_rows(4)
    anchored, _ = anchored_at(policy, rows, 1, jobs.Correction(level=jobs.CORRECTION_LEVEL_OFF))
    assert all(after.old_logprobs is before.logprobs for after, before in zip(anchored, rows, strict=True))
    assert all(after.importance is before.importance for after, before in zip(anchored, rows, strict=True))


def test_a_sequence_is_a_trajectory_over_all_its_rows() -> None:
    rows = [replace(row, trajectory=index // 2) for index, row in enumerate(shifted(make_rows(4), [0.3, -0.1, 0, 0]))]
    sums = [sum(len(row.positions) * shift for row, shift in zip(rows[:2], (0.3, -0.1), strict=True)), 0.0]
    settings = with_defaults(jobs.Correction(level=jobs.CORRECTION_LEVEL_SEQUENCE, cap=1e9))
    anchored, _ = anchor(rows, 1, settings, lambda asked: [np.zeros_like(row.logprobs) for row in asked])
    for row in anchored:
        np.testing.assert_allclose(row.importance, np.exp(sums[row.trajectory]), rtol=1e-5)


def test_rejected_tokens_are_in_no_numerator_and_no_denominator(policy: TransformerPolicy) -> None:
    """The gradient is that of a batch in which nobody ever trained them."""
    rows = [row for row in make_rows(12) if len(row.positions) > 1]
    rows = [replace(row, logprobs=np.where(np.arange(len(row.positions)) == 0, -1, 0)) for row in rows]
    rows[2] = replace(rows[2], logprobs=np.full(len(rows[2].positions), -1.0))
    given = with_defaults(jobs.Correction(cap=1e9))
    given.reject.add(statistic=jobs.REJECTION_STATISTIC_TOKEN_K2, high=0.4)
    anchored, metrics = anchor(rows, 1, given, lambda asked: [np.zeros(len(row.positions)) for row in asked])
    assert len(anchored) == len(rows) - 1
    tokens = sum(len(row.positions) for row in rows)
    kept = tokens - len(rows) - len(rows[2].positions) + 1
    assert metrics["importance/rejected"] == pytest.approx(1 - kept / tokens)
    assert sum(row.share for row in anchored) == pytest.approx(len(anchored))
    never = [
        replace(
            row,
            positions=row.positions[1:],
            temperatures=row.temperatures[1:],
            advantages=row.advantages[1:],
            importance=row.importance[1:],
            logprobs=np.zeros(len(row.positions) - 1, dtype=np.float32),
            old_logprobs=np.zeros(len(row.positions) - 1, dtype=np.float32),
        )
        for index, row in enumerate(rows)
        if index != 2
    ]
    assert torch.equal(gradient(policy, [anchored], GRPO), gradient(policy, [never], GRPO))


def test_the_mask_of_decoupled_ppo_keeps_the_denominator(policy: TransformerPolicy) -> None:
    pushed_up = [replace(row, advantages=np.abs(row.advantages)) for row in make_rows(6)]
    rows = shifted(pushed_up, [3.0] * 3 + [0.0] * 3)
    settings = with_defaults(jobs.Correction(floor=0.5, cap=2))
    anchored, metrics = anchor(rows, 1, settings, lambda asked: [np.zeros_like(row.logprobs) for row in asked])
    masked = sum(len(row.positions) for row in rows[:3]) / sum(len(row.positions) for row in rows)
    assert metrics["importance/capped"] == pytest.approx(masked)
    plain = replace(GRPO, options=with_defaults(jobs.PolicyGradient()))
    half, whole = gradient(policy, [anchored[3:]], plain), gradient(policy, [anchored], plain)
    torch.testing.assert_close(whole, half * (1 - masked), rtol=1e-4, atol=1e-7)


def test_rejection_leaves_each_token_to_its_call() -> None:
    row = replace(make_rows(1)[0], calls=(("c0", 1), ("c1", 1)))
    assert len(row.positions) == 2
    assert row.only(np.array([False, True])).calls == (("c0", 0), ("c1", 1))
