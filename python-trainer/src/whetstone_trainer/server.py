# SPDX-License-Identifier: Apache-2.0
"""Starts and stops the trainer: NATS connection, gRPC server with health and reflection."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

import grpc
import nats.errors
import torch
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from nats.aio.client import Client
from whetstone.trainer.v1 import trainer_pb2 as wire
from whetstone.trainer.v1 import trainer_pb2_grpc as rpc

from whetstone_trainer.ingest import EpisodeReader
from whetstone_trainer.service import TrainerServicer
from whetstone_trainer.session import TrainerSession

log = logging.getLogger("whetstone_trainer")
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
    device: torch.device
    dtype: torch.dtype


@dataclass
class TrainerServer:
    """A running trainer."""

    port: int
    session: TrainerSession
    _server: grpc.aio.Server
    _health: Any
    _nats: Client
    _connecting: asyncio.Task[None]

    async def close(self, grace_s: float = 2.0) -> None:
        """Takes no more calls, stops a running step, closes everything. Safe to call again."""
        await self._health.enter_graceful_shutdown()
        stopping = asyncio.create_task(self._server.stop(grace_s))
        await self.session.close()
        await stopping
        self._connecting.cancel()
        if self._nats.is_connected:
            await self._nats.close()


async def start_server(config: ServerConfig) -> TrainerServer:
    """Listens before it returns. NATS may come later: reads fail as UNAVAILABLE until it is there."""
    client = Client()
    connecting = asyncio.create_task(_connect(client, config.nats_url))
    session = TrainerSession(EpisodeReader(client), config.device, config.dtype)
    sizes = ("grpc.max_receive_message_length", "grpc.max_send_message_length")
    pings = ("grpc.http2.min_recv_ping_interval_without_data_ms", PING_INTERVAL_MS)
    server = grpc.aio.server(options=[pings, *((name, MAX_MESSAGE_BYTES) for name in sizes)])
    rpc.add_TrainerServiceServicer_to_server(TrainerServicer(session), server)
    health_servicer: Any = health.aio.HealthServicer()  # pyright: ignore[reportAttributeAccessIssue]
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
    reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    port = server.add_insecure_port(f"{config.host}:{config.port}")
    await server.start()
    for name in ("", SERVICE):
        await health_servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    return TrainerServer(port, session, server, health_servicer, client, connecting)


async def _connect(client: Client, url: str) -> None:
    """Keeps trying; after the first success the client reconnects by itself, for ever."""

    async def on_error(error: Exception) -> None:
        log.warning("nats_error", extra={"error": repr(error)})

    options = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.25, "connect_timeout": 2}
    while not client.is_connected:
        try:
            await client.connect(url, name="trainer", error_cb=on_error, **options)
        except (OSError, nats.errors.Error, TimeoutError) as error:
            log.warning("nats_unreachable", extra={"url": url, "error": repr(error)})
            await asyncio.sleep(0.5)
