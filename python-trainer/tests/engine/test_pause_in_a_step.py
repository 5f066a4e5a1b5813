# SPDX-License-Identifier: Apache-2.0
"""A pause that ends all requests does not wait for the step that runs: with a large model that may take seconds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from whetstone_engine.engine import Engine, EngineOptions
from whetstone_engine.sequence import Output, SamplingParams
from whetstone_engine.wire import Call

PROMPT = [65, *range(70, 130)]


class HeldAttention:
    """Attention that stands still in the first layer of the next step, when it is told to, and notes its layers."""

    def __init__(self, attention: Any) -> None:
        self._attention = attention
        self.hold, self.held, self.go_on = False, threading.Event(), threading.Event()
        self.layers: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._attention, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "plan":
            self._attention.plan = value
        else:
            super().__setattr__(name, value)

    def __call__(self, layer: int, *states: Any) -> Any:
        self.layers.append(layer)
        if self.hold:
            self.hold = False
            self.layers = [layer]
            self.held.set()
            assert self.go_on.wait(20)
        return self._attention(layer, *states)


@pytest.fixture
async def engine(models: tuple[Path, Path]) -> AsyncIterator[Engine]:
    engine = Engine(EngineOptions(models[0], max_num_seqs=8))
    engine.runner.attention = HeldAttention(engine.runner.attention)  # pyright: ignore[reportAttributeAccessIssue]
    engine.steps.start()
    yield engine
    await engine.close()


def ask(engine: Engine) -> asyncio.Future[Output]:
    answer: asyncio.Future[Output] = asyncio.get_running_loop().create_future()
    params = SamplingParams(max_tokens=6, seed=1, temperature=1.0, ignore_eos=True, logprobs=0)
    engine.submit(Call(PROMPT, params, None, "", False, False, False), "", None, answer.set_result)
    return answer


async def pause_in_a_step(engine: Engine, mode: str, clear_cache: bool) -> tuple[asyncio.Future[Output], list[int]]:
    """The answer of the request that was being computed, and the layers that were computed of its step."""
    attention: Any = engine.runner.attention
    attention.hold = True
    answer = ask(engine)
    assert await asyncio.to_thread(attention.held.wait, 20)
    pause = asyncio.create_task(engine.pause(mode, clear_cache))
    while not engine.steps._inbox:
        await asyncio.sleep(0)
    attention.go_on.set()
    await asyncio.wait_for(pause, 20)
    return answer, attention.layers


async def test_a_pause_that_ends_all_requests_abandons_the_step(engine: Engine) -> None:
    undisturbed = await ask(engine)
    answer, layers = await pause_in_a_step(engine, "abort", True)
    assert layers == [0]
    output = await asyncio.wait_for(answer, 20)
    assert (output.finish_reason, output.token_ids) == ("abort", [])
    scheduler = engine.scheduler
    assert (scheduler.running, len(scheduler.table.free), scheduler.pool.usage) == ([], 8, 0)
    await engine.resume()
    again = await asyncio.wait_for(ask(engine), 20)
    assert (again.token_ids, again.logprobs) == (undisturbed.token_ids, pytest.approx(undisturbed.logprobs, abs=1e-5))


@pytest.mark.parametrize(("mode", "clear_cache"), [("abort", False), ("keep", True), ("wait", True)])
async def test_other_pauses_wait_for_the_step(engine: Engine, mode: str, clear_cache: bool) -> None:
    """What it computes is needed later: from the cache, or as tokens."""
    answer, layers = await pause_in_a_step(engine, mode, clear_cache)
    assert layers[:3] == [0, 1, 2]
    await engine.resume()
    output = await asyncio.wait_for(answer, 20)
    assert output.finish_reason == ("abort" if mode == "abort" else "length")
