# SPDX-License-Identifier: Apache-2.0
"""What the suite says of an engine whose answers are over early, and of one that goes on whatever it is told."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
import running_kit
from aiohttp import web
from iep_target import Api
from running_kit import LATER_CALLS, LONG, Attempt, while_running


class FakeEngine:
    """Its answers have one token until it is told to pause, and `told` says what becomes of them then."""

    def __init__(self, told: str) -> None:
        self._told, self.pauses, self.running, self._sampled = told, 0, 0, 0
        self._paused, self._heard, self._health = asyncio.Event(), asyncio.Event(), 0

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Api]:
        app = web.Application()
        app.router.add_post("/inference/v1/generate", self._generate)
        app.router.add_post("/pause", self._pause)
        app.router.add_post("/resume", self._resume)
        app.router.add_get("/health", self._later_call)
        app.router.add_get("/metrics", self._metrics)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            async with aiohttp.ClientSession() as session:
                yield Api(session, "http://{}:{}".format(*runner.addresses[0]))
        finally:
            await runner.cleanup()

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        self.running += 1
        try:
            await self._send(response, 1, None)
            await self._paused.wait()
            if self._told == "goes on":
                await self._heard.wait()
            is_over = self._told != "is over unless others run" or self.running < 10
            await self._send(response, LONG - 1 if is_over else 0, "length" if is_over else "abort")
            await response.write(b"data: [DONE]\n\n")
        finally:
            self.running -= 1
        return response

    async def _send(self, response: web.StreamResponse, count: int, reason: str | None) -> None:
        self._sampled += count
        body = {"choices": [{"token_ids": [65] * count, "finish_reason": reason}]}
        await response.write(f"data: {json.dumps(body)}\n\n".encode())

    async def _pause(self, _: web.Request) -> web.Response:
        self.pauses += 1
        self._paused.set()
        if self._told != "goes on":
            await self._until_idle()
        return web.json_response({"status": "paused"})

    async def _resume(self, _: web.Request) -> web.Response:
        self._paused.clear()
        self._heard.clear()
        self._health = 0
        return web.json_response({})

    async def _later_call(self, _: web.Request) -> web.Response:
        self._health += 1
        if self._told != "goes on":
            await self._paused.wait()
            await self._until_idle()
        elif self._health == LATER_CALLS:
            asyncio.get_running_loop().call_later(0.1, self._heard.set)
        return web.json_response({})

    async def _until_idle(self) -> None:
        while self.running:
            await asyncio.sleep(0.001)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(
            text=f"vllm:num_requests_running{{}} {self.running}\nvllm:generation_tokens_total{{}} {self._sampled}\n"
        )


async def pause_answers(engine: FakeEngine) -> None:
    async with engine.serve() as api:

        async def pause(attempt: Attempt) -> None:
            (answer,) = attempt.answers
            await attempt.tell(api.post("/pause"))
            await answer.end()
            attempt.refuse_whole(answer, "it went on to its end")
            assert answer.reason == "abort"

        await while_running(api, pause)


async def test_answers_that_are_always_over_are_no_verdict() -> None:
    engine = FakeEngine("is over")
    with pytest.raises(pytest.skip.Exception, match=f"its answers of {LONG} tokens end before a call arrives"):
        await pause_answers(engine)
    assert engine.pauses == len(running_kit.BESIDE)


async def test_more_answers_at_a_time_are_tried() -> None:
    engine = FakeEngine("is over unless others run")
    await pause_answers(engine)
    assert engine.pauses == 2


async def test_an_engine_that_goes_on_is_wrong() -> None:
    engine = FakeEngine("goes on")
    with pytest.raises(AssertionError, match="it went on to its end"):
        await pause_answers(engine)
    assert engine.pauses == running_kit.IGNORED_ATTEMPTS
