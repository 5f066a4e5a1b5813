# SPDX-License-Identifier: Apache-2.0
"""One job in the trainer's memory: model, optimizer and books, and the step that moves them on.

Everything here runs in the service's one worker thread.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from google.protobuf.json_format import MessageToDict, ParseDict
from whetstone.events.v1 import events_pb2 as events
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_models.errors import ModelError
from whetstone_models.folder import load_into, load_model, save_weights
from whetstone_models.reading import OnBytes, unheard
from whetstone_models.transformer import Transformer
from whetstone_trainer.algorithms.estimates import trajectory_advantages
from whetstone_trainer.algorithms.proximal import anchor
from whetstone_trainer.backends.local.learner import train_rows
from whetstone_trainer.backends.local.memory import TokenBudget
from whetstone_trainer.backends.local.optimizer import make_optimizer, optimizer_tensors
from whetstone_trainer.batch.logprob_check import Mismatch, check_logprobs
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.batch.usable import Batch, notices_of, usable_episodes
from whetstone_trainer.contract.errors import SettingsError, TrainerError
from whetstone_trainer.contract.settings import TrainSettings
from whetstone_trainer.service.configuring import LOADING, RESTORING, ReadShare
from whetstone_trainer.service.step_metrics import Clock, batch_metrics, role_metrics
from whetstone_trainer.weights.checkpoint import RunFolder, State, manifest_digest
from whetstone_trainer.weights.disk_space import patiently_write

# (phase, share in [0, 1], notices that hold now); may raise to stop the step.
OnProgress = Callable[..., None]


def untold(*_: object) -> None:
    """For whoever does not follow."""


T = TypeVar("T")
log = logging.getLogger("whetstone_trainer")


def check_finite(model: Transformer, where: str, advice: str) -> None:
    """Raises TrainerError: weights that are not finite make every answer useless and must not be published."""
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            message = f"{where}: the weights {name} are not finite (NaN or infinite); {advice}"
            raise TrainerError("TRAINER_FAILED", message, reason="NonFiniteWeights")


def _rate(settings: TrainSettings) -> str:
    return f"an update with learning rate {settings.optimizer.learning_rate:g}"


def _out_of_memory(step: int, tokens: int) -> wire.Notice:
    message = (
        f"Step {step + 1}: a micro-batch did not fit into memory; passes are of at most {tokens} tokens from now on "
        "(algorithm.<kind>.batching.microBatchTokens). The gradient is the same, a step takes longer."
    )
    return wire.Notice(reason="OutOfMemory", message=message)


class JobRun:
    """State of a job: `step` steps are done, `model` is version `step`."""

    def __init__(
        self,
        settings: TrainSettings,
        folder: RunFolder,
        job_uid: str,
        device: torch.device,
        dtype: torch.dtype,
        on_progress: OnProgress = untold,
    ) -> None:
        """Loads the newest usable checkpoint, else the model. Raises TrainerError or SettingsError."""
        self.settings, self.folder, self.job_uid = settings, folder, job_uid
        self.device, self.dtype = device, dtype
        self.budget = TokenBudget(settings.batching.micro_batch_tokens)
        folder.clean()
        self.model = self._load_starting_model(on_progress)
        self.optimizer = make_optimizer(self.model, settings.optimizer)
        self._initial_optimizer = copy.deepcopy(self.optimizer.state_dict())
        self.state = State(job_uid, 0, str(folder.model_path), "")
        # Results of the steps done by this process, and older models that tokens may still be labelled with.
        self._results: dict[int, wire.TrainResult] = {}
        self._older: dict[int, Transformer] = {}
        # What people should know of the run folder.
        self.notices: list[wire.Notice] = []
        if folder.steps() or folder.damaged():
            self.recover(on_progress)

    @property
    def step(self) -> int:
        return self.state.step

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())

    def weights(self) -> wire.Weights:
        state = self.state
        return wire.Weights(policy_version=state.step, path=state.weights_path, manifest_digest=state.manifest_digest)

    def recover(self, on_progress: OnProgress = untold) -> None:
        """Back to the newest checkpoint that is whole; to the starting model if there never was one.

        Damaged ones are set aside once a whole one is found; without one all stay as they are, and nothing starts over.
        """
        faults: dict[int, TrainerError] = {}
        for step in reversed(self.folder.steps()):
            try:
                self.restore(step, on_progress)
            except TrainerError as error:
                if error.code != "DATA_LOSS":
                    raise
                faults[step] = error
            else:
                return self._set_aside(faults, step)
        damaged = [str(fault) for fault in faults.values()] or [f"{path} is damaged" for path in self.folder.damaged()]
        if damaged:
            raise _none_whole(self.folder.root, damaged)
        self._load_step(0, State(self.job_uid, 0, str(self.folder.model_path), ""))

    def _set_aside(self, faults: dict[int, TrainerError], used: int) -> None:
        for step, fault in faults.items():
            kept = self.folder.set_aside(step)
            message = (
                f"The checkpoint of step {step} is damaged: {fault}. "
                f"Training goes on from that of step {used}; the damaged one is kept in {kept}."
            )
            log.warning("checkpoint_damaged", extra={"step": step, "used": used, "fault": str(fault)})
            self.notices.append(wire.Notice(reason="CheckpointDamaged", message=message))

    def restore(self, step: int, on_progress: OnProgress = untold) -> None:
        """Makes checkpoint `step` the present. Raises TrainerError if it is not there or not whole."""
        if step not in self.folder.steps():
            raise TrainerError("NOT_FOUND", f"no checkpoint of step {step} in {self.folder.root}")
        # Twice: for the digests, then into memory.
        read = ReadShare(RESTORING, 2 * self.folder.checkpoint_bytes(step), on_progress)
        self._load_step(step, self.folder.read_state(step, self.job_uid, read), read)

    def forget_after(self, step: int) -> None:
        """Drops newer checkpoints, so that a restart does not bring back what a restore left."""
        for newer in self.folder.steps():
            if newer > step:
                self.folder.discard(self.folder.checkpoint(newer))

    def _load_step(self, step: int, state: State, on_bytes: OnBytes = unheard) -> None:
        load_into(self.model, self.folder.weights(step), on_bytes)
        saved = self.folder.read_optimizer(step, self.device, on_bytes) if step else self._initial_optimizer
        self.optimizer.load_state_dict(copy.deepcopy(saved))
        self.state = state
        self._older.clear()
        self._results.clear()
        if state.last_result is not None:
            self._results[step - 1] = ParseDict(state.last_result, wire.TrainResult(), ignore_unknown_fields=True)

    def result_of(self, step: int, digest: str) -> wire.TrainResult:
        """The first result of a step that was done. Raises TrainerError if the manifest differs or it is not kept."""
        if step not in self._results:
            raise TrainerError(
                "FAILED_PRECONDITION", f"step {step} is done and its result is gone; {self.step} is next"
            )
        result = wire.TrainResult()
        result.CopyFrom(self._results[step])
        if result.batch_digest != digest:
            raise TrainerError(
                "FAILED_PRECONDITION", f"step {step} was done with manifest {result.batch_digest}, not {digest}"
            )
        result.replayed = True
        return result

    def train(
        self,
        manifest: events.BatchManifest,
        digest: str,
        bodies: Sequence[bytes | TrainerError],
        read_seconds: float,
        on_progress: OnProgress,
        dropped_before: Sequence[jobs.DroppedEpisode] = (),
    ) -> wire.TrainResult:
        """Does step `self.step`. After any exception the caller must `recover`: the model may be half trained."""
        if manifest.step != self.step:
            raise TrainerError("FAILED_PRECONDITION", f"step {manifest.step} was asked for, step {self.step} is next")
        clock, halved = Clock({"time/read": read_seconds}), self.budget.halved
        torch.manual_seed(hash((self.settings.seed, self.step)) & 0x7FFFFFFF)
        on_progress("checking", 0.0)
        with clock.part("time/check"):
            vocabulary = self.model.config.vocab_size
            batch = usable_episodes(manifest, bodies, dropped_before, self.settings, vocabulary)
            trajectories, rows = batch.trajectories, batch.rows
            metrics, worst = check_logprobs(
                rows,
                self._model_of,
                self.budget,
                lambda share: on_progress("checking", share),
                self.settings.mismatch_bound,
            )
            notices = notices_of(self.step, batch) + self._judged(worst, batch)
        self._keep_current()
        on_progress("training", 0.0)
        with clock.part("time/train"):
            tokens_J = np.zeros(len(trajectories), dtype=np.int64)
            for row in rows:
                tokens_J[row.trajectory] += len(row.positions)
            algorithm, roles = self.settings.algorithm, self.settings.roles
            advantages_J = trajectory_advantages(trajectories, tokens_J.tolist(), algorithm, roles)
            with_signal = [row for row in rows if advantages_J[row.trajectory] != 0]
            cap = self.settings.algorithm.importance_cap
            trained, anchored = anchor(self.model, with_signal, self.step, cap, self.budget)
            metrics |= anchored
            metrics |= train_rows(
                self.model,
                self.optimizer,
                trained,
                advantages_J,
                self.settings,
                self.step,
                lambda share: on_progress("training", share),
                self.budget,
            )
        metrics |= batch_metrics(self.step, batch.episodes, trajectories, rows, trained, advantages_J)
        metrics["episodes_dropped"] = float(len(batch.dropped))
        metrics["micro_batch_tokens"] = float(self.budget.tokens)
        metrics["out_of_memory"] = float(self.budget.halved - halved)
        if self.budget.halved > halved:
            notices.append(_out_of_memory(self.step, self.budget.tokens))
        metrics |= role_metrics(trajectories, trained, advantages_J)
        on_progress("saving", 0.0)
        check_finite(self.model, f"step {self.step}: after {_rate(self.settings)}", "lower the learning rate")
        return self._finish(batch, digest, metrics, trained, clock, on_progress, notices)

    def _judged(self, worst: Mismatch | None, batch: Batch) -> list[wire.Notice]:
        """Raises TrainerError for a token beyond the bound, or says it, as the job's `on_mismatch` wants."""
        bound = self.settings.mismatch_bound
        if worst is None or worst.difference <= bound:
            return []
        message = f"step {self.step}: {worst.describe(batch.episodes[worst.row.episode].id, bound)}"
        if self.settings.stop_on_mismatch:
            raise TrainerError("TRAINER_FAILED", message, reason="LogprobMismatch")
        return [wire.Notice(reason="LogprobMismatch", message=message)]

    def save_checkpoint(self) -> Path:
        """Writes the present as a checkpoint unless it is one. Step 0 is the model folder and needs none."""
        if self.step not in self.folder.steps():
            if self.step == 0:
                raise TrainerError("FAILED_PRECONDITION", "nothing was trained yet: the model folder is the checkpoint")
            self.folder.write_checkpoint(self.state, self.optimizer)
        return self.folder.checkpoint(self.step)

    def publish(self, path: Path) -> wire.Weights:
        """Writes the current weights to a new folder. Raises TrainerError if it exists."""
        try:
            save_weights(self.model, path, self.step, self.folder.model_path)
        except FileExistsError as error:
            raise TrainerError("FAILED_PRECONDITION", f"{error}; choose a path that does not exist") from error
        return wire.Weights(policy_version=self.step, path=str(path), manifest_digest=manifest_digest(path))

    def _finish(
        self,
        batch: Batch,
        digest: str,
        metrics: dict[str, float],
        trained: Sequence[Row],
        clock: Clock,
        on_progress: OnProgress,
        notices: Sequence[wire.Notice],
    ) -> wire.TrainResult:
        done = self.step + 1

        def write(what: Callable[[], T], path: Path, needed_bytes: int) -> T:
            """What was trained is not lost to a full disk: it is written once there is space."""
            return patiently_write(what, path, needed_bytes, lambda notice: on_progress("waiting", 0.0, [notice]))

        weights_bytes = tensor_bytes(self.model.parameters())
        with clock.part("time/save"):
            publish = lambda: self._publish_version(done)  # noqa: E731
            path, weights_digest = write(publish, self.folder.weights(done), weights_bytes)
        tokens = sum(len(row.positions) for row in trained)
        train_seconds = clock.seconds["time/train"]
        metrics["tokens_per_second"] = sum(len(row.token_ids) for row in trained) / max(train_seconds, 1e-9)
        result = wire.TrainResult(
            step=self.step,
            weights=wire.Weights(policy_version=done, path=path, manifest_digest=weights_digest),
            metrics={name: float(value) for name, value in {**metrics, **clock.seconds}.items()},
            tokens_trained=tokens,
            rows=len(trained),
            batch_digest=digest,
            dropped=batch.dropped,
            notices=notices,
        )
        result.duration.FromNanoseconds(clock.total_ns())
        dropped = [one.episode_id for one in batch.dropped]
        consumed = {"step": self.step, "batchDigest": digest, "episodes": len(batch.episodes), "dropped": dropped}
        state = State(self.job_uid, done, path, weights_digest, [*self.state.consumed, consumed], MessageToDict(result))
        if done % self.settings.checkpoint_every == 0 or done == self.settings.steps:
            optimizer_bytes = tensor_bytes(optimizer_tensors(self.optimizer))
            save = lambda: self.folder.write_checkpoint(state, self.optimizer)  # noqa: E731
            write(save, self.folder.checkpoint(done), optimizer_bytes)
        self.state = state
        self._results[done - 1] = result
        self.folder.prune(done, self.settings.checkpoints_kept, self.settings.max_policy_lag)
        return result

    def _publish_version(self, version: int) -> tuple[str, str]:
        """Writes weights/v<version>. If they are there from a run that was cut short, those stay and are taken over."""
        directory = self.folder.weights(version)
        if directory.exists():
            try:
                digest = self.folder.verified_digest(version)
            except TrainerError:
                self.folder.discard(directory)
            else:
                load_into(self.model, directory)
                return str(directory), digest
        save_weights(self.model, directory, version, self.folder.model_path)
        return str(directory), manifest_digest(directory)

    def _model_of(self, version: int) -> Transformer | None:
        """The model of a version within the lag window; read from its folder after a restart."""
        if version == self.step:
            return self.model
        if version in self._older:
            return self._older[version]
        if version < self.step - self.settings.max_policy_lag or not self.folder.weights(version).is_dir():
            return None
        self._older[version] = self._load(version)
        return self._older[version]

    def _keep_current(self) -> None:
        """Before training changes it: later batches may hold tokens that this version sampled."""
        oldest = self.step + 1 - self.settings.max_policy_lag
        self._older = {version: model for version, model in self._older.items() if version >= oldest}
        if self.step >= oldest:
            self._older[self.step] = copy.deepcopy(self.model)
        self._results = {step: result for step, result in self._results.items() if step >= self.step - 16}

    def _load_starting_model(self, on_progress: OnProgress) -> Transformer:
        on_progress(LOADING, 0.0)
        directory = self.folder.weights(0)
        # A folder without weights is refused by `_load`, which says what is wrong.
        total = sum(path.stat().st_size for path in directory.glob("*.safetensors"))
        return self._load(0, ReadShare(LOADING, total, on_progress))

    def _load(self, version: int, on_bytes: OnBytes = unheard) -> Transformer:
        directory = self.folder.weights(version)
        try:
            model = load_model(directory, self.dtype, self.device, on_bytes=on_bytes)
            check_finite(model, str(directory), "the trainer cannot start from them; use a model folder that is whole")
            return model
        except ModelError as error:
            if version == 0:
                raise SettingsError("model.path", f"{directory}: {error}") from error
            raise TrainerError("DATA_LOSS", f"{directory}: {error}") from error


def tensor_bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _none_whole(root: Path, damaged: Sequence[str]) -> TrainerError:
    return TrainerError(
        "DATA_LOSS",
        f"no checkpoint in {root / 'checkpoints'} is whole: {'; '.join(damaged)}. "
        "Put back a whole copy of one of them, or submit the job under another name to start over.",
    )
