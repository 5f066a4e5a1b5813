# SPDX-License-Identifier: Apache-2.0
"""Advantages, and returns for a critic, one number a trained token. Formulas: docs/algorithms.md.

A group is all trajectories of one role at one task, or the same step of each. Statistics of a group are taken once a
member, however many rows its calls make. They never see a voided member, because a manifest does not list one, nor a
frozen one, because its role has no advantages at all.
Source: verl core_algos; vectors: proto/golden/advantages.json.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from whetstone_trainer.algorithms.estimator import Member
from whetstone_trainer.algorithms.kl import in_advantage
from whetstone_trainer.algorithms.members import units_of
from whetstone_trainer.batch.rows import Row, not_computed
from whetstone_trainer.batch.trajectories import Trajectory
from whetstone_trainer.contract.settings import AlgorithmSettings, RoleSettings

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
VARIANCE_EPSILON = 1e-8


def with_advantages(
    rows: Sequence[Row],
    trajectories: Sequence[Trajectory],
    algorithm: AlgorithmSettings,
    roles: Mapping[str, RoleSettings],
) -> list[Row]:
    """The rows with the advantages of their tokens, returns where values are, and a loss: each role by its own."""
    advantages_R = [np.zeros(len(row.positions), dtype=np.float32) for row in rows]
    returns_R = [np.zeros(len(row.positions), dtype=np.float32) for row in rows]
    units = [one for one in units_of(rows, trajectories, algorithm.options) if trajectories[one.trajectory].trained]
    for role, of_role in _by(units, lambda one: trajectories[one.trajectory].role).items():
        own = role_settings(role, algorithm, roles)
        found = estimate_advantages([one.member for one in of_role], algorithm, own)
        for one, advantages_K in zip(of_role, found, strict=True):
            one.spread(advantages_K, advantages_R)
        if (returns := algorithm.estimator(own.advantage).returns) is not None:
            for one in of_role:
                one.spread(returns(one.member, algorithm.options), returns_R)

    def with_columns(row: Row, advantages_K: np.ndarray, returns_K: np.ndarray) -> Row:
        own = role_settings(trajectories[row.trajectory].role, algorithm, roles)
        learned_K = returns_K if algorithm.estimator(own.advantage).returns is not None else not_computed()
        if in_advantage(algorithm.options):  # After whitening, which would undo its scale.
            advantages_K = (advantages_K - row.penalties).astype(np.float32)
        return replace(row, advantages=advantages_K, returns=learned_K, token_loss=own.token_loss)

    return [with_columns(*columns) for columns in zip(rows, advantages_R, returns_R, strict=True)]


def role_settings(role: str, algorithm: AlgorithmSettings, roles: Mapping[str, RoleSettings]) -> RoleSettings:
    """What the job lists of a role, or what holds for all others."""
    return roles.get(role, RoleSettings(algorithm.advantage, algorithm.min_group))


def estimate_advantages(
    members: Sequence[Member], settings: AlgorithmSettings, role: RoleSettings | None = None
) -> list[np.ndarray]:
    """Advantages [K] of each member, float64. Groups below the role's (else the job's) `min_group` get 0.

    A group whose rewards are all equal gets exactly 0 before whitening, so that rounding of the mean makes no signal of
    nothing.
    """
    estimator, min_group = settings.estimator((role or settings).advantage), (role or settings).min_group
    advantages = [np.zeros(one.tokens) for one in members]
    counted: list[int] = []
    for group in _by(range(len(members)), lambda index: members[index].group).values():
        of_group = [members[index] for index in group]
        if len(group) < min_group:
            continue
        counted += group
        is_flat = estimator.compares and len(group) > 1 and len({one.reward for one in of_group}) == 1
        if not is_flat:
            found = estimator.advantages(of_group, settings.options)
            for index, value in zip(group, found, strict=True):
                advantages[index] = np.broadcast_to(value, members[index].tokens).astype(np.float64)
    if estimator.batch_factor is not None:
        factor = estimator.batch_factor(members)
        advantages = [factor * advantages_K for advantages_K in advantages]
    if estimator.is_whitened and counted:
        bounds = np.cumsum([members[index].tokens for index in counted])[:-1]
        whitened_N = _whitened(np.concatenate([advantages[index] for index in counted]))
        for index, advantages_K in zip(counted, np.split(whitened_N, bounds), strict=True):
            advantages[index] = advantages_K
    return advantages


def _whitened(values_N: np.ndarray) -> np.ndarray:
    """verl's masked_whiten over N tokens; all equal (or one token at most): 0."""
    if len(values_N) <= 1 or bool((values_N == values_N[0]).all()):
        return np.zeros_like(values_N)
    return (values_N - values_N.mean()) / np.sqrt(values_N.var(ddof=1) + VARIANCE_EPSILON)


def _by(values: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """In order of the first of each key."""
    found: dict[K, list[T]] = {}
    for value in values:
        found.setdefault(key(value), []).append(value)
    return found
