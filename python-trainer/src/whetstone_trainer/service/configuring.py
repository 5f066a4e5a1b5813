# SPDX-License-Identifier: Apache-2.0
"""Getting ready for a job: how far it is, and that it can be stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.contract.settings import TrainSettings

if TYPE_CHECKING:
    from whetstone_trainer.service.run import JobRun

FETCHING, LOADING, RESTORING = "fetching", "loading", "restoring"
# A failure that nobody has asked for by then is forgotten: what it says may not be true any more.
KEPT_S = 60.0


@dataclass(frozen=True)
class RunId:
    """What makes two requests the same work."""

    job_uid: str
    root: Path
    model_path: Path


class ReadShare:
    """Turns bytes read into progress. Called with their number; what `on_progress` raises stops the reading."""

    def __init__(self, phase: str, total_bytes: int, on_progress: Callable[[str, float], None]) -> None:
        self._phase, self._total, self._on_progress = phase, max(1, total_bytes), on_progress
        self._read = 0

    def __call__(self, count: int) -> None:
        self._read += count
        self._on_progress(self._phase, min(1.0, self._read / self._total))


class Configuring:
    """A Configure at work. It belongs to no caller: callers come, go and come back, and it is done once."""

    def __init__(self, of: RunId, settings: TrainSettings, epoch: int) -> None:
        self.of = of
        # Of the newest call.
        self.settings, self.epoch = settings, epoch
        self.task: asyncio.Task[JobRun] | None = None
        self._phase, self._share = LOADING, 0.0
        self._stopped: TrainerError | None = None
        self._failed_at: float | None = None

    @property
    def progress(self) -> wire.TrainProgress:
        return wire.TrainProgress(phase=self._phase, share=self._share)

    @property
    def is_at_work(self) -> bool:
        return self.task is not None and not self.task.done()

    @property
    def is_stopped(self) -> bool:
        return self._stopped is not None

    def report(self, phase: str, share: float) -> None:
        """Called by the worker between two reads."""
        self._phase, self._share = phase, share
        self.raise_if_stopped()

    def stop(self, code: str, why: str) -> None:
        """At its next report."""
        self._stopped = TrainerError(code, f"getting ready for the job was stopped: {why}")

    def raise_if_stopped(self) -> None:
        if self._stopped is not None:
            raise self._stopped

    def answers(self, of: RunId, epoch: int) -> bool:
        """Whether such a request joins this one. A failure is for those who asked for it, and for a while only."""
        if self.of != of:
            return False
        return self._failed_at is None or (epoch == self.epoch and time.monotonic() - self._failed_at < KEPT_S)

    async def ended(self) -> None:
        if self.task is not None:
            await asyncio.wait([self.task])

    def failed(self) -> None:
        """It has ended with an error, which the task holds."""
        self._failed_at = time.monotonic()
