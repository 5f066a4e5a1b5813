# SPDX-License-Identifier: Apache-2.0
"""GPG: r - mean, made up for members that earned nothing. arXiv 2504.02546; verl `compute_gpg_outcome_advantage`."""

from collections.abc import Sequence

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.estimator import Estimator, Member, rewards


def advantages(members: Sequence[Member], options: jobs.PolicyGradient) -> np.ndarray:
    """r - mean. A single member: the reward."""
    rewards_G = rewards(members)
    return rewards_G if len(rewards_G) == 1 else rewards_G - rewards_G.mean()


def factor(members: Sequence[Member]) -> float:
    """Members of the batch / those with a reward other than 0."""
    return len(members) / max(1, int(np.count_nonzero(rewards(members))))


GPG = Estimator("gpg", advantages, types.ADVANTAGE_ESTIMATOR_GPG, fewest_members=2, batch_factor=factor)
