# SPDX-License-Identifier: Apache-2.0
"""RLOO: each member beside the mean of the others. arXiv 2402.14740."""

from collections.abc import Sequence

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.estimator import Estimator, Member, rewards


def advantages(members: Sequence[Member], options: jobs.PolicyGradient) -> np.ndarray:
    """r minus the mean of the others: n / (n - 1) * (r - mean). A single member: the reward."""
    rewards_G, count = rewards(members), len(members)
    return rewards_G if count == 1 else (rewards_G - rewards_G.mean()) * (count / (count - 1))


RLOO = Estimator("rloo", advantages, types.ADVANTAGE_ESTIMATOR_RLOO, fewest_members=2)
