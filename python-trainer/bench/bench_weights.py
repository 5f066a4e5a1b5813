# SPDX-License-Identifier: Apache-2.0
"""How new weights reach engines: staged while they sample on, then swapped in a pause. One JSON line.

All of a version: from a folder that engines see, streamed over HTTP from the trainer's server, and by one broadcast to
all engines. 2 % changed blocks of one: streamed. Beside `cp` of the same bytes and a copy of them in memory, in the
same run. Engines switch half at a time, as the controller does it: first while nobody asks them for anything, then
while each samples without a break.

Run: `python python-trainer/bench/bench_weights.py [--mib 1024] [--engines 4]` (5 minutes on two cores; memory: three
times the weights for each engine; disk: six times the weights, and once for each engine).
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
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"
sys.path[:0] = [str(SOURCE), str(SOURCE.parents[1] / "proto/gen/python"), str(Path(__file__).parent)]

import aiohttp  # noqa: E402
import numpy as np  # noqa: E402
from bench_engine import served  # noqa: E402
from weight_versions import make_versions, weight_bytes  # noqa: E402

from whetstone_trainer.weights.run_folder import manifest_digest  # noqa: E402

SWITCHES = 3
# How long engines sample before the first switch.
BEFORE_S = 5.0


@dataclass(frozen=True)
class Stage:
    """A version to be staged: its folder, and where it is streamed from; empty: it is read from its folder."""

    folder: Path
    url: str = ""

    def body(self) -> dict[str, Any]:
        if not self.url:
            return {"weights_path": str(self.folder)}
        stream = {"url": f"{self.url}/{self.folder.name}", "manifest_digest": manifest_digest(self.folder)}
        return {"weights_path": f"streamed/{self.folder.name}", "stream": stream}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="of weights in float32")
    parser.add_argument("--engines", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root, contextlib.ExitStack() as stack:
        folders = make_versions(Path(root), options.mib, SWITCHES)
        size = weight_bytes(folders[0])
        url, group_url = (stack.enter_context(_serving(Path(root), *flags)) for flags in ((), ("--groups",)))
        ports = [stack.enter_context(served(folders[0], 1))[0] for _ in range(options.engines)]
        seen = asyncio.run(_measure(folders, (url, group_url), [f"http://127.0.0.1:{port}" for port in ports]))
        copied = [_copy(folders[0], Path(root) / "copy", options.engines) for _ in range(SWITCHES)]
        memory = [_copy_in_memory(size) for _ in range(SWITCHES)]
    total = size * options.engines / 2**20
    cp, memcpy = statistics.median(copied), statistics.median(memory)
    line: dict[str, float | str] = {
        **{"bench": "weights", "engines": options.engines, "mib": round(size / 2**20), "switches": SWITCHES},
        **{"cp_mib_s": total / cp, "memcpy_s": memcpy},
        **_told("folder", seen["folder"], total, cp),
        **_told("stream", seen["stream"], total, cp),
        **_told("group", seen["group"], total, cp),
        **_told("delta", seen["delta"], total, cp),
        "delta_times_faster": statistics.median(seen["stream"].stage) / statistics.median(seen["delta"].stage),
        **_pauses(seen, memcpy),
        "load_average": os.getloadavg()[0],
    }
    print(json.dumps({name: value if isinstance(value, str) else round(value, 4) for name, value in line.items()}))


def _told(name: str, seen: Switches, total: float, cp: float) -> dict[str, float]:
    stage = statistics.median(seen.stage)
    return {f"{name}_s": stage, f"{name}_mib_s": total / stage, f"{name}_of_cp": cp / stage}


def _pauses(seen: dict[str, Switches], memcpy: float) -> dict[str, float]:
    idle, busy = [*seen["folder"].pause, *seen["stream"].pause, *seen["delta"].pause], seen["busy"]
    pause = statistics.median(idle)
    return {
        **{"pause_s": pause, "pause_max_s": max(idle), "pause_memcpys": pause / memcpy},
        **{"sampling_stream_s": statistics.median(busy.stage), "sampling_pause_s": statistics.median(busy.pause)},
        **{"longest_without_a_token_s": busy.longest_gap(), "longest_before_s": busy.longest_gap(before=True)},
    }


@contextlib.contextmanager
def _serving(root: Path, *flags: str) -> Iterator[str]:
    """The trainer's server of weights in a process of its own."""
    command = [sys.executable, str(Path(__file__).parent / "serve_weights.py"), str(root), *flags]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None, "it is piped"
        yield process.stdout.readline().strip()
        process.communicate(timeout=30)


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


async def _measure(folders: list[Path], servers: tuple[str, str], urls: list[str]) -> dict[str, Switches]:
    """From v1 on, which the engines were started with. `servers`: one that streams, and one that also broadcasts."""
    url, group_url = servers
    first, second, *deltas = folders
    whole = [first if switch % 2 else second for switch in range(SWITCHES)]
    timeout = aiohttp.ClientTimeout(total=600)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
        seen = {name: Switches() for name in ("folder", "stream", "group", "delta", "busy")}
        await _switches(session, urls, [Stage(folder) for folder in whole], seen["folder"])
        # The other way round: what is served is never what comes.
        await _switches(session, urls, [Stage(folder, url) for folder in _others(whole, folders)], seen["stream"])
        await _switches(session, urls, [Stage(folder, group_url) for folder in whole], seen["group"])
        await _switches(session, urls, [Stage(folder, url) for folder in deltas], seen["delta"])
        stop = asyncio.Event()
        ask = [asyncio.create_task(_sample(session, each, seen["busy"].tokens, stop)) for each in urls]
        await asyncio.sleep(BEFORE_S)
        await _switches(session, urls, [Stage(folder, url) for folder in _others(whole, folders)], seen["busy"])
        stop.set()
        await asyncio.gather(*ask)
        return seen


def _others(whole: list[Path], folders: list[Path]) -> list[Path]:
    return [folders[1] if folder == folders[0] else folders[0] for folder in whole]


async def _switches(session: aiohttp.ClientSession, urls: list[str], stages: list[Stage], seen: Switches) -> None:
    seen.begun = time.monotonic()
    half = max(1, len(urls) // 2)
    for switch, stage in enumerate(stages):
        seen.stage.append(await _seconds(functools.partial(_stage, session, urls, stage)))
        for start in range(0, len(urls), half):
            part, name = urls[start : start + half], stage.body()["weights_path"]
            seen.pause += await asyncio.gather(*(_switch(session, url, name, f"v{switch}") for url in part))


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


async def _stage(session: aiohttp.ClientSession, urls: list[str], stage: Stage) -> None:
    await asyncio.gather(*(_post(session, url, "/stage_weights", stage.body()) for url in urls))


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
