# SPDX-License-Identifier: Apache-2.0
"""What the members of a group are, trajectories or single steps of them, and which tokens of which rows are theirs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_trainer.algorithms.estimator import Member, lowered, member
from whetstone_trainer.algorithms.kl import in_advantage
from whetstone_trainer.algorithms.overlong import with_overlong
from whetstone_trainer.batch.rows import Row, not_computed
from whetstone_trainer.batch.trajectories import Trajectory

# Index of a row, and which of its trained tokens.
Span = tuple[int, slice]


@dataclass(frozen=True)
class Unit:
    """A member, and its tokens: those of its spans, one after the other."""

    member: Member
    # Index into the batch's trajectories.
    trajectory: int
    spans: Sequence[Span]

    def spread(self, values_K: np.ndarray, columns_R: Sequence[np.ndarray]) -> None:
        """Writes a value of each of its tokens into the columns [K] of its rows."""
        taken = 0
        for row, own in self.spans:
            count = own.stop - own.start
            columns_R[row][own] = values_K[taken : taken + count]
            taken += count


def units_of(rows: Sequence[Row], trajectories: Sequence[Trajectory], options: jobs.PolicyGradient) -> list[Unit]:
    """Of each trajectory, trained or not; a masked one has no tokens but counts in its group."""
    if options.grouping_level == jobs.GROUPING_LEVEL_STEP:
        return _steps(rows, trajectories, options)
    spans: list[list[Span]] = [[] for _ in trajectories]
    for index, row in enumerate(rows):
        spans[row.trajectory].append((index, slice(0, len(row.positions))))
    return [
        _unit(index, one.group, one.reward, trajectories, rows, spans[index], options)
        for index, one in enumerate(trajectories)
    ]


def _steps(rows: Sequence[Row], trajectories: Sequence[Trajectory], options: jobs.PolicyGradient) -> list[Unit]:
    """A step is compared with those of the same number."""
    spans: dict[tuple[int, str], list[Span]] = {}
    for index, row in enumerate(rows):
        start = 0
        for call, count in row.calls:
            spans.setdefault((row.trajectory, call), []).append((index, slice(start, start + count)))
            start += count
    return [
        _unit(index, (one.group, number), mc_return, trajectories, rows, spans.get((index, call), []), options)
        for index, one in enumerate(trajectories)
        for number, (call, mc_return) in enumerate(one.steps)
    ]


def _unit(
    trajectory: int,
    group: Hashable,
    reward: float,
    trajectories: Sequence[Trajectory],
    rows: Sequence[Row],
    spans: Sequence[Span],
    options: jobs.PolicyGradient,
) -> Unit:
    tokens = sum(own.stop - own.start for _, own in spans)
    one = with_overlong(member(group, reward, tokens, trajectories[trajectory].baseline), options)
    penalties_K = _joined(rows, spans, lambda row: row.penalties)
    if len(penalties_K) and not in_advantage(options):
        one = lowered(one, penalties_K)
    return Unit(replace(one, values_K=_joined(rows, spans, lambda row: row.values)), trajectory, spans)


def _joined(rows: Sequence[Row], spans: Sequence[Span], column: Callable[[Row], np.ndarray]) -> np.ndarray:
    """A column of a member's tokens [K], float64; [0] where it was not computed."""
    return np.concatenate([not_computed(), *(column(rows[row])[own] for row, own in spans)]).astype(np.float64)
