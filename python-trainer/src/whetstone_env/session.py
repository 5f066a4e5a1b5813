# SPDX-License-Identifier: Apache-2.0
"""One episode: a stream of requests and answers, and the process that its environment runs in.

S1: however the stream ends, the environment is closed, once, within a bound (I9). S2: a session holds its slot until
then. S3: an answer of kind error or closed is the last. S4: while a step runs the next request is read already, so that
a cancel reaches it. S5: a session that is handed back says so, whatever it is doing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import json_format, struct_pb2
from whetstone.environments.v1 import environments_pb2 as wire

from whetstone_env.drain import Drain
from whetstone_env.errors import EpisodeError
from whetstone_env.metrics import Metrics
from whetstone_env.processes import Worker, Workers
from whetstone_env.settings import Settings

EOF: Any = grpc.aio.EOF  # pyright: ignore[reportAttributeAccessIssue]
log = logging.getLogger("whetstone_env")


class Refused(Exception):
    """Fails the call: the caller, or the time, is to blame, and not the environment."""

    def __init__(self, status: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass
class Slots:
    """Episodes at once. Nobody queues here: callers wait at home, where their deadline is known."""

    total: int
    used: int = 0

    def take(self) -> None:
        if self.used >= self.total:
            message = f"all {self.total} environment slots are in use"
            raise Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, message)
        self.used += 1


@dataclass
class Shared:
    """What all sessions of the service share."""

    kinds: frozenset[str]
    workers: Workers
    slots: Slots
    drain: Drain
    settings: Settings
    metrics: Metrics = field(default_factory=Metrics)


DRAINING = EpisodeError("DRAINING", "this env-runner goes; play the episode elsewhere")


class EnvironmentSession:
    """`run` plays it to its end."""

    def __init__(self, shared: Shared, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        self._shared, self._context = shared, context
        self._worker: Worker | None = None
        self._end = "left"
        self._reading: asyncio.Task[Any] | None = None
        self._stop: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Raises Refused."""
        if self._shared.drain.draining:
            await self._context.write(_failed(DRAINING))
            return
        self._shared.slots.take()  # S2
        unwatch = self._shared.drain.watch(lambda: self._stop_with(DRAINING))
        limit_s = self._shared.settings.session_timeout_ms / 1000
        too_long = Refused(grpc.StatusCode.DEADLINE_EXCEEDED, f"an episode lasts at most {limit_s:g} s")
        timer = asyncio.get_running_loop().call_later(limit_s, self._stop_with, too_long)
        try:
            await self._answer_all()
        finally:
            unwatch()
            timer.cancel()
            self._shared.metrics.session(self._end)
            await asyncio.shield(asyncio.ensure_future(self._leave()))  # Whoever cancels us does not cancel this.

    async def _answer_all(self) -> None:
        while True:
            try:
                request = await self._next_request()
                if request is None:
                    return
                answer = await self._answer(request)
            except EpisodeError as error:
                self._end = error.code
                answer = _failed(error)
            await self._context.write(answer)
            if not answer.HasField("observation"):
                return  # S3

    async def _answer(self, request: wire.SessionRequest) -> wire.SessionResponse:
        match request.WhichOneof("kind"):
            case "reset":
                if self._worker is not None:
                    raise _misuse("reset comes once, first")
                return await self._listening(self._reset(request.reset))
            case "step":
                if self._worker is None:
                    raise _misuse("step needs a reset first")
                return await self._listening(self._step(self._worker, request.step))
            case "close":
                await self._close()
                self._end = "closed"
                return wire.SessionResponse(closed=wire.Closed())
            case "cancel":
                raise EpisodeError("CANCELLED", "cancelled as asked")
        message = "a session request needs one of reset, step, close, cancel"
        raise Refused(grpc.StatusCode.INVALID_ARGUMENT, message)

    async def _reset(self, reset: wire.Reset) -> wire.SessionResponse:
        kinds = self._shared.kinds
        if reset.HasField("module"):
            message = "a job's module runs in env-runners of TypeScript; this one has environments in Python"
            raise EpisodeError("TASK", message, "module")
        if reset.kind not in kinds:
            known = ", ".join(sorted(kinds))
            raise EpisodeError("TASK", f'unknown environment "{reset.kind}"; known: {known}', "kind")
        try:
            self._worker = await self._shared.workers.take()
        except OSError as error:
            log.warning("no_process", extra={"error": str(error)})
            raise Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, f"no process for the episode now: {error}") from None
        args = json_format.MessageToDict(reset.args)
        return await self._call(self._worker, "reset", kind=reset.kind, args=args, seed=reset.seed)

    async def _step(self, worker: Worker, step: wire.Step) -> wire.SessionResponse:
        action = json_format.MessageToDict(step.data) if step.HasField("data") else step.action
        self._shared.metrics.step()
        return await self._call(worker, "step", action=action)

    async def _call(self, worker: Worker, method: str, **arguments: Any) -> wire.SessionResponse:
        timeout_s = self._shared.settings.call_timeout_ms / 1000
        seen = await self._shared.workers.call(worker, method, timeout_s, **arguments)
        return wire.SessionResponse(observation=_observation(seen))

    async def _next_request(self) -> wire.SessionRequest | None:
        """None: the caller has ended the stream."""
        limit_s = self._shared.settings.idle_timeout_ms / 1000
        reading = self._read()
        await self._first(reading, within_s=limit_s)
        if not reading.done():
            message = f"no request came for {limit_s:g} s, so the environment was closed"
            raise Refused(grpc.StatusCode.DEADLINE_EXCEEDED, message)
        self._reading = None
        request = reading.result()
        return None if request is EOF else request

    async def _listening(self, work: Coroutine[Any, Any, wire.SessionResponse]) -> wire.SessionResponse:
        """S4"""
        working, reading = asyncio.ensure_future(work), self._read()
        try:
            await self._first(working, reading)
            if not working.done():
                request = reading.result()
                if request is EOF or request.HasField("cancel"):
                    raise EpisodeError("CANCELLED", "cancelled as asked")
                await self._first(working)
            return working.result()
        finally:
            if not working.done():
                working.cancel()
                await asyncio.wait([working])

    def _read(self) -> asyncio.Task[Any]:
        """The request that comes next. Never cancelled: the end of the call ends it."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(_read(self._context))
            self._reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._reading

    async def _first(self, *tasks: asyncio.Future[Any], within_s: float | None = None) -> None:
        """Until one of them is done; raises why the session has to stop, if it does."""
        await asyncio.wait([*tasks, self._stop], timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        if self._stop.done():
            raise self._stop.result()

    def _stop_with(self, reason: Exception) -> None:
        if not self._stop.done():
            self._stop.set_result(reason)

    async def _leave(self) -> None:
        try:
            await self._close()
        finally:
            self._shared.slots.used -= 1

    async def _close(self) -> None:
        """S1"""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        workers, timeout_s = self._shared.workers, self._shared.settings.close_timeout_ms / 1000
        try:
            if worker.is_free:
                await workers.call(worker, "close", timeout_s)
        except EpisodeError as error:
            log.warning("environment_close_failed", extra={"error": error.message})
        await workers.give_back(worker)


async def _read(context: grpc.aio.ServicerContext[Any, Any]) -> Any:
    return await context.read()


def _failed(error: EpisodeError) -> wire.SessionResponse:
    failure = wire.EnvironmentError(code=error.code, field=error.field, message=error.message)
    return wire.SessionResponse(error=failure)


def _misuse(message: str) -> Refused:
    return Refused(grpc.StatusCode.FAILED_PRECONDITION, f"session: {message}")


def _observation(seen: dict[str, Any]) -> wire.Observation:
    """From what whetstone_env.values has checked."""
    observation = wire.Observation(
        text=seen.get("text", ""),
        reward=seen.get("reward"),
        terminated=seen.get("terminated", False),
        truncated=seen.get("truncated", False),
    )
    if "data" in seen:
        observation.data.CopyFrom(json_format.ParseDict(seen["data"], struct_pb2.Value()))
    if seen["info"]:
        observation.info.update(seen["info"])
    return observation
