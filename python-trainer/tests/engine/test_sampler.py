# SPDX-License-Identifier: Apache-2.0
"""The sampler: properties that hold for any logits, and independence of what else is in the batch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from whetstone_engine.sampler import RowParams, sample, truncate, uniform

VOCAB = 23


def rows(count: int, **given: Any) -> RowParams:
    """Parameters of `count` rows; each value is one number for all rows or a list."""
    values = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "seed": 7, "logprobs": 0} | given
    kinds = {"temperature": np.float32, "top_p": np.float32, "min_p": np.float32, "seed": np.uint64}
    arrays = {name: np.asarray(value, kinds.get(name, np.int64)) for name, value in values.items()}
    return RowParams(**{name: np.broadcast_to(array, (count,)).copy() for name, array in arrays.items()})


def logits(seed: int, count: int = 1) -> torch.Tensor:
    return torch.randn(count, VOCAB, generator=torch.Generator().manual_seed(seed)) * 3


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000), temperature=st.sampled_from([0.0, 0.3, 1.0, 1.7]),
    top_p=st.sampled_from([0.05, 0.6, 1.0]), top_k=st.sampled_from([0, 1, 4, 99]), min_p=st.sampled_from([0.0, 0.2]),
)  # fmt: skip
def test_a_row_does_not_depend_on_its_batch(
    seed: int, temperature: float, top_p: float, top_k: int, min_p: float
) -> None:
    mine = {"temperature": temperature, "top_p": top_p, "top_k": top_k, "min_p": min_p, "seed": seed}
    alone = sample(logits(seed), rows(1, **mine), np.array([seed % 50]))
    neighbours = {"temperature": 0.9, "top_p": 0.7, "top_k": 3, "min_p": 0.0, "seed": 1}
    together = sample(
        torch.cat((logits(1), logits(seed), logits(2))),
        rows(3, **{k: [neighbours[k], v, neighbours[k]] for k, v in mine.items()}),
        np.array([3, seed % 50, 9]),
    )
    assert together.token_ids[1] == alone.token_ids[0]
    assert together.logprobs[1] == pytest.approx(alone.logprobs[0], abs=1e-6)
    assert together.ranks[1] == alone.ranks[0]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000), top_p=st.floats(0.015625, 1.0, width=32), top_k=st.integers(0, VOCAB + 3),
    min_p=st.floats(0.0, 0.5, width=32),
)  # fmt: skip
def test_truncation_keeps_the_nucleus_and_samples_inside_it(seed: int, top_p: float, top_k: int, min_p: float) -> None:
    params = rows(1, top_p=top_p, top_k=top_k, min_p=min_p, seed=seed)
    original = logits(seed)
    kept = torch.isfinite(truncate(original.clone(), params.top_p, params.top_k, params.min_p))[0]
    assert kept[original[0].argmax()]
    assert kept.sum() <= (top_k or VOCAB)
    assert original[0][kept].min() >= (original[0][~kept].max() if (~kept).any() else -torch.inf)
    sampled = sample(original.clone(), params, np.array([0]))
    assert kept[int(sampled.token_ids[0])]
    expected = original[0].masked_fill(~kept, -torch.inf).log_softmax(-1)[int(sampled.token_ids[0])]
    assert sampled.logprobs[0] == pytest.approx(expected.item(), abs=1e-5)


def naive_support(logits_V: torch.Tensor, top_p: float, top_k: int, min_p: float) -> list[int]:
    """Token by token, likeliest first; no two of `logits` are equal."""
    likeliest = max(logits_V.tolist())
    order = sorted(range(VOCAB), key=lambda token: -float(logits_V[token]))
    order = [token for token in order if math.exp(float(logits_V[token]) - likeliest) >= min_p][: top_k or VOCAB]
    total, before, kept = sum(math.exp(float(logits_V[token])) for token in order), 0.0, []
    for token in order:
        if kept and before / total >= top_p:
            break
        kept.append(token)
        before += math.exp(float(logits_V[token]))
    return sorted(kept)


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 10_000), temperature=st.sampled_from([0.5, 1.0, 1.4]),
    top_p=st.sampled_from([0.1, 0.33, 0.8, 0.95, 1.0]), top_k=st.integers(1, VOCAB), min_p=st.sampled_from([0.0, 0.07]),
)  # fmt: skip
def test_the_support_is_that_of_a_naive_sampler(
    seed: int, temperature: float, top_p: float, top_k: int, min_p: float
) -> None:
    params = rows(1, temperature=temperature, top_p=top_p, top_k=top_k, min_p=min_p, seed=seed)
    sampled = sample(logits(seed), params, np.array([0]))
    scaled_V = logits(seed)[0].double() / temperature
    expected = naive_support(scaled_V, top_p, top_k, min_p)
    assert sampled.supports[0].tolist() == expected
    token = int(sampled.token_ids[0])
    mass = sum(math.exp(float(scaled_V[one])) for one in expected)
    assert sampled.logprobs[0] == pytest.approx(float(scaled_V[token]) - math.log(mass), abs=1e-5)


def test_a_support_is_told_of_truncated_rows_that_want_logprobs_and_bound_it() -> None:
    given = {"top_p": [0.5, 0.5, 1.0, 0.5, 0.5], "top_k": [0, 4, 0, 4, 4], "logprobs": [0, 0, 0, -1, 3]}
    greedy = {"temperature": [1.0, 1.0, 1.0, 1.0, 0.0]}
    sampled = sample(logits(1).repeat(5, 1), rows(5, **given, **greedy), np.arange(5))
    assert list(sampled.supports) == [1]


def test_top_p_is_the_smallest_set_that_reaches_p() -> None:
    probabilities = torch.tensor([[0.5, 0.3, 0.15, 0.05]])
    one = np.ones(1, np.float32)
    for p, count in ((0.4, 1), (0.5, 1), (0.6, 2), (0.81, 3), (0.96, 4)):
        kept = truncate(probabilities.log(), one * np.float32(p), np.zeros(1, np.int64), one * 0)
        assert int(torch.isfinite(kept).sum()) == count, p


def test_frequencies_follow_the_distribution() -> None:
    count = 20_000
    one = logits(4)
    tokens = sample(one.repeat(count, 1), rows(count, seed=11), np.arange(count)).token_ids
    observed = np.bincount(tokens, minlength=VOCAB) / count
    assert np.abs(observed - one.softmax(-1)[0].numpy()).max() < 0.015


def test_uniform_numbers_are_uniform_and_differ_by_seed_and_position() -> None:
    numbers = uniform(np.repeat(np.arange(100, dtype=np.uint64), 100), np.tile(np.arange(100), 100))
    assert len(set(numbers.tolist())) == 10_000
    assert 0.0 <= numbers.min() < 0.001
    assert 0.999 < numbers.max() < 1.0
    assert abs(numbers.mean() - 0.5) < 0.01
    grid = numbers.reshape(100, 100) - numbers.mean()
    assert abs((grid[:, 1:] * grid[:, :-1]).mean()) < 0.003


def test_greedy_reports_raw_logprobs_and_rank_one() -> None:
    raw = logits(5)
    sampled = sample(raw.clone(), rows(1, temperature=0.0, top_k=1, logprobs=3), np.array([0]))
    assert sampled.token_ids[0] == raw.argmax()
    assert sampled.logprobs[0] == pytest.approx(raw.log_softmax(-1).max().item(), abs=1e-6)
    assert sampled.ranks[0] == 1
    best = raw.log_softmax(-1)[0].topk(3)
    assert [entry[0] for entry in sampled.alternatives[0]] == best.indices.tolist()
    assert [entry[1] for entry in sampled.alternatives[0]] == pytest.approx(best.values.tolist(), abs=1e-5)


def test_a_token_of_probability_zero_is_never_drawn() -> None:
    raw = torch.full((5000, 4), -torch.inf)
    raw[:, 1], raw[:, 2] = 0.0, -20.0
    tokens = sample(raw, rows(5000), np.arange(5000)).token_ids
    assert set(tokens.tolist()) <= {1, 2}
