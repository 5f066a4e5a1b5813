# SPDX-License-Identifier: Apache-2.0
"""The HTTP server: one table of routes over aiohttp's low-level server, which skips its application layers.

Measured: for answers of one or two tokens the HTTP side costs as much as the model, so each layer counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from whetstone_engine.control import Control, reply
from whetstone_engine.data_plane import DataPlane
from whetstone_engine.engine import Engine
from whetstone_engine.epoch import EpochFence, Handler
from whetstone_engine.errors import ApiError, internal
from whetstone_tls.identity import role_of_transport

log = logging.getLogger("whetstone_engine")
VERSION = "0.1.0"
KEEP_ALIVE_S = 120.0  # longer than any client pool's idle time, so that the client closes first
SHUTDOWN_S = 0.5
MAX_BODY = 32 << 20  # bytes; a token id takes at most 8, so this is above any context
# What whoever may only sample needs, and nothing that steers: no pause, load, label or abort of others' requests.
DATA_PATHS = frozenset(
    (
        "/inference/v1/generate",
        "/v1/completions",
        "/tokenize",
        "/detokenize",
        "/v1/models",
        "/health",
        "/ping",
        "/version",
        "/load",
        "/metrics",
    )
)


# Of /metrics and liveness, in plain text: probes and Prometheus have no certificates.
OPEN_PATHS = frozenset(("/health", "/metrics"))
DATA_CALLERS = frozenset(("gateway", "controller"))
CONTROL_CALLERS = frozenset(("controller",))


@dataclass(frozen=True)
class Listen:
    """An address to serve on; port 0 picks a free one. With `tls`, each connection must prove one of `callers`."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    callers: frozenset[str] = frozenset()


def routes(engine: Engine) -> dict[tuple[str, str], Handler]:
    """Every route of IEP/1 that this engine serves."""
    data, control, fenced = DataPlane(engine), Control(engine), EpochFence().fenced
    return {
        ("POST", "/inference/v1/generate"): data.generate,
        ("POST", "/v1/completions"): data.completions,
        ("POST", "/tokenize"): data.tokenize,
        ("POST", "/detokenize"): data.detokenize,
        ("POST", "/pause"): fenced(control.pause),
        ("POST", "/resume"): fenced(control.resume),
        ("GET", "/is_paused"): _tells(lambda: {"is_paused": engine.scheduler.paused}),
        ("POST", "/sleep"): fenced(control.sleep),
        ("POST", "/wake_up"): fenced(control.wake_up),
        ("GET", "/is_sleeping"): control.is_sleeping,
        ("POST", "/abort_requests"): control.abort_requests,
        ("POST", "/inference/v1/abort_requests"): control.abort_requests_v1,
        ("POST", "/reset_prefix_cache"): fenced(control.reset_prefix_cache),
        ("GET", "/weight_info"): _tells(lambda: {"weight_version": engine.label}),
        ("POST", "/update_weight_version"): fenced(control.update_weight_version),
        ("GET", "/get_world_size"): _tells(lambda: {"world_size": 1}),
        ("POST", "/collective_rpc"): fenced(control.collective_rpc),
        ("POST", "/stage_weights"): fenced(control.stage_weights),
        ("POST", "/v1/load_lora_adapter"): fenced(control.load_lora_adapter),
        ("POST", "/v1/unload_lora_adapter"): fenced(control.unload_lora_adapter),
        ("GET", "/v1/models"): control.models,
        ("GET", "/health"): control.health,
        ("GET", "/ping"): control.health,
        ("GET", "/version"): _tells(lambda: {"version": VERSION, "engine": "whetstone"}),
        ("GET", "/server_info"): control.server_info,
        ("GET", "/load"): _tells(lambda: {"server_load": sum(map(len, engine.live.values()))}),
        ("GET", "/metrics"): control.metrics,
    }


def _tells(body: Callable[[], dict[str, Any]]) -> Handler:
    async def handle(_: web.BaseRequest) -> web.StreamResponse:
        return reply(body())

    return handle


def make_handler(table: dict[tuple[str, str], Handler], data_only: bool) -> Handler:
    """Routes a request and turns every error into vLLM's error object. `data_only` refuses what steers the engine."""
    paths = {path for _, path in table}

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        if data_only and path in paths and path not in DATA_PATHS:
            return reply(ApiError(403, f"{path} is served on the control port only", "Forbidden").body(), 403)
        handler = table.get((request.method, path))
        if handler is None:
            return reply(
                {"detail": "Method Not Allowed" if path in paths else "Not Found"}, 405 if path in paths else 404
            )
        try:
            return await handler(request)
        except ApiError as error:
            return reply(error.body(), error.status)
        except web.HTTPException as error:  # aiohttp's own, such as 413 for a body over the limit
            return reply(ApiError(error.status, error.reason).body(), error.status)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            # The cause is logged, not sent: it may hold paths or prompts.
            log.exception("request_failed", extra={"path": path})
            return reply(internal("internal error").body(), 500)

    return handle


async def serve(
    engine: Engine, data: Listen, control: Listen | None, stop: asyncio.Event, probes: Listen | None = None
) -> None:
    """Serves until `stop` is set, then closes every connection. Raises OSError if an address is taken.

    With `control`, that address has every route and `data` only those of DATA_PATHS; without, `data` has them all.
    `probes` has those of OPEN_PATHS.
    """
    table = routes(engine)
    async with contextlib.AsyncExitStack() as stack:
        engine.steps.start()
        stack.push_async_callback(_stop_engine, engine)
        fields = {}
        if control is not None:
            host, port = await _listen(stack, make_handler(table, data_only=False), control)
            fields = {"control_host": host, "control_port": port}
        if probes is not None:
            await _listen(stack, only(OPEN_PATHS, make_handler(table, data_only=True)), probes)
        host, port = await _listen(stack, make_handler(table, data_only=control is not None), data)
        log.info("listening", extra={"host": host, "port": port, **fields})
        await stop.wait()
        # Requests in flight end with their partial tokens, so that closing the servers has nobody to wait for.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(engine.pause("abort", clear_cache=False), SHUTDOWN_S)


def only(paths: frozenset[str], handler: Handler) -> Handler:
    """A handler that knows no other paths."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return await handler(request) if request.path in paths else reply({"detail": "Not Found"}, 404)

    return handle


def _guarded(handler: Handler, callers: frozenset[str]) -> Handler:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        role = role_of_transport(request.transport)
        if role in callers:
            return await handler(request)
        who = role or "a certificate without a role"
        return reply(ApiError(403, f"{who} may not call {request.path} here", "Forbidden").body(), 403)

    return handle


async def _listen(stack: contextlib.AsyncExitStack, handler: Handler, address: Listen) -> tuple[str, int]:
    if address.tls is not None:
        handler = _guarded(handler, address.callers)
    # handler_cancellation: a client that goes away cancels its handler, which frees the slot (I9).
    server = web.Server(
        handler,
        request_factory=functools.partial(web.BaseRequest, client_max_size=MAX_BODY, loop=asyncio.get_running_loop()),
        handler_cancellation=True,
        keepalive_timeout=KEEP_ALIVE_S,
        access_log=None,
    )
    runner = web.ServerRunner(server)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(
        runner, address.host, address.port, backlog=4096, shutdown_timeout=SHUTDOWN_S, ssl_context=address.tls
    ).start()
    return runner.addresses[0][:2]


async def _stop_engine(engine: Engine) -> None:
    await engine.close()
