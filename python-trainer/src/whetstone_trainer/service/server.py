# SPDX-License-Identifier: Apache-2.0
"""Starts and stops the trainer: NATS connection, gRPC server with health and reflection."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import nats.errors
from nats.aio.client import Client
from whetstone.trainer.v1 import trainer_pb2 as wire
from whetstone.trainer.v1 import trainer_pb2_grpc as rpc

from whetstone_tls import TlsIdentity
from whetstone_tls.grpc_server import Callers, GrpcServer, Listening
from whetstone_trainer.algorithms.custom import ModuleRules
from whetstone_trainer.backends.protocol import TrainerBackend
from whetstone_trainer.batch.ingest import EpisodeReader
from whetstone_trainer.service.nats_security import nats_security
from whetstone_trainer.service.run import WeightPlaces
from whetstone_trainer.service.servicer import TrainerServicer
from whetstone_trainer.service.state import TrainerState
from whetstone_trainer.service.weight_groups import WeightGroups
from whetstone_trainer.service.weights_server import WeightsServer

if TYPE_CHECKING:
    from whetstone_store.own_data import OwnData
    from whetstone_store.store import ObjectStore

log = logging.getLogger("whetstone_trainer")
CALLERS = Callers(frozenset({"controller"}))
SERVICE = wire.DESCRIPTOR.services_by_name["TrainerService"].full_name


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
    # Serves published weights to engines; None: it does not.
    weights_port: int | None = None
    # What engines call it by; empty: http or https, `host` and the port.
    weights_url: str = ""
    # This machine's address for broadcasts to engines; empty: there are none.
    weights_group: str = ""
    # Of jobs with weights.transport objectStore, and of episodes whose bodies are there.
    object_store: ObjectStore | None = None
    # None: the data folder is the controller's, too.
    own_data: OwnData | None = None


@dataclass
class TrainerServer:
    """A running trainer."""

    port: int
    state: TrainerState
    _server: GrpcServer
    _nats: Client
    _connecting: asyncio.Task[None]
    _weights: WeightsServer | None = None

    async def close(self, grace_s: float = 2.0) -> None:
        """Takes no more calls, stops a running step, closes everything. Safe to call again."""
        await self._server.not_serving()
        if self._weights is not None:
            await self._weights.close()
        stopping = asyncio.create_task(self._server.stop(grace_s))
        await self.state.close()
        await stopping
        self._connecting.cancel()
        if self._nats.is_connected:
            await self._nats.close()


async def start_server(config: ServerConfig) -> TrainerServer:
    """Listens before it returns. NATS may come later: reads fail as UNAVAILABLE until it is there."""
    client = Client()
    connecting = asyncio.create_task(_connect(client, config))
    state = TrainerState(EpisodeReader(client, config.object_store), config.backend, config.modules)
    weights, weights_url = None, ""
    if config.weights_port is not None:
        groups = WeightGroups(config.weights_group) if config.weights_group else None
        weights = WeightsServer(lambda: state.run and state.run.served(), config.tls, groups)
        address = await weights.start(config.host, config.weights_port)
        weights_url = config.weights_url.rstrip("/") or address
    has_groups = weights is not None and bool(config.weights_group)
    state.places = WeightPlaces(weights_url, config.object_store, config.own_data, has_groups)
    server = GrpcServer(SERVICE, CALLERS, config.tls)
    rpc.add_TrainerServiceServicer_to_server(TrainerServicer(state), server.grpc)
    port = await server.start(Listening(config.host, config.port, config.health_port))
    return TrainerServer(port, state, server, client, connecting, weights)


async def _connect(client: Client, config: ServerConfig) -> None:
    """Keeps trying; after the first success the client reconnects by itself, for ever."""

    async def on_error(error: Exception) -> None:
        log.warning("nats_error", extra={"error": repr(error)})

    url = config.nats_url
    options: dict[str, Any] = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.25, "connect_timeout": 2}
    options |= nats_security("trainer", config.tls, config.nats_credentials, config.nats_ca)
    while not client.is_connected:
        try:
            await client.connect(url.split(","), name="trainer", error_cb=on_error, **options)
        except (OSError, nats.errors.Error, TimeoutError) as error:
            log.warning("nats_unreachable", extra={"url": url, "error": repr(error)})
            await asyncio.sleep(0.5)
