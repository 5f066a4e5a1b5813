# SPDX-License-Identifier: Apache-2.0
"""What a file of `advantages/` defines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types


@dataclass(frozen=True)
class GroupEstimator:
    """Advantages of the members of one group, from their rewards."""

    # As in proto/golden/advantages.json.
    name: str
    # Rewards [G] of one group, float64; options → advantages [G].
    advantages: Callable[[np.ndarray, jobs.Grpo], np.ndarray]
    # How a job asks for it; None: it cannot.
    wire: types.AdvantageEstimator | None
    # Of a group that it says something about. Above 1: members are compared, so equal rewards say nothing.
    fewest_members: int
    # Advantages are whitened over the role's trained tokens of the batch.
    is_whitened: bool = False

    @property
    def compares(self) -> bool:
        return self.fewest_members > 1
