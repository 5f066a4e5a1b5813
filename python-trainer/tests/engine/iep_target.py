# SPDX-License-Identifier: Apache-2.0
"""The HTTP target of the conformance suite: our engine in its own process, or whatever IEP_TARGET names."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from compute_device import DEVICE

SOURCE = Path(__file__).parents[2] / "src"


@dataclass(frozen=True)
class Target:
    """Where the engine is, and the folders of two models of one shape; it serves the first at the start."""

    url: str
    folder_a: Path
    folder_b: Path


@contextlib.contextmanager
def start_engine(folder: Path, log: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Our engine on a free port; yields (url, process) once it listens, and stops it at the end."""
    command = [
        sys.executable,
        "-m",
        "whetstone_engine",
        "--model",
        str(folder),
        "--port",
        "0",
        "--device",
        DEVICE.type,
        *options,
    ]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, stderr=stderr, env=environment)
    try:
        yield f"http://127.0.0.1:{_listening_port(process, log)}", process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(timeout=10)


def _listening_port(process: subprocess.Popen[bytes], log: Path) -> int:
    """Waits for the log line that names the port."""
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        for line in log.read_text().splitlines():
            if '"listening"' in line:
                return int(json.loads(line)["port"])
        time.sleep(0.02)
    raise RuntimeError(log.read_text())


class Api:
    """Calls of IEP/1. `post` and `get` return (status, decoded body)."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session, self.url = session, url

    async def post(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        async with self.session.post(self.url + path, json=body, headers=headers) as response:
            return response.status, await _decode(response)

    async def get(self, path: str) -> tuple[int, Any]:
        async with self.session.get(self.url + path) as response:
            return response.status, await _decode(response)

    async def generate(self, token_ids: list[int], salt: str | None = None, **params: Any) -> dict[str, Any]:
        """The whole reply; greedy with logprobs unless told otherwise."""
        status, body = await self.post("/inference/v1/generate", generate_body(token_ids, salt, **params))
        assert status == 200, body
        return body

    async def stream(self, token_ids: list[int], request_id: str = "", **params: Any) -> AsyncIterator[dict[str, Any]]:
        """Chunks of a streamed reply; ends at [DONE]."""
        body = {**generate_body(token_ids, None, **params), "stream": True}
        headers = {"X-Request-Id": request_id} if request_id else {}
        async with self.session.post(self.url + "/inference/v1/generate", json=body, headers=headers) as response:
            assert response.status == 200, await response.text()
            async for line in response.content:
                if line.strip() == b"data: [DONE]":
                    return
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        raise AssertionError("the stream ended without [DONE]")

    async def gauge(self, name: str) -> float:
        """The sum of one metric over its labels."""
        _, text = await self.get("/metrics")
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(f"vllm:{name}{{"))

    async def switch(self, folder: Path, label: str, clear: str = "true") -> None:
        """The strict update: pause, reload, label, resume."""
        assert (await self.post(f"/pause?mode=abort&clear_cache={clear}"))[0] == 200
        status, body = await self.reload(folder)
        assert status == 200, body
        assert (await self.post("/update_weight_version", {"new_version": label}))[0] == 200
        assert (await self.post("/resume"))[0] == 200

    async def reload(self, folder: Path) -> tuple[int, Any]:
        body = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
        # vLLM closes the connection after a 500 without saying so; a connection of its own cannot be reused.
        return await self.post("/collective_rpc", body, Connection="close")


def generate_body(token_ids: list[int], salt: str | None, **params: Any) -> dict[str, Any]:
    sampling = {"temperature": 0.0, "max_tokens": 8, "logprobs": 0, "ignore_eos": True, **params}
    body: dict[str, Any] = {"model": "policy", "token_ids": token_ids, "sampling_params": sampling}
    return body if salt is None else {**body, "cache_salt": salt}


def choice(reply: dict[str, Any]) -> dict[str, Any]:
    """The one choice of a reply."""
    assert len(reply["choices"]) == 1
    return reply["choices"][0]


def logprobs(reply: dict[str, Any]) -> list[float]:
    """Log-probability of each sampled token."""
    return [entry["logprob"] for entry in choice(reply)["logprobs"]["content"]]


async def start_stream(
    api: Api, prompt: list[int], request_id: str = "", **params: Any
) -> asyncio.Task[list[dict[str, Any]]]:
    """A stream that has begun to sample; the task returns all its chunks."""
    first = asyncio.Event()

    async def collect() -> list[dict[str, Any]]:
        chunks = []
        async for chunk in api.stream(prompt, request_id, **params):
            chunks.append(chunk)
            if choice(chunk)["token_ids"]:
                first.set()
        return chunks

    task = asyncio.create_task(collect())
    await asyncio.wait_for(first.wait(), 60)
    return task


def joined(chunks: list[dict[str, Any]]) -> list[int]:
    """All token ids of a stream."""
    return [token for chunk in chunks for token in choice(chunk)["token_ids"]]


def folder_of(url: str) -> Path:
    """The folder that a server was started with, as /v1/models says."""
    with urllib.request.urlopen(url + "/v1/models") as response:
        return Path(json.load(response)["data"][0]["root"])


def warm_up(url: str) -> None:
    """vLLM compiles when log-probabilities are first asked of it, which can take half a minute."""
    body = json.dumps(generate_body([65], None)).encode()
    headers = {"Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(url + "/inference/v1/generate", body, headers), timeout=120).close()


async def _decode(response: aiohttp.ClientResponse) -> Any:
    text = await response.text()
    return json.loads(text) if "json" in response.headers.get("Content-Type", "") and text else text
