# SPDX-License-Identifier: Apache-2.0
"""What the pass that takes a batch's first gradient finds on its way: log-probabilities under the entering policy.

No other pass has to compute them for the check of the engine's, or to anchor what an older version sampled.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_trainer.algorithms.proximal import anchor
from whetstone_trainer.backends.local.micro_batches import MicroBatch
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.errors import TrainerError


class FirstPass:
    """Of one step. A micro-batch that is computed again, since memory ran out, replaces what it said before."""

    def __init__(self, step: int = 0, anchored_by: jobs.Correction | None = None) -> None:
        """`anchored_by`: how rows are anchored at what the pass finds; None: they are already."""
        self._step, self._anchored_by = step, anchored_by
        # Of the trained tokens [K] of each row, by its identity.
        self.logprobs: dict[int, np.ndarray] = {}
        self._anchored: dict[int, Row] = {}

    def rows(self, micro: MicroBatch, logprobs_N: Tensor, is_first: bool) -> list[Row]:
        """The micro-batch's rows with all that their loss reads. `is_first`: no optimizer step was taken yet.

        Raises TrainerError for a log-probability that is no number: of its gradient nothing could be said.
        """
        if not is_first:
            return [self._anchored.get(id(row), row) for row in micro.rows]
        parts = micro.split(logprobs_N)
        if not all(np.isfinite(logprobs_K).all() for logprobs_K in parts):
            message = f"step {self._step}: the log-probability of a trained token is not finite as recomputed"
            raise TrainerError("TRAINER_FAILED", message, reason="LogprobMismatch")
        found = {id(row): logprobs_K for row, logprobs_K in zip(micro.rows, parts, strict=True)}
        rows = micro.rows
        if self._anchored_by is not None:
            rows, _ = anchor(rows, self._step, self._anchored_by, lambda asked: [found[id(row)] for row in asked])
        self._anchored |= {id(row): one for row, one in zip(micro.rows, rows, strict=True)}
        if not micro.is_filler:
            self.logprobs |= found
        return rows
