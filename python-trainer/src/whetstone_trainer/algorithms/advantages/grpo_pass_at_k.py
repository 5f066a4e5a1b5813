# SPDX-License-Identifier: Apache-2.0
"""GRPO for pass@k: only the best of a group counts. arXiv 2503.19595; verl `compute_grpo_passk_outcome_advantage`."""

from collections.abc import Sequence

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.advantages.grpo import STD_EPSILON
from whetstone_trainer.algorithms.estimator import Estimator, Member, rewards


def advantages(members: Sequence[Member], options: jobs.PolicyGradient) -> np.ndarray:
    """The best one's lead over the second, divided as GRPO's; 0 for the others, and for all where the best tie."""
    rewards_G = rewards(members)
    found_G = np.zeros_like(rewards_G)
    if len(rewards_G) > 1:
        second, best = np.argsort(rewards_G)[-2:]
        lead = rewards_G[best] - rewards_G[second]
        found_G[best] = lead / (rewards_G.std(ddof=1) + STD_EPSILON) if options.normalize_by_std else lead
    return found_G


GRPO_PASS_AT_K = Estimator("grpo-pass-at-k", advantages, types.ADVANTAGE_ESTIMATOR_GRPO_PASS_AT_K, fewest_members=2)
