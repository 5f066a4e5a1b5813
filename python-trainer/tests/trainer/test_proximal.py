# SPDX-License-Identifier: Apache-2.0
"""Decoupled PPO: what an older version sampled is anchored at the policy that enters the step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from test_gradients import make_rows

from whetstone_models.folder import load_model
from whetstone_models.transformer import Transformer
from whetstone_trainer.algorithms.proximal import anchor
from whetstone_trainer.backends.local.memory import TokenBudget
from whetstone_trainer.backends.local.micro_batches import micro_batches
from whetstone_trainer.backends.local.scoring import score
from whetstone_trainer.batch.rows import Row


@pytest.fixture(name="model")
def _model(model_path: Path) -> Transformer:
    return load_model(model_path)


def exact(model: Transformer, row: Row) -> np.ndarray:
    with torch.no_grad():
        micro = next(iter(micro_batches([row], 10**6, torch.device("cpu"))))
        return score(model, micro)[0][micro.token_of_N].numpy()


def test_tokens_of_the_current_version_stay_as_they_are(model: Transformer) -> None:
    rows = make_rows(8)
    anchored, metrics = anchor(model, rows, step=0, cap=2.0, budget=TokenBudget(10**6))
    assert all(after is before for after, before in zip(anchored, rows, strict=True))
    assert metrics == {"importance/mean": 1.0, "importance/capped": 0.0}


def test_older_tokens_get_the_proximal_logprob_and_a_capped_weight(model: Transformer) -> None:
    rows = make_rows(8)
    anchored, _ = anchor(model, rows, step=1, cap=2.0, budget=TokenBudget(10**6))
    for before, after in zip(rows, anchored, strict=True):
        proximal = exact(model, before)
        np.testing.assert_allclose(after.logprobs, proximal, atol=1e-5)
        expected = np.minimum(np.exp(proximal - before.logprobs), 2.0)
        np.testing.assert_allclose(after.importance, expected, rtol=1e-4)


def test_weight_times_ratio_is_the_ratio_to_the_sampling_policy(model: Transformer) -> None:
    row = make_rows(1)[0]
    anchored, _ = anchor(model, [row], step=1, cap=1e9, budget=TokenBudget(10**6))
    current = exact(model, row) + 0.1
    whole = np.exp(current - row.logprobs)
    np.testing.assert_allclose(np.exp(current - anchored[0].logprobs) * anchored[0].importance, whole, rtol=1e-4)


def test_cap_0_is_off(model: Transformer) -> None:
    rows = make_rows(4)
    anchored, _ = anchor(model, rows, step=1, cap=0.0, budget=TokenBudget(10**6))
    assert anchored == rows
