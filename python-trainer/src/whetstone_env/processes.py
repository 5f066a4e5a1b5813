# SPDX-License-Identifier: Apache-2.0
"""The service's side of the processes that run the user's code.

A process holds one episode at a time: Python's threads cannot be ended, a process can, and its end is then no other
episode's. A process whose episode is over takes the next one; forking one takes milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from whetstone_env import frames
from whetstone_env.errors import EpisodeError, LoadError

log = logging.getLogger("whetstone_env")
Result = TypeVar("Result")
# For the module's imports.
LOAD_S = 120.0
# The fork server runs none of the user's code.
ANSWER_S = 30.0
# Processes without an episode that are kept for the next ones.
KEPT_IDLE = 16


class Worker:
    """One process. `is_free`: it has answered what it was asked."""

    def __init__(self, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.pid, self._reader, self._writer = pid, reader, writer
        self.is_free = True

    @property
    def has_ended(self) -> bool:
        return self._reader.at_eof()

    async def call(self, method: str, timeout_s: float, **arguments: Any) -> Any:
        """Raises EpisodeError, what the environment failed with; TimeoutError; ConnectionError: the process is gone."""
        self.is_free = False
        try:
            async with asyncio.timeout(timeout_s):
                self._writer.write(frames.encode({"method": method, **arguments}))
                await self._writer.drain()
                answer = await frames.read(self._reader)
        except asyncio.IncompleteReadError as error:
            raise ConnectionError from error
        self.is_free = True
        if "code" in answer:
            raise EpisodeError(answer["code"], answer["message"], answer["field"])
        return answer["ok"]

    def close(self) -> None:
        self._writer.close()


class ForkServer:
    """The process that has imported the user's module. One request at a time."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._process, self._control = process, control
        self._lock = asyncio.Lock()
        self.kinds: list[dict[str, Any]] = []

    @classmethod
    async def start(cls, targets: Sequence[str], memory_mib: int) -> ForkServer:
        """Raises LoadError saying what is wrong with the module."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        options = json.dumps({"targets": list(targets), "memory_mib": memory_mib})
        # Settings of the service, where its key lies among them, are none of the user's business.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("WHETSTONE_")}
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)  # Whatever this process was started with.
        process = subprocess.Popen(
            [sys.executable, "-m", "whetstone_env.fork_server", str(theirs.fileno()), options],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            env=environment,
            start_new_session=True,  # It has to outlive us for the moment in which it ends its workers.
        )
        theirs.close()
        server = cls(process, ours)
        try:
            await server._loaded(" ".join(targets))
        except LoadError:
            await server.close()
            raise
        return server

    async def _loaded(self, named: str) -> None:
        try:
            told = await self._line(LOAD_S)
        except TimeoutError:
            raise LoadError(f"{named}: still importing after {LOAD_S:.0f} s") from None
        except ConnectionError:
            raise LoadError(f"{named}: its import ended the process; see the log above") from None
        if "error" in told:
            raise LoadError(told["error"])
        self.kinds = told["kinds"]

    @property
    def pid(self) -> int:
        return self._process.pid

    async def fork(self) -> Worker:
        ours, theirs = socket.socketpair()
        with theirs:
            pid = (await self._ask({"fork": True}, theirs.fileno()))["pid"]
        return Worker(pid, *await asyncio.open_unix_connection(sock=ours))

    async def end(self, worker: Worker) -> int:
        """Its exit code; below zero: a signal."""
        worker.close()
        return (await self._ask({"end": worker.pid}))["status"]

    async def ended(self) -> int:
        """Waits for its end, which is never asked for while the service runs."""
        return await asyncio.to_thread(self._process.wait)

    async def close(self) -> None:
        """It ends its workers first."""
        self._control.close()
        try:
            await asyncio.to_thread(self._process.wait, 5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()

    async def _ask(self, request: dict[str, Any], *descriptors: int) -> dict[str, Any]:
        """Raises OSError where the machine refuses it, or the process is gone."""
        async with self._lock:
            socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
            try:
                answer = await self._line(ANSWER_S)
            except TimeoutError:
                self._process.kill()  # A late answer would be taken for that of the next request.
                raise
        if "error" in answer:
            raise OSError(answer["error"])
        return answer

    async def _line(self, timeout_s: float) -> dict[str, Any]:
        loop, text = asyncio.get_running_loop(), b""
        async with asyncio.timeout(timeout_s):
            while not text.endswith(b"\n"):
                piece = await loop.sock_recv(self._control, 65_536)
                if not piece:
                    raise ConnectionError("the process that has the environments' module has ended")
                text += piece
        return json.loads(text)


class Workers:
    """All processes of episodes. There are never more than the service has slots."""

    def __init__(self, server: ForkServer) -> None:
        self._server = server
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in self._all]

    async def take(self) -> Worker:
        """One without an episode. Raises OSError where there can be no more."""
        return await finished(self._take(), unwanted=self._idle.append)

    async def _take(self) -> Worker:
        while self._idle:
            worker = self._idle.pop()
            if not worker.has_ended:
                return worker
            await self._end(worker)
        worker = await self._server.fork()
        self._all.add(worker)
        return worker

    async def call(self, worker: Worker, method: str, timeout_s: float, **arguments: Any) -> Any:
        """Raises EpisodeError only; CRASHED where the process has ended, or had to be."""
        try:
            return await worker.call(method, timeout_s, **arguments)
        except TimeoutError:
            await self._end(worker)
            why = f"{method}() took longer than {timeout_s:g} s, so its process was ended"
        except ConnectionError:
            why = f"the process of the environment ended during {method}() ({_ending(await self._end(worker))})"
        except frames.FrameTooLarge as error:
            worker.is_free = True
            raise EpisodeError("TASK", f"what {method}() is given is too large: {error}") from None
        raise EpisodeError("CRASHED", why)

    async def give_back(self, worker: Worker) -> None:
        """For the next episode; one that is still at work is ended."""
        if worker.is_free and len(self._idle) < KEPT_IDLE and worker in self._all:
            self._idle.append(worker)
        else:
            await self._end(worker)

    async def _end(self, worker: Worker) -> int:
        if worker not in self._all:
            return 0
        self._all.discard(worker)
        return await finished(self._server.end(worker))


async def finished(work: Coroutine[Any, Any, Result], unwanted: Callable[[Result], None] | None = None) -> Result:
    """Work that goes on to its end, also when who waits for it is cancelled; `unwanted` then gets what came of it."""
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        working.add_done_callback(lambda done: done.exception() or (unwanted and unwanted(done.result())))
        raise


def _ending(status: int) -> str:
    return f"exit code {status}" if status >= 0 else f"signal {-status}, {signal.Signals(-status).name}"
