# SPDX-License-Identifier: Apache-2.0
"""LoRA adapters by name (T35): what they compute, beside each other, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import torch
from adapter_kit import merged, write_adapter
from iep_target import Api, Target, choice, generate_body, logprobs, start_stream
from running_kit import LONG
from safetensors.torch import load_file, save_file

from whetstone_engine.engine import Engine, EngineOptions
from whetstone_engine.errors import ApiError
from whetstone_engine.wire import parse_generate

PROMPT = [256, *b"Which way?\nSFFF\nFHFH\nFFFH", 257]
WEIGHTS = "adapter_model.safetensors"


@pytest.fixture
async def loaded(api: Api) -> AsyncIterator[Api]:
    """A client; afterwards no adapter is loaded."""
    yield api
    for card in (await api.get("/v1/models"))[1]["data"]:
        if card["parent"] is not None:
            await api.post("/v1/unload_lora_adapter", {"lora_name": card["id"]})


async def load(api: Api, name: str, folder: Path) -> None:
    status, text = await api.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})
    assert status == 200, text


async def ask(api: Api, model: str, prompt: list[int] = PROMPT, **params: Any) -> dict[str, Any]:
    body = {**generate_body(prompt, None, **params), "model": model}
    status, reply = await api.post("/inference/v1/generate", body)
    assert status == 200, reply
    return reply


def expected(target: Target, folder: Path | None, prompt: list[int], output: list[int]) -> list[float]:
    """Log-probabilities of an output, by a model that has the adapter in its weights."""
    model = merged(target.folder_a, load_file(folder / WEIGHTS) if folder else {})
    with torch.no_grad():
        logits = model(torch.tensor([prompt + output]))[0, len(prompt) - 1 : -1]
    return logits.log_softmax(-1)[range(len(output)), output].tolist()


async def test_t35_each_computes_what_merged_weights_do(loaded: Api, target: Target, tmp_path: Path) -> None:
    """In the same steps as the model itself, with prompts of several lengths; one stands beside two layers only."""
    folders = {
        "lab@v1": write_adapter(target.folder_a, tmp_path / "1", 1),
        "lab@v2": write_adapter(target.folder_a, tmp_path / "2", 2, ("k_proj", "down_proj")),
    }
    for name, folder in folders.items():
        await load(loaded, name, folder)
    asked = [(name, PROMPT[: 20 + 3 * i]) for i in range(4) for name in ("policy", *folders)]
    replies = await asyncio.gather(*(ask(loaded, name, prompt, max_tokens=12) for name, prompt in asked))
    for (name, prompt), reply in zip(asked, replies, strict=True):
        ids = choice(reply)["token_ids"]
        assert logprobs(reply) == pytest.approx(expected(target, folders.get(name), prompt, ids), abs=1e-4)
        assert reply["model"] == name
    last = {name: logprobs(reply) for (name, _), reply in zip(asked, replies, strict=True)}
    assert last["policy"] != last["lab@v1"] != last["lab@v2"]


async def test_tokens_carry_the_name_of_their_adapter(loaded: Api, target: Target, tmp_path: Path) -> None:
    await load(loaded, "lab@v1", write_adapter(target.folder_a, tmp_path / "1", 1))
    reply = await ask(loaded, "lab@v1", max_tokens=5)
    assert choice(reply)["weight_versions"] == [{"version": "lab@v1", "start": 0, "end": 5}]
    chunks = [chunk async for chunk in loaded.stream(PROMPT, max_tokens=5)]
    label = (await loaded.get("/weight_info"))[1]["weight_version"]
    assert choice(chunks[-1])["weight_versions"][0]["version"] == label
    status, text = await loaded.post("/v1/completions", {"model": "lab@v1", "prompt": PROMPT, "max_tokens": 2})
    assert (status, text["model"]) == (200, "lab@v1")
    cards = (await loaded.get("/v1/models"))[1]["data"]
    assert [(card["id"], card["parent"]) for card in cards] == [("policy", None), ("lab@v1", "policy")]


async def test_a_prompt_is_scored_by_the_adapter(loaded: Api, target: Target, tmp_path: Path) -> None:
    folder = write_adapter(target.folder_a, tmp_path / "1", 1)
    await load(loaded, "lab@v1", folder)
    reply = await ask(loaded, "lab@v1", max_tokens=1, prompt_logprobs=0)
    tables = zip(PROMPT[1:], reply["prompt_logprobs"][1:], strict=True)
    scored = [table[str(token)]["logprob"] for token, table in tables]
    assert scored == pytest.approx(expected(target, folder, PROMPT[:1], PROMPT[1:]), abs=1e-4)


async def test_a_name_that_returns_shares_no_prefix_with_what_it_was(
    loaded: Api, target: Target, tmp_path: Path
) -> None:
    """vLLM #42125: the prefix cache is keyed by the name there."""
    for seed in (1, 2):
        folder = write_adapter(target.folder_a, tmp_path / str(seed), seed)
        await load(loaded, "lab", folder)
        reply, again = await ask(loaded, "lab"), await ask(loaded, "lab")
        assert reply["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 16
        for one in (reply, again):
            ids = choice(one)["token_ids"]
            assert logprobs(one) == pytest.approx(expected(target, folder, PROMPT, ids), abs=1e-4)
        await loaded.post("/v1/unload_lora_adapter", {"lora_name": "lab"})


async def test_an_answer_goes_on_when_its_adapter_is_unloaded(loaded: Api, target: Target, tmp_path: Path) -> None:
    folder = write_adapter(target.folder_a, tmp_path / "1", 1)
    await load(loaded, "lab", folder)
    running = asyncio.create_task(ask(loaded, "lab", max_tokens=200))
    beside = await start_stream(loaded, PROMPT, max_tokens=20)
    assert (await loaded.post("/v1/unload_lora_adapter", {"lora_name": "lab"}))[0] == 200
    ids = choice(await running)["token_ids"]
    assert len(ids) == 200
    assert logprobs(await running) == pytest.approx(expected(target, folder, PROMPT, ids), abs=1e-4)
    await beside
    status, body = await loaded.post("/inference/v1/generate", {**generate_body(PROMPT, None), "model": "lab"})
    assert (status, body["error"]["param"]) == (404, "model")
    assert (await loaded.post("/v1/unload_lora_adapter", {"lora_name": "lab"}))[0] == 404


async def test_adapters_end_with_the_weights_that_they_stand_beside(
    loaded: Api, target: Target, tmp_path: Path
) -> None:
    """Nothing is sampled by an adapter over other weights, neither what ran nor what waited meanwhile."""
    await load(loaded, "lab", write_adapter(target.folder_a, tmp_path / "1", 1))
    running = asyncio.create_task(ask(loaded, "lab", max_tokens=LONG))
    beside = await start_stream(loaded, PROMPT, max_tokens=LONG)
    await loaded.post("/pause?mode=keep")
    waiting = asyncio.create_task(ask(loaded, "lab", PROMPT[:9]))
    assert (await loaded.reload(target.folder_a / "nowhere"))[0] == 500
    assert len((await loaded.get("/v1/models"))[1]["data"]) == 2
    await asyncio.sleep(0.1)
    await loaded.reload(target.folder_b)
    await loaded.post("/resume")
    assert choice(await running)["finish_reason"] == choice(await waiting)["finish_reason"] == "abort"
    assert choice((await beside)[-1])["finish_reason"] == "length"
    assert len((await loaded.get("/v1/models"))[1]["data"]) == 1
    await loaded.switch(target.folder_a, "a")


async def test_a_request_that_was_read_before_other_weights_came_is_not_sampled_over_them(
    target: Target, tmp_path: Path
) -> None:
    """Between the two a form may be made ready, or a prompt be scored."""
    engine = Engine(EngineOptions(model=target.folder_a))
    engine.steps.start()
    await engine.load_adapter("lab", write_adapter(target.folder_a, tmp_path / "1", 1))
    call = parse_generate({**generate_body(PROMPT, None), "model": "lab"}, engine.limits)
    await engine.reload(target.folder_b)
    with pytest.raises(ApiError, match="does not exist any more"):
        engine.submit(call, "", None, lambda _: None)
    with pytest.raises(ApiError, match="does not exist any more"):
        await engine.score(PROMPT, call.adapter)
    await engine.close()


REFUSED = {
    "no name": ({"lora_name": ""}, 400, "lora_name"),
    "an odd name": ({"lora_name": "a b"}, 400, "lora_name"),
    "the model's name": ({"lora_name": "policy"}, 400, "loaded already"),
    "in place": ({"load_inplace": True}, 400, "load_inplace"),
    "no folder": ({"lora_path": "/nowhere"}, 404, "/nowhere"),
    "no path": ({"lora_path": 5}, 400, "lora_path"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_load_that_cannot_be_is_refused_by_field(
    loaded: Api, target: Target, tmp_path: Path, case: str
) -> None:
    changed, expected_status, said = REFUSED[case]
    folder = write_adapter(target.folder_a, tmp_path / "1", 1)
    body = {"lora_name": "lab", "lora_path": str(folder), **changed}
    status, answer = await loaded.post("/v1/load_lora_adapter", body)
    assert status == expected_status
    assert said in answer["error"]["message"]
    assert len((await loaded.get("/v1/models"))[1]["data"]) == 1


DAMAGE: dict[str, tuple[dict[str, Any], str]] = {
    "dora": ({"use_dora": True}, "use_dora"),
    "a head of its own": ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
    "no rank": ({"r": None}, "adapter_config.json: r"),
    "an endless scale": ({"lora_alpha": float("inf")}, "lora_alpha"),
}


@pytest.mark.parametrize("case", DAMAGE)
async def test_an_adapter_of_another_kind_is_refused_by_field(
    loaded: Api, target: Target, tmp_path: Path, case: str
) -> None:
    config, said = DAMAGE[case]
    status, answer = await post_load(loaded, write_adapter(target.folder_a, tmp_path / "1", 1, **config))
    assert status == 500
    assert said in answer["error"]["message"]


async def post_load(api: Api, folder: Path) -> tuple[int, Any]:
    return await api.post("/v1/load_lora_adapter", {"lora_name": "lab", "lora_path": str(folder)})


Q_UP = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"


@pytest.mark.parametrize("case", ["misshapen", "half a pair", "alien", "not finite", "cut off", "empty"])
async def test_damaged_tensors_are_refused_by_name(loaded: Api, target: Target, tmp_path: Path, case: str) -> None:
    path = write_adapter(target.folder_a, tmp_path / "1", 1) / WEIGHTS
    tensors, said = load_file(path), "q_proj"
    if case == "misshapen":
        tensors[Q_UP] = tensors[Q_UP][:-1].contiguous()
    elif case == "half a pair":
        del tensors[Q_UP]
    elif case == "alien":
        tensors["base_model.model.lm_head.lora_A.weight"] = torch.zeros(4, 4)
        said = "lm_head"
    elif case == "not finite":
        tensors[Q_UP][0, 0] = torch.nan
    elif case == "empty":
        tensors, said = {}, "no tensors"
    save_file(tensors, path)
    if case == "cut off":
        path.write_bytes(path.read_bytes()[:-100])
        said = "cannot be read"
    status, answer = await post_load(loaded, path.parent)
    assert status == 500
    assert said in answer["error"]["message"]
    assert choice(await loaded.generate(PROMPT))["finish_reason"] == "length"


async def test_there_are_at_most_so_many(loaded: Api, target: Target, tmp_path: Path) -> None:
    folder = write_adapter(target.folder_a, tmp_path / "1", 1)
    for i in range(8):
        await load(loaded, f"lab@v{i}", folder)
    status, answer = await loaded.post("/v1/load_lora_adapter", {"lora_name": "lab@v8", "lora_path": str(folder)})
    assert status == 400
    assert "--max-adapters" in answer["error"]["message"]
