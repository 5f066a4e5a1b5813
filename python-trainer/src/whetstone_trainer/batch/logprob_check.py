# SPDX-License-Identifier: Apache-2.0
"""I4, measured every step: log-probabilities recomputed by the trainer beside those that the engine reported.

A share of the rows is scored with the weights of the version that their tokens' labels name. A wrong label, ids that
were re-tokenised or an engine that computes something else show as a difference far above rounding. The worst token is
judged by the job's bound: training on it would be trained to be wrong, at any ratio.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from whetstone_trainer.batch.rows import UNSAMPLED, Row

TOLERANCE = 1e-4
# Of each version, if there are so many: a small batch is checked whole.
FEWEST_ROWS = 32

# Of the trained tokens [K] of each row under a version; None if its weights are gone.
LogProbabilities = Callable[[Sequence[Row], int, Callable[[float], None]], Sequence[np.ndarray] | None]


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


@dataclass
class _Tally:
    """Differences of all tokens that were recomputed."""

    bound: float
    total: float = 0.0
    count: int = 0
    over: int = 0
    worst: Mismatch | None = None
    worst_of_episode: dict[int, float] = field(default_factory=dict)

    def add(self, row: Row, recomputed_K: np.ndarray, version: int) -> None:
        """The row's tokens [K] that `version` sampled."""
        chosen_K = row.comparable & (row.versions == version)
        differences_K = np.nan_to_num(np.abs(recomputed_K - row.logprobs).astype(np.float64), nan=np.inf)
        token = int(np.where(chosen_K, differences_K, -1.0).argmax())
        furthest = Mismatch(row, token, float(recomputed_K[token]))
        if self.worst is None or furthest.difference > self.worst.difference:
            self.worst = furthest
        before = self.worst_of_episode.get(row.episode, 0.0)
        self.worst_of_episode[row.episode] = max(before, float(differences_K[token]))
        self.over += int((differences_K[chosen_K] > self.bound).sum())
        self.total += float(differences_K[chosen_K].sum())
        self.count += int(chosen_K.sum())


def check_logprobs(
    rows: Sequence[Row],
    log_probabilities: LogProbabilities,
    on_share: Callable[[float], None],
    bound: float,
    share: float = 1.0,
    seed: Sequence[int] = (0,),
) -> tuple[dict[str, float], Mismatch | None]:
    """Metrics logprob_diff/*, and the token that is furthest off. `bound`: nats. `share`: of the rows of a version."""
    tally, done = _Tally(bound), 0
    chosen_rows = {
        version: _sampled(of_version, share, (*seed, version)) for version, of_version in _rows_by_version(rows).items()
    }
    asked = sum(map(len, chosen_rows.values()))
    for version, chosen in sorted(chosen_rows.items()):

        def on_part(share: float, before: int = done, count: int = len(chosen)) -> None:
            on_share((before + share * count) / asked)

        recomputed = log_probabilities(chosen, version, on_part)
        if recomputed is not None:
            for row, recomputed_K in zip(chosen, recomputed, strict=True):
                tally.add(row, recomputed_K, version)
        done += len(chosen)
    sampled = sum(int((row.versions != UNSAMPLED).sum()) for row in rows)
    metrics = {
        "logprob_diff/max": max(tally.worst_of_episode.values(), default=0.0),
        "logprob_diff/mean": tally.total / max(1, tally.count),
        "logprob_diff/episodes_checked": float(len(tally.worst_of_episode)),
        "logprob_diff/episodes_over_1e-4": float(sum(worst > TOLERANCE for worst in tally.worst_of_episode.values())),
        "logprob_diff/tokens_over_bound": float(tally.over),
        "logprob_diff/tokens_unchecked": float(sampled - tally.count),
    }
    return metrics, tally.worst


def _sampled(rows: list[Row], share: float, seed: Sequence[int]) -> list[Row]:
    count = max(FEWEST_ROWS, math.ceil(share * len(rows)))
    if count >= len(rows):
        return rows
    chosen = np.random.Generator(np.random.PCG64(list(seed))).choice(len(rows), count, replace=False)
    return [rows[index] for index in sorted(chosen)]


def _rows_by_version(rows: Sequence[Row]) -> dict[int, list[Row]]:
    """A row whose tokens carry several labels is scored once under each."""
    chosen: dict[int, list[Row]] = {}
    for row in rows:
        for version in set(row.versions[row.comparable].tolist()):
            chosen.setdefault(version, []).append(row)
    return chosen
