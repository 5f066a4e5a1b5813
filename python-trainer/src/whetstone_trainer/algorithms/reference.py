# SPDX-License-Identifier: Apache-2.0
"""A batch beside its reference: how far the policy has gone, what that costs each token's reward or advantage, and what
the next step's coefficient is. The loss takes its own part from `Row.reference`.

The coefficient that adapts follows from the metrics of the step before, which its checkpoint holds: a trainer that
starts again goes on from the very same number. Sources: arXiv 1909.08593; verl `apply_kl_penalty`; for the advantage
"On-Policy Distillation" (Thinking Machines 2025) and rLLM `trainer/distill`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_trainer.algorithms.kl import DIVERGENCE_OF, in_advantage, in_reward
from whetstone_trainer.batch.rows import Row, joined_by_trajectory

# Of the coefficient, in one horizon.
LARGEST_CHANGE, DEFAULT_HORIZON = 0.2, 10_000.0
NEXT = "kl/coefficient_next"


def coefficient_of(kl: jobs.KlPenalty, before: Mapping[str, float]) -> float:
    """`before`: metrics of the step before this one."""
    return before.get(NEXT, kl.coefficient) if kl.HasField("target") else kl.coefficient


def adapted(kl: jobs.KlPenalty, coefficient: float, divergence: float, trajectories: int) -> float:
    """The next step's coefficient: it grows while the policy is further off than the target, by a fifth a horizon."""
    if not kl.HasField("target"):
        return coefficient
    error = min(max(divergence / kl.target - 1, -LARGEST_CHANGE), LARGEST_CHANGE)
    return coefficient * (1 + error * trajectories / (kl.horizon or DEFAULT_HORIZON))


def with_reference(
    rows: Sequence[Row],
    options: jobs.PolicyGradient,
    before: Mapping[str, float],
    log_probabilities: Callable[[Sequence[Row]], Sequence[np.ndarray]],
) -> tuple[list[Row], dict[str, float]]:
    """The rows with their reference, and with what it takes from each token's reward or advantage; metrics kl/*.

    `log_probabilities`: of the trained tokens [K] of each row under the reference. The rows have `old_logprobs`.
    """
    kl, scored = options.kl, log_probabilities(rows) if rows else []
    rows = [replace(row, reference=reference_K) for row, reference_K in zip(rows, scored, strict=True)]
    divergences = [_divergence(row, kl.estimator) for row in rows]
    of_trajectories, split = joined_by_trajectory(rows, divergences)
    mean = float(np.mean([values.mean() for values in of_trajectories])) if rows else 0.0
    coefficient = coefficient_of(kl, before)
    if in_reward(options):
        rows = [replace(row, penalties=coefficient * one) for row, one in zip(rows, divergences, strict=True)]
    if in_advantage(options):
        taken = split([coefficient * discounted(kl, divergences_L) for divergences_L in of_trajectories])
        rows = [replace(row, penalties=one) for row, one in zip(rows, taken, strict=True)]
    return rows, {
        "kl/reference": mean,
        "kl/coefficient": coefficient,
        NEXT: adapted(kl, coefficient, mean, len(of_trajectories)),
    }


def discounted(kl: jobs.KlPenalty, divergences_L: np.ndarray) -> np.ndarray:
    """Of each token of a trajectory [L]: its divergence, clipped, and the discounted sum of those after it."""
    sums_L = np.clip(divergences_L, -kl.clip, kl.clip) if kl.HasField("clip") else divergences_L.copy()
    if kl.discount > 0:
        for token in range(len(sums_L) - 2, -1, -1):
            sums_L[token] += kl.discount * sums_L[token + 1]
    return sums_L


def _divergence(row: Row, estimator: jobs.KlEstimator) -> np.ndarray:
    """Of each trained token [K], float64, of the policy at the batch's start."""
    old, reference = (torch.from_numpy(values.astype(np.float64)) for values in (row.old_logprobs, row.reference))
    return DIVERGENCE_OF[estimator](old, reference).numpy()
