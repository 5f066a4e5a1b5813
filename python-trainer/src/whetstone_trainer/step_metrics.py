"""What a step's record says beside its losses: where the time went, what the batch was made of."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from whetstone.events.v1 import events_pb2 as events
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.rows import UNSAMPLED, Row


class Clock:
    """Seconds by part of a step; the total counts from the start, `seconds` given included."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds
        self._started = time.monotonic_ns() - int(sum(seconds.values()) * 1e9)

    def part(self, name: str) -> _Part:
        return _Part(self.seconds, name)

    def total_ns(self) -> int:
        return time.monotonic_ns() - self._started


class _Part:
    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self._seconds, self._name = seconds, name

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(self, *_: Any) -> None:
        self._seconds[self._name] = time.perf_counter() - self._started


def batch_metrics(
    step: int,
    manifest: events.BatchManifest,
    episodes: Sequence[types.Episode],
    rows: Sequence[Row],
    trained: Sequence[Row],
    advantages_E: np.ndarray,
) -> dict[str, float]:
    """What the batch was made of. See docs/metrics.md."""
    rewards_E = np.array([episode.reward for episode in episodes] or [0.0])
    groups = [entry.group for entry in manifest.entries]
    versions_N = np.concatenate([row.versions for row in trained] or [np.zeros(0, dtype=np.int64)])
    lags_N = step - versions_N[versions_N != UNSAMPLED]
    return {
        "reward/mean": float(rewards_E.mean()),
        "reward/std": float(rewards_E.std(ddof=1)) if len(rewards_E) > 1 else 0.0,
        "success/mean": float(np.mean([episode.is_correct for episode in episodes] or [0.0])),
        "episodes": float(len(episodes)),
        "groups": float(len(set(groups))),
        "groups_with_signal": float(len({group for group, a in zip(groups, advantages_E, strict=True) if a != 0})),
        "rows": float(len(rows)),
        "rows_trained": float(len(trained)),
        "zero_advantage_rows": float(len(rows) - len(trained)),
        "tokens_trained": float(sum(len(row.positions) for row in trained)),
        "lag/mean": float(lags_N.mean()) if len(lags_N) else 0.0,
        "lag/max": float(lags_N.max()) if len(lags_N) else 0.0,
    }
