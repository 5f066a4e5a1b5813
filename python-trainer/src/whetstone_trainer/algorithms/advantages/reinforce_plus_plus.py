# SPDX-License-Identifier: Apache-2.0
"""REINFORCE++. arXiv 2501.03262; verl `compute_reinforce_plus_plus_outcome_advantage`."""

from collections.abc import Sequence

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.estimator import Estimator, Member


def advantages(members: Sequence[Member], options: jobs.PolicyGradient) -> list[np.ndarray]:
    """Each token's return, whitened over the batch afterwards."""
    return [discounted_returns(member.rewards_K, options.gamma) for member in members]


def discounted_returns(rewards_K: np.ndarray, gamma: float) -> np.ndarray:
    """G_t = r_t + gamma · G_{t+1}, [K]; what others said between two trained tokens takes no time."""
    returns_K, following = np.empty_like(rewards_K), 0.0
    for index in reversed(range(len(rewards_K))):
        following = returns_K[index] = rewards_K[index] + gamma * following
    return returns_K


REINFORCE_PLUS_PLUS = Estimator(
    "reinforce++", advantages, types.ADVANTAGE_ESTIMATOR_REINFORCE_PLUS_PLUS, fewest_members=1, is_whitened=True
)
