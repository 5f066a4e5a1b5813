# SPDX-License-Identifier: Apache-2.0
"""Versions that a real server of the trainer serves, and a connection that breaks in the middle."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import torch
from compute_device import DEVICE

from whetstone_engine.weights.building import Held, Place
from whetstone_engine.weights.fetcher import Fetcher
from whetstone_engine.weights.stream import Published
from whetstone_models.folder import WeightsForm, load_model, save_weights
from whetstone_models.init import init_model
from whetstone_models.manifest import read_manifest
from whetstone_tls import TlsIdentity
from whetstone_trainer.service.weight_groups import WeightGroups
from whetstone_trainer.service.weights_server import ServedRun, WeightsServer
from whetstone_trainer.weights.run_folder import RunFolder, manifest_digest

UID = "uid-1"
# 8 MiB of float32, so that it has several blocks.
LARGE = "model.layers.0.mlp.up_proj.weight"
PLACE = Place(torch.float32, DEVICE.type)
TOKENS = torch.tensor([[5, 77, 130, 9]])


def make_run(root: Path) -> RunFolder:
    """Version 1 in shards of at most 9 MiB."""
    init_model(root / "model", seed=3, hidden_size=256, num_hidden_layers=1, intermediate_size=8192)
    run = RunFolder(root / "run", root / "model")
    save_weights(load_model(run.model_path), run.weights(1), 1, run.model_path, WeightsForm(shard_bytes=9 << 20))
    return run


def change(run: RunFolder, version: int, *names: str) -> None:
    """Publishes the next version: one number of each of those tensors is another."""
    model = load_model(run.weights(version - 1))
    with torch.no_grad():
        for name in names:
            model.get_parameter(name).view(-1)[-1] += 1
    save_weights(model, run.weights(version), version, run.model_path, WeightsForm(shard_bytes=9 << 20))


def weight_bytes(run: RunFolder, version: int) -> int:
    return sum(entry.size for entry in read_manifest(run.weights(version)).tensors)


def same_answers(held: Held, folder: Path) -> bool:
    with torch.no_grad():
        own = load_model(folder, device=DEVICE).fuse()
        return torch.equal(held.model(TOKENS.to(DEVICE)), own(TOKENS.to(DEVICE)))


@contextlib.asynccontextmanager
async def serving(
    run: RunFolder, tls: TlsIdentity | None = None, groups: WeightGroups | None = None
) -> AsyncIterator[str]:
    """What a trainer says as Weights.url. With `groups` of a job that has them."""
    server = WeightsServer(lambda: ServedRun(UID, run, groups is not None), tls, groups)
    url = await server.start("127.0.0.1", 0)
    try:
        yield f"{url}/weights/{UID}"
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def fetching(folder: Path | None, tls: TlsIdentity | None = None) -> AsyncIterator[Fetcher]:
    fetcher = Fetcher(folder, tls.client_context() if tls else None)
    try:
        yield fetcher
    finally:
        await fetcher.close()


def published(url: str, run: RunFolder, version: int) -> Published:
    return Published(f"{url}/v{version}", manifest_digest(run.weights(version)))


async def fetch(fetcher: Fetcher, url: str, run: RunFolder, version: int, served: Held | None = None) -> Held:
    return await asyncio.wait_for(fetcher.fetch(published(url, run, version), PLACE, served), 60)


class Cutter:
    """Passes bytes between engines and a server, and cuts each connection after so many of the server's."""

    def __init__(self, port: int, after: int, times: int) -> None:
        self._port, self._after, self.left = port, after, times
        # First lines and ranges of the requests that it saw.
        self.ranges: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._pass(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_connection("127.0.0.1", self._port)
        asking = asyncio.create_task(self._ask(reader, ours))
        budget = self._after if self.left else -1
        with contextlib.suppress(ConnectionError):
            while data := await theirs.read(min(budget, 65536) if budget > 0 else 65536):
                writer.write(data)
                await writer.drain()
                budget -= len(data)
                if budget == 0:
                    self.left -= 1
                    break
        asking.cancel()
        writer.close()
        ours.close()

    async def _ask(self, reader: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                self.ranges += [line for line in data.decode().split("\r\n") if line.startswith("Range")]
                to.write(data)
                await to.drain()
