# SPDX-License-Identifier: Apache-2.0
"""IEP/1 conformance, data plane: T01-T08. Names follow the list of the protocol."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import aiohttp
import pytest
import torch
from iep_target import Api, Target, choice, generate_body, logprobs

from whetstone_models.folder import load_model

PROMPT = [256, *b"Which way?\nSFFF\nFHFH\nFFFH", 257]


def offline_logits(target: Target, prompt: list[int], output: list[int]) -> torch.Tensor:
    """Logits [len(output), vocab] that predict each output token, from our own padded forward."""
    with torch.no_grad():
        logits = load_model(target.folder_a)(torch.tensor([prompt + output]))[0]
    return logits[len(prompt) - 1 : -1]


async def test_t01_token_echo(api: Api) -> None:
    reply = await api.generate(PROMPT, max_tokens=6, temperature=1.0)
    assert reply["usage"]["prompt_tokens"] == len(PROMPT)
    assert reply["usage"]["completion_tokens"] == len(choice(reply)["token_ids"]) == len(logprobs(reply)) == 6
    assert all(0 <= token < 262 for token in choice(reply)["token_ids"])
    assert [e["token_id"] for e in choice(reply)["logprobs"]["content"]] == choice(reply)["token_ids"]
    assert reply["request_id"].startswith("generate-tokens-")


async def test_t02_stream_equals_whole(api: Api) -> None:
    whole = await api.generate(PROMPT, max_tokens=9, logprobs=2)
    chunks = [chunk async for chunk in api.stream(PROMPT, max_tokens=9, logprobs=2)]
    assert [t for chunk in chunks for t in choice(chunk)["token_ids"]] == choice(whole)["token_ids"]
    content = [entry for chunk in chunks for entry in choice(chunk)["logprobs"]["content"]]
    for ours, theirs in zip(content, choice(whole)["logprobs"]["content"], strict=True):
        assert ours["logprob"] == pytest.approx(theirs["logprob"], abs=1e-4)
        assert [b["token_id"] for b in ours["top_logprobs"]] == [b["token_id"] for b in theirs["top_logprobs"]]
    assert choice(chunks[-1])["finish_reason"] == choice(whole)["finish_reason"] == "length"
    assert choice(chunks[-1])["weight_versions"] == choice(whole)["weight_versions"]
    assert all(choice(chunk)["weight_versions"] is None for chunk in chunks[:-1])


async def test_a_stream_that_is_asked_tells_its_spans_with_each_chunk(api: Api) -> None:
    """What was sent keeps its labels when the connection breaks (I5). vLLM does not know the option."""
    body = {**generate_body(PROMPT, None, max_tokens=9), "stream": True}
    _, text = await api.post("/inference/v1/generate", {**body, "stream_options": {"continuous_weight_versions": True}})
    chunks = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    if choice(chunks[0])["weight_versions"] is None:
        pytest.skip("this engine tells spans at the end only")
    sent = 0
    for chunk in chunks:
        sent += len(choice(chunk)["token_ids"])
        assert [(span["start"], span["end"]) for span in choice(chunk)["weight_versions"]] == [(0, sent)]
    assert len(chunks) > 1
    assert sent == 9


async def test_truncated_sampling_names_its_supports(api: Api, target: Target) -> None:
    """Whole and streamed alike: the log-probability of a token is its share of its support."""
    drawn: dict[str, Any] = {"temperature": 1.0, "top_p": 0.6, "top_k": 40, "min_p": 0.01, "seed": 5, "max_tokens": 9}
    whole = await api.generate(PROMPT, **drawn)
    ids, supports = choice(whole)["token_ids"], choice(whole)["sampling_mask"]
    if supports is None:
        pytest.skip("this engine does not name what it draws from")
    log_softmax = offline_logits(target, PROMPT, ids).log_softmax(-1)
    for index, (token, support) in enumerate(zip(ids, supports, strict=True)):
        assert token in support
        assert len(support) <= 40
        assert support == sorted(support)
        share = log_softmax[index, token] - log_softmax[index, support].logsumexp(-1)
        assert logprobs(whole)[index] == pytest.approx(share.item(), abs=1e-4)
    assert any(len(support) > 1 for support in supports)
    chunks = [chunk async for chunk in api.stream(PROMPT, **drawn)]
    assert [one for chunk in chunks for one in choice(chunk)["sampling_mask"] or []] == supports
    assert choice(await api.generate(PROMPT, max_tokens=2, temperature=1.0))["sampling_mask"] is None


async def test_a_prompt_is_scored_as_offline(api: Api, target: Target) -> None:
    """In vLLM's form; a long prompt in parts, cached or not."""
    prompt = [*PROMPT, *(65 + index % 20 for index in range(700))]
    expected = offline_logits(target, prompt[:1], prompt[1:]).log_softmax(-1)
    for _ in range(2):
        first, *entries = (await api.generate(prompt, max_tokens=1, prompt_logprobs=0))["prompt_logprobs"]
        assert first is None
        assert len(entries) == len(prompt) - 1
        for index, (token, entry) in enumerate(zip(prompt[1:], entries, strict=True)):
            assert entry[str(token)]["logprob"] == pytest.approx(expected[index, token].item(), abs=1e-4)
    assert (await api.generate(prompt[:1], max_tokens=1, prompt_logprobs=0))["prompt_logprobs"] == [None]
    assert (await api.generate(prompt, max_tokens=1))["prompt_logprobs"] is None


@pytest.mark.skipif("IEP_TARGET" in os.environ, reason="a stock vLLM scores streams, too")
async def test_a_stream_with_scores_of_its_prompt_is_refused(api: Api) -> None:
    body = {**generate_body(PROMPT, None, prompt_logprobs=0), "stream": True}
    status, text = await api.post("/inference/v1/generate", body)
    assert status == 400 or "error" in text


async def test_t02_stream_usage_chunk(api: Api) -> None:
    body = {**generate_body(PROMPT, None, max_tokens=3), "stream": True, "stream_options": {"include_usage": True}}
    _, text = await api.post("/inference/v1/generate", body)
    events = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    assert json.loads(events[-2])["choices"] == []
    assert json.loads(events[-2])["usage"]["completion_tokens"] == 3


async def test_t03_completions_equal_generate(api: Api) -> None:
    whole = await api.generate(PROMPT, max_tokens=7)
    body: dict[str, Any] = {"model": "policy", "prompt": PROMPT, "max_tokens": 7, "temperature": 0, "logprobs": 0}
    status, reply = await api.post("/v1/completions", {**body, "ignore_eos": True, "return_token_ids": True})
    assert status == 200
    assert choice(reply)["token_ids"] == choice(whole)["token_ids"]
    assert choice(reply)["prompt_token_ids"] == PROMPT
    assert choice(reply)["logprobs"]["token_logprobs"] == pytest.approx(logprobs(whole), abs=1e-4)
    _, streamed = await api.post(
        "/v1/completions", {**body, "ignore_eos": True, "return_token_ids": True, "stream": True}
    )
    chunks = [json.loads(x[6:]) for x in streamed.splitlines() if x.startswith("data: {")]
    assert [t for chunk in chunks for t in choice(chunk)["token_ids"]] == choice(whole)["token_ids"]
    assert "".join(choice(chunk)["text"] for chunk in chunks) == choice(reply)["text"]


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
async def test_t04_logprobs_equal_a_teacher_forced_forward(api: Api, target: Target, temperature: float) -> None:
    reply = await api.generate(PROMPT, max_tokens=40, temperature=temperature, seed=5)
    output = choice(reply)["token_ids"]
    scaled = offline_logits(target, PROMPT, output) / (temperature or 1.0)
    expected = scaled.log_softmax(-1)[range(len(output)), output]
    assert logprobs(reply) == pytest.approx(expected.tolist(), abs=1e-3)


async def test_t05_logprobs_are_processed(api: Api) -> None:
    single = await api.generate(PROMPT, max_tokens=4, temperature=0.5, top_k=1)
    assert logprobs(single) == [0.0] * 4
    best = await api.generate(PROMPT, max_tokens=1, temperature=1.0, top_k=5, logprobs=8)
    entries = {e["token_id"]: e["logprob"] for e in choice(best)["logprobs"]["content"][0]["top_logprobs"]}
    kept = [value for value in entries.values() if value > -9999.0]
    assert len(kept) == 5
    assert sum(torch.tensor(kept).exp().tolist()) == pytest.approx(1.0, abs=1e-4)


async def test_t06_stop_ids_eos_and_lengths(api: Api) -> None:
    greedy = choice(await api.generate(PROMPT, max_tokens=12))["token_ids"]
    stop = greedy[3]
    first = greedy.index(stop)
    stopped = choice(await api.generate(PROMPT, max_tokens=12, stop_token_ids=[stop]))
    assert (stopped["finish_reason"], stopped["stop_reason"]) == ("stop", stop)
    assert stopped["token_ids"] == greedy[: first + 1]
    later = choice(await api.generate(PROMPT, max_tokens=12, stop_token_ids=[stop], min_tokens=first + 2))
    assert len(later["token_ids"]) >= first + 2
    assert stop not in later["token_ids"][: first + 1]
    clamped = choice(await api.generate([65] * 1020, max_tokens=50))
    assert (len(clamped["token_ids"]), clamped["finish_reason"]) == (4, "length")


async def test_t06_end_token_stops_unless_ignored(api: Api) -> None:
    ended = []
    for seed in range(40):
        reply = choice(await api.generate(PROMPT, max_tokens=60, temperature=2.0, seed=seed, ignore_eos=False))
        if reply["finish_reason"] == "stop":
            assert reply["stop_reason"] is None
            assert reply["token_ids"][-1] == 260
            assert 260 not in reply["token_ids"][:-1]
            ended.append(seed)
    assert ended, "no sample reached the end token; widen the search"
    ignored = choice(await api.generate(PROMPT, max_tokens=60, temperature=2.0, seed=ended[0]))
    assert len(ignored["token_ids"]) == 60


async def test_t07_seed_is_reproducible_alone_and_in_any_batch(api: Api) -> None:
    alone = await api.generate(PROMPT, max_tokens=20, temperature=1.0, seed=42)
    others = [api.generate([65 + i] * (3 * i + 1), max_tokens=5 + i, temperature=1.0, seed=i) for i in range(20)]
    crowded, *_ = await asyncio.gather(api.generate(PROMPT, max_tokens=20, temperature=1.0, seed=42), *others)
    assert choice(crowded)["token_ids"] == choice(alone)["token_ids"]
    assert logprobs(crowded) == pytest.approx(logprobs(alone), abs=1e-4)
    different = await api.generate(PROMPT, max_tokens=20, temperature=1.0, seed=43)
    assert choice(different)["token_ids"] != choice(alone)["token_ids"]


BAD: dict[str, tuple[dict[str, Any], int]] = {
    "over-length": ({"token_ids": [65] * 1024}, 400),
    "unknown model": ({"model": "nobody"}, 404),
    "negative id": ({"token_ids": [-1]}, 400),
    "id outside the vocabulary": ({"token_ids": [262]}, 400),
    "no ids": ({"token_ids": []}, 400),
    "text ids": ({"token_ids": ["a"]}, 400),
    "temperature": ({"sampling_params": {"temperature": 2.5, "max_tokens": 1}}, 400),
    "top_p": ({"sampling_params": {"top_p": 0, "max_tokens": 1}}, 400),
    "max_tokens": ({"sampling_params": {"max_tokens": 0}}, 400),
    "logprobs": ({"sampling_params": {"logprobs": 21, "max_tokens": 1}}, 400),
    "salt": ({"cache_salt": "policy@v1"}, 400),
}


@pytest.mark.parametrize("name", BAD)
async def test_t08_bad_requests_get_the_error_object(api: Api, name: str) -> None:
    change, expected = BAD[name]
    status, body = await api.post("/inference/v1/generate", {**generate_body(PROMPT, None), **change})
    assert status == expected
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["code"] == expected


@pytest.mark.parametrize(
    "change",
    [{"n": 2}, {"echo": True}, {"stop": ["x"]}, {"bad_words": ["x"]}, {"guided_json": {}}],
)
async def test_t08_features_outside_iep_are_refused(api: Api, change: dict[str, Any]) -> None:
    if "IEP_TARGET" in os.environ:
        pytest.skip("a stock vLLM offers more than IEP/1")
    status, body = await api.post("/inference/v1/generate", generate_body(PROMPT, None, **change))
    assert status == 400
    assert next(iter(change)) in body["error"]["message"]


async def test_t08_bad_json_and_unknown_fields(api: Api) -> None:
    async with api.session.post(
        api.url + "/inference/v1/generate", data=b"{not json", headers={"Content-Type": "application/json"}
    ) as response:
        assert response.status == 400
        assert "error" in await response.json()
    status, _ = await api.post("/inference/v1/generate", {**generate_body(PROMPT, None, whatever=1), "more": {}})
    assert status == 200
    assert (await api.get("/nowhere"))[0] == 404


async def test_t08_a_large_body_is_read_whole_before_it_is_refused(api: Api) -> None:
    status, body = await api.post("/inference/v1/generate", generate_body([65] * 600_000, None))
    assert status == 400
    assert "600000" in body["error"]["message"]


async def test_request_id_header_wins_and_label_header_is_sent(api: Api) -> None:
    body = {**generate_body(PROMPT, None), "request_id": "from-body"}
    async with api.session.post(
        api.url + "/inference/v1/generate", json=body, headers={"X-Request-Id": "mine"}
    ) as response:
        assert (await response.json())["request_id"] == "generate-tokens-mine"
        label = response.headers.get("X-Weight-Version")
    if label is not None:  # advisory: a stock vLLM does not send it
        assert label == (await api.get("/weight_info"))[1]["weight_version"]


async def test_tokenize_and_detokenize(api: Api) -> None:
    _, reply = await api.post("/tokenize", {"model": "policy", "prompt": "Hé<|end|>"})
    assert reply["tokens"] == [*"Hé".encode(), 260]
    assert (reply["count"], reply["max_model_len"]) == (4, 1024)
    assert (await api.post("/detokenize", {"model": "policy", "tokens": reply["tokens"]}))[1] == {"prompt": "Hé<|end|>"}
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    _, chat = await api.post("/tokenize", {"model": "policy", "messages": messages})
    assert chat["tokens"] == [258, *b"s", 256, *b"u", 257]
    started = [*messages, {"role": "assistant", "content": "ab"}]
    body = {"model": "policy", "messages": started, "continue_final_message": True, "add_generation_prompt": False}
    assert (await api.post("/tokenize", body))[1]["tokens"] == [*chat["tokens"], *b"ab"]
    assert (await api.post("/tokenize", {}))[0] == 400


async def test_informational_routes(api: Api) -> None:
    _, listing = await api.get("/v1/models")
    assert listing["data"][0]["id"] == "policy"
    assert listing["data"][0]["max_model_len"] == 1024
    assert (await api.get("/health"))[0] == 200
    assert isinstance((await api.get("/version"))[1]["version"], str)
    assert (await api.get("/get_world_size"))[1] == {"world_size": 1}
    assert "server_load" in (await api.get("/load"))[1]


async def test_many_concurrent_requests_all_answer(api: Api) -> None:
    prompts = [[256, *b"x" * (i % 37), 257] for i in range(300)]
    replies = await asyncio.gather(*(api.generate(p, max_tokens=1 + i % 3) for i, p in enumerate(prompts)))
    assert [len(choice(r)["token_ids"]) for r in replies] == [1 + i % 3 for i in range(300)]


async def test_pipelined_connection_survives_an_error(api: Api) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as session:
        single = Api(session, api.url)
        assert (await single.post("/inference/v1/generate", {"token_ids": []}))[0] == 400
        assert len(choice(await single.generate(PROMPT))["token_ids"]) == 8
