# SPDX-License-Identifier: Apache-2.0
"""What the trainer is doing: one job, at most one running step, one worker thread.

The event loop only waits and answers; all compute and all file work happen in the worker, one piece at a time.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from whetstone.events.v1 import events_pb2 as events
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_trainer.algorithms.custom import ModuleRules
from whetstone_trainer.backends.protocol import TrainerBackend
from whetstone_trainer.batch.ingest import EpisodeReader, parse_manifest
from whetstone_trainer.contract.errors import SettingsError, TrainerError
from whetstone_trainer.contract.settings import TrainSettings, parse_settings
from whetstone_trainer.service.configuring import Configuring, RunId
from whetstone_trainer.service.run import JobRun, WeightPlaces
from whetstone_trainer.service.step import StepRequest
from whetstone_trainer.service.work import RunningStep, Work
from whetstone_trainer.weights.run_folder import RunFolder

T = TypeVar("T")
log = logging.getLogger("whetstone_trainer")

# Configure answers after this long with its progress.
ANSWER_AFTER_S = 1.0
# Of a process that was told to end: another one takes its place.
ENDING = "the trainer is ending; repeat the call"
OTHER_JOB = "the trainer was given another job"
DELETED = "the job is being deleted"


class TrainerState:
    """The trainer's state and the rules about who may change it."""

    def __init__(self, reader: EpisodeReader, backend: TrainerBackend, modules: ModuleRules) -> None:
        self.places = WeightPlaces()
        self._reader, self.backend, self._modules = reader, backend, modules
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="worker")
        self._closing = False
        self.run: JobRun | None = None
        self.running: RunningStep | None = None
        # The checkpoint of a step whose result is known already.
        self._committing: asyncio.Future[None] | None = None
        # At work, or failed and not told yet.
        self.configuring: Configuring | None = None
        self.epoch = 0

    async def configure(self, request: wire.ConfigureRequest) -> JobRun | Configuring:
        """The run, or after a while how far it is. Raises why it failed, once; the next call tries again.

        Idempotent. The same job keeps what it has, a running step and a load that goes on included; another job stops
        both and takes over.
        """
        settings = parse_settings(request.spec)
        _require_place(settings.published.transport, self.places)
        if not request.run_path or not request.job_uid:
            raise TrainerError("INVALID_ARGUMENT", "run_path and job_uid are required")
        settings, run_path = self.places.here(settings, Path(request.run_path))
        folder = RunFolder(run_path.absolute(), Path(settings.model_path).absolute())
        if self._closing:
            raise TrainerError("UNAVAILABLE", ENDING)
        run = self.run
        if run is not None and (run.job_uid, run.folder.root) == (request.job_uid, folder.root):
            self._fence(request.epoch)
            run.folder.claim(request.job_uid, request.epoch)
            run.adopt(settings)
            return run
        folder.claim(request.job_uid, request.epoch)
        configuring = self._join_or_begin(folder, settings, request)
        assert configuring.task is not None
        done, _ = await asyncio.wait([configuring.task], timeout=ANSWER_AFTER_S)
        if not done:
            return configuring
        if self.configuring is configuring:
            self.configuring = None
        return configuring.task.result()

    def _join_or_begin(self, folder: RunFolder, settings: TrainSettings, request: wire.ConfigureRequest) -> Configuring:
        of, former = RunId(request.job_uid, folder.root, folder.model_path), self.configuring
        if former is not None and former.answers(of, request.epoch):
            former.settings, former.epoch = settings, max(former.epoch, request.epoch)
            return former
        configuring = Configuring(of, settings, request.epoch)
        configuring.task = asyncio.create_task(self._configure(configuring, folder, former))
        # A failure is reported to whoever asks; without anybody it must not be logged as never retrieved.
        configuring.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        # From now on no call is for the run before; the step that still runs is stopped.
        self.configuring, self.run = configuring, None
        return configuring

    async def _configure(self, configuring: Configuring, folder: RunFolder, former: Configuring | None) -> JobRun:
        try:
            if former is not None:
                former.stop("CONFLICT", OTHER_JOB)
                await former.ended()
                former = None  # With what it had loaded.
            await self._stop_running("CONFLICT", OTHER_JOB)
            configuring.raise_if_stopped()
            given = (configuring.settings, folder, configuring.of.job_uid, self.backend)
            run = await self.work(lambda: JobRun(*given, configuring.report, self._modules, self.places))
            configuring.raise_if_stopped()
        except Exception as error:
            configuring.failed()
            # The half-loaded model must not stay in memory as long as the error is kept.
            traceback.clear_frames(error.__traceback__)
            raise
        run.adopt(configuring.settings)
        self.run, self.epoch, self.configuring = run, configuring.epoch, None
        log.info("configured", extra={"job": run.settings.job, "step": run.step, "epoch": self.epoch})
        return run

    def train(self, request: wire.TrainStepRequest) -> RunningStep | wire.TrainResult:
        """Starts the step, joins it if it runs, or gives its first result if it is done."""
        run = self.require(request.epoch)
        manifest = _manifest_for(run, request.manifest)
        digest = hashlib.sha256(request.manifest).hexdigest()
        if self.running is not None:
            if (self.running.step, self.running.digest) == (manifest.step, digest):
                return self.running
            raise TrainerError("FAILED_PRECONDITION", f"step {self.running.step} is running with {self.running.digest}")
        if manifest.step < run.step:
            return run.result_of(manifest.step, digest)
        if manifest.step > run.step:
            raise TrainerError("FAILED_PRECONDITION", f"step {manifest.step} comes too early: step {run.step} is next")
        running = RunningStep(manifest.step, digest)
        running.begin(self._train(run, running, manifest, list(request.dropped)))
        self.running = running
        return running

    def evaluate(self, request: wire.EvaluateRequest) -> Work[wire.EvaluateResult]:
        """Evaluates a manifest, once more for everybody who asks: it changes nothing."""
        run = self.require(request.epoch)
        manifest = _manifest_for(run, request.manifest)
        work = Work[wire.EvaluateResult]()
        work.begin(self._evaluate(run, work, manifest))
        return work

    async def _evaluate(
        self, run: JobRun, work: Work[wire.EvaluateResult], manifest: events.BatchManifest
    ) -> wire.EvaluateResult:
        def report(phase: str, share: float) -> None:
            if self._closing or self.run is not run:
                raise TrainerError("UNAVAILABLE", ENDING if self._closing else OTHER_JOB)
            work.report(phase, share)

        bodies = await self._reader.read(manifest.job, manifest.entries, lambda share: work.report("reading", share))
        return await self.work(lambda: run.evaluate(manifest, bodies, report))

    async def let_go(self, job_uid: str) -> None:
        """A job that is being deleted: nothing writes its run any more."""
        configuring = self.configuring
        if configuring is not None and configuring.of.job_uid == job_uid:
            configuring.stop("CONFLICT", DELETED)
            await configuring.ended()
            self.configuring = None
        run = self.run
        if run is not None and run.job_uid == job_uid:
            self.run = None
            await self._stop_running("CONFLICT", DELETED)
            await self.committed()
            await asyncio.to_thread(run.end_copies)

    def require(self, epoch: int) -> JobRun:
        """The run, if the caller may use it."""
        if self.run is None:
            why = "has no job since it started" if self.configuring is None else "is not ready for its job"
            raise TrainerError("UNAVAILABLE", f"the trainer {why}; call Configure, then repeat")
        self._fence(epoch)
        return self.run

    async def work(self, function: Callable[[], T]) -> T:
        """Runs in the worker thread, after whatever it is doing."""
        if self._closing:
            raise TrainerError("UNAVAILABLE", ENDING)
        return await asyncio.get_running_loop().run_in_executor(self._worker, function)

    async def close(self) -> None:
        """Stops a running step at its next micro-batch, a load at its next read; whoever waits asks again."""
        self._closing = True
        if self.configuring is not None:
            self.configuring.stop("UNAVAILABLE", ENDING)
            await self.configuring.ended()
        await self._stop_running("UNAVAILABLE", ENDING)
        await self.committed()
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def committed(self) -> None:
        """Once no checkpoint is being written."""
        if self._committing is not None:
            await asyncio.wait([self._committing])

    def _fence(self, epoch: int) -> None:
        if epoch < self.epoch:
            raise TrainerError("STALE_EPOCH", f"epoch {epoch} is older than {self.epoch}; a newer controller took over")
        self.epoch = epoch

    async def _stop_running(self, code: str, why: str) -> None:
        if self.running is not None and self.running.task is not None:
            self.running.stop(code, why)
            await asyncio.wait([self.running.task])

    async def _train(
        self,
        run: JobRun,
        running: RunningStep,
        manifest: events.BatchManifest,
        dropped: Sequence[jobs.DroppedEpisode],
    ) -> wire.TrainResult:
        try:
            started = time.perf_counter()
            bodies = await self._reader.read(
                manifest.job, manifest.entries, lambda share: running.report("reading", share)
            )
            seconds = time.perf_counter() - started
            request = StepRequest(manifest, running.digest, bodies, seconds, dropped)
            result = await self.work(lambda: run.train(request, running.report))
            for one in result.dropped:
                log.warning("episode_dropped", extra={"episode": one.episode_id, "reason": one.message})
            log.info("step_trained", extra={"job": manifest.job, "step": result.step, "rows": result.rows})
            self._commit_beside(run)
            return result
        except Exception as error:
            await self._recover(run, running, error)
            raise
        finally:
            self.running = None

    def _commit_beside(self, run: JobRun) -> None:
        """Writes the step's checkpoint while the engines get its weights; the worker does nothing else before."""

        def still(*_: object) -> None:
            if self._closing or self.run is not run:
                raise TrainerError("UNAVAILABLE", ENDING if self._closing else OTHER_JOB)

        def report(phase: str, share: float, notices: Sequence[wire.Notice] = ()) -> None:
            still()
            if self.running is not None:
                self.running.report(phase, share, notices)

        def committed(done: asyncio.Future[None]) -> None:
            if done.cancelled() or done.exception() is None or self._closing or self.run is not run:
                return
            log.error("checkpoint_failed", exc_info=done.exception(), extra={"step": run.step})
            # A step that runs by now has to write it first, and fails by itself if it cannot.
            if self.running is None:
                self.run = None

        self._committing = asyncio.get_running_loop().run_in_executor(self._worker, run.commit, report, still)
        self._committing.add_done_callback(committed)

    async def _recover(self, run: JobRun, running: RunningStep, error: Exception) -> None:
        """A failed step leaves no trace in memory: back to the newest checkpoint, or to no job if that fails."""
        if not isinstance(error, TrainerError):
            log.error("step_failed", exc_info=error, extra={"step": running.step})
        if self._closing:
            self.run = None
            return
        if self.run is not run:
            return  # Another job has taken over.
        reason = error.context.get("reason") if isinstance(error, TrainerError) else None
        if reason is not None:
            # New ranks take a while, and the caller hears of the error only then.
            running.notices = [wire.Notice(reason=str(reason), message=str(error))]
        try:
            await self.work(run.recover)
        except Exception as failure:
            log.error("recovery_failed", exc_info=failure, extra={"step": running.step})
            if self.run is run:
                self.run = None


def _require_place(transport: str, places: WeightPlaces) -> None:
    """Raises SettingsError for a job whose weights this trainer cannot bring where the job says."""
    if transport == "stream" and not places.url:
        reason = "this trainer serves no weights: start it with --weights-port, or use folder"
        raise SettingsError("weights.transport.stream", reason)
    if transport == "broadcast" and not (places.url and places.has_groups):
        reason = "this trainer forms no groups: start it with --weights-port and --weights-group, or use stream"
        raise SettingsError("weights.transport.broadcast", reason)
    if transport == "object_store" and places.store is None:
        reason = "this trainer has no object store: start it with --object-store, or use folder or stream"
        raise SettingsError("weights.transport.objectStore", reason)


def _manifest_for(run: JobRun, data: bytes) -> events.BatchManifest:
    manifest = parse_manifest(data)
    if manifest.job != run.settings.job:
        raise TrainerError("FAILED_PRECONDITION", f"configured for job {run.settings.job}, not {manifest.job}")
    return manifest
