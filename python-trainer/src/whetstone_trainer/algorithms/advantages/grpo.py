# SPDX-License-Identifier: Apache-2.0
"""GRPO, and Dr.GRPO without the division. arXiv 2402.03300, 2503.20783."""

from collections.abc import Sequence

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.estimator import Estimator, Member, rewards

STD_EPSILON = 1e-6


def advantages(members: Sequence[Member], options: jobs.PolicyGradient) -> np.ndarray:
    """(r - mean) / (std + 1e-6), ddof 1; without the division it is Dr.GRPO's. A single member: mean 0, std 1."""
    rewards_G = rewards(members)
    if len(rewards_G) == 1:
        mean, std = 0.0, 1.0
    else:
        mean, std = rewards_G.mean(), rewards_G.std(ddof=1)
    centred = rewards_G - mean
    return centred / (std + STD_EPSILON) if options.normalize_by_std else centred


GRPO = Estimator("grpo", advantages, types.ADVANTAGE_ESTIMATOR_GRPO, fewest_members=2)
