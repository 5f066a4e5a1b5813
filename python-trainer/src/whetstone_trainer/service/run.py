# SPDX-License-Identifier: Apache-2.0
"""One job: its backend and its books, and the step that moves them on.

Everything here runs in the service's one worker thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from google.protobuf.json_format import ParseDict
from whetstone.events.v1 import events_pb2 as events
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_models.reading import OnBytes, unheard
from whetstone_trainer.algorithms.custom import ModuleRules, load_custom
from whetstone_trainer.algorithms.custom_trial import try_custom
from whetstone_trainer.backends.protocol import Checkpoint, PolicyVersion, TrainerBackend
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.contract.settings import TrainSettings, with_custom
from whetstone_trainer.service.checkpoint_copies import CheckpointCopies, Still
from whetstone_trainer.service.commit import StepCommit, StepPublication, publish
from whetstone_trainer.service.configuring import FETCHING, LOADING, RESTORING, ReadShare
from whetstone_trainer.service.evaluation import Evaluation
from whetstone_trainer.service.recovery import Recovery
from whetstone_trainer.service.reference_engine import ReferenceEngine
from whetstone_trainer.service.step import OnProgress, StepCompute, StepRequest
from whetstone_trainer.service.step_metrics import Clock
from whetstone_trainer.service.weights_server import ServedRun
from whetstone_trainer.weights.checkpoint import State, read_state
from whetstone_trainer.weights.run_folder import RunFolder
from whetstone_trainer.weights.stored_run import StoredRun

if TYPE_CHECKING:
    from whetstone_store.own_data import OwnData
    from whetstone_store.store import ObjectStore

# Results that are kept to answer a step that is asked for again.
RESULTS_KEPT = 17
NO_MODULES = ModuleRules()


def untold(*_: object) -> None:
    """For whoever does not follow."""


@dataclass(frozen=True)
class WeightPlaces:
    """Where this trainer can put weights beside the run folder."""

    # Where it serves them to engines; empty: nowhere.
    url: str = ""
    # None: there is none.
    store: ObjectStore | None = None
    # None: the data folder is the controller's, too.
    own: OwnData | None = None
    # Whether it broadcasts to groups of engines, too.
    has_groups: bool = False

    def here(self, settings: TrainSettings, run_path: Path) -> tuple[TrainSettings, Path]:
        """With the controller's paths as they are on this trainer's disk."""
        own = self.own
        if own is None:
            return settings, run_path
        names = ("model_path", "reference_path", "critic_path")
        places = {name: str(own.place(Path(path))) for name in names if (path := getattr(settings, name))}
        return replace(settings, **places), own.run(run_path)

    def bring(self, settings: TrainSettings, on_progress: OnProgress) -> None:
        """The models that a job names. Raises ModelError."""
        if self.own is None:
            return
        for path in filter(None, dict.fromkeys((settings.model_path, settings.reference_path, settings.critic_path))):
            self.own.bring(Path(path), lambda total: ReadShare(FETCHING, total, on_progress))


class JobRun:
    """State of a job: `step` steps are done, the backend holds version `step`."""

    def __init__(
        self,
        settings: TrainSettings,
        folder: RunFolder,
        job_uid: str,
        backend: TrainerBackend,
        on_progress: OnProgress = untold,
        modules: ModuleRules = NO_MODULES,
        places: WeightPlaces = WeightPlaces(),
    ) -> None:
        """Loads the newest usable checkpoint, else the model. Raises TrainerError, SettingsError or StoreError."""
        self.folder, self.job_uid, self._backend = folder, job_uid, backend
        folder.clean()
        options = settings.algorithm.options
        self._custom = load_custom(options, folder.root, modules) if options.module else None
        self.adopt(settings)
        store = places.store if settings.published.transport == "object_store" else None
        self._stored = StoredRun(store, folder, job_uid) if store is not None else None
        if self._stored is not None:
            self._stored.claim()
        self._copies = CheckpointCopies(self._stored) if self._stored else None
        # What engines fetch versions below; empty: they read the run folder.
        self._url = self._stored.url if self._stored else ""
        if settings.published.transport in ("stream", "broadcast"):
            self._url = f"{places.url}/weights/{job_uid}"
        if self._custom is not None:
            try_custom(self._custom, options)
        places.bring(settings, on_progress)
        on_progress(LOADING, 0.0)
        directory = folder.weights(0)
        total = sum(path.stat().st_size for path in directory.glob("*.safetensors"))
        self.model = backend.configure(self.settings, directory, ReadShare(LOADING, total, on_progress))
        if settings.reference_engine:
            ReferenceEngine(settings.reference_engine).require(self.model.limits.vocab_size)
        self.state = self._starting_state()
        # Of the newest step, as long as its checkpoint is not written.
        self._uncommitted: StepCommit | None = None
        # Of the steps done by this process.
        self._results: dict[int, wire.TrainResult] = {}
        # What people should know of the model and of the run folder.
        self.notices = list(self.model.notices)
        self._recovery = Recovery(folder, self._stored, self.restore, self.notices)
        if self._recovery.has_any:
            self.recover(on_progress)

    def adopt(self, settings: TrainSettings) -> None:
        """Settings of a later Configure: the code that the job brought along stays as it was loaded."""
        self.settings = settings if self._custom is None else with_custom(settings, self._custom)

    def served(self) -> ServedRun:
        """For engines that fetch its versions."""
        return ServedRun(self.job_uid, self.folder, self.settings.published.transport == "broadcast")

    @property
    def step(self) -> int:
        return self.state.step

    def weights(self) -> wire.Weights:
        state = self.state
        digest = state.manifest_digest
        return wire.Weights(policy_version=state.step, path=state.weights_path, manifest_digest=digest, url=self._url)

    def recover(self, on_progress: OnProgress = untold) -> None:
        """Back to the newest checkpoint that is whole; to the starting model if there never was one."""
        if not self._recovery.recover(on_progress):
            self._go_to(self._starting_state())

    def restore(self, step: int, on_progress: OnProgress = untold) -> None:
        """Makes checkpoint `step` the present. Raises TrainerError if it is not there or not whole."""
        if step not in self.folder.steps():
            raise TrainerError("NOT_FOUND", f"no checkpoint of step {step} in {self.folder.root}")
        # Twice: for the digests, then into memory.
        read = ReadShare(RESTORING, 2 * self.folder.checkpoint_bytes(step), on_progress)
        self._go_to(read_state(self.folder, step, self.job_uid, read), read)

    def _starting_state(self) -> State:
        return State(self.job_uid, 0, str(self.folder.model_path), "")

    def _go_to(self, state: State, on_bytes: OnBytes = unheard) -> None:
        step = state.step
        saved = self.folder.checkpoint(step) if step else None
        self._uncommitted = None
        self._backend.restore(Checkpoint(PolicyVersion(step, self.folder.weights(step)), saved), on_bytes)
        self.state, self._results = state, {}
        self._recovery.bring_window(step, self.settings.max_policy_lag)
        if state.last_result is not None:
            result = ParseDict(state.last_result, wire.TrainResult(), ignore_unknown_fields=True)
            result.weights.url = self._url  # That of the checkpoint may be another process's.
            self._results[step - 1] = result

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

    def commit(self, on_progress: OnProgress = untold, still: Still = untold) -> None:
        """Writes what `train` left to be written; without anything left it does nothing.

        After an exception it may be called again; what was trained is still there. `still` raises to end what is copied
        into the store afterwards.
        """
        commit = self._uncommitted
        if commit is None:
            return
        if self._copies is not None:
            self._copies.wait(on_progress)
        commit.write(on_progress)
        self._uncommitted = None
        if self._copies is not None:
            self._copies.begin(commit.after.step, self.settings, commit.has_checkpoint, still)

    def end_copies(self) -> None:
        """For a run that is being deleted: what is still copied into the store ends."""
        if self._copies is not None:
            self._copies.end()

    def train(self, request: StepRequest, on_progress: OnProgress) -> wire.TrainResult:
        """Does step `self.step` and publishes its weights; the next `commit` writes its checkpoint.

        After any exception the caller must `recover`: the model may be half trained.
        """
        self.commit(on_progress)
        step, settings = request.manifest.step, self.settings
        if step != self.step:
            raise TrainerError("FAILED_PRECONDITION", f"step {step} was asked for, step {self.step} is next")
        clock = Clock({"time/read": request.read_seconds})
        before = (self.state.last_result or {}).get("metrics", {})
        given = (self._backend, settings, self.model.limits, self._published, on_progress, clock, before)
        compute = StepCompute(*given)
        trained = compute.run(request)
        on_progress("saving", 0.0)
        publication = StepPublication(self._backend, self.folder, settings, on_progress, self._stored)
        commit, result = publication.publish(self.state, trained, request.digest, clock)
        self._uncommitted = commit
        if commit.is_urgent:
            self.commit(on_progress)
            if self._copies is not None:
                self._copies.wait(on_progress)
        self.state = commit.after
        result.weights.url = self._url
        self._results = {done: one for done, one in self._results.items() if done > step - RESULTS_KEPT}
        self._results[step] = result
        return result

    def evaluate(
        self, manifest: events.BatchManifest, bodies: Sequence[bytes | TrainerError], on_progress: OnProgress
    ) -> wire.EvaluateResult:
        """Under version `manifest.step`. Raises TrainerError NOT_FOUND if its weights are gone, or not made yet."""
        version = manifest.step
        policy = PolicyVersion(version, self.folder.weights(version))
        if version != self.step and not policy.weights.is_dir():
            raise TrainerError(
                "NOT_FOUND", f"version {version} is not there to be evaluated; {self.step} is the newest"
            )
        on_progress("evaluating", 0.0)
        given = (self._backend, self.settings, self.model.limits, policy)
        return Evaluation(*given, lambda share: on_progress("evaluating", share)).run(manifest, bodies)

    def repair_weights(self, version: int) -> wire.Weights:
        """Writes what of a version is damaged again, on disk and in the store. Raises TrainerError NOT_FOUND.

        On disk only the present version can be: what was published is what the backend holds.
        """
        directory = self.folder.weights(version)
        if version == 0 or not (directory.is_dir() or version == self.step):
            raise TrainerError("NOT_FOUND", f"version {version} is not there to be repaired; {self.step} is the newest")
        expected = self.state.manifest_digest if version == self.step else None
        try:
            digest = self.folder.verified_digest(version, expected)
        except TrainerError as error:
            if version != self.step:
                raise TrainerError("NOT_FOUND", f"version {version} is damaged on disk, too: {error}") from error
            self.folder.discard(directory)
            publish(self._backend, directory, version)
            digest = self.folder.verified_digest(version, expected)
        if self._stored is not None:
            self._stored.put_weights_again(version)
        return wire.Weights(policy_version=version, path=str(directory), manifest_digest=digest, url=self._url)

    def log_probabilities(self, rows: Sequence[Row]) -> Sequence[np.ndarray]:
        """Under the present weights, as `TrainerBackend.log_probabilities`."""
        policy = PolicyVersion(self.step, Path(self.state.weights_path))
        found = self._backend.log_probabilities(rows, policy, untold)
        assert found is not None, "a backend always has its present version"
        return found

    def _published(self, version: int) -> PolicyVersion | None:
        """Of a version within the lag window; None if it is older, or its folder is gone."""
        directory = self.folder.weights(version)
        is_older = version < self.step - self.settings.max_policy_lag
        is_gone = is_older or (version != self.step and not directory.is_dir())
        return None if is_gone else PolicyVersion(version, directory)
