# SPDX-License-Identifier: Apache-2.0
"""IEP/1 conformance, control plane: T10-T15 and T30."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from iep_target import Api, choice, generate_body, joined, start_stream

PROMPT = [256, *b"a longer question, please answer", 257]
LONG = 900


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 30.0) -> None:
    """Waits for a condition of the server, which has no event to tell us."""
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.01)


async def idle(api: Api) -> bool:
    return await api.gauge("num_requests_running") == 0


async def begin(api: Api, request_id: str = "", **params: Any) -> asyncio.Task[list[dict[str, Any]]]:
    """A long stream that has begun to sample."""
    return await start_stream(api, PROMPT, request_id, **{"max_tokens": LONG, **params})


async def test_t10_pause_abort_ends_streams_with_their_partial_tokens(api: Api) -> None:
    streams = [await begin(api) for _ in range(4)]
    whole = asyncio.create_task(api.generate(PROMPT, max_tokens=LONG))
    await until(lambda: _running(api, 5))
    assert (await api.post("/pause?mode=abort"))[0] == 200
    results = await asyncio.gather(*streams)
    for chunks in results:
        assert choice(chunks[-1])["finish_reason"] == "abort"
        assert 0 < len(joined(chunks)) < LONG
        span = choice(chunks[-1])["weight_versions"]
        assert (span[0]["start"], span[-1]["end"]) == (0, len(joined(chunks)))
    partial = choice(await whole)
    assert partial["finish_reason"] == "abort"
    assert 0 < len(partial["token_ids"]) < LONG


async def _running(api: Api, count: int) -> bool:
    return await api.gauge("num_requests_running") == count


async def test_t11_requests_queue_while_paused_and_run_on_the_new_label(api: Api) -> None:
    await api.post("/pause")
    waiting = asyncio.create_task(api.generate(PROMPT, max_tokens=3))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    before = await api.gauge("generation_tokens_total")
    assert (await api.post("/update_weight_version", {"new_version": "next"}))[1]["success"]
    assert await api.gauge("generation_tokens_total") == before
    await api.post("/resume")
    reply = choice(await waiting)
    assert reply["weight_versions"] == [{"version": "next", "start": 0, "end": 3}]


async def test_t12_t13_pause_and_resume_are_idempotent(api: Api) -> None:
    assert (await api.get("/is_paused"))[1] == {"is_paused": False}
    for _ in range(2):
        assert await api.post("/pause?mode=abort&clear_cache=false") == (200, {"status": "paused"})
        assert (await api.get("/is_paused"))[1] == {"is_paused": True}
    for _ in range(2):
        assert await api.post("/resume") == (200, {"status": "resumed"})
        assert (await api.get("/is_paused"))[1] == {"is_paused": False}
    assert (await api.post("/pause?mode=never"))[0] == 400


async def test_t12_a_repeated_pause_spares_what_was_queued_meanwhile(api: Api) -> None:
    if "IEP_TARGET" in os.environ:
        pytest.skip("vLLM aborts it; the controller asks /is_paused before it pauses")
    await api.post("/pause")
    waiting = asyncio.create_task(api.generate(PROMPT, max_tokens=2))
    await asyncio.sleep(0.1)
    await api.post("/pause")
    await api.post("/resume")
    assert choice(await waiting)["finish_reason"] == "length"


async def test_pause_wait_lets_running_requests_finish(api: Api) -> None:
    running = await begin(api, max_tokens=200)
    assert (await api.post("/pause?mode=wait"))[0] == 200
    assert await idle(api)
    chunks = await asyncio.wait_for(running, 30)
    assert (choice(chunks[-1])["finish_reason"], len(joined(chunks))) == ("length", 200)


@pytest.mark.parametrize("clear", ["true", "false"])
async def test_pause_keep_freezes_and_goes_on(api: Api, clear: str) -> None:
    expected = choice(await api.generate(PROMPT, max_tokens=LONG))["token_ids"]
    running = await begin(api)
    await api.post(f"/pause?mode=keep&clear_cache={clear}")
    before = await api.gauge("generation_tokens_total")
    await asyncio.sleep(0.2)
    assert await api.gauge("generation_tokens_total") == before
    assert not running.done()
    await api.post("/resume")
    assert joined(await running) == expected


async def test_t14_abort_by_id_stops_only_that_request(api: Api) -> None:
    one, two = await begin(api, "one"), await begin(api, "two")
    status, body = await api.post("/abort_requests", {"request_ids": ["generate-tokens-one"]})
    assert (status, body) == (200, {"status": "aborted", "aborted": 1})
    assert choice((await asyncio.wait_for(one, 30))[-1])["finish_reason"] == "abort"
    assert not two.done()
    await api.post("/inference/v1/abort_requests", {"request_ids": ["generate-tokens-two"]})
    assert choice((await asyncio.wait_for(two, 30))[-1])["finish_reason"] == "abort"
    await until(lambda: idle(api))
    assert (await api.post("/inference/v1/abort_requests", {}))[0] == 400


async def test_t14_abort_of_everything(api: Api) -> None:
    streams = [await begin(api) for _ in range(3)]
    assert (await api.post("/abort_requests", {}))[0] == 200
    for chunks in await asyncio.gather(*streams):
        assert choice(chunks[-1])["finish_reason"] == "abort"


async def test_t15_disconnects_free_their_slots(api: Api) -> None:
    used = await api.gauge("kv_cache_usage_perc")
    for _ in range(5):
        streams = [await begin(api) for _ in range(10)]
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
    await until(lambda: idle(api))
    assert await api.gauge("kv_cache_usage_perc") == pytest.approx(used, abs=1e-9)
    assert len(choice(await api.generate(PROMPT))["token_ids"]) == 8


async def test_t15_a_queued_request_can_leave(api: Api) -> None:
    await api.post("/pause")
    waiting = asyncio.create_task(api.post("/inference/v1/generate", generate_body(PROMPT, None)))
    await asyncio.sleep(0.1)
    before = await api.gauge("prompt_tokens_total")
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await asyncio.sleep(0.1)
    await api.post("/resume")
    await until(lambda: idle(api))
    await api.generate([65], max_tokens=1)
    assert await api.gauge("prompt_tokens_total") == before + 1, "the request that left was computed all the same"


async def test_t15_a_whole_answer_stops_when_its_client_leaves(api: Api) -> None:
    before = await api.gauge("generation_tokens_total")
    body = generate_body(PROMPT, None, max_tokens=LONG)
    whole = [asyncio.create_task(api.post("/inference/v1/generate", body)) for _ in range(8)]
    await until(lambda: _running(api, 8))
    for task in whole:
        task.cancel()
    await asyncio.gather(*whole, return_exceptions=True)
    await until(lambda: idle(api))
    assert await api.gauge("generation_tokens_total") - before < 8 * LONG


async def test_t30_metrics_are_present_and_grow(api: Api) -> None:
    names = ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "num_preemptions_total"]
    counters = ["prompt_tokens_total", "generation_tokens_total", "prefix_cache_queries_total", "request_success_total"]
    before = [await api.gauge(name) for name in counters]
    await api.generate(PROMPT, max_tokens=4)
    after = [await api.gauge(name) for name in counters]
    assert after[0] - before[0] == len(PROMPT)
    assert after[1] - before[1] == 4
    assert all(b > a for a, b in zip(before, after, strict=True))
    _, text = await api.get("/metrics")
    for name in [*names, *counters, "prefix_cache_hits_total"]:
        assert f"vllm:{name}{{" in text
    assert 'model_name="policy"' in text
    assert 'finished_reason="length"' in text
