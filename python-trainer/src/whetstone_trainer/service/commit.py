# SPDX-License-Identifier: Apache-2.0
"""A trained step becomes durable: its weights, which the engines wait for, and later its checkpoint.

A kill in between costs the step's computing: it is done again from the checkpoint before it, and its weights, which are
there, are taken over (I1).
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from google.protobuf.json_format import MessageToDict
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_trainer.backends.protocol import PolicyVersion, TrainerBackend
from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.contract.settings import TrainSettings
from whetstone_trainer.service.step import OnProgress, Trained
from whetstone_trainer.service.step_metrics import Clock
from whetstone_trainer.weights.checkpoint import State, write_checkpoint
from whetstone_trainer.weights.disk_space import Say, free_bytes, patiently_write
from whetstone_trainer.weights.run_folder import RunFolder, manifest_digest
from whetstone_trainer.weights.store_waits import patiently_ask
from whetstone_trainer.weights.stored_run import StoredRun

log = logging.getLogger("whetstone_trainer")


@dataclass(frozen=True)
class StepCommit:
    """Writes a step of a job. What was trained is not lost to a full disk: it is written once there is space."""

    backend: TrainerBackend
    folder: RunFolder
    settings: TrainSettings
    # The step as it is once its weights are there.
    after: State
    # What its checkpoint takes.
    state_bytes: int

    @property
    def is_urgent(self) -> bool:
        """Whether it is written before anybody hears of the step: nobody asks after the last one, and the wait for
        space is told with the step."""
        is_last = self.after.step >= self.settings.steps
        return is_last or free_bytes(self.folder.checkpoint(self.after.step)) < self.state_bytes

    @property
    def has_checkpoint(self) -> bool:
        """Whether this step gets one."""
        done, settings = self.after.step, self.settings
        self.folder.require_held()
        return done % settings.checkpoint_every == 0 or done == settings.steps

    def write(self, on_progress: OnProgress) -> None:
        """The checkpoint, if this step gets one, then removes what nobody needs. The model is still the step's."""
        done, settings = self.after.step, self.settings
        if self.has_checkpoint:
            path, started = self.folder.checkpoint(done), time.monotonic()
            on_progress("saving", 0.0)
            write = partial(write_checkpoint, self.folder, self.after, self.backend.save)
            patiently_write(write, path, self.state_bytes, _telling(on_progress))
            seconds = round(time.monotonic() - started, 3)
            log.info("checkpoint_written", extra={"step": done, "bytes": self.state_bytes, "seconds": seconds})
        self.folder.prune(done, settings.checkpoints_kept, settings.max_policy_lag)


@dataclass(frozen=True)
class StepPublication:
    """Makes a trained step's weights ready for the engines. From then on the step has a result."""

    backend: TrainerBackend
    folder: RunFolder
    settings: TrainSettings
    on_progress: OnProgress
    # Where versions are put for the engines; None: they see the folder, or ask this trainer.
    stored: StoredRun | None = None

    def publish(
        self, before: State, trained: Trained, digest: str, clock: Clock
    ) -> tuple[StepCommit, wire.TrainResult]:
        """What is left to be written, and the step's result. `digest`: of the step's manifest."""
        done = before.step + 1
        self.folder.require_held()
        with clock.part("time/save"):
            path, write = self.folder.weights(done), partial(self._publish, done)
            weights = patiently_write(write, path, trained.report.weights_bytes, _telling(self.on_progress))
            self._put(done)
        result = _result(before.step, weights, trained, digest, clock)
        dropped = [one.episode_id for one in trained.batch.dropped]
        episodes = len(trained.batch.episodes)
        consumed = {"step": before.step, "batchDigest": digest, "episodes": episodes, "dropped": dropped}
        last = MessageToDict(result)
        after = State(before.job_uid, done, weights.path, weights.manifest_digest, [*before.consumed, consumed], last)
        return StepCommit(self.backend, self.folder, self.settings, after, trained.report.state_bytes), result

    def _publish(self, version: int) -> wire.Weights:
        """Writes weights/v<version>. If they are there from a run that was cut short, those stay and are taken over."""
        directory = self.folder.weights(version)
        self._bring(version)
        if directory.exists():
            try:
                digest = self.folder.verified_digest(version)
            except TrainerError:
                self.folder.discard(directory)
            else:
                self.backend.adopt(PolicyVersion(version, directory))
                return wire.Weights(policy_version=version, path=str(directory), manifest_digest=digest)
        return publish(self.backend, directory, version)

    def _put(self, version: int) -> None:
        if self.stored is not None:
            put = partial(self.stored.put_weights, version, lambda _: self.on_progress("saving", 0.0))
            patiently_ask(put, _telling(self.on_progress))

    def _bring(self, version: int) -> None:
        """From the store, if they are there and the disk that had them is lost: engines may serve them."""
        stored = self.stored
        if stored is None or self.folder.weights(version).exists():
            return
        try:
            patiently_ask(lambda: stored.bring_weights(version), _telling(self.on_progress))
        except TrainerError as error:
            if error.code != "DATA_LOSS":
                raise
            log.warning("stored_weights_damaged", extra={"version": version, "fault": str(error)})
            patiently_ask(lambda: stored.disown_weights(version), _telling(self.on_progress))


def _telling(on_progress: OnProgress) -> Say:
    return lambda notice: on_progress("waiting", 0.0, [notice])


def publish(backend: TrainerBackend, directory: Path, version: int) -> wire.Weights:
    """The present weights in a new folder. Raises FileExistsError."""
    backend.publish(directory, version)
    return wire.Weights(policy_version=version, path=str(directory), manifest_digest=manifest_digest(directory))


def _result(step: int, weights: wire.Weights, trained: Trained, digest: str, clock: Clock) -> wire.TrainResult:
    rows, metrics = trained.rows, trained.metrics
    metrics["tokens_per_second"] = sum(len(row.token_ids) for row in rows) / max(clock.seconds["time/train"], 1e-9)
    result = wire.TrainResult(
        step=step,
        weights=weights,
        metrics={name: float(value) for name, value in {**metrics, **clock.seconds}.items()},
        tokens_trained=sum(len(row.positions) for row in rows),
        rows=len(rows),
        batch_digest=digest,
        dropped=trained.batch.dropped,
        notices=trained.notices,
    )
    result.duration.FromNanoseconds(clock.total_ns())
    return result
