# SPDX-License-Identifier: Apache-2.0
"""GAE: the advantages of PPO with a critic. arXiv 1506.02438, 1707.06347; verl `compute_gae_advantage_return`."""

from collections.abc import Sequence

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.estimator import Estimator, Member


def advantages(members: Sequence[Member], options: jobs.PolicyGradient) -> list[np.ndarray]:
    """Each token's advantage, whitened over the batch afterwards."""
    return [generalized_advantages(member, options.gamma, options.gae_lambda) for member in members]


def returns(member: Member, options: jobs.PolicyGradient) -> np.ndarray:
    """Advantage, as it was before it was whitened, plus value."""
    return generalized_advantages(member, options.gamma, options.gae_lambda) + member.values_K


def generalized_advantages(member: Member, gamma: float, gae_lambda: float) -> np.ndarray:
    """A_t = r_t + gamma · V_{t+1} - V_t + gamma · lambda · A_{t+1}, [K]; the last token is followed by nothing.

    What others said between two trained tokens takes no time.
    """
    rewards_K, values_K = member.rewards_K, member.values_K
    advantages_K, next_advantage, next_value = np.empty_like(rewards_K), 0.0, 0.0
    for index in reversed(range(member.tokens)):
        surprise = rewards_K[index] + gamma * next_value - values_K[index]
        next_advantage = advantages_K[index] = surprise + gamma * gae_lambda * next_advantage
        next_value = values_K[index]
    return advantages_K


GAE = Estimator("gae", advantages, types.ADVANTAGE_ESTIMATOR_GAE, fewest_members=1, is_whitened=True, returns=returns)
