# SPDX-License-Identifier: Apache-2.0
"""What a file of `advantages/` defines, and what it may look at."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.batch.rows import not_computed


@dataclass(frozen=True)
class Member:
    """A trajectory, for those who estimate: a sequence of K trained tokens, over all its rows in their order."""

    group: Hashable
    # Environment's units, penalties included.
    reward: float
    # Of each trained token [K], float64: they add up to the reward. K is 0 where a trajectory is masked.
    rewards_K: np.ndarray
    # What a critic expects of the rewards from each trained token on [K], float64; [0] where none was asked.
    values_K: np.ndarray = field(default_factory=not_computed)
    # Reward of the greedy episode that was played for the group. None: there was none.
    baseline: float | None = None

    @property
    def tokens(self) -> int:
        return len(self.rewards_K)


def member(group: Hashable, reward: float, tokens: int, baseline: float | None = None) -> Member:
    """The reward is earned by the last token."""
    rewards_K = np.zeros(tokens)
    rewards_K[-1:] = reward
    return Member(group, reward, rewards_K, baseline=baseline)


def lowered(one: Member, penalties_K: np.ndarray) -> Member:
    """The member with so much less reward of each token."""
    return replace(one, reward=one.reward - float(penalties_K.sum()), rewards_K=one.rewards_K - penalties_K)


# Of each member of one group: a number for all its tokens, or one a token [K].
Advantages = Sequence[float | np.ndarray] | np.ndarray


@dataclass(frozen=True)
class Estimator:
    """Advantages of the members of one group."""

    # As in proto/golden/advantages.json.
    name: str
    advantages: Callable[[Sequence[Member], jobs.PolicyGradient], Advantages]
    # How a job asks for it; None: it cannot.
    wire: types.AdvantageEstimator | None
    # Of a group that it says something about. Above 1: members are compared, so equal rewards say nothing.
    fewest_members: int
    # Advantages are whitened over the role's trained tokens of the batch.
    is_whitened: bool = False
    # What advantages are multiplied by, of all the role's members in the batch.
    batch_factor: Callable[[Sequence[Member]], float] | None = None
    # What a critic's values [K] are trained towards; None: the estimator uses none.
    returns: Callable[[Member, jobs.PolicyGradient], np.ndarray] | None = None

    @property
    def compares(self) -> bool:
        return self.fewest_members > 1


def rewards(members: Sequence[Member]) -> np.ndarray:
    """Of each member, [G] float64."""
    return np.array([one.reward for one in members], dtype=np.float64)
