# SPDX-License-Identifier: Apache-2.0
"""gRPC servers that show and want certificates, with health and reflection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from whetstone_tls.identity import TlsIdentity, role_of_names

Details = grpc.HandlerCallDetails
Continue = Callable[[Details], Awaitable[Any]]
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
# Callers ping every 30 s during a call. gRPC's default would cut a call that is quiet for longer as "too many pings".
PING_INTERVAL_MS = 10_000
OPTIONS = (
    ("grpc.http2.min_recv_ping_interval_without_data_ms", PING_INTERVAL_MS),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
)


def server_credentials(identity: TlsIdentity) -> grpc.ServerCredentials:
    """Every handshake uses the newest certificates."""
    used = identity.material

    def configuration() -> Any:
        material = identity.material
        return grpc.ssl_server_certificate_configuration([(material.key, material.cert)], material.ca)

    def fetch() -> Any:
        nonlocal used
        if identity.material is used:
            return None  # As before
        used = identity.material
        return configuration()

    return grpc.dynamic_ssl_server_credentials(configuration(), fetch, require_client_authentication=True)


class Callers(grpc.aio.ServerInterceptor):
    """Answers PERMISSION_DENIED to whom is not of these roles."""

    def __init__(self, roles: frozenset[str], more: Mapping[str, frozenset[str]] | None = None) -> None:
        """`more`: who else may call a method, by its name."""
        self._roles, self._more = roles, more or {}

    async def intercept_service(self, continuation: Continue, handler_call_details: Details) -> Any:
        """The method's handler, behind the question who calls."""
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        # Health and reflection tell nothing that a certificate of ours does not allow.
        if handler is None or not method.startswith("/whetstone."):
            return handler
        if handler.request_streaming:
            return self._both_streamed(handler, method)
        if handler.response_streaming:
            stream = handler.unary_stream

            async def streamed(request: Any, context: Any) -> Any:
                await self._check(context, method)
                async for answer in stream(request, context):
                    yield answer

            return grpc.unary_stream_rpc_method_handler(
                streamed, handler.request_deserializer, handler.response_serializer
            )
        behaviour = handler.unary_unary

        async def answered(request: Any, context: Any) -> Any:
            await self._check(context, method)
            return await behaviour(request, context)

        return grpc.unary_unary_rpc_method_handler(answered, handler.request_deserializer, handler.response_serializer)

    def _both_streamed(self, handler: Any, method: str) -> Any:
        """For methods that write their answers to the context."""
        stream = handler.stream_stream

        async def exchanged(requests: Any, context: Any) -> None:
            await self._check(context, method)
            await stream(requests, context)

        return grpc.stream_stream_rpc_method_handler(
            exchanged, handler.request_deserializer, handler.response_serializer
        )

    async def _check(self, context: Any, method: str) -> None:
        names = context.auth_context().get("x509_subject_alternative_name", ())
        role = role_of_names(name.decode() for name in names)
        if role not in self._roles | self._more.get(method.rpartition("/")[2], frozenset()):
            who = role or "a certificate without a role"
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, f"{who} may not call {method}")


@dataclass(frozen=True)
class Listening:
    """Where. Port 0: any free one."""

    host: str
    port: int
    # Answers health, and nothing else, in plain text: probes have no certificates. 0: off.
    health_port: int = 0


class GrpcServer:
    """A server of one service of ours. Services are added to `grpc` before it starts."""

    def __init__(self, service: str, callers: Callers, tls: TlsIdentity | None) -> None:
        """Without `tls` in plain text, for everybody."""
        self._service, self._tls = service, tls
        self.grpc = grpc.aio.server(interceptors=[callers] if tls else [], options=OPTIONS)
        self._health: Any = health.aio.HealthServicer()  # pyright: ignore[reportAttributeAccessIssue]
        self._probed: grpc.aio.Server | None = None
        self._tasks: set[asyncio.Future[Any]] = set()

    async def start(self, listening: Listening) -> int:
        """The port; all is served when it returns."""
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.grpc)
        reflection.enable_server_reflection((self._service, health.SERVICE_NAME, reflection.SERVICE_NAME), self.grpc)
        address, tls = f"{listening.host}:{listening.port}", self._tls
        server = self.grpc
        port = server.add_secure_port(address, server_credentials(tls)) if tls else server.add_insecure_port(address)
        await server.start()
        if listening.health_port:
            self._probed = await _serve_health(self._health, f"{listening.host}:{listening.health_port}")
        if tls:
            self._keep(tls.watch())
        for name in ("", self._service):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        return port

    def set_serving(self, serving: bool) -> None:
        """Readiness of the service; the process as a whole stays well."""
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        self._keep(self._health.set(self._service, status))

    async def not_serving(self) -> None:
        """For good."""
        await self._health.enter_graceful_shutdown()

    async def stop(self, grace_s: float) -> None:
        """Takes no more calls; those that run may take so long. Safe to call again."""
        await self.grpc.stop(grace_s)
        for task in list(self._tasks):
            task.cancel()
        if self._probed:
            await self._probed.stop(0)

    def _keep(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _serve_health(servicer: Any, address: str) -> grpc.aio.Server:
    """A server of its own: all services of one server are on all of its ports."""
    server = grpc.aio.server()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    server.add_insecure_port(address)
    await server.start()
    return server
