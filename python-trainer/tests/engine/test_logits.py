# SPDX-License-Identifier: Apache-2.0
"""Penalties, biases and forms: what they do to logits, and through the engine. Other rows never notice."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from iep_target import Api, choice, generate_body

from whetstone_engine.logits.asked import LogitChanges, parse_changes
from whetstone_engine.logits.change import RowChanges, Tokens, change_logits

PROMPT = [256, *b"Which way?", 257]
TOKENS = Tokens(np.array([1, 2], np.int64), np.array([2, 3, 3], np.int64))
SCHEMA = {
    "type": "object",
    "properties": {"move": {"enum": ["left", "right"]}, "sure": {"type": "boolean"}},
    "required": ["move", "sure"],
    "additionalProperties": False,
}


def changed(asked: LogitChanges) -> list[float]:
    logits = torch.tensor([[1.0, -1.0, 2.0, 0.5, 0.0], [9.0, 9.0, 9.0, 9.0, 9.0]])
    change_logits(logits, {0: (RowChanges(asked), TOKENS)})
    assert logits[1].tolist() == [9.0] * 5
    return logits[0].tolist()


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (LogitChanges(presence=0.5), [1.0, -1.0, 1.5, 0.0, 0.0]),
        (LogitChanges(frequency=0.5), [1.0, -1.0, 1.5, -0.5, 0.0]),
        (LogitChanges(presence=0.25, frequency=0.5), [1.0, -1.0, 1.25, -0.75, 0.0]),
        (LogitChanges(repetition=2.0), [1.0, -2.0, 1.0, 0.25, 0.0]),
        (LogitChanges(bias=((0, -100.0), (4, 3.0))), [-99.0, -1.0, 2.0, 0.5, 3.0]),
    ],
    ids=str,
)
def test_a_change_by_hand(asked: LogitChanges, expected: list[float]) -> None:
    assert changed(asked) == pytest.approx(expected)


def test_neutral_values_ask_for_nothing() -> None:
    neutral = {"presence_penalty": 0, "frequency_penalty": 0.0, "repetition_penalty": 1, "logit_bias": {}}
    assert parse_changes({**neutral, "structured_outputs": None}, "", 300) is None


async def test_a_bias_decides_what_is_drawn_and_no_other_request_notices(api: Api) -> None:
    plain = choice(await api.generate(PROMPT, max_tokens=8, temperature=1.0, seed=1, ignore_eos=True))
    biased = choice(
        await api.generate(PROMPT, max_tokens=8, temperature=1.0, seed=1, logit_bias={"65": 100}, ignore_eos=True)
    )
    assert biased["token_ids"] == [65] * 8
    assert biased["logprobs"]["content"][0]["logprob"] == pytest.approx(0, abs=1e-3)
    again = choice(await api.generate(PROMPT, max_tokens=8, temperature=1.0, seed=1, ignore_eos=True))
    assert again["token_ids"] == plain["token_ids"]


async def test_a_penalty_keeps_a_greedy_answer_from_repeating(api: Api) -> None:
    def distinct(reply: Any) -> int:
        return len(set(choice(reply)["token_ids"]))

    many: dict[str, Any] = {"max_tokens": 40, "temperature": 0.0, "ignore_eos": True}
    plain = await api.generate(PROMPT, **many)
    for name, value in (("presence_penalty", 2.0), ("frequency_penalty", 2.0), ("repetition_penalty", 2.0)):
        penalised: dict[str, Any] = {**many, name: value}
        assert distinct(await api.generate(PROMPT, **penalised)) > distinct(plain), name


@pytest.mark.parametrize("seed", range(8))
async def test_a_random_model_answers_in_the_form_of_the_schema(api: Api, seed: int) -> None:
    form = {"structured_outputs": {"json": SCHEMA}, "ignore_eos": False}
    one = choice(await api.generate(PROMPT, max_tokens=200, temperature=1.0, seed=seed, **form))
    assert one["finish_reason"] == "stop"
    answer = json.loads(bytes(one["token_ids"][:-1]))
    assert answer["move"] in ("left", "right")
    assert type(answer["sure"]) is bool
    assert set(answer) == {"move", "sure"}


async def test_an_object_of_any_kind_stays_json_as_long_as_it_goes(api: Api) -> None:
    form = {"structured_outputs": {"json_object": True}, "ignore_eos": False}
    one = choice(await api.generate(PROMPT, max_tokens=30, temperature=1.0, seed=3, **form))
    assert bytes(token for token in one["token_ids"] if token < 256).startswith(b"{")


@pytest.mark.parametrize(
    "change",
    [
        {"presence_penalty": 2.5},
        {"frequency_penalty": "1"},
        {"repetition_penalty": 0},
        {"logit_bias": {"99999": 1}},
        {"logit_bias": {"x": 1}},
        {"logit_bias": {"65": 1000}},
        {"structured_outputs": {"json": {"type": "nonsense"}}},
        {"structured_outputs": {"json": "not json"}},
        {"structured_outputs": {"regex": "a+"}},
        {"structured_outputs": {"json": SCHEMA, "json_object": True}},
        {"structured_outputs": {"json": SCHEMA}, "ignore_eos": True},
    ],
    ids=str,
)
async def test_what_cannot_be_kept_is_refused_by_name(api: Api, change: dict[str, Any]) -> None:
    status, body = await api.post(
        "/inference/v1/generate", generate_body(PROMPT, None, **{"ignore_eos": False, **change})
    )
    assert status == 400
    assert next(iter(change)) in body["error"]["message"]
