# SPDX-License-Identifier: Apache-2.0
"""A lean HTTP load generator: one asyncio protocol a keep-alive connection, no client library in the way.

The server is what is measured, and both share the machine; aiohttp's client would cost more than the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Result:
    """Answers in the order of the requests; seconds of wall time; CPU seconds that the server spent."""

    replies: list[dict[str, Any]]
    wall_s: float
    server_cpu_s: float


class _Connection(asyncio.Protocol):
    """Sends one request after another; a reply is complete after Content-Length bytes."""

    def __init__(self, pending: list[tuple[int, bytes]], replies: list[bytes], done: asyncio.Future[None]) -> None:
        self._pending, self._replies, self._done = pending, replies, done
        self._buffer, self._index = b"", -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._next()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        length = int(self._buffer[:head].lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        if len(self._buffer) < head + 4 + length:
            return
        if not self._buffer.startswith(b"HTTP/1.1 200"):
            self._done.set_exception(RuntimeError(self._buffer.decode()[:500]))
            return
        self._replies[self._index], self._buffer = self._buffer[head + 4 :], b""
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(exc or ConnectionResetError("the server closed the connection"))

    def _next(self) -> None:
        if not self._pending:
            self._done.set_result(None)
            self._transport.close()
            return
        self._index, data = self._pending.pop()
        self._transport.write(data)


async def generate(port: int, pid: int, bodies: Sequence[dict[str, Any]], concurrency: int) -> Result:
    """Posts every body to /inference/v1/generate, `concurrency` at a time, each on its own connection."""
    replies = [b""] * len(bodies)
    pending = [(index, _request(body)) for index, body in enumerate(bodies)][::-1]
    loop = asyncio.get_running_loop()
    finished = [loop.create_future() for _ in range(concurrency)]
    started, cpu = time.perf_counter(), cpu_seconds(pid)
    for done in finished:
        await loop.create_connection(lambda done=done: _Connection(pending, replies, done), "127.0.0.1", port)
    await asyncio.gather(*finished)
    wall, spent = time.perf_counter() - started, cpu_seconds(pid) - cpu
    return Result([json.loads(reply) for reply in replies], wall, spent)


def _request(body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    kind = "Content-Type: application/json"
    head = f"POST /inference/v1/generate HTTP/1.1\r\nHost: x\r\n{kind}\r\nContent-Length: {len(data)}"
    return head.encode() + b"\r\n\r\n" + data


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and all that descend from it, all threads; on Linux."""
    parents, spent = dict[int, int](), dict[int, int]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # It has ended by now.
            fields = path.read_text().rsplit(")", 1)[1].split()
            one = int(path.parent.name)
            parents[one], spent[one] = int(fields[1]), int(fields[11]) + int(fields[12])
    family = {pid}
    while more := {one for one, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(spent.get(one, 0) for one in family) / os.sysconf("SC_CLK_TCK")
