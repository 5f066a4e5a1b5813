# SPDX-License-Identifier: Apache-2.0
"""/metrics over a real socket."""

from __future__ import annotations

import asyncio

from whetstone_env.metrics import Metrics, serve_metrics


async def get(port: int, path: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    try:
        return (await reader.read()).decode()
    finally:
        writer.close()


async def test_says_what_the_other_env_runner_says_under_the_same_names() -> None:
    metrics = Metrics()
    metrics.step()
    metrics.session("closed")
    metrics.session("closed")
    metrics.session("CRASHED")
    server = await serve_metrics("127.0.0.1", 0, lambda: metrics.text(3, 64))
    port = server.sockets[0].getsockname()[1]
    answer = await get(port, "/metrics")
    assert answer.startswith("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4")
    assert 'whetstone_env_slots_used{component="env-runner"} 3\n' in answer
    assert 'whetstone_env_slots{component="env-runner"} 64\n' in answer
    assert 'whetstone_env_steps_total{component="env-runner"} 1\n' in answer
    assert 'whetstone_env_sessions_total{end="CRASHED",component="env-runner"} 1\n' in answer
    assert 'whetstone_env_sessions_total{end="closed",component="env-runner"} 2\n' in answer
    assert (await get(port, "/else")).startswith("HTTP/1.1 404")
    server.close()
