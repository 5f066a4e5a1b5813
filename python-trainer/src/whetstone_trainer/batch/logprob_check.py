# SPDX-License-Identifier: Apache-2.0
"""I4, measured every step: log-probabilities recomputed by the trainer beside those that the engine reported.

Rows are scored with the weights of the version that their tokens' labels name. Under the present version the training
pass itself scores all rows that it passes. Of the others a share is scored, and of rows with older tokens those, too,
of which the present version is off by more than the bound. A wrong label, ids that were re-tokenised or an engine that
computes something else show as a difference far above rounding. The worst token is judged by the job's bound: training
on it would be trained to be wrong, at any ratio.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from whetstone_trainer.batch.rows import UNSAMPLED, Row

TOLERANCE = 1e-4
# Of each version, if there are so many: a small batch is checked whole. Of rows that the present version is compared
# with as well, fewer do if they have so many tokens.
FEWEST_ROWS, FEWEST_TOKENS = 32, 256

# Of the trained tokens [K] of each row under a version; None if its weights are gone.
RowsOfVersions = dict[int, list[Row]]
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

    def __init__(self, rows: Sequence[Row], bound: float, step: int = -1, passed: Sequence[Row] = ()) -> None:
        """`bound`: nats. `passed`: what the training pass scores under version `step`; added when that is done."""
        self._rows, self._bound, self._step = rows, bound, step
        self._passed = {id(row.token_ids) for row in passed}
        self._total, self._count, self._over = 0.0, 0, 0
        self._worst_of_episode: dict[int, float] = {}
        # Of rows and versions; rows are copied when they get a column, their ids are not.
        self._done = set[tuple[int, int]]()
        # The token that is furthest off.
        self.worst: Mismatch | None = None

    def sample(self, share: float, seed: Sequence[int] = (0,)) -> RowsOfVersions:
        """What must be scored beside the training pass, so that a `share` of the rows of each version is."""
        found: RowsOfVersions = {}
        for version, rows in _rows_by_version(self._rows).items():
            left = [row for row in rows if version != self._step or not self._is_passed(row)]
            rng = np.random.Generator(np.random.PCG64([*seed, version]))
            shuffled, awaited = rng.permutation(len(left)).tolist(), len(rows) - len(left)
            asked, fewest = math.ceil(share * len(rows)), FEWEST_ROWS
            if version != self._step and all(map(self._is_passed, left)):
                tokens = np.cumsum([len(left[index].positions) for index in shuffled])
                fewest = min(fewest, 1 + int(np.searchsorted(tokens, FEWEST_TOKENS)))
            found[version] = [left[index] for index in sorted(shuffled[: max(0, asked - awaited, fewest - awaited)])]
        return found

    def suspects(self, rows: Sequence[Row], entering: Sequence[np.ndarray | None]) -> RowsOfVersions:
        """Rows that were not scored under an older version, though the present one is off by more than the bound."""
        found: RowsOfVersions = {}
        for row, present_K in zip(rows, entering, strict=True):
            if present_K is not None:
                far_K = row.comparable & (np.abs(present_K - row.logprobs) > self._bound)
                for version in sorted(set(row.versions[far_K].tolist()) - {self._step}):
                    if (id(row.token_ids), version) not in self._done:
                        found.setdefault(version, []).append(row)
        return found

    def _is_passed(self, row: Row) -> bool:
        return id(row.token_ids) in self._passed

    def score(
        self, chosen_rows: RowsOfVersions, log_probabilities: LogProbabilities, on_share: Callable[[float], None]
    ) -> None:
        """Scores rows under versions and compares."""
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


def _rows_by_version(rows: Sequence[Row]) -> dict[int, list[Row]]:
    """A row whose tokens carry several labels is scored once under each."""
    chosen: dict[int, list[Row]] = {}
    for row in rows:
        for version in set(row.versions[row.comparable].tolist()):
            chosen.setdefault(version, []).append(row)
    return chosen
