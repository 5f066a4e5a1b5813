# SPDX-License-Identifier: Apache-2.0
"""Nothing: distillation without rewards, where all that is learned comes from the divergence from a teacher."""

from collections.abc import Sequence

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.estimator import Estimator, Member


def advantages(members: Sequence[Member], options: jobs.PolicyGradient) -> np.ndarray:
    """0 whatever the reward. `estimates` adds what the teacher says."""
    return np.zeros(len(members))


NONE = Estimator("none", advantages, types.ADVANTAGE_ESTIMATOR_NONE, fewest_members=1)
