# SPDX-License-Identifier: Apache-2.0
"""How new weights reach engines that sample: staged while they sample on, then swapped in a pause. One JSON line.

Beside `cp` of the same bytes and a copy of them in memory, in the same run. Engines switch half at a time, as the
controller does it; all the while every engine is asked for tokens.

Run: `python python-trainer/bench/bench_weights.py [--mib 1024] [--engines 4]` (2 minutes on two cores; memory: three
times the weights for each engine).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
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
        report = asyncio.run(_measure(folders, [f"http://127.0.0.1:{port}" for port in ports]))
        copied = [_copy(folders[0], Path(root) / "copy", options.engines) for _ in range(SWITCHES)]
        memory = [_copy_in_memory(size) for _ in range(SWITCHES)]
    total = size * options.engines / 2**20
    staged, cp, memcpy = (statistics.median(each) for each in (report["stage"], copied, memory))
    pause = statistics.median(report["pause"])
    line = {
        **{"bench": "weights", "engines": options.engines, "mib": round(size / 2**20), "switches": SWITCHES},
        **{"stage_s": staged, "stage_mib_s": total / staged, "cp_mib_s": total / cp, "of_cp": cp / staged},
        **{"pause_s": pause, "pause_max_s": max(report["pause"]), "memcpy_s": memcpy, "pause_memcpys": pause / memcpy},
        **{"longest_without_a_token_s": report["gap"], "tokens_meanwhile": report["tokens"]},
        "load_average": os.getloadavg()[0],
    }
    print(json.dumps({name: round(value, 4) for name, value in line.items() if not isinstance(value, str)}))


async def _measure(folders: list[Path], urls: list[str]) -> dict[str, Any]:
    """Seconds to stage on all engines, seconds of each pause, and the longest time in which no engine gave a token."""
    stage, pause, tokens = [], [], list[float]()
    stop = asyncio.Event()
    timeout = aiohttp.ClientTimeout(total=300)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
        ask = [asyncio.create_task(_sample(session, url, tokens, stop)) for url in urls]
        await asyncio.sleep(2)
        begun = time.monotonic()
        for switch in range(SWITCHES):
            folder = str(folders[(switch + 1) % 2])
            stage.append(await _seconds(lambda to=folder: _all(session, urls, "/stage_weights", {"weights_path": to})))
            half = max(1, len(urls) // 2)
            for start in range(0, len(urls), half):
                part = urls[start : start + half]
                pause += await asyncio.gather(*(_switch(session, url, folder, f"v{switch}") for url in part))
        ended = time.monotonic()
        stop.set()
        await asyncio.gather(*ask)
    meanwhile = sorted(at for at in [begun, *tokens, ended] if begun <= at <= ended)
    gap = max(after - before for before, after in itertools.pairwise(meanwhile))
    return {"stage": stage, "pause": pause, "gap": gap, "tokens": len(meanwhile) - 2}


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


async def _all(session: aiohttp.ClientSession, urls: list[str], path: str, body: object) -> None:
    await asyncio.gather(*(_post(session, url, path, body) for url in urls))


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
