# SPDX-License-Identifier: Apache-2.0
"""REINFORCE. Williams 1992."""

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.group_estimator import GroupEstimator


def advantages(rewards_G: np.ndarray, options: jobs.Grpo) -> np.ndarray:
    """The reward itself."""
    return rewards_G.copy()


REINFORCE = GroupEstimator("reinforce", advantages, types.ADVANTAGE_ESTIMATOR_REINFORCE, fewest_members=1)
