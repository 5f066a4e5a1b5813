# SPDX-License-Identifier: Apache-2.0
"""IEP/1 conformance, control plane: T10-T15 and T30."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
from iep_target import Api, choice, generate_body, joined, start_stream
from running_kit import LONG, QUESTION, Attempt, Missed, RunningAnswer, idle, until, while_running


async def test_t10_pause_abort_ends_streams_with_their_partial_tokens(api: Api) -> None:
    async def pause(attempt: Attempt) -> None:
        await attempt.tell(api.post("/pause?mode=abort"))
        for answer in attempt.answers:
            chunks = await was_cut(attempt, answer)
            assert 0 < len(joined(chunks)) < LONG
            span = choice(chunks[-1])["weight_versions"]
            assert (span[0]["start"], span[-1]["end"]) == (0, len(joined(chunks)))

    await while_running(api, pause, count=4)


async def was_cut(attempt: Attempt, answer: RunningAnswer) -> list[dict[str, Any]]:
    """The chunks of an answer that must end with an abort."""
    chunks = await answer.end()
    attempt.refuse_whole(answer, "an answer that was aborted went on to its end")
    assert answer.reason == "abort"
    return chunks


async def test_t10_pause_abort_ends_a_whole_answer_with_its_partial_tokens(api: Api) -> None:
    async def pause(attempt: Attempt) -> None:
        whole = asyncio.create_task(api.generate(QUESTION, max_tokens=LONG))
        later = await start_stream(api, QUESTION, max_tokens=LONG)
        await attempt.tell(api.post("/pause?mode=abort"))
        seen = len(joined(await later))
        partial = choice(await whole)
        count = len(partial["token_ids"])
        if count == LONG:
            raise Missed("a whole answer that was paused went on to its end", seen < LONG / 2)
        assert partial["finish_reason"] == "abort"
        if count == 0:  # Of two requests that come at once either may be the first.
            raise Missed("a whole answer that was aborted lost its tokens", True)

    await while_running(api, pause, count=0)


async def test_t11_requests_queue_while_paused_and_run_on_the_new_label(api: Api) -> None:
    await api.post("/pause")
    waiting = asyncio.create_task(api.generate(QUESTION, max_tokens=3))
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
    waiting = asyncio.create_task(api.generate(QUESTION, max_tokens=2))
    await asyncio.sleep(0.1)
    await api.post("/pause")
    await api.post("/resume")
    assert choice(await waiting)["finish_reason"] == "length"


async def test_pause_wait_lets_running_requests_finish(api: Api) -> None:
    async def pause(attempt: Attempt) -> None:
        (running,) = attempt.answers
        await attempt.tell(api.post("/pause?mode=wait"))
        assert await idle(api)
        await running.end()
        assert (running.reason, len(running.tokens)) == ("length", LONG)
        if attempt.was_over(running):
            raise Missed("", ignored=False)

    await while_running(api, pause)


@pytest.mark.parametrize("clear", ["true", "false"])
async def test_pause_keep_freezes_and_goes_on(api: Api, clear: str) -> None:
    async def pause(attempt: Attempt) -> None:
        (running,) = attempt.answers
        await attempt.tell(api.post(f"/pause?mode=keep&clear_cache={clear}"))
        await attempt.freeze()
        await api.post("/resume")
        assert joined(await running.end()) == expected

    expected = choice(await api.generate(QUESTION, max_tokens=LONG))["token_ids"]
    await while_running(api, pause)


async def test_t14_abort_by_id_stops_only_that_request(api: Api) -> None:
    async def abort(attempt: Attempt) -> None:
        one, two = attempt.answers
        body = await attempt.tell(api.post("/abort_requests", {"request_ids": ["generate-tokens-watched-0"]}))
        await was_cut(attempt, one)
        assert body == {"status": "aborted", "aborted": 1}
        assert not two.task.done() or len(two.tokens) == LONG
        await attempt.tell(
            api.post("/inference/v1/abort_requests", {"request_ids": ["generate-tokens-watched-1"]}),
        )
        await was_cut(attempt, two)
        attempt.leave_others()
        await until(lambda: idle(api))

    await while_running(api, abort, count=2)
    assert (await api.post("/inference/v1/abort_requests", {}))[0] == 400


async def test_t14_abort_of_everything(api: Api) -> None:
    async def abort(attempt: Attempt) -> None:
        await attempt.tell(api.post("/abort_requests", {}))
        for answer in attempt.answers:
            await was_cut(attempt, answer)

    await while_running(api, abort, count=3)


async def test_t15_disconnects_free_their_slots(api: Api) -> None:
    async def leave(attempt: Attempt) -> None:
        asked = await attempt.leave() * LONG
        await attempt.hear()
        await until(lambda: idle(api))
        await attempt.refuse_sampled(asked)

    used = await api.gauge("kv_cache_usage_perc")
    for _ in range(5):
        await while_running(api, leave, count=10)
    assert await api.gauge("kv_cache_usage_perc") == pytest.approx(used, abs=1e-9)
    assert len(choice(await api.generate(QUESTION))["token_ids"]) == 8


async def test_t15_a_queued_request_can_leave(api: Api) -> None:
    await api.post("/pause")
    waiting = asyncio.create_task(api.post("/inference/v1/generate", generate_body(QUESTION, None)))
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
    async def leave(attempt: Attempt) -> None:
        body = generate_body(QUESTION, None, max_tokens=LONG)
        whole = [asyncio.create_task(api.post("/inference/v1/generate", body)) for _ in range(8)]
        await start_stream(api, QUESTION, max_tokens=1)
        for task in whole:
            task.cancel()
        await asyncio.gather(*whole, return_exceptions=True)
        asked = (8 + await attempt.leave()) * LONG
        await attempt.hear()
        await until(lambda: idle(api))
        await attempt.refuse_sampled(asked)

    await while_running(api, leave, count=0)


async def test_t30_metrics_are_present_and_grow(api: Api) -> None:
    names = ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "num_preemptions_total"]
    counters = ["prompt_tokens_total", "generation_tokens_total", "prefix_cache_queries_total", "request_success_total"]
    before = [await api.gauge(name) for name in counters]
    await api.generate(QUESTION, max_tokens=4)
    after = [await api.gauge(name) for name in counters]
    assert after[0] - before[0] == len(QUESTION)
    assert after[1] - before[1] == 4
    assert all(b > a for a, b in zip(before, after, strict=True))
    _, text = await api.get("/metrics")
    for name in [*names, *counters, "prefix_cache_hits_total"]:
        assert f"vllm:{name}{{" in text
    assert 'model_name="policy"' in text
    assert 'finished_reason="length"' in text
