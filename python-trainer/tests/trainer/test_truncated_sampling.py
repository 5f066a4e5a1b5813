# SPDX-License-Identifier: Apache-2.0
"""Tokens drawn from a part of the vocabulary are trained over that part: the ratio is 1 at the same weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from test_gradients import GRPO, gradient, make_rows
from test_reference import start, trained, weights
from trainer_kit import JOB, PROMPT, Turn, call_of
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_engine.sampler import RowParams, sample
from whetstone_models.folder import load_model
from whetstone_models.hugging_face import load_causal_lm
from whetstone_trainer.backends.local import scoring
from whetstone_trainer.backends.local.hugging_face_policy import HuggingFacePolicy
from whetstone_trainer.backends.local.policy import Policy, TransformerPolicy
from whetstone_trainer.batch.packing import build_trees
from whetstone_trainer.batch.rows import WHOLE, Row

TOP_P = 0.8


def drawn(folder: Path, rewards: Sequence[float], version: int = 0, seed: int = 0) -> list[types.Episode]:
    """Answers of four tokens to one prompt, as the engine's own sampler draws them at top_p 0.8."""
    model, count = load_model(folder), len(rewards)
    answers, logprobs, supports = [[[] for _ in rewards] for _ in range(3)]
    params = RowParams(
        np.ones(count, np.float32),
        np.full(count, TOP_P, np.float32),
        np.full(count, 512),
        np.zeros(count, np.float32),
        np.arange(seed, seed + count, dtype=np.uint64),
        np.zeros(count, np.int64),
    )
    for _ in range(4):
        with torch.no_grad():
            logits = model(torch.tensor([[*PROMPT, *answer] for answer in answers]))[:, -1]
        found = sample(logits, params, np.full(count, len(answers[0])))
        for index in range(count):
            answers[index].append(int(found.token_ids[index]))
            logprobs[index].append(float(found.logprobs[index]))
            supports[index].append(found.supports[index].tolist())
    episodes = []
    for index, reward in enumerate(rewards):
        call = call_of(Turn(PROMPT, answers[index], version), 0, logprobs[index])
        call.sampling.MergeFrom(types.Sampling(top_p=TOP_P, top_k=512))
        call.support_ids.extend([one for support in supports[index] for one in support])
        call.support_counts.extend([len(support) for support in supports[index]])
        names = {"id": f"{JOB}/g0/s{index}", "job": JOB, "group": "g0", "sample": index, "reward": reward}
        episodes.append(types.Episode(**names, purpose=types.PURPOSE_TRAIN, calls=[call]))
    return episodes


def test_the_ratio_is_1_at_the_same_weights_and_a_job_trains(model_path: Path, tmp_path: Path) -> None:
    run = start(model_path, tmp_path / "run", None)
    (metrics,) = trained(run, drawn(model_path, [1.0, 0.0, 0.0, 1.0]), 1)
    assert metrics["ratio/mean"] == pytest.approx(1, abs=1e-5)
    assert metrics["ratio/max"] == pytest.approx(1, abs=1e-5)
    assert metrics["logprob_diff/max"] < 1e-5
    assert (metrics["tokens_trained"], metrics["tokens_context"]) == (16, 0)
    assert metrics["grad_norm"] > 1e-3
    version_1 = Path(run.weights().path)
    (again,) = trained(run, drawn(version_1, [1.0, 0.0, 0.0, 1.0], version=1, seed=9), 1)
    assert again["ratio/max"] == pytest.approx(1, abs=1e-5)
    assert again["logprob_diff/max"] < 1e-5


def test_tokens_of_an_older_version_are_anchored_and_compared_with_the_reference_over_their_support(
    model_path: Path, tmp_path: Path
) -> None:
    """At the starting weights the divergence from them is 0, with a support as without."""
    run = start(model_path, tmp_path / "run", jobs.KlPenalty(coefficient=0.01))
    episodes = drawn(model_path, [1.0, 0.0, 0.0, 1.0])
    first, second = trained(run, episodes, 2)
    assert first["kl/reference"] == pytest.approx(0, abs=1e-6)
    assert second["logprob_diff/max"] < 1e-5
    assert second["importance/mean"] != 1


def test_without_supports_it_is_context_and_nothing_is_trained(model_path: Path, tmp_path: Path) -> None:
    run = start(model_path, tmp_path / "run", None)
    episodes = drawn(model_path, [1.0, 0.0, 0.0, 1.0])
    for episode in episodes:
        del episode.calls[0].support_ids[:], episode.calls[0].support_counts[:]
    before = weights(run)
    (metrics,) = trained(run, episodes, 1)
    assert (metrics["tokens_trained"], metrics["episodes_dropped"]) == (0, 4)
    assert torch.equal(weights(run), before)


def test_an_id_that_the_model_does_not_have_drops_the_episode(model_path: Path, tmp_path: Path) -> None:
    episodes = drawn(model_path, [1.0, 0.0, 0.0, 1.0])
    episodes[0].calls[0].support_ids[-1] = 10**6
    (metrics,) = trained(start(model_path, tmp_path / "run", None), episodes, 1)
    assert metrics["episodes_dropped"] == 1


def truncated_rows(count: int) -> list[Row]:
    """Some tokens have supports of different sizes, with their own id in them, and some have none."""
    rng, rows = np.random.default_rng(3), []
    for row in make_rows(count):
        column = np.empty(len(row.positions), dtype=object)
        for index, position in enumerate(row.positions):
            others = rng.choice(262, rng.integers(1, 40), replace=False)
            column[index] = np.union1d(others, row.token_ids[position]) if rng.random() < 0.7 else WHOLE
        rows.append(replace(row, support=column))
    return rows


def naive(module: torch.nn.Module, row: Row) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and entropies [K], token by token."""
    logits_TV = module(torch.from_numpy(row.token_ids)[None])
    logits_TV = (logits_TV if isinstance(logits_TV, torch.Tensor) else logits_TV.logits)[0]
    logprobs, entropies = [], []
    for index, position in enumerate(row.positions.tolist()):
        kept = row.support[index] if len(row.support[index]) else np.arange(logits_TV.shape[1])
        table = (logits_TV[position - 1] / float(row.temperatures[index]))[torch.from_numpy(kept)].log_softmax(-1)
        logprobs.append(table[int(np.flatnonzero(kept == row.token_ids[position])[0])])
        entropies.append(-(table.exp() * table).sum())
    return torch.stack(logprobs), torch.stack(entropies)


@pytest.mark.parametrize("kind", ["ours", "ours in chunks", "transformers"])
def test_scores_are_those_of_a_naive_loop(model_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "ours in chunks":
        monkeypatch.setattr(scoring, "MAX_LOGITS", 262 * 3)
    policy: Policy = (
        HuggingFacePolicy(load_causal_lm(model_path))
        if kind == "transformers"
        else TransformerPolicy(load_model(model_path))
    )
    rows = truncated_rows(12)
    expected = {id(row): naive(policy.module, row) for row in rows}
    for micro in policy.cut(rows, 60):
        logprobs_M, entropies_M = policy.score(micro, entropy_gradient=True)
        for found_M, which in ((logprobs_M, 0), (entropies_M, 1)):
            wanted = torch.cat([expected[id(row)][which] for row in micro.rows])
            assert (found_M[micro.token_of_N] - wanted).abs().max() < 1e-5


def test_the_gradient_is_that_of_a_naive_loop_and_finite(model_path: Path) -> None:
    """The loss clipped, with an entropy bonus: what could not be drawn has no part in either."""
    policy = TransformerPolicy(load_model(model_path))
    with torch.no_grad():
        rows = [replace(row, old_logprobs=naive(policy.module, row)[0].numpy()) for row in truncated_rows(9)]
    found = gradient(policy, [rows[:4], rows[4:]], GRPO)
    policy.module.zero_grad(set_to_none=True)
    tokens = sum(len(row.positions) for row in rows)
    for row in rows:
        logprobs_K, entropies_K = naive(policy.module, row)
        ratio_K = (logprobs_K - torch.from_numpy(row.old_logprobs)).exp()
        loss = -(torch.from_numpy(row.advantages) * ratio_K).sum() - 0.01 * entropies_K.sum()
        (loss / tokens).backward()
    expected = torch.cat([one.grad.flatten() for one in policy.module.parameters() if one.grad is not None])
    assert expected.abs().max() > 1e-4
    assert (found - expected).abs().max() < 2e-6 * max(1.0, float(expected.abs().max()))


def test_rows_that_differ_in_their_supports_alone_are_not_computed_as_one() -> None:
    (row,) = make_rows(1)
    supports = [np.empty(len(row.positions), dtype=object) for _ in range(3)]
    for column, extra in zip(supports, (1, 1, 2), strict=True):
        for index, position in enumerate(row.positions):
            column[index] = np.union1d(row.token_ids[position], [extra])
    (tree,) = build_trees([replace(row, support=one) for one in supports], 1000)
    assert [len(branch.rows) for branch in tree.branches] == [2, 1]
