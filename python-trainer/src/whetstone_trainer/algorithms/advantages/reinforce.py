# SPDX-License-Identifier: Apache-2.0
"""REINFORCE. Williams 1992."""

from collections.abc import Sequence

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.estimator import Estimator, Member, rewards


def advantages(members: Sequence[Member], options: jobs.PolicyGradient) -> np.ndarray:
    """The reward itself."""
    return rewards(members)


REINFORCE = Estimator("reinforce", advantages, types.ADVANTAGE_ESTIMATOR_REINFORCE, fewest_members=1)
