# SPDX-License-Identifier: Apache-2.0
"""RAFT, rejection-sampled fine-tuning: what earned enough is imitated. arXiv 2304.06767, 2504.11343."""

from collections.abc import Sequence

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.estimator import Estimator, Member, rewards


def advantages(members: Sequence[Member], options: jobs.PolicyGradient) -> np.ndarray:
    """1 for a reward above the threshold, else 0."""
    return (rewards(members) > options.reward_threshold).astype(np.float64)


RAFT = Estimator("raft", advantages, types.ADVANTAGE_ESTIMATOR_RAFT, fewest_members=1)
