# SPDX-License-Identifier: Apache-2.0
"""Routes that carry tokens: generate, completions, tokenize, detokenize."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from whetstone_engine.engine import Engine
from whetstone_engine.errors import ApiError, internal, invalid
from whetstone_engine.replies import CompletionWriter, encode, generate_chunk, generate_reply, generate_usage_chunk
from whetstone_engine.sequence import Output, Sequence
from whetstone_engine.wire import (
    Call,
    check_model,
    check_tokens,
    flag,
    parse_body,
    parse_completion,
    parse_generate,
)

VERSION_HEADER = "X-Weight-Version"


class DataPlane:
    """Handlers over one engine. A handler that is cancelled (the client went away) frees its slot in `finally`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._model = engine.options.served_model_name

    async def generate(self, request: web.BaseRequest) -> web.StreamResponse:
        """POST /inference/v1/generate: token ids in, token ids out."""
        call = parse_generate(parse_body(await request.read()), self._engine.limits)
        if call.stream:
            return await self._stream(request, call, "generate-tokens-", None)
        scored = await self._engine.score(call.prompt, call.adapter) if call.scores_prompt else None
        sequence, output = await self._whole(request, call, "generate-tokens-")
        model = self._model_of(call)
        return self._json(generate_reply(sequence, output, model, call.return_token_ids, scored), call)

    async def completions(self, request: web.BaseRequest) -> web.StreamResponse:
        """POST /v1/completions with one prompt, as text or token ids."""
        body = parse_body(await request.read())
        check_model(body, self._engine.limits)
        call = parse_completion(body, self._prompt(body), self._engine.limits)
        if call.stream:
            return await self._stream(request, call, "cmpl-", self._writer)
        sequence, output = await self._whole(request, call, "cmpl-")
        return self._json(self._writer(sequence, call).reply(output), call)

    async def tokenize(self, request: web.BaseRequest) -> web.StreamResponse:
        """POST /tokenize of a prompt or of messages."""
        body = parse_body(await request.read())
        check_model(body, self._engine.limits)
        codec = self._engine.codec
        if "messages" in body:
            ids = codec.encode(codec.render(body), flag(body, "add_special_tokens"))
        elif isinstance(body.get("prompt"), str):
            ids = codec.encode(body["prompt"], flag(body, "add_special_tokens", default=True))
        else:
            raise invalid("prompt", "a string `prompt` or a list `messages` is required")
        texts = codec.token_texts(ids) if flag(body, "return_token_strs") else None
        return self._json(
            {"count": len(ids), "max_model_len": self._engine.max_len, "tokens": ids, "token_strs": texts}
        )

    async def detokenize(self, request: web.BaseRequest) -> web.StreamResponse:
        """POST /detokenize: special tokens are written out."""
        body = parse_body(await request.read())
        tokens = body.get("tokens")
        if not isinstance(tokens, list) or not all(type(t) is int and t >= 0 for t in tokens):
            raise invalid("tokens", "must be a list of token ids")
        if max(tokens, default=0) >= self._engine.limits.vocab_size:
            raise ApiError(400, f"Token id {max(tokens)} is out of vocabulary", param="tokens")
        return self._json({"prompt": self._engine.codec.decode(tokens, skip_special=False)})

    async def _whole(self, request: web.BaseRequest, call: Call, prefix: str) -> tuple[Sequence, Output]:
        changes = await self._engine.changes(call.params)
        done: asyncio.Future[Output] = asyncio.get_running_loop().create_future()

        def sink(output: Output) -> None:
            if not done.done():
                done.set_result(output)

        sequence = self._engine.submit(call, prefix, _header_id(request), sink, changes)
        try:
            output = await done
        finally:
            self._engine.forget(sequence)
        if output.error is not None:
            raise internal(output.error)
        return sequence, output

    async def _stream(self, request: web.BaseRequest, call: Call, prefix: str, writer: Any) -> web.StreamResponse:
        changes = await self._engine.changes(call.params)
        outputs: asyncio.Queue[Output] = asyncio.Queue()
        sequence = self._engine.submit(call, prefix, _header_id(request), outputs.put_nowait, changes)
        text = writer(sequence, call) if writer else None
        try:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
            response.headers[VERSION_HEADER] = self._label_of(call)
            await response.prepare(request)
            while True:
                output = await outputs.get()
                await response.write(_chunk(sequence, output, text, call.include_usage))
                if output.finish_reason is not None:
                    return response
        finally:
            self._engine.forget(sequence)

    def _writer(self, sequence: Sequence, call: Call) -> CompletionWriter:
        return CompletionWriter(sequence, self._model_of(call), self._engine.codec.decode, call.return_token_ids)

    def _model_of(self, call: Call) -> str:
        return self._model if call.adapter is None else call.adapter.name

    def _label_of(self, call: Call | None) -> str:
        return self._engine.label if call is None or call.adapter is None else call.adapter.name

    def _prompt(self, body: dict[str, Any]) -> list[int]:
        prompt = body.get("prompt")
        if isinstance(prompt, list) and prompt and isinstance(prompt[0], list | str):
            if len(prompt) != 1:
                raise invalid("prompt", "one prompt a request; send several requests instead")
            prompt = prompt[0]
        if isinstance(prompt, str):
            prompt = self._engine.codec.encode(prompt, flag(body, "add_special_tokens", default=True))
        return check_tokens(prompt, "prompt", self._engine.limits)

    def _json(self, body: dict[str, Any], call: Call | None = None) -> web.Response:
        headers = {VERSION_HEADER: self._label_of(call), "Content-Type": "application/json"}
        return web.Response(body=encode(body).encode(), headers=headers)


def _header_id(request: web.BaseRequest) -> str | None:
    """The id of the header X-Request-Id, which comes back in the answer."""
    value = request.headers.get("X-Request-Id")
    if value is not None and not value.isascii():
        raise ApiError(400, "X-Request-Id: must be ASCII", "Bad Request", "X-Request-Id")
    return value


def _chunk(sequence: Sequence, output: Output, text: CompletionWriter | None, include_usage: bool) -> bytes:
    """One event, and behind the last one the optional usage and [DONE]. A failure is an error object, as in vLLM."""
    if output.error is not None:
        return _event(internal(output.error).body()) + b"data: [DONE]\n\n"
    data = _event(text.chunk(output) if text else generate_chunk(sequence, output))
    if output.finish_reason is None:
        return data
    if include_usage:
        data += _event(text.usage_chunk() if text else generate_usage_chunk(sequence, sequence.sent))
    return data + b"data: [DONE]\n\n"


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + encode(body).encode() + b"\n\n"
