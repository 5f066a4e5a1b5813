# SPDX-License-Identifier: Apache-2.0
"""I4, measured every step: log-probabilities recomputed by the trainer beside those that the engine reported.

Each sampled token is scored with the weights of the version that its label names. A wrong label, ids that were
re-tokenised or an engine that computes something else show as a difference far above rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from whetstone_models.transformer import Transformer
from whetstone_trainer.batch import micro_batches
from whetstone_trainer.learner import OnShare, model_device
from whetstone_trainer.rows import UNSAMPLED, Row
from whetstone_trainer.scoring import score

TOLERANCE = 1e-4


def check_logprobs(
    rows: Sequence[Row],
    model_of: Callable[[int], Transformer | None],
    token_budget: int,
    on_share: OnShare,
) -> dict[str, float]:
    """Metrics logprob_diff/*. `model_of` gives the model of a version, or None if its weights are gone."""
    worst_of_episode: dict[int, float] = {}
    total, count, seen = 0.0, 0, 0
    for version, chosen in sorted(_rows_by_version(rows).items()):
        model = model_of(version)
        if model is None:
            continue
        for episodes_C, differences_C in _differences(model, chosen, version, token_budget):
            total += float(differences_C.sum())
            count += len(differences_C)
            seen += len(differences_C)
            for episode, difference in zip(episodes_C.tolist(), differences_C.tolist(), strict=True):
                worst_of_episode[episode] = max(worst_of_episode.get(episode, 0.0), difference)
            on_share(min(1.0, seen / max(1, len(rows))))
    sampled = sum(int((row.versions != UNSAMPLED).sum()) for row in rows)
    return {
        "logprob_diff/max": max(worst_of_episode.values(), default=0.0),
        "logprob_diff/mean": total / max(1, count),
        "logprob_diff/episodes_checked": float(len(worst_of_episode)),
        "logprob_diff/episodes_over_1e-4": float(sum(worst > TOLERANCE for worst in worst_of_episode.values())),
        "logprob_diff/tokens_unchecked": float(sampled - count),
    }


def _rows_by_version(rows: Sequence[Row]) -> dict[int, list[Row]]:
    """A row whose tokens carry several labels is scored once under each."""
    chosen: dict[int, list[Row]] = {}
    for row in rows:
        for version in set(row.versions[row.comparable].tolist()):
            chosen.setdefault(version, []).append(row)
    return chosen


def _differences(model: Transformer, rows: list[Row], version: int, token_budget: int):
    """Yields (episode, absolute difference) arrays [C] of the tokens that `version` sampled."""
    with torch.inference_mode():
        for micro in micro_batches(rows, token_budget, model_device(model)):
            logprobs_M, _ = score(model, micro)
            recomputed_N = logprobs_M[micro.token_of_N].cpu().numpy()
            reported_N = np.concatenate([row.logprobs for row in micro.rows])
            labels_N = np.concatenate([row.versions for row in micro.rows])
            comparable_N = np.concatenate([row.comparable for row in micro.rows])
            episodes_N = np.array([row.episode for row in micro.rows])[micro.row_of_N]
            chosen_N = (labels_N == version) & comparable_N
            yield episodes_N[chosen_N], np.abs(recomputed_N - reported_N)[chosen_N].astype(np.float64)
