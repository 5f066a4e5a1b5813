# SPDX-License-Identifier: Apache-2.0
"""Starts and stops the trainer: NATS connection, gRPC server with health and reflection."""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass, field
from typing import Any

import grpc
import nats.errors
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from nats.aio.client import Client
from whetstone.trainer.v1 import trainer_pb2 as wire
from whetstone.trainer.v1 import trainer_pb2_grpc as rpc

from whetstone_tls import TlsIdentity
from whetstone_tls.grpc_server import Callers, server_credentials
from whetstone_trainer.algorithms.custom import ModuleRules
from whetstone_trainer.backends.protocol import TrainerBackend
from whetstone_trainer.batch.ingest import EpisodeReader
from whetstone_trainer.service.servicer import TrainerServicer
from whetstone_trainer.service.state import TrainerState

log = logging.getLogger("whetstone_trainer")
CALLERS = frozenset({"controller"})
SERVICE = wire.DESCRIPTOR.services_by_name["TrainerService"].full_name
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
# Callers ping every 30 s during a call. gRPC's default would cut a call that is quiet for longer as "too many pings".
PING_INTERVAL_MS = 10_000


@dataclass(frozen=True)
class ServerConfig:
    """Port 0: any free one."""

    host: str
    port: int
    nats_url: str
    backend: TrainerBackend
    # Who we are; None: plain text. Callers are then controllers only.
    tls: TlsIdentity | None = None
    # Answers health, and nothing else, in plain text: probes have no certificates. 0: off.
    health_port: int = 0
    # Of a NATS server that is not ours: its credentials file, and the authorities of its certificate.
    nats_credentials: str | None = None
    nats_ca: str | None = None
    # Of code that jobs bring along.
    modules: ModuleRules = field(default_factory=ModuleRules)


@dataclass
class TrainerServer:
    """A running trainer."""

    port: int
    state: TrainerState
    _server: grpc.aio.Server
    _health: Any
    _nats: Client
    _connecting: asyncio.Task[None]
    _probed: grpc.aio.Server | None
    _watching: asyncio.Task[None] | None

    async def close(self, grace_s: float = 2.0) -> None:
        """Takes no more calls, stops a running step, closes everything. Safe to call again."""
        await self._health.enter_graceful_shutdown()
        stopping = asyncio.create_task(self._server.stop(grace_s))
        await self.state.close()
        await stopping
        self._connecting.cancel()
        if self._watching:
            self._watching.cancel()
        if self._probed:
            await self._probed.stop(0)
        if self._nats.is_connected:
            await self._nats.close()


async def start_server(config: ServerConfig) -> TrainerServer:
    """Listens before it returns. NATS may come later: reads fail as UNAVAILABLE until it is there."""
    client = Client()
    connecting = asyncio.create_task(_connect(client, config))
    state = TrainerState(EpisodeReader(client), config.backend, config.modules)
    sizes = ("grpc.max_receive_message_length", "grpc.max_send_message_length")
    pings = ("grpc.http2.min_recv_ping_interval_without_data_ms", PING_INTERVAL_MS)
    guards = [Callers(CALLERS)] if config.tls else []
    server = grpc.aio.server(interceptors=guards, options=[pings, *((name, MAX_MESSAGE_BYTES) for name in sizes)])
    rpc.add_TrainerServiceServicer_to_server(TrainerServicer(state), server)
    health_servicer: Any = health.aio.HealthServicer()  # pyright: ignore[reportAttributeAccessIssue]
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
    reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    address = f"{config.host}:{config.port}"
    tls = config.tls
    port = server.add_secure_port(address, server_credentials(tls)) if tls else server.add_insecure_port(address)
    await server.start()
    probed = await _serve_health(health_servicer, f"{config.host}:{config.health_port}") if config.health_port else None
    watching = asyncio.create_task(tls.watch()) if tls else None
    for name in ("", SERVICE):
        await health_servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    return TrainerServer(port, state, server, health_servicer, client, connecting, probed, watching)


async def _serve_health(servicer: Any, address: str) -> grpc.aio.Server:
    """A server of its own: all services of one server are on all of its ports."""
    server = grpc.aio.server()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    server.add_insecure_port(address)
    await server.start()
    return server


def _nats_security(config: ServerConfig) -> dict[str, Any]:
    """What the client is told beside the address."""
    if config.nats_credentials or config.nats_ca:
        tls = {"tls": ssl.create_default_context(cafile=config.nats_ca)} if config.nats_ca else {}
        credentials = {"user_credentials": config.nats_credentials} if config.nats_credentials else {}
        return {**tls, **credentials}
    if config.tls is None:
        return {}
    # A role and not an address: servers of a cluster name each other by IP.
    names = {"tls_hostname": "nats.whetstone", "inbox_prefix": "_INBOX_trainer"}
    return {"tls": config.tls.client_context(), **names}


async def _connect(client: Client, config: ServerConfig) -> None:
    """Keeps trying; after the first success the client reconnects by itself, for ever."""

    async def on_error(error: Exception) -> None:
        log.warning("nats_error", extra={"error": repr(error)})

    url = config.nats_url
    options: dict[str, Any] = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.25, "connect_timeout": 2}
    options |= _nats_security(config)
    while not client.is_connected:
        try:
            await client.connect(url.split(","), name="trainer", error_cb=on_error, **options)
        except (OSError, nats.errors.Error, TimeoutError) as error:
            log.warning("nats_unreachable", extra={"url": url, "error": repr(error)})
            await asyncio.sleep(0.5)
