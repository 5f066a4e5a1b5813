# SPDX-License-Identifier: Apache-2.0
"""OPO: the optimal baseline under which every token has the same gradient norm. arXiv 2505.23585; verl."""

from collections.abc import Sequence

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.estimator import Estimator, Member, rewards


def advantages(members: Sequence[Member], options: jobs.PolicyGradient) -> np.ndarray:
    """r - Σ length · r / Σ length. A single member: the reward."""
    rewards_G, lengths_G = rewards(members), np.array([one.tokens for one in members], dtype=np.float64)
    if len(members) == 1 or not lengths_G.any():
        return rewards_G
    return rewards_G - (rewards_G * lengths_G).sum() / lengths_G.sum()


OPO = Estimator("opo", advantages, types.ADVANTAGE_ESTIMATOR_OPO, fewest_members=2)
