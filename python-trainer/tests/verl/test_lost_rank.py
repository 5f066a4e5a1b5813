# SPDX-License-Identifier: Apache-2.0
"""A rank of the backend verl is killed, or stands still: nothing is lost with it."""

from __future__ import annotations

import psutil
import pytest
from ranked_kit import LosesNothing
from ray_ranks import ranks_of

from whetstone_trainer.backends.ranked import RankedBackend
from whetstone_trainer.backends.verl.backend import VerlBackend

pytestmark = pytest.mark.timeout(300)


class TestLostRank(LosesNothing):
    def start(self, ranks: int, hang_s: float) -> RankedBackend:
        return VerlBackend(ranks, hang_s=hang_s)

    def process_of(self, backend: RankedBackend, index: int) -> int:
        return ranks_of(psutil.Process())[index].pid
