# SPDX-License-Identifier: Apache-2.0
"""Advantages, and returns for a critic, one number a trained token. Formulas: docs/algorithms.md.

A group is all trajectories of one role at one task. A sequence is a trajectory: the trained tokens of all its rows, in
their order. Statistics of a group are taken once a trajectory, however many rows its calls make. They never see a
voided member, because a manifest does not list one, nor a frozen one, because its role has no advantages at all.
Source: verl core_algos; vectors: proto/golden/advantages.json.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from whetstone_trainer.algorithms.advantages import ESTIMATORS
from whetstone_trainer.algorithms.estimator import Member, lowered, member
from whetstone_trainer.algorithms.kl import in_advantage
from whetstone_trainer.algorithms.overlong import with_overlong
from whetstone_trainer.batch.rows import Row, not_computed
from whetstone_trainer.batch.trajectories import Trajectory
from whetstone_trainer.contract.settings import AlgorithmSettings, RoleSettings

VARIANCE_EPSILON = 1e-8


def with_advantages(
    rows: Sequence[Row],
    trajectories: Sequence[Trajectory],
    algorithm: AlgorithmSettings,
    roles: Mapping[str, RoleSettings],
) -> list[Row]:
    """The rows with the advantages of their tokens, returns where values are, and a loss: each role by its own."""
    members = [with_overlong(one, algorithm.options) for one in _members(rows, trajectories)]
    is_after = in_advantage(algorithm.options)
    members = members if is_after else _penalized(members, rows)
    advantages_J = [np.zeros(one.tokens) for one in members]
    returns_J = [not_computed() for _ in members]
    for role, of_role in _trained_by_role(trajectories).items():
        own = role_settings(role, algorithm, roles)
        found = estimate_advantages([members[index] for index in of_role], algorithm, own)
        for index, advantages_K in zip(of_role, found, strict=True):
            advantages_J[index] = advantages_K
        returns = ESTIMATORS[own.advantage].returns
        if returns is not None:
            for index in of_role:
                returns_J[index] = returns(members[index], algorithm.options)
    losses_J = [role_settings(one.role, algorithm, roles).token_loss for one in trajectories]
    columns = zip(rows, _shared_out(rows, advantages_J), _shared_out(rows, returns_J), strict=True)
    found = [
        replace(row, advantages=advantages_K, returns=returns_K, token_loss=losses_J[row.trajectory])
        for row, advantages_K, returns_K in columns
    ]
    return [_less_penalties(row) for row in found] if is_after else found


def _less_penalties(row: Row) -> Row:
    """What the reference takes from advantages is taken after whitening, which would undo its scale."""
    return replace(row, advantages=(row.advantages - row.penalties).astype(np.float32))


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
    estimator, min_group = ESTIMATORS[(role or settings).advantage], (role or settings).min_group
    advantages = [np.zeros(one.tokens) for one in members]
    counted: list[int] = []
    for group in _groups(members):
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


def _penalized(members: Sequence[Member], rows: Sequence[Row]) -> list[Member]:
    """Members whose tokens' rewards are lowered by their rows' penalties."""
    penalties: dict[int, list[np.ndarray]] = {}
    for row in rows:
        if len(row.penalties):
            penalties.setdefault(row.trajectory, []).append(row.penalties)
    return [
        lowered(one, np.concatenate(penalties[index])) if index in penalties else one
        for index, one in enumerate(members)
    ]


def _members(rows: Sequence[Row], trajectories: Sequence[Trajectory]) -> list[Member]:
    """A trajectory's tokens are those of its rows, one row after the other."""
    tokens, values_J = [0] * len(trajectories), [[not_computed()] for _ in trajectories]
    for row in rows:
        tokens[row.trajectory] += len(row.positions)
        values_J[row.trajectory].append(row.values)
    found = [
        member(one.group, one.reward, count, one.baseline) for one, count in zip(trajectories, tokens, strict=True)
    ]
    return [
        replace(one, values_K=np.concatenate(values).astype(np.float64))
        for one, values in zip(found, values_J, strict=True)
    ]


def _shared_out(rows: Sequence[Row], values_J: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Of each row, the part of its trajectory's values that is its own tokens'."""
    taken, found = [0] * len(values_J), list[np.ndarray]()
    for row in rows:
        start, end = taken[row.trajectory], taken[row.trajectory] + len(row.positions)
        taken[row.trajectory] = end
        found.append(values_J[row.trajectory][start:end].astype(np.float32))
    return found


def _trained_by_role(trajectories: Sequence[Trajectory]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        if trajectory.trained:
            found.setdefault(trajectory.role, []).append(index)
    return found


def _groups(members: Sequence[Member]) -> list[list[int]]:
    found: dict[Hashable, list[int]] = {}
    for index, one in enumerate(members):
        found.setdefault(one.group, []).append(index)
    return list(found.values())
