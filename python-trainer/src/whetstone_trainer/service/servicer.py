# SPDX-License-Identifier: Apache-2.0
"""TrainerService over gRPC: requests in, answers out, errors to statuses. The work is in state.py and run.py."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
import numpy as np
from whetstone.trainer.v1 import trainer_pb2 as wire
from whetstone.trainer.v1 import trainer_pb2_grpc as rpc

from whetstone_models.errors import ModelError
from whetstone_store.errors import StoreError
from whetstone_store.transfer import TransferError
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.errors import SettingsError, TrainerError
from whetstone_trainer.service.configuring import Configuring
from whetstone_trainer.service.run import JobRun
from whetstone_trainer.service.state import TrainerState
from whetstone_trainer.service.work import RunningStep, Work
from whetstone_trainer.weights.disk_space import is_out_of_space
from whetstone_trainer.weights.store_waits import is_damage, store_notice
from whetstone_trainer.weights.stored_runs import delete_run, describe_run, folder_of, is_uid

if TYPE_CHECKING:
    from whetstone_store.store import ObjectStore

T = TypeVar("T")

log = logging.getLogger("whetstone_trainer")

# Progress is sent this often while a step runs, so that a caller can tell slow from dead.
PROGRESS_INTERVAL_S = 0.5
# services/libs/rpc reads code, retry class and violations from this trailer.
ERROR_TRAILER = "whetstone-error-bin"


async def _refuse(context: grpc.aio.ServicerContext, error: Exception) -> None:
    """The one seam from errors to statuses. What is not ours is logged and leaves as "internal error"."""
    if isinstance(error, (StoreError, TransferError)) and not is_damage(error):
        notice = store_notice(error)
        error = TrainerError("UNAVAILABLE", notice.message, reason=notice.reason)
    if isinstance(error, ModelError):
        error = TrainerError("DATA_LOSS", str(error))
    if is_out_of_space(error):
        error = TrainerError(
            "UNAVAILABLE", f"no space left on a disk of the trainer: {error}; free some", reason="DiskFull"
        )
    if not isinstance(error, TrainerError):
        log.error("internal_error", exc_info=error)
        error = TrainerError("TRAINER_FAILED", f"internal error: {type(error).__name__}; see the trainer's log")
    detail: dict[str, Any] = {"code": error.code, "retry": error.retry, "context": error.context}
    if isinstance(error, SettingsError):
        detail["violations"] = error.violations
    trailer = ((ERROR_TRAILER, json.dumps(detail).encode()),)
    await context.abort(grpc.StatusCode[error.status], str(error), trailer)


def _answers(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @wraps(method)
    async def wrapped(self: TrainerServicer, request: Any, context: grpc.aio.ServicerContext) -> Any:
        try:
            return await method(self, request)
        except Exception as error:
            await _refuse(context, error)

    return wrapped


class TrainerServicer(rpc.TrainerServiceServicer):
    """One method a call of the contract."""

    def __init__(self, state: TrainerState) -> None:
        self._state = state

    @_answers
    async def Configure(self, request: wire.ConfigureRequest) -> wire.ConfigureResponse:
        run = await self._state.configure(request)
        if isinstance(run, Configuring):
            return wire.ConfigureResponse(progress=run.progress)
        return wire.ConfigureResponse(
            step=run.step,
            weights=run.weights(),
            device=self._state.backend.device,
            parameters=run.model.parameters,
            notices=run.notices,
        )

    async def TrainStep(
        self, request: wire.TrainStepRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[wire.TrainStepResponse]:
        try:
            step = self._state.train(request)
            if isinstance(step, RunningStep):
                async for progress in _progress(step):
                    yield wire.TrainStepResponse(progress=progress)
                assert step.task is not None
                step = await asyncio.shield(step.task)
            yield wire.TrainStepResponse(result=step)
        except Exception as error:
            await _refuse(context, error)

    async def Evaluate(
        self, request: wire.EvaluateRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[wire.EvaluateResponse]:
        try:
            work = self._state.evaluate(request)
            async for progress in _progress(work):
                yield wire.EvaluateResponse(progress=progress)
            assert work.task is not None
            yield wire.EvaluateResponse(result=await asyncio.shield(work.task))
        except Exception as error:
            await _refuse(context, error)

    @_answers
    async def RepairWeights(self, request: wire.RepairWeightsRequest) -> wire.RepairWeightsResponse:
        run = self._state.require(request.epoch)
        weights = await self._state.work(lambda: run.repair_weights(request.policy_version))
        return wire.RepairWeightsResponse(weights=weights)

    @_answers
    async def EvaluateLogProbs(self, request: wire.EvaluateLogProbsRequest) -> wire.EvaluateLogProbsResponse:
        run = self._state.require(self._state.epoch)
        return await self._state.work(lambda: _evaluate(run, request))

    @_answers
    async def Status(self, request: wire.StatusRequest) -> wire.StatusResponse:
        state, run, configuring = self._state, self._state.run, self._state.configuring
        return wire.StatusResponse(
            job_uid=None if run is None else run.job_uid,
            epoch=state.epoch,
            step=0 if run is None else run.step,
            busy=state.running is not None,
            device=state.backend.device,
            configuring=configuring.progress if configuring is not None and configuring.is_at_work else None,
            object_store=state.places.store.url if state.places.store is not None else "",
        )

    @_answers
    async def GetStoredRun(self, request: wire.GetStoredRunRequest) -> wire.GetStoredRunResponse:
        store = self._store_of(request.job_uid, request.url)
        return await _asked(lambda: describe_run(store, request.job_uid, request.with_state))

    @_answers
    async def DeleteStoredRun(self, request: wire.DeleteStoredRunRequest) -> wire.DeleteStoredRunResponse:
        store = self._store_of(request.job_uid, request.url)
        await self._state.let_go(request.job_uid)
        await _asked(lambda: delete_run(store, request.job_uid))
        if self._state.places.own is not None:
            await asyncio.to_thread(self._state.places.own.delete_run, request.job_uid)
        log.info("stored_run_deleted", extra={"uid": request.job_uid, "store": store.url})
        return wire.DeleteStoredRunResponse()

    def _store_of(self, job_uid: str, url: str) -> ObjectStore:
        """The store of this trainer. Raises TrainerError if the run cannot be there."""
        if not is_uid(job_uid):
            raise TrainerError("INVALID_ARGUMENT", f"job_uid: {job_uid!r} is no job's uid")
        store = self._state.places.store
        if store is None:
            where = url or "an object store"
            reason = f"the run is in {where}, and the trainer has none: start it with --object-store, then repeat"
            raise TrainerError("FAILED_PRECONDITION", reason)
        if url and not url.startswith(f"{store.url}/{folder_of(job_uid)}/"):
            reason = (
                f"the run is in {url}, and the trainer's object store is {store.url}: start it with that of the run"
            )
            raise TrainerError("FAILED_PRECONDITION", reason)
        return store


async def _asked(question: Callable[[], T]) -> T:
    """The store's answer; beside the worker, which may be training. Raises TrainerError with its words."""
    try:
        return await asyncio.to_thread(question)
    except StoreError as error:
        raise TrainerError("UNAVAILABLE", f"the object store fails: {error}", reason="ObjectStoreFailing") from error


async def _progress(step: Work[Any]) -> AsyncIterator[wire.TrainProgress]:
    """At once, then at every interval until the step is done."""
    assert step.task is not None
    while True:
        yield wire.TrainProgress(phase=step.phase, share=min(1.0, step.share), notices=step.notices)
        done, _ = await asyncio.wait([step.task], timeout=PROGRESS_INTERVAL_S)
        if done:
            return


def _evaluate(run: JobRun, request: wire.EvaluateLogProbsRequest) -> wire.EvaluateLogProbsResponse:
    """Log-probabilities of every token after the first, under the current weights."""
    temperature = request.temperature or 1.0
    rows = [_scored_row(index, list(row.token_ids), temperature, run) for index, row in enumerate(request.rows)]
    answers = [[0.0] * len(row.token_ids) for row in request.rows]
    scored = [row for row in rows if len(row.positions)]
    for row, logprobs_K in zip(scored, run.log_probabilities(scored), strict=True):
        answers[row.episode][1:] = logprobs_K.tolist()
    return wire.EvaluateLogProbsResponse(rows=[wire.LogProbRow(logprobs=answer) for answer in answers])


def _scored_row(index: int, token_ids: list[int], temperature: float, run: JobRun) -> Row:
    vocabulary = run.model.limits.vocab_size
    if any(token_id >= vocabulary for token_id in token_ids):
        raise TrainerError("INVALID_ARGUMENT", f"rows[{index}].token_ids: an id is not below {vocabulary}")
    if temperature < 0:
        raise TrainerError("INVALID_ARGUMENT", "temperature: must be above 0")
    count = max(0, len(token_ids) - 1)
    return Row(
        index,
        np.array(token_ids, dtype=np.int64),
        np.arange(1, count + 1),
        np.zeros(count, dtype=np.float32),
        np.zeros(count, dtype=np.int64),
        np.full(count, temperature, dtype=np.float32),
        np.zeros(count, dtype=bool),
        np.ones(count, dtype=np.float32),
    )
