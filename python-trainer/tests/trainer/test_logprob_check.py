# SPDX-License-Identifier: Apache-2.0
"""Which rows are scored again, and that none is scored twice under one version."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_gradients import make_rows
from trainer_client import Trainer, refused
from trainer_kit import Sampler, Stream, group, grpo_spec
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.batch.logprob_check import FEWEST_ROWS, FEWEST_TOKENS, LogprobCheck
from whetstone_trainer.batch.rows import Row

LOG_PROBABILITIES = LocalBackend.log_probabilities


def checked(rows: Sequence[Row], share: float, step: int) -> list[tuple[int, int]]:
    """(version, episode) of the rows that were scored."""
    found: list[tuple[int, int]] = []

    def score(chosen: Sequence[Row], version: int, on_share: Any) -> list[np.ndarray]:
        found.extend((version, row.episode) for row in chosen)
        return [row.logprobs for row in chosen]

    check = LogprobCheck(rows, 1.0)
    check.score(check.sample(share, (7, step)), score, lambda share: None)
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


def long_rows(count: int) -> list[Row]:
    """Of version 0, 100 trained tokens each."""
    return [
        replace(
            row,
            positions=np.arange(1, 101),
            logprobs=np.full(100, -5, dtype=np.float32),
            versions=np.zeros(100, dtype=np.int64),
            comparable=np.ones(100, dtype=bool),
        )
        for row in make_rows(count)
    ]


def test_what_the_training_pass_scores_is_not_chosen() -> None:
    """Of its own version nothing; of older ones so many tokens. Rows that it does not pass are made up for."""
    rows = long_rows(8)
    assert len(LogprobCheck(rows, 1.0).sample(0.1)[0]) == 8
    assert LogprobCheck(rows, 1.0, 0, rows).sample(1.0) == {0: []}
    assert len(LogprobCheck(rows, 1.0, 0, rows[:5]).sample(0.1)[0]) == 3
    assert len(LogprobCheck(rows, 1.0, 1, rows).sample(0.1)[0]) == -(-FEWEST_TOKENS // 100)
    assert len(LogprobCheck(rows, 1.0, 1, rows[:7]).sample(0.1)[0]) == 8
    assert len(LogprobCheck(long_rows(400), 1.0, 1, long_rows(400)).sample(0.1)[0]) == 40


def test_a_value_that_is_no_number_is_the_furthest_off_wherever_it_stands() -> None:
    rows = long_rows(3)
    near = np.full(100, -5.5, dtype=np.float32)
    none = np.where(np.arange(100) == 70, np.nan, near)
    check = LogprobCheck(rows, 1.0)
    check.add(rows, [near, none, near], 0)
    assert check.worst is not None
    assert (check.worst.row.episode, check.worst.token, check.worst.difference) == (1, 70, np.inf)
    assert check.metrics()["logprob_diff/tokens_over_bound"] == 1


def test_a_row_that_the_present_version_is_far_from_is_scored_under_its_own() -> None:
    rows = long_rows(4)
    near, far = np.full(100, -5.5, dtype=np.float32), np.full(100, -5, dtype=np.float32)
    far[70] = -6.5
    check = LogprobCheck(rows, 1.0, 1, rows)
    check.add(rows[:1], [rows[0].logprobs], 0)
    suspects = check.suspects(rows, [far, far, near, None])
    assert {version: [row.episode for row in found] for version, found in suspects.items()} == {0: [1]}
    current = [replace(row, versions=np.ones(100, dtype=np.int64)) for row in rows]
    assert LogprobCheck(current, 1.0, 1, current).suspects(current, [far] * 4) == {}


@pytest.mark.parametrize("sample", [0, 1])
async def test_no_older_token_is_far_off_unseen(
    trainer: Trainer, stream: Stream, sampler: Sampler, model_path: Any, sample: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever row the share takes."""
    monkeypatch.setattr("whetstone_trainer.batch.logprob_check.FEWEST_TOKENS", 1)
    await trainer.configure(grpo_spec(model_path, max_policy_lag=1))
    await trainer.train(await stream.manifest(0, group(sampler)))
    episodes = group(sampler, 1)
    episodes[sample].calls[0].logprobs[1] -= 1.5
    error = await refused(asyncio.ensure_future(trainer.train(await stream.manifest(1, episodes))))
    assert f"toy/g1/s{sample} call c0 token 1, labelled version 0" in (error.details() or "")


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
