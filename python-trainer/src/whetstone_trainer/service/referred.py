# SPDX-License-Identifier: Apache-2.0
"""Rows beside the job's reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from whetstone_trainer.algorithms.estimates import with_advantages
from whetstone_trainer.algorithms.preference import with_pairs
from whetstone_trainer.backends.protocol import ReferencePolicy, TrainerBackend
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.batch.usable import Batch
from whetstone_trainer.contract.settings import TrainSettings
from whetstone_trainer.service.reference_engine import ReferenceEngine


def reference_log_probabilities(
    rows: Sequence[Row], settings: TrainSettings, backend: TrainerBackend
) -> Sequence[np.ndarray]:
    """Of the trained tokens [K] of each row."""
    if settings.reference_engine:
        return ReferenceEngine(settings.reference_engine).log_probabilities(rows, lambda _: None)
    policy = ReferencePolicy(Path(settings.reference_path))
    logprobs = backend.log_probabilities(rows, policy, lambda _: None)
    assert logprobs is not None, "a backend always has the reference"
    return logprobs


def paired_rows(batch: Batch, settings: TrainSettings, backend: TrainerBackend) -> list[Row]:
    """Of whole pairs, each with its side, its pair and its reference."""
    rows = with_advantages(batch.rows, batch.trajectories, settings.algorithm, settings.roles)
    rows = with_pairs(rows, batch.trajectories)
    referred = reference_log_probabilities(rows, settings, backend) if rows else []
    return [replace(row, reference=reference_K) for row, reference_K in zip(rows, referred, strict=True)]
