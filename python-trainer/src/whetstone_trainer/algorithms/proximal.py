# SPDX-License-Identifier: Apache-2.0
"""Decoupled PPO: tokens of an older version are clipped around the policy at the batch's start, not around their own.

The ratio of the loss is current to proximal policy, where the proximal policy is the one that enters the step; what
lies between it and the policy that sampled the token is an importance weight, cut off at `importance_cap`. For tokens
of the current version both are the same and nothing changes. Sources: AReaL, arXiv 2505.24298 (decoupled objective);
truncated importance sampling as in verl's rollout correction (token level).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from whetstone_trainer.batch.rows import UNSAMPLED, Row


def anchor(
    rows: Sequence[Row], step: int, cap: float, log_probabilities: Callable[[Sequence[Row]], Sequence[np.ndarray]]
) -> tuple[list[Row], dict[str, float]]:
    """Rows whose `old_logprobs` are the proximal policy's and whose `importance` says how far off they were sampled.

    `log_probabilities`: of the trained tokens [K] of each row under version `step`. `cap` 0: the ratio is taken to the
    policy that sampled. Returns metrics importance/*.
    """
    stale = [row for row in rows if _is_stale(row, step)] if cap > 0 else []
    scored = log_probabilities(stale) if stale else []
    proximal = {id(row): logprobs_K for row, logprobs_K in zip(stale, scored, strict=True)}
    anchored = [
        _anchored(row, proximal[id(row)], step, cap) if id(row) in proximal else replace(row, old_logprobs=row.logprobs)
        for row in rows
    ]
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
        old_logprobs=np.where(moved_K, proximal_K, row.logprobs).astype(np.float32),
        importance=np.where(moved_K, weights_K, 1.0).astype(np.float32),
    )
