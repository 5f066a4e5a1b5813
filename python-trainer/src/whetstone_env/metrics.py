# SPDX-License-Identifier: Apache-2.0
"""GET /metrics: the counters of services/env-runner under the same names, in Prometheus' text format."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

READ_S = 5.0
MOST_REQUEST_BYTES = 8_192


class Metrics:
    """Its methods are called from the event loop."""

    def __init__(self) -> None:
        self._steps = 0
        self._ends: Counter[str] = Counter()

    def step(self) -> None:
        self._steps += 1

    def session(self, end: str) -> None:
        """closed, left, or the code that it failed with."""
        self._ends[end] += 1

    def text(self, used: int, slots: int) -> str:
        """All of it, as it is now."""
        ends = [(f'{{end="{end}",component="env-runner"}}', count) for end, count in sorted(self._ends.items())]
        one = '{component="env-runner"}'
        blocks = [
            _block("env_slots_used", "gauge", "Sessions open now.", [(one, used)]),
            _block("env_slots", "gauge", "Sessions that may be open at once.", [(one, slots)]),
            _block("env_steps_total", "counter", "Steps taken.", [(one, self._steps)]),
            _block("env_sessions_total", "counter", "Sessions by how they ended.", ends),
        ]
        return "".join(blocks)


def _block(name: str, kind: str, about: str, values: list[tuple[str, int]]) -> str:
    lines = [f"# HELP whetstone_{name} {about}", f"# TYPE whetstone_{name} {kind}"]
    return "\n".join([*lines, *(f"whetstone_{name}{labels} {value}" for labels, value in values)]) + "\n"


async def serve_metrics(host: str, port: int, text: Callable[[], str]) -> asyncio.Server:
    """One request a connection, since Prometheus and people ask seldom."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_S):
                head = await reader.readuntil(b"\r\n\r\n")
                found = head.startswith(b"GET /metrics ") or head.startswith(b"GET /metrics?")
                body = text().encode() if found else b"not found\n"
                status = "200 OK" if found else "404 Not Found"
                kind = "text/plain; version=0.0.4; charset=utf-8"
                lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
                writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode() + body)
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    return await asyncio.start_server(answer, host, port, limit=MOST_REQUEST_BYTES)
