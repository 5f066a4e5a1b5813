# SPDX-License-Identifier: Apache-2.0
"""Advantages, one number a trajectory; every trained token of the trajectory gets it. Formulas: docs/algorithms.md.

A group is all trajectories of one role at one task. Its statistics are taken once a trajectory, however many rows its
calls make. They never see a voided member, because a manifest does not list one, nor a frozen one, because its role has
no advantages at all.  Source: verl core_algos; vectors: proto/golden/advantages.json.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from whetstone_trainer.algorithms.advantages import GROUP_ESTIMATORS
from whetstone_trainer.batch.trajectories import Trajectory
from whetstone_trainer.contract.settings import AlgorithmSettings, RoleSettings

VARIANCE_EPSILON = 1e-8


def trajectory_advantages(
    trajectories: Sequence[Trajectory],
    tokens: Sequence[int],
    algorithm: AlgorithmSettings,
    roles: Mapping[str, RoleSettings],
) -> np.ndarray:
    """Advantages [trajectories], float64: each role by its own estimator, 0 where it is not trained.

    `tokens`: trained tokens of each trajectory.
    """
    advantages_J = np.zeros(len(trajectories))
    members_of_role: dict[str, list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        if trajectory.trained:
            members_of_role.setdefault(trajectory.role, []).append(index)
    for role, members in members_of_role.items():
        own = roles.get(role, RoleSettings(algorithm.advantage, algorithm.min_group))
        advantages_J[members] = estimate_advantages(
            [trajectories[i].reward for i in members],
            [trajectories[i].group for i in members],
            algorithm,
            [tokens[i] for i in members],
            own,
        )
    return advantages_J


def estimate_advantages(
    rewards: Sequence[float],
    groups: Sequence[Hashable],
    settings: AlgorithmSettings,
    tokens: Sequence[int] | None = None,
    role: RoleSettings | None = None,
) -> np.ndarray:
    """Advantages, float64, in the order given. Groups below the role's (else the job's) `min_group` get 0.

    `tokens`: trained tokens of each member, what whitening weighs them by; absent: 1 each. A group whose rewards are
    all equal gets exactly 0 before whitening, so that rounding of the mean makes no signal of nothing.
    """
    estimator, min_group = GROUP_ESTIMATORS[(role or settings).advantage], (role or settings).min_group
    rewards_J = np.asarray(rewards, dtype=np.float64)
    advantages_J = np.zeros_like(rewards_J)
    counted_J = np.zeros(len(rewards_J), dtype=bool)
    for members in _members(groups).values():
        rewards_G = rewards_J[members]
        if len(members) < min_group:
            continue
        counted_J[members] = True
        is_flat = estimator.compares and len(members) > 1 and bool((rewards_G == rewards_G[0]).all())
        if not is_flat:
            advantages_J[members] = estimator.advantages(rewards_G, settings.options)
    if estimator.is_whitened and counted_J.any():
        weights_J = np.ones_like(rewards_J) if tokens is None else np.asarray(tokens, dtype=np.float64)
        advantages_J[counted_J] = _whitened(advantages_J[counted_J], weights_J[counted_J])
    return advantages_J


def _whitened(values_J: np.ndarray, tokens_J: np.ndarray) -> np.ndarray:
    """verl's masked_whiten, each value standing for so many tokens; all equal (or one token at most): 0."""
    count = tokens_J.sum()
    if count <= 1 or bool((values_J == values_J[0]).all()):
        return np.zeros_like(values_J)
    mean = (values_J * tokens_J).sum() / count
    variance = (np.square(values_J - mean) * tokens_J).sum() / (count - 1)
    return (values_J - mean) / np.sqrt(variance + VARIANCE_EPSILON)


def _members(groups: Sequence[Hashable]) -> dict[Hashable, list[int]]:
    members: dict[Hashable, list[int]] = {}
    for index, group in enumerate(groups):
        members.setdefault(group, []).append(index)
    return members
