# SPDX-License-Identifier: Apache-2.0
"""What a step's record says beside its losses: where the time went, what the batch was made of."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.batch.rows import UNSAMPLED, Row
from whetstone_trainer.batch.trajectories import Trajectory

# Roles with metrics of their own. User code names roles; beyond this many the names are no roles.
MAX_ROLES = 32
# Likewise of the numbers that agents and environments give their episodes.
MAX_EPISODE_METRICS = 64


class Clock:
    """Seconds by part of a step; the total counts from the start, `seconds` given included."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds
        self._started = time.monotonic_ns() - int(sum(seconds.values()) * 1e9)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    def total_ns(self) -> int:
        return time.monotonic_ns() - self._started


def batch_metrics(
    step: int,
    episodes: Sequence[types.Episode],
    trajectories: Sequence[Trajectory],
    rows: Sequence[Row],
    learned: Sequence[Row],
) -> dict[str, float]:
    """What the batch was made of; `learned`: the rows with a gradient. See docs/metrics.md."""
    rewards_E = np.array([episode.reward for episode in episodes] or [0.0])
    versions_N = np.concatenate([row.versions for row in learned] or [np.zeros(0, dtype=np.int64)])
    lags_N = step - versions_N[versions_N != UNSAMPLED]
    sampled = sum(len(call.completion_ids) for episode in episodes for call in episode.calls)
    return {
        "reward/mean": float(rewards_E.mean()),
        "reward/std": float(rewards_E.std(ddof=1)) if len(rewards_E) > 1 else 0.0,
        "success/mean": float(np.mean([episode.is_correct for episode in episodes] or [0.0])),
        "episodes": float(len(episodes)),
        "groups": float(len({one.group for one in trajectories})),
        "groups_with_signal": float(len({trajectories[row.trajectory].group for row in rows if row.advantages.any()})),
        "rows": float(len(rows)),
        "rows_trained": float(len(learned)),
        "zero_advantage_rows": float(sum(not row.advantages.any() for row in rows)),
        "tokens_trained": float(sum(len(row.positions) for row in learned)),
        "tokens_context": float(sampled - sum(len(row.positions) for row in rows)),
        "lag/mean": float(lags_N.mean()) if len(lags_N) else 0.0,
        "lag/max": float(lags_N.max()) if len(lags_N) else 0.0,
        **{f"lag/share/{lag}": float((lags_N == lag).mean()) for lag in np.unique(lags_N)},
        **_solved(episodes, trajectories),
        **_lengths(episodes),
    }


def _solved(episodes: Sequence[types.Episode], trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Groups of which no episode is correct, every one, or some."""
    verdicts: dict[str, set[bool]] = {}
    for one in trajectories:
        verdicts.setdefault(one.group, set()).add(episodes[one.episode].is_correct)
    kinds = list(verdicts.values())
    return {
        "batch/solve_none": float(kinds.count({False})),
        "batch/solve_all": float(kinds.count({True})),
        "batch/solve_partial": float(kinds.count({False, True})),
    }


def _lengths(episodes: Sequence[types.Episode]) -> dict[str, float]:
    """Tokens that the policy answered with, over all calls of an episode."""
    lengths_E = np.array([sum(len(call.completion_ids) for call in one.calls) for one in episodes] or [0])
    return {
        "response_length/mean": float(lengths_E.mean()),
        "response_length/min": float(lengths_E.min()),
        "response_length/max": float(lengths_E.max()),
    }


def role_metrics(trajectories: Sequence[Trajectory], rows: Sequence[Row], learned: Sequence[Row]) -> dict[str, float]:
    """Rewards of each role's trajectories, advantages and number of its trained tokens."""
    members: dict[str, list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        members.setdefault(trajectory.role, []).append(index)
    tokens_J = np.zeros(len(trajectories))
    for row in learned:
        tokens_J[row.trajectory] += len(row.positions)
    advantages_of_role: dict[str, list[np.ndarray]] = {}
    for row in rows:
        advantages_of_role.setdefault(trajectories[row.trajectory].role, []).append(row.advantages)
    metrics: dict[str, float] = {}
    for role in sorted(members, key=lambda name: (-len(members[name]), name))[:MAX_ROLES]:
        own = members[role]
        rewards = np.array([trajectories[index].reward for index in own])
        advantages_N = np.concatenate(advantages_of_role.get(role, [np.zeros(1)]))
        metrics |= {
            f"reward/{role}/mean": float(rewards.mean()),
            f"reward/{role}/std": float(rewards.std(ddof=1)) if len(rewards) > 1 else 0.0,
            f"reward/{role}/min": float(rewards.min()),
            f"reward/{role}/max": float(rewards.max()),
            f"advantage/{role}/mean": float(advantages_N.mean()),
            f"advantage/{role}/abs_mean": float(np.abs(advantages_N).mean()),
            f"trajectories/{role}": float(len(own)),
            f"tokens_trained/{role}": float(tokens_J[own].sum()),
        }
    return metrics


def episode_metrics(episodes: Sequence[types.Episode]) -> dict[str, float]:
    """`episode/<name>`: mean of the user's own numbers over the episodes that have them."""
    values: dict[str, list[float]] = {}
    for episode in episodes:
        for name, value in episode.metrics.items():
            values.setdefault(name, []).append(value)
    most_frequent = sorted(values, key=lambda name: (-len(values[name]), name))[:MAX_EPISODE_METRICS]
    return {f"episode/{name}": float(np.mean(values[name])) for name in most_frequent}
