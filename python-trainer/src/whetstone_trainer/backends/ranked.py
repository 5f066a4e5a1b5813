# SPDX-License-Identifier: Apache-2.0
"""The protocol, by several ranks: processes that share a job's models. Every call goes to all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

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
    TrainerBackend,
)
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.errors import SettingsError, TrainerError
from whetstone_trainer.contract.settings import TrainSettings

# Told what the first rank reports, whenever it is asked; may raise to stop the work.
OnProgress = Callable[[float], None]


class StartedRanks(Protocol):
    """Processes that have met, and wait for calls. Any error ends all of them: half of a step may be done."""

    device: str

    def call(self, method: str, given: tuple[Any, ...], on_progress: OnProgress) -> Any:
        """The backend's method on all ranks; what the first gives. Raises TrainerError; ends all ranks then."""
        ...

    def end(self) -> None:
        """Safe to call again."""
        ...


def rank_lost(what: str) -> TrainerError:
    """Of a rank that "ended", or "did not answer"."""
    message = f"a rank of the trainer {what}. The step begins anew from the newest checkpoint, with new ranks."
    return TrainerError("UNAVAILABLE", message, reason="RankLost")


@dataclass(frozen=True)
class Failure:
    """A TrainerError on its way to the service, without what cannot be sent."""

    code: str
    message: str
    reason: str | None = None
    violations: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(error: TrainerError) -> Failure:
        violations = error.violations if isinstance(error, SettingsError) else []
        pairs = tuple((one["path"], one["reason"]) for one in violations)
        return Failure(error.code, str(error), error.context.get("reason"), pairs)

    def error(self) -> TrainerError:
        if self.violations:
            return SettingsError(*self.violations[0])
        return TrainerError(self.code, self.message, **({"reason": self.reason} if self.reason else {}))


# Methods of a backend that are told bytes since the last call, and those that are told shares of the work.
TOLD_BYTES = ("configure", "restore")
TOLD_SHARES = ("log_probabilities", "predictions", "values", "step")


class RankCalls:
    """Calls within one rank, which come one at a time."""

    def __init__(self, backend: TrainerBackend, is_first: bool) -> None:
        self._backend, self._is_first = backend, is_first
        # Of the present call: bytes that were read, or the share of the work that is done.
        self.progress = 0.0

    def call(self, method: str, given: tuple[Any, ...]) -> Any:
        """The backend's method. What it gives is the same on all ranks, so only the first one sends it."""
        self.progress = 0.0
        told = [self._add] if method in TOLD_BYTES else [self._set] if method in TOLD_SHARES else []
        try:
            result = getattr(self._backend, method)(*given, *told)
        except TrainerError as error:
            return Failure.of(error)
        return result if self._is_first else None

    def _add(self, count: int) -> None:
        self.progress += count

    def _set(self, share: float) -> None:
        self.progress = share


@dataclass
class _Job:
    settings: TrainSettings
    # The user's model folder.
    model: Path
    # None: they were lost, or ended after an error; `restore` starts new ones.
    ranks: StartedRanks | None


class RankedBackend:
    """A TrainerBackend whose models are sharded over ranks, a device each. All of them see the same files."""

    def __init__(self, name: str, start: Callable[[], StartedRanks]) -> None:
        """`name`: as people know it. `start`: takes until all of them have met. Raises TrainerError."""
        self._name, self._start_ranks = name, start
        self._job: _Job | None = None
        self.device = "cuda" if torch.cuda.is_available() else "cpu"

    def configure(self, settings: TrainSettings, model: Path, on_bytes: OnBytes) -> LoadedModel:
        if settings.algorithm.custom is not None:
            path = "algorithm.policyGradient.module"
            why = f"the backend {self._name} does not run a job's own algorithm; use the backend local with one rank"
            raise SettingsError(path, why)
        before, self._job = self._job, None
        # Ranks of a former job serve this one, too.
        job = _Job(settings, model, before.ranks if before else None)
        loaded = self._start(job, on_bytes)
        self._job = job
        return loaded

    def _start(self, job: _Job, on_bytes: OnBytes) -> LoadedModel:
        if job.ranks is None:
            job.ranks = self._start_ranks()
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
        if self._job is not None and self._job.ranks is not None:
            self._job.ranks.end()
            self._job.ranks = None

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


def _read_since(on_bytes: OnBytes) -> Callable[[float], None]:
    """Of a running total, what is new."""
    before = 0

    def told(total: float) -> None:
        nonlocal before
        before, new = int(total), int(total) - before
        on_bytes(new)

    return told
