# SPDX-License-Identifier: Apache-2.0
"""The step thread and its meeting point with the event loop.

Everything that touches sequences, cache or model runs on the step thread, between steps; the event loop only appends to
an inbox. So when a command such as pause has been answered, no token can be sampled behind its back (I7).
Results of one step travel back in one `call_soon_threadsafe`, however many sequences they concern.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from whetstone_engine.errors import StepAbandoned, queue_full
from whetstone_engine.kv_cache import BLOCK
from whetstone_engine.runner import Runner
from whetstone_engine.scheduler import Batch, Event, Scheduler
from whetstone_engine.sequence import Sequence

T = TypeVar("T")
log = logging.getLogger("whetstone_engine")


class StepLoop:
    """Owns the step thread. `submit` and `call` are for the event loop's thread."""

    def __init__(self, scheduler: Scheduler, runner: Runner, max_waiting: int) -> None:
        self.scheduler, self.runner, self.max_waiting = scheduler, runner, max_waiting
        self._inbox: deque[Sequence | Callable[[], None]] = deque()
        # Calls in the inbox for which a step is abandoned.
        self._urgent: deque[asyncio.Future[Any]] = deque()
        runner.is_abandoned = lambda: bool(self._urgent)
        self._wake = threading.Event()
        self._stopping = False
        self._drained: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._run, name="step", daemon=True)

    def start(self) -> None:
        """Starts the thread; call from the running event loop, which will receive the results."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after the step in progress. Daemonic, so a long step cannot hold the process."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout=0.5)

    @property
    def alive(self) -> bool:
        """False once the thread has died; then nothing will ever be sampled again."""
        return self._thread.is_alive()

    @property
    def queued(self) -> int:
        """Requests that hold no slot yet, as the event loop sees it."""
        return len(self.scheduler.waiting) + len(self._inbox)

    def submit(self, sequence: Sequence) -> None:
        """Queues a request; its output goes to `sequence.sink`. Raises ApiError 429 when the queue is full (I8)."""
        if self.queued >= self.max_waiting:
            raise queue_full(self.max_waiting)
        self._inbox.append(sequence)
        self._wake.set()

    async def call(self, action: Callable[[], T], urgent: bool = False) -> T:
        """Runs `action` on the step thread between two steps and returns its result or raises its error.

        `urgent`: a step that runs is abandoned, at its next layer. The action has to end all that takes part in steps
        and to forget what is cached, for keys and values that count as computed may be missing.
        """
        future: asyncio.Future[T] = self._loop.create_future()

        def run() -> None:
            if urgent:
                self._urgent.remove(future)
            try:
                result = action()
            except BaseException as error:
                self._post(_settle, future, None, error)
            else:
                self._post(_settle, future, result, None)

        if urgent:
            self._urgent.append(future)
        self._inbox.append(run)
        self._wake.set()
        return await future

    def post(self, action: Callable[[], Any]) -> None:
        """Like `call`, without waiting for the result."""
        self._inbox.append(action)
        self._wake.set()

    async def drain(self) -> None:
        """Returns when nothing is running any more; admission must be closed already."""
        drained: asyncio.Future[None] = self._loop.create_future()
        await self.call(lambda: self._drained.append(lambda: self._post(_settle, drained, None, None)))
        await drained

    def _run(self) -> None:
        try:
            while not self._stopping:
                if not self._inbox and not self.scheduler.runnable and not self._drained:
                    self._wake.wait()
                self._wake.clear()
                self._take_inbox()
                if self.scheduler.runnable:
                    self._step()
                self._deliver()
        except BaseException:
            log.exception("step_thread_died")
            raise

    def _take_inbox(self) -> None:
        while self._inbox:
            item = self._inbox.popleft()
            if isinstance(item, Sequence):
                self.scheduler.waiting.append(item)
            else:
                item()
        if self._drained and not (self.scheduler.running and self.scheduler.draining):
            for settle in self._drained:
                settle()
            self._drained.clear()

    def _step(self) -> None:
        """A step that fails in the books ends its requests with an error; the engine goes on with an empty cache."""
        try:
            batch = self.scheduler.schedule()
            if batch is None:
                return
            started = time.perf_counter()
            self._compute(batch)
            self.scheduler.pace.observe(batch.prompt_work, batch.sampling_work, time.perf_counter() - started)
            self.scheduler.counters.steps += 1
        except StepAbandoned:
            log.debug("step_abandoned")
        except Exception as error:
            log.exception("step_failed")
            self.scheduler.fail(f"step failed: {type(error).__name__}")

    def _compute(self, batch: Batch) -> None:
        try:
            slots, sampled = self.runner.step(self.scheduler.table, batch)
        except Exception:
            log.exception("batch_failed", extra={"sequences": len(batch.slots)})
            self._one_by_one(batch)
        else:
            self.scheduler.commit(batch, slots, sampled)

    def _one_by_one(self, batch: Batch) -> None:
        """Computes a failed batch again, each sequence alone, so that only those end which fail by themselves.

        That is safe: keys and values go to the same places, and a draw depends on its own row alone. Who shares
        blocks with a prompt that could not be computed has garbage there, and ends with it.
        """
        scheduler, spoilt = self.scheduler, set[int]()
        lengths = scheduler.table.length[batch.slots]
        rows = zip(*(array.tolist() for array in (batch.slots, batch.starts, batch.ends, lengths)), strict=True)
        for slot, start, end, length in rows:
            blocks = scheduler.blocks_of(slot)
            filled = [] if start == length - 1 else blocks[start // BLOCK : end // BLOCK]
            try:
                if spoilt.intersection(blocks):
                    raise RuntimeError("the prompt it shares could not be computed")
                alone = Batch.of(np.array([[slot, start, end]], np.int64))
                slots, sampled = self.runner.step(scheduler.table, alone)
            except Exception as error:
                log.exception("sequence_failed")
                spoilt.update(filled)
                scheduler.fail_one(slot, f"step failed: {type(error).__name__}", filled)
            else:
                scheduler.commit(alone, slots, sampled)

    def _deliver(self) -> None:
        if self.scheduler.events:
            events, self.scheduler.events = self.scheduler.events, []
            self._post(_dispatch, events)

    def _post(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            self._stopping = True  # the event loop is closed: the process is on its way out


def _dispatch(events: list[Event]) -> None:
    for sequence, output in events:
        sequence.sink(output)


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
