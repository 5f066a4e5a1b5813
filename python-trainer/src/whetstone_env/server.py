# SPDX-License-Identifier: Apache-2.0
"""Starts and stops the service: the fork server, then gRPC with health and reflection."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from whetstone.environments.v1 import environments_pb2 as wire
from whetstone.environments.v1 import environments_pb2_grpc as rpc

from whetstone_env.drain import Drain
from whetstone_env.metrics import serve_metrics
from whetstone_env.processes import ForkServer, Workers
from whetstone_env.service import EnvironmentServicer
from whetstone_env.session import Shared, Slots
from whetstone_env.settings import Command
from whetstone_tls import TlsIdentity
from whetstone_tls.grpc_server import Callers, GrpcServer, Listening

log = logging.getLogger("whetstone_env")
SERVICE = wire.DESCRIPTOR.services_by_name["EnvironmentService"].full_name
ORCHESTRATOR = frozenset({"orchestrator"})
CALLERS = Callers(frozenset({"controller"}), {"Describe": ORCHESTRATOR, "Session": ORCHESTRATOR})
# How long episodes may take to end once they were handed back.
HAND_BACK_S = 2.0


@dataclass
class EnvironmentServer:
    """A running service."""

    shared: Shared
    kinds: list[str]
    port: int
    _fork_server: ForkServer
    _grpc: GrpcServer
    _metrics: asyncio.Server | None = None

    async def failed(self) -> int:
        """Waits for the end of the process without which no episode can begin; its exit code."""
        return await self._fork_server.ended()

    async def close(self) -> None:
        """Episodes may go on for `drain_ms`, then they are handed back."""
        grace_s = self.shared.settings.drain_ms / 1000
        self.shared.drain.end(grace_s)
        end = asyncio.get_running_loop().time() + grace_s + HAND_BACK_S
        while self.shared.slots.used > 0 and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.02)
        await self._grpc.stop(0)
        if self._metrics:
            self._metrics.close()
        await self._fork_server.close()


async def start_server(command: Command) -> EnvironmentServer:
    """Listens before it returns. Raises LoadError for a module that cannot be served."""
    tls = TlsIdentity(command.tls_path) if command.tls_path else None
    settings = command.settings
    fork_server = await ForkServer.start(command.targets, settings.memory_mib)
    kinds = [kind["kind"] for kind in fork_server.kinds]
    server = GrpcServer(SERVICE, CALLERS, tls)

    def on_drain(draining: bool) -> None:
        server.set_serving(not draining)  # Readiness; the process as a whole is well.
        log.info("draining", extra={"draining": draining, "sessions": shared.slots.used})

    shared = Shared(frozenset(kinds), Workers(fork_server), Slots(settings.slots), Drain(on_drain), settings)
    rpc.add_EnvironmentServiceServicer_to_server(EnvironmentServicer(shared, fork_server.kinds), server.grpc)
    try:
        port = await server.start(Listening(command.host, command.port, settings.health_port))
        metrics = await _metrics(command, shared) if settings.metrics_port else None
    except BaseException:
        await fork_server.close()
        raise
    return EnvironmentServer(shared, kinds, port, fork_server, server, metrics)


async def _metrics(command: Command, shared: Shared) -> asyncio.Server:
    slots, metrics = shared.slots, shared.metrics
    return await serve_metrics(
        command.host, command.settings.metrics_port, lambda: metrics.text(slots.used, slots.total)
    )
