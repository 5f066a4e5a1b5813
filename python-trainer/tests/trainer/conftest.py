# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a real nats-server, a small random model, the job's episode stream."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from object_server import ObjectServer, as_client, object_server
from trainer_client import Trainer, start
from trainer_kit import JOB, Sampler, Stream, connect, free_port, nats_binary

from whetstone_models.init import init_model


@pytest.fixture(scope="session")
def nats_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port, store = free_port(), tmp_path_factory.mktemp("nats")
    command = [nats_binary(), "-js", "-sd", str(store), "-p", str(port), "-a", "127.0.0.1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"nats://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "tiny"
    init_model(path, seed=3, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
    return path


@pytest.fixture
def sampler(model_path: Path) -> Sampler:
    return Sampler(model_path)


@pytest.fixture
async def stream(nats_url: str) -> AsyncIterator[Stream]:
    client = await connect(nats_url)
    stream = Stream(client)
    await stream.create()
    try:
        yield stream
    finally:
        await stream.js.delete_stream(f"WS_EPISODE_{JOB}")
        await client.close()


@pytest.fixture
async def trainer(nats_url: str, stream: Stream, tmp_path: Path) -> AsyncIterator[Trainer]:
    trainer, channel = await start(nats_url, tmp_path / "run")
    yield trainer
    await channel.close()
    await trainer.server.close(grace_s=0.1)


@pytest.fixture
def objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    with object_server(tmp_path / "objects") as server:
        as_client(server, monkeypatch)
        yield server
