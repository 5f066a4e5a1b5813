# SPDX-License-Identifier: Apache-2.0
"""Rollout correction: tokens that another policy sampled are clipped around the policy that enters the step.

The ratio of the loss is current to proximal policy, where the proximal policy is the one that enters the step; what
lies between it and the policy that sampled the token is an importance weight, and a reason to leave the token out. For
tokens of the current version both are the same, unless the job says that engine and trainer differ (`same_version`).
Sources: AReaL, arXiv 2505.24298 (decoupled objective); verl's rollout correction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_trainer.algorithms.aggregation import token_loss_of
from whetstone_trainer.algorithms.importance import importance_weights, off_policy_metrics
from whetstone_trainer.algorithms.kl import has_reference
from whetstone_trainer.algorithms.rejection import kept_tokens
from whetstone_trainer.batch.rows import Row, joined_by_trajectory, with_shares
from whetstone_trainer.contract.settings import AlgorithmSettings


def anchor(
    rows: Sequence[Row],
    step: int,
    correction: jobs.Correction,
    log_probabilities: Callable[[Sequence[Row]], Sequence[np.ndarray]],
) -> tuple[list[Row], dict[str, float]]:
    """Rows whose `old_logprobs` are the proximal policy's and whose `importance` says how far off they were sampled.

    Rejected tokens are gone, and rows that have no other. `log_probabilities`: of the trained tokens [K] of each row
    under version `step`. Returns metrics importance/*.
    """
    is_off = correction.level == jobs.CORRECTION_LEVEL_OFF
    moved = {} if is_off else {id(row): _moved(row, step, correction.same_version) for row in rows}
    asked = [row for row in rows if not is_off and moved[id(row)].any()]
    scored = log_probabilities(asked) if asked else []
    proximal = {
        id(row): np.where(moved[id(row)], logprobs_K, row.logprobs).astype(np.float32)
        for row, logprobs_K in zip(asked, scored, strict=True)
    }
    anchored = [replace(row, old_logprobs=proximal.get(id(row), row.logprobs)) for row in rows]
    if not asked:
        return anchored, _metrics([np.ones(1)], 0.0, [np.ones(1)], [])
    return _corrected(anchored, correction)


def is_local(rows: Sequence[Row], algorithm: AlgorithmSettings) -> bool:
    """Whether the anchor of a row depends on no other row, and nothing but its loss reads it."""
    options = algorithm.options
    correction = options.correction
    if has_reference(options) or correction.reject or correction.normalize:
        return False
    of_sequences = correction.level == jobs.CORRECTION_LEVEL_SEQUENCE
    several = Counter(row.trajectory for row in rows)
    return not any(
        several[row.trajectory] > 1 and (of_sequences or token_loss_of(row, algorithm).of_sequences) for row in rows
    )


def _moved(row: Row, step: int, same_version: bool) -> np.ndarray:
    """Tokens [K] that can be recomputed and that another policy sampled."""
    return row.comparable & (same_version | (row.versions != step))


def _corrected(rows: Sequence[Row], correction: jobs.Correction) -> tuple[list[Row], dict[str, float]]:
    ratios = [row.old_logprobs.astype(np.float64) - row.logprobs for row in rows]
    sequences, split = joined_by_trajectory(rows, ratios)
    weights, out_of_bounds = importance_weights(sequences, correction)
    kept = kept_tokens(sequences, correction.reject)
    metrics = _metrics(weights, out_of_bounds, kept, sequences)
    weighed = [replace(row, importance=one.astype(np.float32)) for row, one in zip(rows, split(weights), strict=True)]
    if not correction.reject:
        return weighed, metrics
    left = [row.only(kept_K) for row, kept_K in zip(weighed, split(kept), strict=True) if kept_K.any()]
    return with_shares(left), metrics


def _metrics(
    weights: Sequence[np.ndarray], out_of_bounds: float, kept: Sequence[np.ndarray], log_ratios: Sequence[np.ndarray]
) -> dict[str, float]:
    return {
        "importance/mean": float(np.concatenate(weights).mean()),
        "importance/capped": out_of_bounds,
        "importance/rejected": 1 - float(np.concatenate(kept).mean()),
        **off_policy_metrics(log_ratios),
    }
