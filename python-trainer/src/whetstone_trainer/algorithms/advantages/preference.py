# SPDX-License-Identifier: Apache-2.0
"""Which of a pair is to become likelier: the sign of what direct preference optimization does to its tokens."""

from collections.abc import Sequence

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_trainer.algorithms.estimator import Estimator, Member, rewards


def advantages(members: Sequence[Member], options: jobs.PolicyGradient) -> np.ndarray:
    """1 for the member with the highest reward, -1 for the others."""
    rewards_G = rewards(members)
    return np.where(rewards_G == rewards_G.max(), 1.0, -1.0)


PREFERENCE = Estimator("preference", advantages, wire=None, fewest_members=2)
