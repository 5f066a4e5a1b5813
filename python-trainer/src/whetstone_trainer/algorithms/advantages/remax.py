# SPDX-License-Identifier: Apache-2.0
"""ReMax: each episode beside a greedy one of the same task. arXiv 2310.10505."""

from collections.abc import Sequence

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.advantages.reinforce_plus_plus import discounted_returns
from whetstone_trainer.algorithms.estimator import Estimator, Member
from whetstone_trainer.contract.errors import ContractError


def advantages(members: Sequence[Member], options: jobs.PolicyGradient) -> list[np.ndarray]:
    """Of each token the rewards from there on, minus the baseline. Raises ContractError where there is none."""
    return [discounted_returns(one.rewards_K, 1.0) - _baseline(one) for one in members]


def _baseline(one: Member) -> float:
    if one.baseline is None:
        raise ContractError(f"group {one.group}: advantage remax, but the manifest lists no baseline of it")
    return one.baseline


REMAX = Estimator("remax", advantages, types.ADVANTAGE_ESTIMATOR_REMAX, fewest_members=1)
