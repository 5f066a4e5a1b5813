# SPDX-License-Identifier: Apache-2.0
"""What the trainer does with a manifest: a task of its own, which whoever asks can watch."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Generic, TypeVar

from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_trainer.contract.errors import TrainerError

R = TypeVar("R", wire.TrainResult, wire.EvaluateResult)


class Work(Generic[R]):
    """What is done with a manifest, and how far it is."""

    def __init__(self) -> None:
        self.phase, self.share = "reading", 0.0
        self.task: asyncio.Task[R] | None = None
        self.notices: Sequence[wire.Notice] = ()
        self._stopped: TrainerError | None = None

    def report(self, phase: str, share: float, notices: Sequence[wire.Notice] = ()) -> None:
        """Called by the worker between micro-batches, and while it waits for disk space."""
        self.phase, self.share, self.notices = phase, share, notices
        if self._stopped is not None:
            raise self._stopped

    def begin(self, work: Coroutine[Any, Any, R]) -> None:
        self.task = asyncio.create_task(work)
        # A failure is reported to whoever waits; without a waiter it must not be logged as never retrieved.
        self.task.add_done_callback(lambda task: task.cancelled() or task.exception())


class RunningStep(Work[wire.TrainResult]):
    """A step under way. Its work belongs to no caller: callers come, go and come back, and it is done once."""

    def __init__(self, step: int, digest: str) -> None:
        super().__init__()
        self.step, self.digest = step, digest

    def stop(self, code: str, why: str) -> None:
        """At its next micro-batch."""
        self._stopped = TrainerError(code, f"step {self.step} was stopped: {why}")
