# SPDX-License-Identifier: Apache-2.0
"""What a step trains: one sequence each, its trained tokens and what is known of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

UNSAMPLED = -1
# The support of a token that was drawn from all of the vocabulary.
WHOLE = np.zeros(0, dtype=np.int64)


def not_computed() -> np.ndarray:
    """A column [0] that no step has set yet."""
    return np.zeros(0, dtype=np.float32)


@dataclass(frozen=True)
class Row:
    """One sequence: its ids [T], and its trained tokens [K]. What is not trained has no entry, thus no loss."""

    # Index into the batch's episodes.
    episode: int
    token_ids: np.ndarray
    # Where the trained tokens stand in token_ids, ascending; never 0.
    positions: np.ndarray
    # Of the policy that sampled them, nats.
    logprobs: np.ndarray
    # Policy version that sampled them; UNSAMPLED for demonstrations.
    versions: np.ndarray
    # What logits are divided by before the softmax.
    temperatures: np.ndarray
    # True: sampled, so that logprobs can be recomputed as those of softmax(logits / temperature).
    comparable: np.ndarray
    # What each token's loss is multiplied by; other than 1 only after `proximal.anchor`.
    importance: np.ndarray
    # Index into the batch's trajectories.
    trajectory: int = 0
    # Index of its episode's group in the batch.
    group: int = 0
    # Its trained tokens among those of its trajectory: sibling rows count as one rollout together.
    share: float = 1.0
    # Of each trained token the ids that it was drawn from, its support; an empty one: the whole vocabulary. The column
    # is empty where all are. Probabilities are taken over the support, under every policy (arXiv 2512.02556).
    support: np.ndarray = field(default_factory=not_computed)
    # The calls of the trained tokens, in order, with how many each has.
    calls: tuple[tuple[str, int], ...] = ()
    # What a step computes of its trained tokens [K]. Set by `algorithms.estimates`.
    advantages: np.ndarray = field(default_factory=not_computed)
    # Its role's, looks up `algorithms.losses`; empty: the job's own. Set by `algorithms.estimates`.
    token_loss: str = ""
    # The critic's at the batch's start, and what it is trained towards; empty for estimators that use no values. Set by
    # `algorithms.values` and `algorithms.estimates`.
    values: np.ndarray = field(default_factory=not_computed)
    returns: np.ndarray = field(default_factory=not_computed)
    # Of the policy that ratios are taken to, nats. Set by `algorithms.proximal`.
    old_logprobs: np.ndarray = field(default_factory=not_computed)
    # Of the reference, nats, and what it takes from each token's reward, or from its advantage. Set by
    # `algorithms.reference`.
    reference: np.ndarray = field(default_factory=not_computed)
    penalties: np.ndarray = field(default_factory=not_computed)
    # Index of its pair in the batch. Set by `algorithms.preference`.
    pair: int = 0

    def only(self, kept_K: np.ndarray) -> Row:
        """The row with only these of its trained tokens, at least one; the others are context. Its share is not new."""
        columns = {
            name: value[kept_K]
            for name, value in vars(self).items()
            if isinstance(value, np.ndarray) and name != "token_ids" and len(value)
        }
        ends = np.cumsum([count for _, count in self.calls])
        counts = [int(part.sum()) for part in np.split(kept_K, ends[:-1])] if self.calls else []
        calls = tuple((name, count) for (name, _), count in zip(self.calls, counts, strict=True))
        return replace(self, **columns, calls=calls)


def with_shares(rows: Sequence[Row]) -> list[Row]:
    """Rows whose shares are right again after some were shortened or left out."""
    tokens = Counter[int]()
    for row in rows:
        tokens[row.trajectory] += len(row.positions)
    return [replace(row, share=len(row.positions) / tokens[row.trajectory]) for row in rows]


def joined_by_trajectory(
    rows: Sequence[Row], values: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], Callable[[Sequence[np.ndarray]], list[np.ndarray]]]:
    """Values [K] of each row as those of each trajectory [L], and how to cut such into those of the rows again."""
    members: dict[int, list[int]] = {}
    for index, row in enumerate(rows):
        members.setdefault(row.trajectory, []).append(index)

    def split(joined: Sequence[np.ndarray]) -> list[np.ndarray]:
        found: dict[int, np.ndarray] = {}
        for of, one in zip(members.values(), joined, strict=True):
            ends = np.cumsum([len(rows[index].positions) for index in of])
            found |= zip(of, np.split(one, ends[:-1]), strict=True)
        return [found[index] for index in range(len(rows))]

    return [np.concatenate([values[index] for index in of]) for of in members.values()], split
