# SPDX-License-Identifier: Apache-2.0
"""Values that no sensible client sends: each is refused with 400, and no other request notices."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from iep_target import Api, choice, generate_body

from whetstone_engine.errors import ApiError
from whetstone_engine.kv_cache import BlockPool
from whetstone_engine.pace import Pace
from whetstone_engine.runner import Runner
from whetstone_engine.scheduler import Batch, Scheduler
from whetstone_engine.sequence import Output, SamplingParams, Sequence
from whetstone_engine.slots import SlotTable
from whetstone_engine.step_loop import StepLoop
from whetstone_engine.wire import parse_body
from whetstone_models.folder import load_model

PROMPT = [256, *b"Which way?", 257]
OURS = pytest.mark.skipif("IEP_TARGET" in os.environ, reason="another engine has bounds of its own")

ODD_SAMPLING: list[dict[str, Any]] = [
    {"top_k": 2**63},
    {"top_k": 10**30},
    {"temperature": 1e-31},
    {"temperature": 1e-45},
    {"temperature": "1"},
    {"seed": 2**64},
    {"max_tokens": [1]},
    {"max_tokens": True},
    {"ignore_eos": "false"},
    {"stop_token_ids": "x"},
    {"stop_token_ids": {}},
    {"min_p": "0"},
]


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@OURS
@pytest.mark.parametrize("change", ODD_SAMPLING, ids=str)
async def test_an_odd_value_is_refused_and_nobody_else_notices(api: Api, change: dict[str, Any]) -> None:
    other = asyncio.create_task(api.generate(PROMPT, max_tokens=40, temperature=1.0, ignore_eos=True))
    status, body = await api.post("/inference/v1/generate", generate_body(PROMPT, None, **change))
    assert status == 400
    assert next(iter(change)) in body["error"]["message"]
    assert len(choice(await other)["token_ids"]) == 40


@OURS
@pytest.mark.parametrize(
    "change",
    [
        {"sampling_params": []},
        {"stream": "no"},
        {"stream_options": "usage"},
        {"model": ["policy"]},
        {"token_ids": [2**70]},
        {"token_ids": [True]},
        {"return_token_ids": 1},
        {"request_id": "\ud800"},
    ],
    ids=str,
)
async def test_an_odd_field_is_refused(api: Api, change: dict[str, Any]) -> None:
    status, body = await api.post("/inference/v1/generate", {**generate_body(PROMPT, None), **change})
    assert (status, body["error"]["code"]) == (400, 400)


@OURS
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/inference/v1/generate", '{"token_ids": [1], "more": ' + nested(5_000) + "}"),
        ("/inference/v1/generate", '{"token_ids": [1], "more": ' + nested(200_000) + "}"),
        ("/inference/v1/generate", '{"token_ids": [1], "sampling_params": {"max_tokens": ' + "9" * 5_000 + "}}"),
        ("/tokenize", '{"messages": [{"role": "user", "content": "x", "more": ' + nested(500) + "}]}"),
        ("/tokenize", '{"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": [1]}'),
        ("/tokenize", '{"prompt": "\\ud800"}'),
        ("/detokenize", '{"tokens": [99999999999999999999]}'),
    ],
    ids=["deep", "very deep", "a number of 5,000 digits", "deep message", "variables", "half a pair", "a huge id"],
)
async def test_an_odd_body_is_refused(api: Api, path: str, text: str) -> None:
    async with api.session.post(api.url + path, data=text.encode()) as response:
        assert response.status == 400
        assert set((await response.json())["error"]) == {"message", "type", "param", "code"}


def test_ordinary_depth_is_taken() -> None:
    assert parse_body(b'{"a": ' + nested(60).encode() + b"}")
    with pytest.raises(ApiError, match="64 deep"):
        parse_body(b'{"a": ' + nested(70).encode() + b"}")


class Choosy(Runner):
    """Cannot compute any batch with a prompt of 40 tokens in it whose first token is `bad`."""

    bad = 66

    def step(self, table: SlotTable, batch: Batch) -> Any:
        is_bad = (table.tokens[batch.slots, 0] == self.bad) & (table.length[batch.slots] == 40)
        if is_bad.any():
            raise RuntimeError("bad")
        return super().step(table, batch)


def request(name: str, prompt: list[int], count: int, **more: Any) -> Sequence:
    params = SamplingParams(max_tokens=count, seed=1, temperature=1.0, ignore_eos=True, logprobs=0, **more)
    return Sequence(name, prompt, params, lambda output: None)


def core(models: tuple[Path, Path], runner: type[Runner], budget: int = 4096) -> tuple[Scheduler, StepLoop]:
    scheduler = Scheduler(SlotTable(8, 1000), BlockPool(400), 1000, (260,), Pace(budget))
    return scheduler, StepLoop(scheduler, runner(load_model(models[0]).fuse(), 400), 100)


def play(scheduler: Scheduler, loop: StepLoop) -> dict[str, Output]:
    for _ in range(200):
        if not scheduler.runnable:
            break
        loop._step()
    assert not scheduler.runnable
    return {sequence.request_id: output for sequence, output in scheduler.events if output.finish_reason}


def test_a_sequence_that_cannot_be_computed_ends_alone(models: tuple[Path, Path]) -> None:
    prompts = {"before": [65] * 40, "bad": [66] * 40, "shares": [66] * 40 + [67], "after": [68] * 20}
    expected = {}
    for name, prompt in prompts.items():
        scheduler, loop = core(models, Runner)
        scheduler.waiting.append(request(name, prompt, 5))
        expected |= play(scheduler, loop)
    scheduler, loop = core(models, Choosy)
    scheduler.waiting.extend(request(name, prompt, 5) for name, prompt in prompts.items())
    got = play(scheduler, loop)
    for name in ("before", "after"):
        assert (got[name].error, got[name].token_ids) == (None, expected[name].token_ids)
    assert got["bad"].error == got["shares"].error == "step failed: RuntimeError"
    assert (scheduler.pool.free, len(scheduler.table.free)) == (400, 8)
    assert scheduler.pool.take(np.array([66] * 40, np.int64).tobytes(), 40, "", 8)[1] == 0


def test_a_sequence_that_cannot_be_admitted_ends_alone(models: tuple[Path, Path]) -> None:
    scheduler, loop = core(models, Runner)
    scheduler.waiting.append(request("before", [65] * 40, 5))
    scheduler.waiting.append(request("bad", [66] * 40, 5, top_k=2**63))
    scheduler.waiting.append(request("after", [67] * 40, 5))
    got = play(scheduler, loop)
    assert [got[name].error for name in ("before", "bad", "after")] == [
        None,
        "cannot be admitted: OverflowError",
        None,
    ]
    assert (scheduler.pool.free, len(scheduler.table.free)) == (400, 8)


def test_warm_prompts_above_the_budget_are_admitted_together(models: tuple[Path, Path]) -> None:
    """The step's budget counts what is computed, not what is in the cache already."""
    scheduler, loop = core(models, Runner, budget=64)
    prompt = [70] * 200
    scheduler.waiting.append(request("first", prompt, 1))
    play(scheduler, loop)
    scheduler.waiting.extend(request(f"warm-{i}", [*prompt, i], 1) for i in range(4))
    batch = scheduler.schedule()
    assert batch is not None
    assert (scheduler.table.length[batch.slots] - batch.starts).tolist() == [9] * 4
    cold = core(models, Runner, budget=64)[0]
    cold.waiting.extend(request(f"cold-{i}", [i] * 200, 1) for i in range(4))
    batch = cold.schedule()
    assert batch is not None
    assert len(batch.slots) == 1
