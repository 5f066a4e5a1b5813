# SPDX-License-Identifier: Apache-2.0
"""IEP/1 conformance, T37: an engine sleeps and wakes, and a pause of somebody else outlasts it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest
from iep_target import Api, choice, generate_body
from running_kit import LONG, Attempt, while_running

pytestmark = pytest.mark.skipif("IEP_TARGET" in os.environ, reason="the proxy before vLLM passes no sleep")
PROMPT = [256, *b"the same sixty-four tokens, so that four blocks of the cache fit", 257]


@pytest.fixture(autouse=True)
async def awake(api: Api) -> AsyncIterator[None]:
    """Whatever a test did, the next one finds the engine awake."""
    yield
    await api.post("/wake_up")


async def _asleep(api: Api) -> bool:
    return (await api.get("/is_sleeping"))[1]["is_sleeping"]


async def test_sleep_ends_answers_and_clears_caches_and_waking_answers_as_before(api: Api) -> None:
    async def sleep(attempt: Attempt) -> None:
        (running,) = attempt.answers
        assert await attempt.tell(api.post("/sleep")) == {"status": "sleeping", "level": 1}
        await running.end()
        if len(running.tokens) == LONG:
            await api.post("/wake_up")
        attempt.refuse_whole(running, "an answer went on to its end while the engine slept")
        assert running.reason == "abort"

    before = await api.generate(PROMPT)
    await while_running(api, sleep)
    assert await _asleep(api)
    waiting = asyncio.create_task(api.generate(PROMPT))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    assert await api.post("/wake_up") == (200, {"status": "awake", "tags": None})
    after = await waiting
    assert not await _asleep(api)
    assert choice(after)["token_ids"] == choice(before)["token_ids"]
    assert after["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


async def test_a_pause_from_before_outlasts_the_sleep(api: Api) -> None:
    await api.post("/pause")
    for _ in range(2):
        await api.post("/sleep?level=2")
    assert (await api.post("/wake_up"))[0] == 200
    assert (await api.get("/is_paused"))[1] == {"is_paused": True}
    await api.post("/resume")
    assert len(choice(await api.generate(PROMPT))["token_ids"]) == 8


async def test_it_is_awake_once_all_is_taken_back(api: Api) -> None:
    await api.post("/sleep?level=1")
    assert await api.post("/wake_up?tags=weights") == (200, {"status": "sleeping", "tags": ["weights"]})
    assert (await api.get("/is_paused"))[1] == {"is_paused": True}
    assert (await api.post("/wake_up?tags=kv_cache"))[1]["status"] == "awake"
    assert (await api.get("/is_paused"))[1] == {"is_paused": False}


async def test_one_that_sleeps_is_not_resumed(api: Api) -> None:
    await api.post("/sleep")
    status, body = await api.post("/resume")
    assert status == 400
    assert "/wake_up" in body["error"]["message"]
    assert (await api.get("/is_paused"))[1] == {"is_paused": True}


@pytest.mark.parametrize(
    ("path", "param"),
    [("/sleep?level=3", "query.level"), ("/sleep?mode=x", "query.mode"), ("/wake_up?tags=x", "query.tags")],
)
async def test_bad_queries_are_refused_by_name(api: Api, path: str, param: str) -> None:
    status, body = await api.post(path)
    assert (status, body["error"]["param"]) == (400, param)
    assert not await _asleep(api)
    assert (await api.post("/inference/v1/generate", generate_body(PROMPT, None)))[0] == 200
