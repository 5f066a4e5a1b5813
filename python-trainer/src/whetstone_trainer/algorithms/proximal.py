# SPDX-License-Identifier: Apache-2.0
"""Decoupled PPO: tokens of an older version are clipped around the policy at the batch's start, not around their own.

The ratio of the loss is current to proximal policy, where the proximal policy is the one that enters the step; what
lies between it and the policy that sampled the token is an importance weight, cut off at `importance_cap`. For tokens
of the current version both are the same and nothing changes. Sources: AReaL, arXiv 2505.24298 (decoupled objective);
truncated importance sampling as in verl's rollout correction (token level).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from whetstone_models.transformer import Transformer
from whetstone_trainer.backends.local.memory import TokenBudget, each_that_fits
from whetstone_trainer.backends.local.scoring import model_device, score
from whetstone_trainer.batch.rows import UNSAMPLED, Row


def anchor(
    model: Transformer, rows: Sequence[Row], step: int, cap: float, budget: TokenBudget
) -> tuple[list[Row], dict[str, float]]:
    """Rows whose `logprobs` are the proximal policy's and whose `importance` says how far off they were sampled.

    `model` is version `step`. `cap` 0 leaves the rows as they are. Returns metrics importance/*.
    """
    stale = [row for row in rows if _is_stale(row, step)] if cap > 0 else []
    proximal = _logprobs(model, stale, budget)
    anchored = [_anchored(row, proximal[id(row)], step, cap) if id(row) in proximal else row for row in rows]
    weights_N = np.concatenate([row.importance for row in anchored]) if anchored else np.ones(1, dtype=np.float32)
    return anchored, {
        "importance/mean": float(weights_N.mean()),
        "importance/capped": float((weights_N >= cap).mean()) if cap > 0 else 0.0,
    }


def _is_stale(row: Row, step: int) -> bool:
    return bool(((row.versions != UNSAMPLED) & (row.versions != step)).any())


def _anchored(row: Row, proximal_K: np.ndarray, step: int, cap: float) -> Row:
    """Only tokens that can be recomputed and were sampled by an older version are moved."""
    moved_K = row.comparable & (row.versions != step)
    weights_K = np.minimum(np.exp(np.clip(proximal_K - row.logprobs, -20, 20)), cap)
    return replace(
        row,
        logprobs=np.where(moved_K, proximal_K, row.logprobs).astype(np.float32),
        importance=np.where(moved_K, weights_K, 1.0).astype(np.float32),
    )


def _logprobs(model: Transformer, rows: Sequence[Row], budget: TokenBudget) -> dict[int, np.ndarray]:
    """Log-probabilities [K] of each row's trained tokens, by the row's identity."""
    found: dict[int, np.ndarray] = {}
    if not rows:
        return found
    with torch.inference_mode():
        for micro, logprobs_M in each_that_fits(rows, budget, model_device(model), lambda one: score(model, one)[0]):
            logprobs_N = logprobs_M[micro.token_of_N].cpu().numpy()
            bounds = np.cumsum([len(row.positions) for row in micro.rows])[:-1]
            for row, part in zip(micro.rows, np.split(logprobs_N, bounds), strict=True):
                found[id(row)] = part
    return found
