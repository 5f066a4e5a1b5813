# SPDX-License-Identifier: Apache-2.0
"""The engine at long contexts, with the tiny model: decoding beside transformers, how full its batch is, and how long
other streams stop while a long prompt comes in. Used by `bench_engine.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
import urllib.request
from itertools import pairwise
from pathlib import Path
from typing import Any

from load import generate

# Context in tokens → sequences at once. Of 16k, 64 prompts alone would take minutes.
CONTEXTS = {1024: 64, 4096: 64, 16_384: 16}
MAX_LEN = 17_408
OPTIONS = ("--kv-cache-tokens", "327680", "--max-num-seqs")  # and as many as are at once
OUTPUT_TOKENS, ROUNDS = 32, 3
TURN_TOKENS = 48  # that a session's next turn adds to its context
STREAMS, STREAM_TOKENS, LONG_PROMPT = 8, 900, 16_384


def at_context(folder: Path, port: int, pid: int, threads: int, length: int, count: int) -> dict[str, Any]:
    """Tokens per second of both, theirs over ours by wall and by CPU time, and how full the batch is."""
    prompts = [random.choices(range(256), k=length) for _ in range(count)]
    filled = asyncio.run(generate(port, pid, [_body(prompt, 1) for prompt in prompts], count))
    ours = [asyncio.run(generate(port, pid, [_body(p, OUTPUT_TOKENS) for p in prompts], count)) for _ in range(ROUNDS)]
    theirs = _transformers(folder, threads, prompts[0], count)
    tokens = count * OUTPUT_TOKENS
    wall, cpu = min(run.wall_s for run in ours), min(run.server_cpu_s for run in ours)
    return {
        "batch": count,
        "prompt_tokens_per_s": round(count * length / filled.wall_s),
        "engine_tokens_per_s": round(tokens / wall, 1),
        "transformers_tokens_per_s": round(tokens / theirs[0], 1),
        "wall_ratio": round(theirs[0] / wall, 2),
        "cpu_ratio": round(theirs[1] / cpu, 2),
        "batch_share_of_slots": asyncio.run(_fullness(port, pid, prompts)),
    }


def _body(prompt: list[int], tokens: int, **more: Any) -> dict[str, Any]:
    return {
        "token_ids": prompt,
        "sampling_params": {"temperature": 0, "max_tokens": tokens, "ignore_eos": True},
        **more,
    }


def _transformers(folder: Path, threads: int, prompt: list[int], count: int) -> tuple[float, float]:
    """Wall and CPU seconds to decode; its cache holds one prompt `count` times, which is not timed."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.cache_utils import DynamicCache

    torch.set_num_threads(threads)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    model.generation_config.eos_token_id = None
    ids = torch.tensor([[*prompt, 65]] * count)
    asked = {"attention_mask": torch.ones_like(ids), "max_new_tokens": OUTPUT_TOKENS, "do_sample": False}
    best = (float("inf"), float("inf"))
    with torch.inference_mode():
        for _ in range(ROUNDS):
            cache = DynamicCache()
            model(torch.tensor([prompt]), past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache.batch_repeat_interleave(count)
            wall, cpu = time.perf_counter(), time.process_time()
            model.generate(ids, past_key_values=cache, pad_token_id=0, **asked)
            best = min(best, (time.perf_counter() - wall, time.process_time() - cpu))
    return best


async def _fullness(port: int, pid: int, contexts: list[list[int]]) -> float | None:
    """Tokens a step by slots, while requests wait: next turns of sessions, whose answers have 16 to 96 tokens."""
    turns = [[*context, *random.choices(range(256), k=TURN_TOKENS)] for context in contexts * 4]
    bodies = [_body(turn, random.randint(16, 96)) for turn in turns]
    running = asyncio.create_task(generate(port, pid, bodies, 2 * len(contexts)))
    seen: list[tuple[float, float]] = []
    while not running.done():
        text = await asyncio.to_thread(_metrics, port)
        if _metric(text, "vllm:num_requests_waiting") > 0:
            seen.append((_metric(text, "vllm:generation_tokens_total"), _metric(text, "whetstone_engine_steps_total")))
        await asyncio.sleep(0.1)
    await running
    if len(seen) < 3:
        return None
    tokens, steps = (last - first for first, last in zip(seen[0], seen[-1], strict=True))
    return round(tokens / steps / len(contexts), 3)


def _metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as reply:
        return reply.read().decode()


def _metric(text: str, name: str) -> float:
    return float(next(line for line in text.splitlines() if line.startswith(name + "{")).rsplit(" ", 1)[1])


def beside_a_long_prompt(port: int, pid: int) -> dict[str, Any]:
    """Longest pause between two tokens of any of eight streams: before, and while a long prompt is computed."""
    alone = asyncio.run(generate(port, pid, [_body(_long(), 1)], 1))
    return {"prompt_tokens": LONG_PROMPT, "prompt_alone_s": round(alone.wall_s, 2), **asyncio.run(_gaps(port, pid))}


def _long() -> list[int]:
    return random.choices(range(256), k=LONG_PROMPT)


async def _gaps(port: int, pid: int) -> dict[str, Any]:
    times: list[list[float]] = [[] for _ in range(STREAMS)]
    streams = [asyncio.create_task(_stream(port, arrivals)) for arrivals in times]
    await asyncio.sleep(1.0)
    begin = time.perf_counter()
    long = asyncio.create_task(generate(port, pid, [_body(_long(), 1)], 1))
    await asyncio.sleep(0.3)
    short = await generate(port, pid, [_body(random.choices(range(256), k=64), 1)], 1)
    await long
    end = time.perf_counter()
    for stream in streams:
        stream.cancel()
    await asyncio.gather(*streams, return_exceptions=True)
    return {
        "longest_gap_before_ms": _longest(times, begin - 0.7, begin),
        "longest_gap_ms": _longest(times, begin, end),
        "prompt_beside_streams_s": round(end - begin, 2),
        "short_prompt_meanwhile_ms": round(1e3 * short.wall_s, 1),
    }


def _longest(times: list[list[float]], begin: float, end: float) -> float:
    """Milliseconds; the time from the last token within to the end counts too."""
    spans = [[begin, *(at for at in arrivals if begin <= at <= end), end] for arrivals in times]
    return round(1e3 * max(after - before for span in spans for before, after in pairwise(span)), 1)


async def _stream(port: int, arrivals: list[float]) -> None:
    """Notes when each chunk of streams comes, one stream after another until it is cancelled."""
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.closing(writer):
            data = json.dumps(_body(random.choices(range(256), k=32), STREAM_TOKENS, stream=True)).encode()
            head = (
                f"POST /inference/v1/generate HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(data)}"
            )
            writer.write(head.encode() + b"\r\n\r\n" + data)
            while line := await reader.readline():
                if line.startswith(b"data: {"):
                    arrivals.append(time.perf_counter())
