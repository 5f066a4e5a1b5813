# SPDX-License-Identifier: Apache-2.0
"""RLOO: each member beside the mean of the others. arXiv 2402.14740."""

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.group_estimator import GroupEstimator


def advantages(rewards_G: np.ndarray, options: jobs.Grpo) -> np.ndarray:
    """r minus the mean of the others: n / (n - 1) * (r - mean). A single member: the reward."""
    count = len(rewards_G)
    return rewards_G.copy() if count == 1 else (rewards_G - rewards_G.mean()) * (count / (count - 1))


RLOO = GroupEstimator("rloo", advantages, types.ADVANTAGE_ESTIMATOR_RLOO, fewest_members=2)
