# SPDX-License-Identifier: Apache-2.0
"""The critic's part of a batch: which rows it values, and how well it did before it learned from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from whetstone_trainer.algorithms.estimates import role_settings
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.batch.trajectories import Trajectory
from whetstone_trainer.contract.settings import AlgorithmSettings, RoleSettings


def with_values(
    rows: Sequence[Row],
    trajectories: Sequence[Trajectory],
    algorithm: AlgorithmSettings,
    roles: Mapping[str, RoleSettings],
    values: Callable[[Sequence[Row]], Sequence[np.ndarray]],
) -> list[Row]:
    """The rows; those of roles whose estimator uses values have theirs. `values`: the critic's, of the tokens [K]."""

    def is_valued(row: Row) -> bool:
        role = role_settings(trajectories[row.trajectory].role, algorithm, roles)
        return algorithm.estimator(role.advantage).returns is not None

    asked = [row for row in rows if is_valued(row)]
    found = {id(row): values_K for row, values_K in zip(asked, values(asked) if asked else [], strict=True)}
    return [replace(row, values=found[id(row)]) if id(row) in found else row for row in rows]


def valued(rows: Sequence[Row]) -> list[Row]:
    """Those that a critic learns from."""
    return [row for row in rows if len(row.returns)]


def value_metrics(rows: Sequence[Row]) -> dict[str, float]:
    """Of the rows that a critic learns from; none: no metrics. See docs/metrics.md."""
    rows = valued(rows)
    if not rows:
        return {}
    values_N = np.concatenate([row.values for row in rows])
    returns_N = np.concatenate([row.returns for row in rows])
    variance = float(returns_N.var())
    unexplained = float((returns_N - values_N).var())
    return {
        "values/mean": float(values_N.mean()),
        "returns/mean": float(returns_N.mean()),
        "explained_variance": 1 - unexplained / variance if variance > 0 else 0.0,
    }
