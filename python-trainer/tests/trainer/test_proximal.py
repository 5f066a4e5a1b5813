# SPDX-License-Identifier: Apache-2.0
"""Decoupled PPO: what an older version sampled is anchored at the policy that enters the step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_gradients import make_rows, scores

from whetstone_models.folder import load_model
from whetstone_trainer.algorithms.proximal import anchor
from whetstone_trainer.backends.local.policy import TransformerPolicy
from whetstone_trainer.batch.rows import Row


@pytest.fixture(name="policy")
def _policy(model_path: Path) -> TransformerPolicy:
    return TransformerPolicy(load_model(model_path))


def exact(policy: TransformerPolicy, row: Row) -> np.ndarray:
    return scores(policy, [row])[row.episode]


def anchored_at(policy: TransformerPolicy, rows: list[Row], step: int, cap: float):
    return anchor(rows, step, cap, lambda stale: [exact(policy, row) for row in stale])


def test_tokens_of_the_current_version_stay_as_they_are(policy: TransformerPolicy) -> None:
    rows = make_rows(8)
    anchored, metrics = anchored_at(policy, rows, step=0, cap=2.0)
    assert all(after.old_logprobs is before.logprobs for after, before in zip(anchored, rows, strict=True))
    assert metrics == {"importance/mean": 1.0, "importance/capped": 0.0}


def test_older_tokens_get_the_proximal_logprob_and_a_capped_weight(policy: TransformerPolicy) -> None:
    rows = make_rows(8)
    anchored, _ = anchored_at(policy, rows, step=1, cap=2.0)
    for before, after in zip(rows, anchored, strict=True):
        proximal = exact(policy, before)
        np.testing.assert_allclose(after.old_logprobs, proximal, atol=1e-5)
        expected = np.minimum(np.exp(proximal - before.logprobs), 2.0)
        np.testing.assert_allclose(after.importance, expected, rtol=1e-4)


def test_weight_times_ratio_is_the_ratio_to_the_sampling_policy(policy: TransformerPolicy) -> None:
    row = make_rows(1)[0]
    anchored, _ = anchored_at(policy, [row], step=1, cap=1e9)
    current = exact(policy, row) + 0.1
    whole = np.exp(current - row.logprobs)
    np.testing.assert_allclose(np.exp(current - anchored[0].old_logprobs) * anchored[0].importance, whole, rtol=1e-4)


def test_cap_0_is_off(policy: TransformerPolicy) -> None:
    rows = make_rows(4)
    anchored, _ = anchored_at(policy, rows, step=1, cap=0.0)
    assert all(after.old_logprobs is before.logprobs for after, before in zip(anchored, rows, strict=True))
    assert all(after.importance is before.importance for after, before in zip(anchored, rows, strict=True))
