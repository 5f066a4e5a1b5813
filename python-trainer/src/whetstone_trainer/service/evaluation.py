# SPDX-License-Identifier: Apache-2.0
"""Losses of demonstrations that are not trained: nothing of the job changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from whetstone.events.v1 import events_pb2 as events
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_trainer.algorithms.preference import judged_pairs
from whetstone_trainer.backends.protocol import OnShare, PolicyVersion, TrainerBackend
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.batch.usable import Batch, RowLimits, usable_episodes
from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.contract.settings import TrainSettings
from whetstone_trainer.service.referred import paired_rows


@dataclass(frozen=True)
class Evaluation:
    """Of one version of the job's policy."""

    backend: TrainerBackend
    settings: TrainSettings
    limits: RowLimits
    policy: PolicyVersion
    on_share: OnShare

    def run(self, manifest: events.BatchManifest, bodies: Sequence[bytes | TrainerError]) -> wire.EvaluateResult:
        """`bodies`: of each entry of the manifest, or why it cannot be had."""
        batch = usable_episodes(manifest, bodies, (), self.settings, self.limits)
        options = self.settings.algorithm.preference
        metrics = {}
        if batch.rows:
            metrics = self._of_tokens(batch.rows) if options is None else self._of_pairs(batch, options)
        return wire.EvaluateResult(metrics=metrics, dropped=batch.dropped)

    def _of_tokens(self, rows: Sequence[Row]) -> dict[str, float]:
        """As supervised fine-tuning trains them: means over the assistant's tokens."""
        predicted_N2 = np.concatenate(self.backend.predictions(rows, self.policy, self.on_share)).astype(np.float64)
        logprob, is_likeliest = predicted_N2.mean(axis=0).tolist()
        return {"loss": -logprob, "mean_token_accuracy": is_likeliest}

    def _of_pairs(self, batch: Batch, options: jobs.Dpo) -> dict[str, float]:
        rows = paired_rows(batch, self.settings, self.backend)
        if not rows:
            return {}
        logprobs = self.backend.log_probabilities(rows, self.policy, self.on_share)
        assert logprobs is not None, "its weights are there"
        return judged_pairs(rows, logprobs, options).metrics
