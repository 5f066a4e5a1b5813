# SPDX-License-Identifier: Apache-2.0
"""Routes that steer and watch the engine: pause, resume, abort, weights, caches, health, metrics."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from whetstone_engine.engine import Engine
from whetstone_engine.errors import ApiError, internal, invalid
from whetstone_engine.metrics import render
from whetstone_engine.replies import encode
from whetstone_engine.sleep import Sleep
from whetstone_engine.weights.stream import Published
from whetstone_engine.wire import flag, parse_body
from whetstone_models.errors import ModelError

log = logging.getLogger("whetstone_engine")


class Control:
    """Handlers over one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sleep = Sleep(engine)
        self._started = int(time.time())

    async def pause(self, request: web.BaseRequest) -> web.StreamResponse:
        """POST /pause?mode=abort|wait|keep&clear_cache=true"""
        mode = _mode(request)
        await self._engine.pause(mode, _flag(request, "clear_cache", True))
        log.info("paused", extra={"mode": mode})
        return reply({"status": "paused"})

    async def resume(self, request: web.BaseRequest) -> web.StreamResponse:
        """POST /resume"""
        self._sleep.must_be_awake()
        await self._engine.resume()
        log.info("resumed")
        return reply({"status": "resumed"})

    async def sleep(self, request: web.BaseRequest) -> web.StreamResponse:
        """POST /sleep?level=0|1|2&mode=abort|wait|keep"""
        state = await self._sleep.sleep(request.query.get("level", "1"), _mode(request))
        log.info("asleep", extra=state)
        return reply(state)

    async def wake_up(self, request: web.BaseRequest) -> web.StreamResponse:
        """POST /wake_up?tags=weights&tags=kv_cache"""
        state = await self._sleep.wake_up(request.query.getall("tags", []))
        log.info("woken", extra=state)
        return reply(state)

    async def is_sleeping(self, request: web.BaseRequest) -> web.StreamResponse:
        """GET /is_sleeping"""
        return reply({"is_sleeping": self._sleep.asleep})

    async def abort_requests(self, request: web.BaseRequest) -> web.StreamResponse:
        """POST /abort_requests {"request_ids":[...]}, or {} for all. Counts the ids sent, as vLLM does."""
        raw = await request.read()
        ids = _request_ids(parse_body(raw) if raw else {}, required=False)
        count = sum(map(len, self._engine.live.values())) if ids is None else len(ids)
        await self._engine.abort(ids)
        return reply({"status": "aborted", "aborted": count})

    async def abort_requests_v1(self, request: web.BaseRequest) -> web.StreamResponse:
        """POST /inference/v1/abort_requests: the ids are required, the answer is empty."""
        await self._engine.abort(_request_ids(parse_body(await request.read()), required=True))
        return web.Response(status=200)

    async def reset_prefix_cache(self, request: web.BaseRequest) -> web.StreamResponse:
        """POST /reset_prefix_cache?reset_running_requests="""
        await self._engine.reset_prefix_cache(_flag(request, "reset_running_requests", False))
        return reply({"success": True})

    async def update_weight_version(self, request: web.BaseRequest) -> web.StreamResponse:
        """POST /update_weight_version {"new_version":"..."}: the label only."""
        label = parse_body(await request.read()).get("new_version")
        if not isinstance(label, str) or not label or "\n" in label or "\r" in label:
            raise invalid("new_version", "must be a non-empty string on one line")
        await self._engine.set_label(label)
        return reply({"success": True, "new_version": label})

    async def collective_rpc(self, request: web.BaseRequest) -> web.StreamResponse:
        """POST /collective_rpc: the one method `reload_weights` with kwargs.weights_path."""
        body = parse_body(await request.read())
        if body.get("method") != "reload_weights":
            raise invalid("method", f"{body.get('method')!r} is not supported, only 'reload_weights'")
        kwargs = body.get("kwargs")
        path = kwargs.get("weights_path") if isinstance(kwargs, dict) else None
        await _with_folder("reload_weights", "kwargs.weights_path", path, self._engine.reload)
        return reply({"results": [None]})

    async def stage_weights(self, request: web.BaseRequest) -> web.StreamResponse:
        """POST /stage_weights {"weights_path":"...","stream"?:{"url","manifest_digest"}}: while sampling goes on.

        With `stream` the version is fetched from there, and weights_path is only its name. Ours alone.
        """
        body = parse_body(await request.read())
        published = _published(body.get("stream"))
        await _with_folder(
            "stage_weights", "weights_path", body.get("weights_path"), lambda path: self._engine.stage(path, published)
        )
        return reply({"success": True})

    async def models(self, request: web.BaseRequest) -> web.StreamResponse:
        """GET /v1/models, and with each what not every engine can.

        ``object_store``: where weights are read from; "": nowhere. ``names_support``: the parameters of truncated
        sampling under which the tokens are named that each one was drawn from.
        """
        options = self._engine.options
        card = {"id": options.served_model_name, "object": "model", "created": self._started, "owned_by": "whetstone"}
        store = options.object_store.url if options.object_store else ""
        can = {"object_store": store, "names_support": ["top_p", "top_k", "min_p"]}
        rest = {"max_model_len": self._engine.max_len, **can}
        cards = [card | {"root": str(options.model), "parent": None} | rest]
        for adapter in self._engine.adapters.all():
            own = {"id": adapter.name, "root": str(adapter.folder), "parent": options.served_model_name}
            cards.append(card | own | rest)
        return reply({"object": "list", "data": cards})

    async def load_lora_adapter(self, request: web.BaseRequest) -> web.StreamResponse:
        """POST /v1/load_lora_adapter {"lora_name","lora_path"}: answered in plain text, as by vLLM."""
        body = parse_body(await request.read())
        name = _text(body, "lora_name")
        if flag(body, "load_inplace"):
            raise invalid("load_inplace", "is not supported: give other weights another name")
        engine = self._engine
        await _with_folder(
            "load_lora_adapter", "lora_path", body.get("lora_path"), lambda path: engine.load_adapter(name, path)
        )
        return web.Response(text=f"Success: LoRA adapter '{name}' added successfully.")

    async def unload_lora_adapter(self, request: web.BaseRequest) -> web.StreamResponse:
        """POST /v1/unload_lora_adapter {"lora_name"}"""
        name = _text(parse_body(await request.read()), "lora_name")
        self._engine.adapters.unload(name)
        log.info("adapter_unloaded", extra={"adapter": name})
        return web.Response(text=f"Success: LoRA adapter '{name}' removed successfully.")

    async def health(self, request: web.BaseRequest) -> web.StreamResponse:
        """GET /health: 503 once the step thread has died. Paused is healthy."""
        return web.Response(status=200 if self._engine.steps.alive else 503)

    async def server_info(self, request: web.BaseRequest) -> web.StreamResponse:
        """GET /server_info: only what a gateway probes."""
        model = {"logprobs_mode": "processed_logprobs", "max_model_len": self._engine.max_len}
        cache = {"enable_prefix_caching": True}
        return reply({"vllm_config": {"model_config": model, "cache_config": cache}})

    async def metrics(self, request: web.BaseRequest) -> web.StreamResponse:
        """GET /metrics"""
        engine = self._engine
        own = (engine.fetcher.counters, engine.pauses.seconds)
        text = render(engine.options.served_model_name, engine.scheduler.counters, engine.gauges(), *own)
        return web.Response(text=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


async def _with_folder(what: str, field: str, path: object, work: Callable[[Path], Awaitable[None]]) -> None:
    """The work with the folder that a call names. Raises ApiError 400 where it names none, 500 for a bad one."""
    if not isinstance(path, str) or not path:
        raise invalid(field, "must name a folder that this engine can read")
    started = time.monotonic()
    try:
        await work(Path(path))
    except (ModelError, OSError) as error:
        log.warning("weights_refused", extra={"call": what, "path": path, "reason": str(error)})
        raise internal(f"{what}: {error}") from error
    log.info("weights_read", extra={"call": what, "path": path, "seconds": round(time.monotonic() - started, 3)})


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise invalid(name, "must be a non-empty string")
    return value


def _published(raw: object) -> Published | None:
    if raw is None:
        return None
    fields = [raw.get(name) if isinstance(raw, dict) else None for name in ("url", "manifest_digest")]
    url, digest = fields
    if not isinstance(url, str) or not isinstance(digest, str) or not url or not digest:
        raise invalid("stream", "needs the texts `url` and `manifest_digest`")
    return Published(url, digest)


def reply(body: dict[str, Any], status: int = 200) -> web.Response:
    """A JSON answer."""
    return web.Response(body=encode(body).encode(), status=status, headers={"Content-Type": "application/json"})


def _mode(request: web.BaseRequest) -> str:
    mode = request.query.get("mode", "abort")
    if mode not in ("abort", "wait", "keep"):
        raise ApiError(400, f"mode {mode!r} is not abort, wait or keep", "Bad Request", "query.mode")
    return mode


def _flag(request: web.BaseRequest, name: str, default: bool) -> bool:
    value = request.query.get(name, str(default)).lower()
    if value not in ("true", "false", "1", "0"):
        raise ApiError(400, f"{name} must be true or false, got {value!r}", "Bad Request", f"query.{name}")
    return value in ("true", "1")


def _request_ids(body: dict[str, Any], required: bool) -> list[str] | None:
    ids = body.get("request_ids")
    if ids is None and not required:
        return None
    if not isinstance(ids, list) or not all(isinstance(request_id, str) for request_id in ids):
        raise invalid("request_ids", "must be a list of request ids")
    return ids
