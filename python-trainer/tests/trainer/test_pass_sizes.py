# SPDX-License-Identifier: Apache-2.0
"""Sizes of passes on a CPU: few, and what rounds them up changes no number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from test_gradients import make_rows, with_long_prompt

from whetstone_models.folder import load_model
from whetstone_trainer.backends.local import pass_sizes
from whetstone_trainer.backends.local.micro_batches import micro_batches
from whetstone_trainer.backends.local.policy import TransformerPolicy
from whetstone_trainer.batch.rows import Row

CPU = torch.device("cpu")


def test_few_counts_follow_one_another() -> None:
    counts = sorted({pass_sizes.rounded(count) for count in range(1, 4097)})
    assert counts[:18] == [*range(1, 17), 18, 20]
    assert sum(count > 1024 for count in counts) == 16
    assert all(count <= pass_sizes.rounded(count) < count * 9 / 8 + 1 for count in range(1, 4097))


def test_passes_of_mixed_lengths_have_few_sizes() -> None:
    rng = np.random.default_rng(1)
    sizes = {"tokens": set[int](), "asked": set[int](), "trained": set[int]()}
    for _ in range(100):
        rows = [of_length(row, int(rng.integers(40, 400))) for row in make_rows(12, int(rng.integers(1000)))]
        for micro in micro_batches(rows, 1024, CPU):
            sizes["tokens"].add(len(micro.token_ids_T))
            sizes["asked"].add(len(micro.predictors_M.unique()))
            sizes["trained"].add(len(micro.targets_M))
    assert {name: all(one == pass_sizes.rounded(one) for one in found) for name, found in sizes.items()} == {
        "tokens": True,
        "asked": True,
        "trained": True,
    }
    assert len(sizes["tokens"]) <= 40


def test_no_pass_is_rounded_beyond_what_the_job_allows() -> None:
    rows = [of_length(row, 111 if row.episode else 901) for row in make_rows(40)]
    found = [(sum(tree.length for tree in one.trees), len(one.token_ids_T)) for one in micro_batches(rows, 777, CPU)]
    assert {size for _, size in found[:-2]} == {777}
    # A sequence alone may be longer than that, and is not made longer still.
    assert found[-1][0] == found[-1][1] > 777


def of_length(row: Row, length: int) -> Row:
    """Its trained tokens are the last ones of so many, none of which it shares."""
    rng = np.random.default_rng(length + row.episode)
    count = len(row.positions)
    return replace(row, token_ids=rng.integers(0, 262, length), positions=np.arange(length - count, length))


@pytest.mark.parametrize("long", [False, True], ids=["short", "behind a long prompt"])
def test_what_rounds_a_pass_changes_no_number(long: bool, model_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [with_long_prompt(row, 0) if long else row for row in make_rows(31)]
    rounded = computed(model_path, rows)
    monkeypatch.setattr(pass_sizes, "rounding", lambda *_: pass_sizes.NONE)
    exact = computed(model_path, rows)
    assert rounded[0] > exact[0]
    for found, expected in zip(rounded[1:], exact[1:], strict=True):
        assert torch.allclose(found, expected, rtol=1e-5, atol=1e-6)


def computed(model_path: Path, rows: Sequence[Row]) -> tuple[int, torch.Tensor, torch.Tensor]:
    """Tokens of all passes; log-probabilities; the gradient of all weights by them."""
    policy = TransformerPolicy(load_model(model_path, device=CPU))
    tokens, logprobs = 0, list[torch.Tensor]()
    for micro in policy.cut(rows, 500):
        logprobs_M, entropies_M = policy.score(micro, entropy_gradient=True)
        logprobs_N = logprobs_M[micro.token_of_N]
        (logprobs_N.sum() + entropies_M[micro.token_of_N].sum()).backward()
        tokens += len(micro.token_ids_T)
        logprobs.append(logprobs_N.detach())
    gradients = [one.grad.flatten() for one in policy.module.parameters() if one.grad is not None]
    return tokens, torch.cat(logprobs), torch.cat(gradients)
