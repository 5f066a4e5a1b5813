# SPDX-License-Identifier: Apache-2.0
"""REINFORCE++ with a baseline. arXiv 2501.03262."""

from collections.abc import Sequence

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.estimator import Estimator, Member, rewards


def advantages(members: Sequence[Member], options: jobs.PolicyGradient) -> np.ndarray:
    """r - mean, whitened over the batch afterwards. A single member: the reward."""
    rewards_G = rewards(members)
    return rewards_G if len(rewards_G) == 1 else rewards_G - rewards_G.mean()


REINFORCE_PLUS_PLUS_BASELINE = Estimator(
    "reinforce++-baseline",
    advantages,
    types.ADVANTAGE_ESTIMATOR_REINFORCE_PLUS_PLUS_BASELINE,
    fewest_members=2,
    is_whitened=True,
)
