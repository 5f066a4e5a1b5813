# SPDX-License-Identifier: Apache-2.0
"""Copies of checkpoints in an object store, made beside the training, one at a time.

A checkpoint is written only once the copy of the one before is there: so whoever starts on an empty disk is at most two
checkpoints behind, and what is being copied is not removed meanwhile.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.contract.settings import TrainSettings
from whetstone_trainer.service.step import OnProgress
from whetstone_trainer.weights.store_waits import patiently_ask
from whetstone_trainer.weights.stored_run import StoredRun

log = logging.getLogger("whetstone_trainer")
_TELL_EVERY_S = 0.25
# A request of a store that does not answer takes longer; what it writes then, its run's writer.json forbids.
_END_S = 30.0
# Raises to end what nobody needs any more.
Still = Callable[[], None]


class CheckpointCopies:
    """Of one run. Used by one thread."""

    def __init__(self, stored: StoredRun) -> None:
        self._stored = stored
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._failure: Exception | None = None
        self._notices: Sequence[wire.Notice] = ()

    def begin(self, step: int, settings: TrainSettings, has_checkpoint: bool, still: Still) -> None:
        """Copies the checkpoint of `step`, if it has one, and removes what nobody needs there. Nothing else may run."""
        self._failure, self._notices, self._stopped = None, (), threading.Event()
        given = (step, settings, has_checkpoint, still, self._stopped)
        self._thread = threading.Thread(target=self._run, args=given, name="checkpoint-copy", daemon=True)
        self._thread.start()

    def wait(self, on_progress: OnProgress) -> None:
        """Until the copy that was begun last is there. Raises what it failed with; ends it if `on_progress` raises."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            while thread.is_alive():
                on_progress("waiting" if self._notices else "saving", 0.0, self._notices)
                thread.join(_TELL_EVERY_S)
        except BaseException:
            self._stopped.set()
            raise
        if self._failure is not None:
            raise self._failure

    def end(self) -> None:
        """Gives up what runs: nobody needs it any more. Returns once it ended, or after a while."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(_END_S)

    def _run(
        self, step: int, settings: TrainSettings, has_checkpoint: bool, still: Still, stopped: threading.Event
    ) -> None:
        def go_on(_: object = None) -> None:
            still()
            if stopped.is_set():
                raise TrainerError("UNAVAILABLE", "the copy of a checkpoint was given up")

        def say(notice: wire.Notice) -> None:
            self._notices = (notice,)
            go_on()

        try:
            started = time.monotonic()
            if has_checkpoint:
                patiently_ask(lambda: self._stored.put_checkpoint(step, go_on), say)
                seconds = round(time.monotonic() - started, 3)
                log.info("checkpoint_copied", extra={"step": step, "seconds": seconds})
            patiently_ask(lambda: self._stored.prune(step, settings.checkpoints_kept, settings.max_policy_lag), say)
        except Exception as error:
            if not isinstance(error, TrainerError):
                log.error("checkpoint_copy_failed", exc_info=error, extra={"step": step})
            self._failure = error
