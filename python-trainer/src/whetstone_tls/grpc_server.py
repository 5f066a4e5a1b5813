# SPDX-License-Identifier: Apache-2.0
"""gRPC servers that show and want certificates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from whetstone_tls.identity import TlsIdentity, role_of_names

Details = grpc.HandlerCallDetails
Continue = Callable[[Details], Awaitable[Any]]


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

    def __init__(self, roles: frozenset[str]) -> None:
        self._roles = roles

    async def intercept_service(self, continuation: Continue, handler_call_details: Details) -> Any:
        """The method's handler, behind the question who calls."""
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        # Health and reflection tell nothing that a certificate of ours does not allow.
        if handler is None or not method.startswith("/whetstone."):
            return handler
        if handler.request_streaming:
            raise NotImplementedError(f"{method}: no streams of requests are guarded yet")
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

    async def _check(self, context: Any, method: str) -> None:
        names = context.auth_context().get("x509_subject_alternative_name", ())
        role = role_of_names(name.decode() for name in names)
        if role not in self._roles:
            who = role or "a certificate without a role"
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, f"{who} may not call {method}")
