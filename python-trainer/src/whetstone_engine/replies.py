# SPDX-License-Identifier: Apache-2.0
"""Writes answers in vLLM's shapes: whole ones and stream chunks, for generate and for completions."""

from __future__ import annotations

import json
import time
from typing import Any

from whetstone_engine.sequence import Output, Sequence

encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
FLOOR = -9999.0  # vLLM's stand-in for -inf and NaN, which JSON cannot carry


def usage(sequence: Sequence, completion_tokens: int) -> dict[str, Any]:
    """Token counts; `cached_tokens` are prompt tokens found in the prefix cache."""
    prompt = len(sequence.prompt)
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion_tokens,
        "completion_tokens": completion_tokens,
        "prompt_tokens_details": {"cached_tokens": sequence.cached_tokens},
    }


def generate_reply(
    sequence: Sequence, output: Output, model: str, echo_prompt: bool, scored: list[float] | None = None
) -> dict[str, Any]:
    """The whole answer of /inference/v1/generate. `scored`: of the prompt's tokens after the first, nats."""
    return {
        "request_id": sequence.request_id,
        "model": model,
        "created": int(time.time()),
        "usage": usage(sequence, len(output.token_ids)),
        "prompt_token_ids": sequence.prompt if echo_prompt else None,
        "prompt_logprobs": None if scored is None else _prompt_logprobs(sequence.prompt, scored),
        "output_mode": "tokens",
        "choices": [_generate_choice(sequence, output)],
    }


def _prompt_logprobs(prompt: list[int], scored: list[float]) -> list[dict[str, Any] | None]:
    """A table of ids for each place, as in vLLM; here it holds the token's own alone. The first token has none."""
    entries = zip(prompt[1:], scored, strict=True)
    return [None, *({str(token): {"logprob": max(logprob, FLOOR)}} for token, logprob in entries)]


def generate_chunk(sequence: Sequence, output: Output) -> dict[str, Any]:
    """A stream chunk; the spans of versions come with the last one, or with each where the request wants that."""
    choices = [_generate_choice(sequence, output)]
    return {"request_id": sequence.request_id, "usage": None, "output_mode": "tokens", "choices": choices}


def generate_usage_chunk(sequence: Sequence, completion_tokens: int) -> dict[str, Any]:
    """The extra chunk that stream_options.include_usage asks for."""
    counts = usage(sequence, completion_tokens)
    return {"request_id": sequence.request_id, "usage": counts, "output_mode": "tokens", "choices": []}


def _generate_choice(sequence: Sequence, output: Output) -> dict[str, Any]:
    wanted = sequence.params.logprobs is not None
    versions = output.versions
    return {
        "index": 0,
        "token_ids": output.token_ids,
        "logprobs": {"content": [_entry(output, i) for i in range(len(output.token_ids))]} if wanted else None,
        "finish_reason": output.finish_reason,
        "stop_reason": output.stop_reason,
        "sampling_mask": output.supports or None,
        "weight_versions": None
        if versions is None
        else [{"version": label, "start": start, "end": end} for label, start, end in versions],
    }


def _entry(output: Output, i: int) -> dict[str, Any]:
    sampled = _logprob(output.token_ids[i], output.logprobs[i], output.ranks[i])
    best = output.alternatives[i] if i < len(output.alternatives) else []
    others = [_logprob(*entry) for entry in best if entry[0] != output.token_ids[i]]
    return {**sampled, "top_logprobs": [sampled, *others]}


def _logprob(token_id: int, logprob: float, rank: int) -> dict[str, Any]:
    return {"token_id": token_id, "logprob": logprob if logprob >= FLOOR else FLOOR, "rank": rank}


class CompletionWriter:
    """Answers of /v1/completions. Keeps what a stream has written, because text only becomes whole over tokens."""

    def __init__(self, sequence: Sequence, model: str, decode: Any, return_token_ids: bool) -> None:
        self._sequence, self._model, self._decode, self._ids_wanted = sequence, model, decode, return_token_ids
        self._ids: list[int] = []
        self._text = ""
        self._created = int(time.time())

    def reply(self, output: Output) -> dict[str, Any]:
        """The whole answer."""
        return self._object(self._choice(output), usage(self._sequence, len(output.token_ids)))

    def chunk(self, output: Output) -> dict[str, Any]:
        """A stream chunk; prompt_token_ids come with the first one only."""
        return self._object(self._choice(output), None)

    def usage_chunk(self) -> dict[str, Any]:
        """The extra chunk that stream_options.include_usage asks for."""
        return self._object(None, usage(self._sequence, len(self._ids)))

    def _choice(self, output: Output) -> dict[str, Any]:
        first, offset = not self._ids, len(self._text)
        text = self._advance(output.token_ids, last=output.finish_reason is not None)
        choice: dict[str, Any] = {
            "index": 0,
            "text": text,
            "logprobs": self._logprobs(output, offset) if self._sequence.params.logprobs is not None else None,
            "finish_reason": output.finish_reason,
            "stop_reason": output.stop_reason,
        }
        if self._ids_wanted:
            choice |= {"token_ids": output.token_ids, "prompt_token_ids": self._sequence.prompt if first else None}
        return choice

    def _advance(self, token_ids: list[int], last: bool) -> str:
        """Text that these tokens complete. Half a UTF-8 character is held back until the next token."""
        self._ids += token_ids
        text = self._decode(self._ids)
        if not last and text.endswith("\ufffd"):
            return ""
        delta, self._text = text[len(self._text) :], text
        return delta

    def _logprobs(self, output: Output, offset: int) -> dict[str, Any]:
        texts = [self._decode([token]) for token in output.token_ids]
        entries = [_entry(output, i) for i in range(len(texts))]
        return {
            "tokens": texts,
            "token_logprobs": [entry["logprob"] for entry in entries],
            "top_logprobs": [
                {self._decode([best["token_id"]]): best["logprob"] for best in entry["top_logprobs"]}
                for entry in entries
            ],
            "text_offset": [offset + sum(map(len, texts[:i])) for i in range(len(texts))],
        }

    def _object(self, choice: dict[str, Any] | None, counts: dict[str, Any] | None) -> dict[str, Any]:
        return {
            "id": self._sequence.request_id,
            "object": "text_completion",
            "created": self._created,
            "model": self._model,
            "choices": [] if choice is None else [choice],
            "usage": counts,
        }
