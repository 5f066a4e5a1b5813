# SPDX-License-Identifier: Apache-2.0
"""REINFORCE. Williams 1992."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from whetstone.types.v1 import types_pb2 as types

from whetstone_trainer.algorithms.group_estimator import GroupEstimator

if TYPE_CHECKING:
    from whetstone_trainer.contract.settings import AlgorithmSettings


def advantages(rewards_G: np.ndarray, settings: AlgorithmSettings) -> np.ndarray:
    """The reward itself."""
    del settings
    return rewards_G.copy()


REINFORCE = GroupEstimator("reinforce", advantages, types.ADVANTAGE_ESTIMATOR_REINFORCE, fewest_members=1)
