# SPDX-License-Identifier: Apache-2.0
"""Fixtures: one engine for the whole run, an API client for each test.

IEP_TARGET=URL runs the suite against that server instead; IEP_MODEL_B then names a folder of the same shape as the
one it serves, made as `models` below makes them (head size 32, which vLLM's CPU build supports).
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
import torch
from compute_device import DEVICE
from iep_target import Api, Target, folder_of, start_engine, warm_up

from whetstone_models.init import init_model

torch.set_num_threads(1)
if DEVICE.type == "cpu":
    # Triton reads it when it is imported: kernels for GPUs are interpreted.
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two random models of one shape; a wide initialisation makes their answers differ clearly."""
    root = tmp_path_factory.mktemp("models")
    for name, seed in (("a", 1), ("b", 2)):
        init_model(root / name, seed=seed, num_attention_heads=3, num_key_value_heads=3, initializer_range=0.15)
    return root / "a", root / "b"


@pytest.fixture(scope="session")
def target(models: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    url = os.environ.get("IEP_TARGET", "").rstrip("/")
    if url:
        warm_up(url)
        yield Target(url, folder_of(url), Path(os.environ["IEP_MODEL_B"]))
        return
    with start_engine(models[0], tmp_path_factory.mktemp("log") / "engine.log", "--max-num-seqs", "64") as (address, _):
        yield Target(address, *models)


@pytest.fixture
async def api(target: Target) -> AsyncIterator[Api]:
    """A client; afterwards the engine is unpaused and serves model A again, whatever the test did."""
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        client = Api(session, target.url)
        yield client
        if (await client.get("/is_paused"))[1]["is_paused"]:
            await client.post("/resume")
        if (await client.get("/weight_info"))[1]["weight_version"] not in ("default", "a"):
            await client.switch(target.folder_a, "a")
