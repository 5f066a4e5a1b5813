# SPDX-License-Identifier: Apache-2.0
"""A trained step becomes durable: its weights, then its checkpoint, then what nobody needs any more goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from google.protobuf.json_format import MessageToDict
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_trainer.backends.protocol import PolicyVersion, TrainerBackend
from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.contract.settings import TrainSettings
from whetstone_trainer.service.step import OnProgress, Trained
from whetstone_trainer.service.step_metrics import Clock
from whetstone_trainer.weights.checkpoint import State, write_checkpoint
from whetstone_trainer.weights.disk_space import patiently_write
from whetstone_trainer.weights.run_folder import RunFolder, manifest_digest

T = TypeVar("T")


@dataclass(frozen=True)
class StepCommit:
    """Writes a step of a job. What was trained is not lost to a full disk: it is written once there is space."""

    backend: TrainerBackend
    folder: RunFolder
    settings: TrainSettings
    on_progress: OnProgress

    def write(self, before: State, trained: Trained, digest: str, clock: Clock) -> tuple[State, wire.TrainResult]:
        """The state after the step, and its result. `digest`: of the step's manifest."""
        done = before.step + 1
        with clock.part("time/save"):
            needed = trained.report.weights_bytes
            weights = self._patiently(lambda: self._publish(done), self.folder.weights(done), needed)
        result = _result(before.step, weights, trained, digest, clock)
        dropped = [one.episode_id for one in trained.batch.dropped]
        episodes = len(trained.batch.episodes)
        consumed = {"step": before.step, "batchDigest": digest, "episodes": episodes, "dropped": dropped}
        last = MessageToDict(result)
        after = State(before.job_uid, done, weights.path, weights.manifest_digest, [*before.consumed, consumed], last)
        if done % self.settings.checkpoint_every == 0 or done == self.settings.steps:
            needed, path = trained.report.state_bytes, self.folder.checkpoint(done)
            self._patiently(lambda: write_checkpoint(self.folder, after, self.backend.save), path, needed)
        self.folder.prune(done, self.settings.checkpoints_kept, self.settings.max_policy_lag)
        return after, result

    def _patiently(self, write: Callable[[], T], path: Path, needed_bytes: int) -> T:
        return patiently_write(write, path, needed_bytes, lambda notice: self.on_progress("waiting", 0.0, [notice]))

    def _publish(self, version: int) -> wire.Weights:
        """Writes weights/v<version>. If they are there from a run that was cut short, those stay and are taken over."""
        directory = self.folder.weights(version)
        if directory.exists():
            try:
                digest = self.folder.verified_digest(version)
            except TrainerError:
                self.folder.discard(directory)
            else:
                self.backend.adopt(PolicyVersion(version, directory))
                return wire.Weights(policy_version=version, path=str(directory), manifest_digest=digest)
        return publish(self.backend, directory, version)


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
