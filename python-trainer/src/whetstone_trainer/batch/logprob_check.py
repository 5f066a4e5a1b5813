# SPDX-License-Identifier: Apache-2.0
"""I4, measured every step: log-probabilities recomputed by the trainer beside those that the engine reported.

Each sampled token is scored with the weights of the version that its label names. A wrong label, ids that were
re-tokenised or an engine that computes something else show as a difference far above rounding. The worst token is
judged by the job's bound: training on it would be trained to be wrong, at any ratio.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from whetstone_models.transformer import Transformer
from whetstone_trainer.backends.local.learner import OnShare
from whetstone_trainer.backends.local.memory import TokenBudget, each_that_fits
from whetstone_trainer.backends.local.scoring import model_device, score
from whetstone_trainer.batch.rows import UNSAMPLED, Row

TOLERANCE = 1e-4


@dataclass(frozen=True)
class Mismatch:
    """A token whose log-probability was reported as one value and recomputed as another."""

    row: Row
    # Index into the row's trained tokens.
    token: int
    recomputed: float

    @property
    def difference(self) -> float:
        """Nats; infinite where a value is no number."""
        difference = abs(self.recomputed - float(self.row.logprobs[self.token]))
        return difference if math.isfinite(difference) else math.inf

    def call(self) -> tuple[str, int]:
        """The call that sampled it, and the token's index in it."""
        index = self.token
        for name, count in self.row.calls:
            if index < count:
                return name, index
            index -= count
        return "", self.token

    def describe(self, episode_id: str, bound: float) -> str:
        (call, index), version = self.call(), self.row.versions[self.token]
        reported = self.row.logprobs[self.token]
        return (
            f"{episode_id} call {call} token {index}, labelled version {version}: log-probability {reported:.4f} as "
            f"sampled, {self.recomputed:.4f} as recomputed, more than {bound:g} nats apart (loop.mismatchBound). The "
            f"engine computes something else than version {version}: compare its weights, dtype, quantization and "
            "sampling settings with the trainer's. loop.onMismatch: warn trains all the same."
        )


def check_logprobs(
    rows: Sequence[Row],
    model_of: Callable[[int], Transformer | None],
    budget: TokenBudget,
    on_share: OnShare,
    bound: float,
) -> tuple[dict[str, float], Mismatch | None]:
    """Metrics logprob_diff/*, and the token that is furthest off.

    `model_of` gives the model of a version, or None if its weights are gone. `bound`: nats.
    """
    worst: Mismatch | None = None
    over = 0
    worst_of_episode: dict[int, float] = {}
    total, count, seen = 0.0, 0, 0
    for version, chosen in sorted(_rows_by_version(rows).items()):
        model = model_of(version)
        if model is None:
            continue
        for episodes_C, differences_C, furthest in _differences(model, chosen, version, budget):
            over += int((differences_C > bound).sum())
            if furthest is not None and (worst is None or furthest.difference > worst.difference):
                worst = furthest
            total += float(differences_C.sum())
            count += len(differences_C)
            seen += len(differences_C)
            for episode, difference in zip(episodes_C.tolist(), differences_C.tolist(), strict=True):
                worst_of_episode[episode] = max(worst_of_episode.get(episode, 0.0), difference)
            on_share(min(1.0, seen / max(1, len(rows))))
    sampled = sum(int((row.versions != UNSAMPLED).sum()) for row in rows)
    metrics = {
        "logprob_diff/max": max(worst_of_episode.values(), default=0.0),
        "logprob_diff/mean": total / max(1, count),
        "logprob_diff/episodes_checked": float(len(worst_of_episode)),
        "logprob_diff/episodes_over_1e-4": float(sum(worst > TOLERANCE for worst in worst_of_episode.values())),
        "logprob_diff/tokens_over_bound": float(over),
        "logprob_diff/tokens_unchecked": float(sampled - count),
    }
    return metrics, worst


def _rows_by_version(rows: Sequence[Row]) -> dict[int, list[Row]]:
    """A row whose tokens carry several labels is scored once under each."""
    chosen: dict[int, list[Row]] = {}
    for row in rows:
        for version in set(row.versions[row.comparable].tolist()):
            chosen.setdefault(version, []).append(row)
    return chosen


def _differences(model: Transformer, rows: list[Row], version: int, budget: TokenBudget):
    """Yields (episode, absolute difference) arrays [C] of the tokens that `version` sampled, and the worst of them."""
    with torch.inference_mode():
        for micro, logprobs_M in each_that_fits(rows, budget, model_device(model), lambda one: score(model, one)[0]):
            recomputed_N = logprobs_M[micro.token_of_N].cpu().numpy()
            reported_N = np.concatenate([row.logprobs for row in micro.rows])
            labels_N = np.concatenate([row.versions for row in micro.rows])
            comparable_N = np.concatenate([row.comparable for row in micro.rows])
            episodes_N = np.array([row.episode for row in micro.rows])[micro.row_of_N]
            chosen_N = (labels_N == version) & comparable_N
            differences_N = np.nan_to_num(np.abs(recomputed_N - reported_N).astype(np.float64), nan=np.inf)
            furthest = None
            if chosen_N.any():
                index = int(np.where(chosen_N, differences_N, -1.0).argmax())
                which = micro.row_of_N[index]
                first = int(np.searchsorted(micro.row_of_N, which))
                furthest = Mismatch(micro.rows[which], index - first, float(recomputed_N[index]))
            yield episodes_N[chosen_N], differences_N[chosen_N], furthest
