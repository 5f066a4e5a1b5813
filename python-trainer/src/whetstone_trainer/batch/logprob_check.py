# SPDX-License-Identifier: Apache-2.0
"""I4, measured every step: log-probabilities recomputed by the trainer beside those that the engine reported.

Rows are scored with the weights of the version that their tokens' labels name. Under the present version the training
pass itself scores all rows that it passes; of the others a share is. A wrong label, ids that were re-tokenised or an
engine that computes something else show as a difference far above rounding. The worst token is judged by the job's
bound: training on it would be trained to be wrong, at any ratio.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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


class LogprobCheck:
    """Of one batch: differences of all tokens that were recomputed."""

    def __init__(self, rows: Sequence[Row], bound: float) -> None:
        """`bound`: nats."""
        self._rows, self._bound = rows, bound
        self._total, self._count, self._over = 0.0, 0, 0
        self._worst_of_episode: dict[int, float] = {}
        # Of rows and versions; rows are copied when they get a column, their ids are not.
        self._done = set[tuple[int, int]]()
        # The token that is furthest off.
        self.worst: Mismatch | None = None

    def score(
        self,
        log_probabilities: LogProbabilities,
        on_share: Callable[[float], None],
        share: float = 1.0,
        seed: Sequence[int] = (0,),
        awaited: Callable[[Row, int], bool] = lambda row, version: False,
    ) -> None:
        """Scores a `share` of the rows of each version, those included that are `awaited`: they are added later."""
        chosen_rows = {
            version: _sampled(of_version, share, (*seed, version), [awaited(row, version) for row in of_version])
            for version, of_version in _rows_by_version(self._rows).items()
        }
        asked, done = sum(map(len, chosen_rows.values())), 0
        for version, chosen in sorted(chosen_rows.items()):
            if not chosen:
                continue

            def on_part(share: float, before: int = done, count: int = len(chosen)) -> None:
                on_share((before + share * count) / asked)

            recomputed = log_probabilities(chosen, version, on_part)
            if recomputed is not None:
                self.add(chosen, recomputed, version)
            done += len(chosen)

    def add(self, rows: Sequence[Row], recomputed: Sequence[np.ndarray | None], version: int) -> None:
        """Compares the tokens [K] of each row that `version` sampled; None, and what is compared already: not again."""
        for row, recomputed_K in zip(rows, recomputed, strict=True):
            chosen_K = row.comparable & (row.versions == version)
            key = id(row.token_ids), version
            if recomputed_K is not None and key not in self._done and chosen_K.any():
                self._done.add(key)
                self._compare(row, recomputed_K, chosen_K)

    def _compare(self, row: Row, recomputed_K: np.ndarray, chosen_K: np.ndarray) -> None:
        differences_K = np.nan_to_num(np.abs(recomputed_K - row.logprobs).astype(np.float64), nan=np.inf)
        token = int(np.where(chosen_K, differences_K, -1.0).argmax())
        furthest = Mismatch(row, token, float(recomputed_K[token]))
        if self.worst is None or furthest.difference > self.worst.difference:
            self.worst = furthest
        before = self._worst_of_episode.get(row.episode, 0.0)
        self._worst_of_episode[row.episode] = max(before, float(differences_K[token]))
        self._over += int((differences_K[chosen_K] > self._bound).sum())
        self._total += float(differences_K[chosen_K].sum())
        self._count += int(chosen_K.sum())

    def metrics(self) -> dict[str, float]:
        """logprob_diff/*."""
        sampled = sum(int((row.versions != UNSAMPLED).sum()) for row in self._rows)
        worst = self._worst_of_episode.values()
        return {
            "logprob_diff/max": max(worst, default=0.0),
            "logprob_diff/mean": self._total / max(1, self._count),
            "logprob_diff/episodes_checked": float(len(worst)),
            "logprob_diff/episodes_over_1e-4": float(sum(one > TOLERANCE for one in worst)),
            "logprob_diff/tokens_over_bound": float(self._over),
            "logprob_diff/tokens_unchecked": float(sampled - self._count),
        }


def _sampled(rows: list[Row], share: float, seed: Sequence[int], is_awaited: Sequence[bool]) -> list[Row]:
    """What must be scored beside the rows that are awaited, so that enough are."""
    left = [row for row, awaited in zip(rows, is_awaited, strict=True) if not awaited]
    count = max(FEWEST_ROWS, math.ceil(share * len(rows))) - (len(rows) - len(left))
    if count >= len(left):
        return left
    chosen = np.random.Generator(np.random.PCG64(list(seed))).choice(len(left), max(0, count), replace=False)
    return [left[index] for index in sorted(chosen)]


def _rows_by_version(rows: Sequence[Row]) -> dict[int, list[Row]]:
    """A row whose tokens carry several labels is scored once under each."""
    chosen: dict[int, list[Row]] = {}
    for row in rows:
        for version in set(row.versions[row.comparable].tolist()):
            chosen.setdefault(version, []).append(row)
    return chosen
