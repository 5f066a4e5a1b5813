# SPDX-License-Identifier: Apache-2.0
"""How new weights reach engines: staged while they sample on, then swapped in a pause. One JSON line.

Beside `cp` of the same bytes and a copy of them in memory, in the same run. Engines switch half at a time, as the
controller does it: first while nobody asks them for anything, then while each samples without a break.

Run: `python python-trainer/bench/bench_weights.py [--mib 1024] [--engines 4]` (2 minutes on two cores; memory: three
times the weights for each engine).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"
sys.path[:0] = [str(SOURCE), str(Path(__file__).parent)]

import aiohttp  # noqa: E402
import numpy as np  # noqa: E402
from bench_engine import served  # noqa: E402

from whetstone_models.init import init_model  # noqa: E402

SHAPE = {"hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 2816}
LAYER_MIB = (4 * 1024**2 + 3 * 1024 * 2816) * 4 / 2**20
SWITCHES = 3
# How long engines sample before the first switch.
BEFORE_S = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="of weights in float32")
    parser.add_argument("--engines", type=int, default=4)
    options = parser.parse_args()
    layers = max(1, round(options.mib / LAYER_MIB))
    with tempfile.TemporaryDirectory() as root, contextlib.ExitStack() as stack:
        folders = [Path(root) / name for name in ("a", "b")]
        for seed, folder in enumerate(folders):
            init_model(folder, "tiny", seed, **SHAPE, num_hidden_layers=layers)
        size = (folders[0] / "model.safetensors").stat().st_size
        ports = [stack.enter_context(served(folders[0], 1))[0] for _ in range(options.engines)]
        idle, busy = asyncio.run(_measure(folders, [f"http://127.0.0.1:{port}" for port in ports]))
        copied = [_copy(folders[0], Path(root) / "copy", options.engines) for _ in range(SWITCHES)]
        memory = [_copy_in_memory(size) for _ in range(SWITCHES)]
    total = size * options.engines / 2**20
    staged, cp, memcpy = (statistics.median(each) for each in (idle.stage, copied, memory))
    pause, busy_pause = statistics.median(idle.pause), statistics.median(busy.pause)
    line = {
        **{"bench": "weights", "engines": options.engines, "mib": round(size / 2**20), "switches": SWITCHES},
        **{"stage_s": staged, "stage_mib_s": total / staged, "cp_mib_s": total / cp, "of_cp": cp / staged},
        **{"memcpy_s": memcpy, "pause_s": pause, "pause_max_s": max(idle.pause), "pause_memcpys": pause / memcpy},
        **{"sampling_stage_s": statistics.median(busy.stage), "sampling_pause_s": busy_pause},
        **{"longest_without_a_token_s": busy.longest_gap(), "longest_before_s": busy.longest_gap(before=True)},
        "load_average": os.getloadavg()[0],
    }
    print(json.dumps({name: round(value, 4) for name, value in line.items() if not isinstance(value, str)}))


@dataclass
class Switches:
    """Seconds of each staging on all engines and of each pause of one; when they began, and when tokens came."""

    begun: float = 0.0
    stage: list[float] = field(default_factory=list[float])
    pause: list[float] = field(default_factory=list[float])
    tokens: list[float] = field(default_factory=list[float])

    def longest_gap(self, before: bool = False) -> float:
        """The longest time in which no engine gave a token; `before` any switch."""
        pairs = itertools.pairwise(self.tokens)
        return max((later - at for at, later in pairs if (later <= self.begun) == before), default=-1.0)


async def _measure(folders: list[Path], urls: list[str]) -> tuple[Switches, Switches]:
    timeout = aiohttp.ClientTimeout(total=300)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
        idle, busy = Switches(), Switches()
        await _switches(session, urls, folders, idle)
        stop = asyncio.Event()
        ask = [asyncio.create_task(_sample(session, url, busy.tokens, stop)) for url in urls]
        await asyncio.sleep(BEFORE_S)
        await _switches(session, urls, folders, busy)
        stop.set()
        await asyncio.gather(*ask)
        return idle, busy


async def _switches(session: aiohttp.ClientSession, urls: list[str], folders: list[Path], seen: Switches) -> None:
    seen.begun = time.monotonic()
    half = max(1, len(urls) // 2)
    for switch in range(SWITCHES):
        folder = str(folders[(switch + 1) % 2])
        seen.stage.append(await _seconds(functools.partial(_stage, session, urls, folder)))
        for start in range(0, len(urls), half):
            part = urls[start : start + half]
            seen.pause += await asyncio.gather(*(_switch(session, url, folder, f"v{switch}") for url in part))


async def _switch(session: aiohttp.ClientSession, url: str, folder: str, label: str) -> float:
    async def switch() -> None:
        await _post(session, url, "/pause?mode=abort&clear_cache=true", None)
        body = {"method": "reload_weights", "kwargs": {"weights_path": folder}}
        await _post(session, url, "/collective_rpc", body)
        await _post(session, url, "/update_weight_version", {"new_version": label})
        await _post(session, url, "/resume", None)

    return await _seconds(switch)


async def _sample(session: aiohttp.ClientSession, url: str, tokens: list[float], stop: asyncio.Event) -> None:
    sampling = {"max_tokens": 1, "temperature": 1.0, "logprobs": 0, "ignore_eos": True}
    while not stop.is_set():
        body = {"model": "policy", "token_ids": [1, 2, 3], "sampling_params": sampling, "stream": False}
        answer = await _post(session, url, "/inference/v1/generate", body)
        if answer["choices"][0]["token_ids"]:
            tokens.append(time.monotonic())


async def _stage(session: aiohttp.ClientSession, urls: list[str], folder: str) -> None:
    await asyncio.gather(*(_post(session, url, "/stage_weights", {"weights_path": folder}) for url in urls))


async def _post(session: aiohttp.ClientSession, url: str, path: str, body: object) -> Any:
    async with session.post(url + path, json=body) as response:
        if response.status != 200:
            raise RuntimeError(f"{path}: {response.status} {await response.text()}")
        return await response.json()


async def _seconds(work: Callable[[], Awaitable[None]]) -> float:
    started = time.monotonic()
    await work()
    return time.monotonic() - started


def _copy(folder: Path, to: Path, count: int) -> float:
    """Seconds of `cp` of the weights, once for each engine."""
    to.mkdir(exist_ok=True)
    started = time.monotonic()
    for index in range(count):
        subprocess.run(["cp", "--reflink=never", folder / "model.safetensors", to / str(index)], check=True)
    seconds = time.monotonic() - started
    shutil.rmtree(to)
    return seconds


def _copy_in_memory(size: int) -> float:
    source, target = np.ones(size // 8), np.ones(size // 8)
    started = time.monotonic()
    np.copyto(target, source)
    return time.monotonic() - started


if __name__ == "__main__":
    main()
