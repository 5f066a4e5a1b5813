# SPDX-License-Identifier: Apache-2.0
"""The protocol, by ranks on a Ray cluster: every call goes to all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from whetstone_models.reading import OnBytes, unheard
from whetstone_trainer.backends.protocol import (
    Checkpoint,
    LoadedModel,
    OnShare,
    PolicyVersion,
    ReferencePolicy,
    StepBatch,
    StepReport,
)
from whetstone_trainer.backends.verl.cluster import RayCluster, RayRanks
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.errors import SettingsError, TrainerError
from whetstone_trainer.contract.settings import TrainSettings


@dataclass
class _Job:
    settings: TrainSettings
    # The user's model folder.
    model: Path
    # None: they were lost, or ended after an error; `restore` starts new ones.
    ranks: RayRanks | None


class VerlBackend:
    """A TrainerBackend whose models are sharded over `ranks` devices. All of them see the same files."""

    def __init__(self, ranks: int, compute: torch.dtype = torch.float32, hang_s: float = 60.0) -> None:
        """`compute`: the type of matrix products. `hang_s`: a rank that does not answer for so long is lost.

        When to call it, and what it raises: as `RayCluster`.
        """
        self._count, self._compute, self._hang_s = ranks, compute, hang_s
        self._cluster = RayCluster(ranks)
        self._job: _Job | None = None
        self.device = "cuda" if torch.cuda.is_available() else "cpu"

    def configure(self, settings: TrainSettings, model: Path, on_bytes: OnBytes) -> LoadedModel:
        if settings.algorithm.custom is not None:
            path = "algorithm.policyGradient.module"
            raise SettingsError(path, "the backend verl does not run a job's own algorithm; use the backend local")
        before, self._job = self._job, None
        # Ranks of a former job serve this one, too.
        job = _Job(settings, model, before.ranks if before else None)
        loaded = self._start(job, on_bytes)
        self._job = job
        return loaded

    def _start(self, job: _Job, on_bytes: OnBytes) -> LoadedModel:
        if job.ranks is None:
            job.ranks = RayRanks(self._count, self._compute, self._hang_s)
            self.device = job.ranks.device
        return self._call(job, "configure", (job.settings, job.model), _read_since(on_bytes))

    def restore(self, checkpoint: Checkpoint, on_bytes: OnBytes) -> None:
        job = self._held()
        if job.ranks is None:
            self._start(job, unheard)
        self._call(job, "restore", (checkpoint,), _read_since(on_bytes))

    def log_probabilities(
        self, rows: Sequence[Row], policy: PolicyVersion | ReferencePolicy, on_share: OnShare
    ) -> Sequence[np.ndarray] | None:
        return self._call(self._held(), "log_probabilities", (rows, policy), on_share)

    def predictions(self, rows: Sequence[Row], policy: PolicyVersion, on_share: OnShare) -> Sequence[np.ndarray]:
        return self._call(self._held(), "predictions", (rows, policy), on_share)

    def values(self, rows: Sequence[Row], on_share: OnShare) -> Sequence[np.ndarray]:
        return self._call(self._held(), "values", (rows,), on_share)

    def step(self, batch: StepBatch, on_share: OnShare) -> StepReport:
        return self._call(self._held(), "step", (batch,), on_share)

    def save(self, directory: Path) -> None:
        self._call(self._held(), "save", (directory,))

    def publish(self, directory: Path, version: int) -> None:
        self._call(self._held(), "publish", (directory, version))

    def adopt(self, policy: PolicyVersion) -> None:
        self._call(self._held(), "adopt", (policy,))

    def close(self) -> None:
        self._end_ranks()
        self._cluster.close()

    def _call(
        self, job: _Job, method: str, given: tuple[Any, ...], on_progress: Callable[[float], None] = lambda _: None
    ) -> Any:
        if job.ranks is None:
            raise TrainerError("UNAVAILABLE", "the ranks of the trainer were lost; repeat the call")
        try:
            return job.ranks.call(method, given, on_progress)
        except BaseException:
            job.ranks = None
            raise

    def _held(self) -> _Job:
        if self._job is None:
            raise TrainerError("UNAVAILABLE", "the trainer holds no model; call Configure, then repeat")
        return self._job

    def _end_ranks(self) -> None:
        if self._job is not None and self._job.ranks is not None:
            self._job.ranks.end()
            self._job.ranks = None


def _read_since(on_bytes: OnBytes) -> Callable[[float], None]:
    """Of a running total, what is new."""
    before = 0

    def told(total: float) -> None:
        nonlocal before
        before, new = int(total), int(total) - before
        on_bytes(new)

    return told
