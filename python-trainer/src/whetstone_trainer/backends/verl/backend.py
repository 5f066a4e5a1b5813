# SPDX-License-Identifier: Apache-2.0
"""Ranks on a Ray cluster."""

from __future__ import annotations

import torch

from whetstone_trainer.backends.ranked import RankedBackend
from whetstone_trainer.backends.verl.cluster import RayCluster, RayRanks


class VerlBackend(RankedBackend):
    """A TrainerBackend whose models verl shards over `ranks` devices."""

    def __init__(self, ranks: int, compute: torch.dtype = torch.float32, hang_s: float = 60.0) -> None:
        """`compute`: the type of matrix products. `hang_s`: a rank that does not answer for so long is lost.

        When to call it, and what it raises: as `RayCluster`.
        """
        self._count = ranks
        self._cluster = RayCluster(ranks)
        super().__init__("verl", lambda: RayRanks(self._count, compute, hang_s))

    def close(self) -> None:
        # A cluster of one's own ends with its ranks.
        if not self._cluster.is_own:
            super().close()
        self._cluster.close()
