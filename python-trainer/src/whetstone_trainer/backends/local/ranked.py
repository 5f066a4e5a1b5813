# SPDX-License-Identifier: Apache-2.0
"""Several devices of one machine, without Ray."""

from __future__ import annotations

import torch

from whetstone_trainer.backends.local.processes import ProcessRanks
from whetstone_trainer.backends.ranked import RankedBackend


class ProcessBackend(RankedBackend):
    """A TrainerBackend whose models FSDP2 shards over `ranks` processes: a GPU each, or on one CPU."""

    def __init__(
        self, ranks: int, device: torch.device, compute: torch.dtype = torch.float32, hang_s: float = 60.0
    ) -> None:
        """`compute`: the type of matrix products. `hang_s`: a rank that does not answer for so long is lost."""
        super().__init__("local with several ranks", lambda: ProcessRanks(ranks, device, compute, hang_s))
