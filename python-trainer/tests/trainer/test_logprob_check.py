# SPDX-License-Identifier: Apache-2.0
"""Which rows are scored again, and that none is scored twice under one version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_gradients import make_rows
from trainer_client import Trainer
from trainer_kit import Sampler, Stream, group, grpo_spec
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.batch.logprob_check import FEWEST_ROWS, LogprobCheck
from whetstone_trainer.batch.rows import Row

LOG_PROBABILITIES = LocalBackend.log_probabilities


def checked(rows: Sequence[Row], share: float, step: int) -> list[tuple[int, int]]:
    """(version, episode) of the rows that were scored."""
    found: list[tuple[int, int]] = []

    def score(chosen: Sequence[Row], version: int, on_share: Any) -> list[np.ndarray]:
        found.extend((version, row.episode) for row in chosen)
        return [row.logprobs for row in chosen]

    check = LogprobCheck(rows, 1.0)
    check.score(score, lambda share: None, share, (7, step))
    sampled = sum(len(row.positions) for row in rows)
    scored = sum(len(rows[episode].positions) for _, episode in found)
    assert check.metrics()["logprob_diff/tokens_unchecked"] == sampled - scored
    return found


def test_a_share_of_each_version_is_chosen_anew_each_step() -> None:
    rows = make_rows(500)
    rows = [replace(row, versions=row.versions + (row.episode >= 450)) for row in rows]
    first, again, next_step = (checked(rows, 0.1, step) for step in (1, 1, 2))
    assert first == again != next_step
    counts = [sum(version == one for one, _ in first) for version in (0, 1)]
    assert counts == [45, FEWEST_ROWS]
    assert len(checked(rows, 1.0, 1)) == 500


def test_a_small_batch_is_checked_whole() -> None:
    assert len(checked(make_rows(FEWEST_ROWS), 0.01, 1)) == FEWEST_ROWS


@pytest.mark.parametrize("mini_batches", [1, 2])
async def test_check_anchor_and_gradient_share_a_forward_pass(
    trainer: Trainer,
    stream: Stream,
    sampler: Sampler,
    model_path: Any,
    mini_batches: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All need a row with tokens of two versions under the present one; with two mini-batches it moves in between."""
    scored: list[tuple[int, int]] = []

    def score(self: LocalBackend, rows: Sequence[Row], policy: Any, *rest: Any) -> list[np.ndarray]:
        scored.extend((row.episode, policy.version) for row in rows)
        return LOG_PROBABILITIES(self, rows, policy, *rest)

    spec = grpo_spec(model_path, max_policy_lag=1)
    spec.algorithm.policy_gradient.batching.mini_batches = mini_batches
    await trainer.configure(spec)
    await trainer.train(await stream.manifest(0, group(sampler)))
    episodes = group(sampler, 1)
    spans = [types.VersionSpan(start=0, end=1, policy_version=0), types.VersionSpan(start=1, end=2, policy_version=1)]
    for one in episodes:
        del one.calls[0].version_spans[:]
        one.calls[0].version_spans.extend(spans)
    monkeypatch.setattr(LocalBackend, "log_probabilities", score)
    result = await trainer.train(await stream.manifest(1, episodes))
    assert sorted(scored) == [(episode, version) for episode in range(4) for version in range(mini_batches)]
    assert result.metrics["logprob_diff/tokens_unchecked"] == 0
    assert result.metrics["logprob_diff/episodes_checked"] == 4
    assert 0 < abs(result.metrics["importance/kl"]) < 1
