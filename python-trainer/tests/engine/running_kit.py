# SPDX-License-Identifier: Apache-2.0
"""What is done to answers while they run, however fast the engine samples and however busy the machine is.

An answer that came to its own end first shows nothing. It is tried again with more answers beside it, which makes each
step of the engine take longer, and skipped where that does not help.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import pytest
from iep_target import Api, choice, joined

QUESTION = [256, *b"a longer question, please answer", 257]
LONG = 900
# How many answers run beside the watched ones, in one attempt after the other.
BESIDE = (0, 16, 56)
# An attempt may look as if the engine had ignored what it was told by chance, where the machine is busy.
IGNORED_ATTEMPTS = 2
# An engine that has answered so many calls that were made later has heard of what it was told.
LATER_CALLS = 3


class Missed(Exception):
    """An attempt that showed nothing; says what is wrong if the engine has ignored what it was told."""

    def __init__(self, complaint: str, ignored: bool) -> None:
        super().__init__(complaint)
        self.ignored = ignored


class RunningAnswer:
    """A stream that is read as it comes."""

    def __init__(self, api: Api, prompt: list[int], request_id: str) -> None:
        self.chunks: list[dict[str, Any]] = []
        self.begun = asyncio.Event()
        self.task = asyncio.create_task(self._read(api, prompt, request_id))

    @property
    def tokens(self) -> list[int]:
        return joined(self.chunks)

    @property
    def reason(self) -> str | None:
        return choice(self.chunks[-1])["finish_reason"]

    async def end(self) -> list[dict[str, Any]]:
        """All its chunks."""
        await asyncio.wait_for(self.task, 60)
        return self.chunks

    async def _read(self, api: Api, prompt: list[int], request_id: str) -> None:
        async for chunk in api.stream(prompt, request_id, max_tokens=LONG):
            self.chunks.append(chunk)
            # A prompt that is not computed yet has empty chunks while others sample.
            if choice(chunk)["token_ids"]:
                self.begun.set()


class Attempt:
    """Answers that have just begun; by their ids `watched-0`, `watched-1`, … they can be aborted."""

    def __init__(self, api: Api, prompt: list[int], count: int, beside: int) -> None:
        self._api = api
        self.answers = [RunningAnswer(api, prompt, f"watched-{index}") for index in range(count)]
        self._others = [RunningAnswer(api, prompt, "") for _ in range(beside)]
        self._before = self._when_heard = 0.0
        self._lengths_when_heard = [0] * count

    async def begin(self, sampled_before: float) -> None:
        self._before = sampled_before
        await asyncio.wait_for(asyncio.gather(*(one.begun.wait() for one in self.answers)), 60)

    async def tell(self, call: Coroutine[Any, Any, tuple[int, Any]]) -> Any:
        """Makes the call, and sees how far the answers are when the engine must have heard. Returns its body."""
        (status, body), _ = await asyncio.gather(call, self.hear())
        assert status == 200, body
        return body

    async def hear(self) -> None:
        for _ in range(LATER_CALLS):
            await self._api.get("/health")
        self._lengths_when_heard = [len(one.tokens) for one in self.answers]
        self._when_heard = await self.sampled()

    async def sampled(self) -> float:
        """Tokens that the engine counts since these answers began."""
        return await self._api.gauge("generation_tokens_total") - self._before

    async def freeze(self) -> None:
        """After a pause that keeps answers: nothing is sampled, and what was sampled before has arrived."""
        await asyncio.sleep(0.15)
        before = await self.sampled()
        await asyncio.sleep(0.2)
        assert await self.sampled() == before, "tokens were sampled while it was paused"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                while sum(len(one.tokens) for one in [*self.answers, *self._others]) < before:
                    await asyncio.sleep(0.01)
        self.leave_others()
        for one in self.answers:
            self.refuse_whole(one, "an answer went on to its end while it was paused")
            assert not one.task.done(), one.reason

    def refuse_whole(self, answer: RunningAnswer, complaint: str) -> None:
        """Raises Missed for an answer that went on to its own end."""
        length = len(answer.tokens)
        if length == LONG:
            later = length - self._lengths_when_heard[self.answers.index(answer)]
            raise Missed(complaint, later > LONG / 2)

    async def refuse_sampled(self, tokens: int) -> None:
        """Raises Missed when most of the tokens that nobody waited for were sampled."""
        sampled = await self.sampled()
        if sampled >= tokens / 2:
            raise Missed("what nobody waited for was sampled", sampled - self._when_heard > tokens / 2)

    def was_over(self, answer: RunningAnswer) -> bool:
        """Whether it was when the engine must have heard."""
        return self._lengths_when_heard[self.answers.index(answer)] >= LONG

    def leave_others(self) -> None:
        for one in self._others:
            one.task.cancel()

    async def leave(self) -> int:
        """All clients leave. Returns how many they were."""
        tasks = [one.task for one in [*self.answers, *self._others]]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return len(tasks)


@contextlib.asynccontextmanager
async def _attempt(api: Api, prompt: list[int], count: int, beside: int) -> AsyncIterator[Attempt]:
    await until(lambda: idle(api))
    before = await api.gauge("generation_tokens_total")
    attempt = Attempt(api, prompt, count, beside)
    try:
        await attempt.begin(before)
        yield attempt
    finally:
        await attempt.leave()


async def while_running(
    api: Api, act: Callable[[Attempt], Awaitable[None]], count: int = 1, prompt: list[int] = QUESTION
) -> None:
    """Acts on answers that run; `act` raises Missed where one was over before that could show."""
    ignored: list[Missed] = []
    for beside in BESIDE:
        async with _attempt(api, prompt, count, beside) as attempt:
            try:
                return await act(attempt)
            except Missed as missed:
                ignored += [missed] if missed.ignored else []
        if len(ignored) == IGNORED_ATTEMPTS:
            raise AssertionError(str(ignored[-1]))
        await api.post("/resume")
    pytest.skip(f"its answers of {LONG} tokens end before a call arrives")


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 30.0) -> None:
    """Waits for a condition of the server, which has no event to tell us."""
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.01)


async def idle(api: Api) -> bool:
    return await api.gauge("num_requests_running") == 0
