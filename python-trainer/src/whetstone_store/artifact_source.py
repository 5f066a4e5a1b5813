# SPDX-License-Identifier: Apache-2.0
"""The controller's artifacts over gRPC."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import grpc
from whetstone.artifacts.v1 import artifacts_pb2 as wire
from whetstone.artifacts.v1 import artifacts_pb2_grpc as rpc

from whetstone_models.errors import ModelError
from whetstone_store.own_data import FIELD

if TYPE_CHECKING:
    from whetstone_tls import TlsIdentity

# The controller proves that it is one; its address may be any.
_SERVER = "controller.whetstone"
_ANSWER_S, _FILE_S = 30.0, 3600.0
# What may be over soon.
_AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
# Without an answer to it a connection counts as broken.
_KEEPALIVE = [("grpc.keepalive_time_ms", 20_000), ("grpc.keepalive_timeout_ms", 10_000)]


class SourceFile(NamedTuple):
    """One of an artifact."""

    path: str
    size: int
    sha256: str


class ArtifactSource:
    """Blocking. Raises ConnectionError while nobody answers, ModelError for what the controller refuses."""

    def __init__(self, address: str, tls: TlsIdentity | None) -> None:
        self._address, self._tls = address, tls

    def files(self, digest: str) -> Sequence[SourceFile]:
        with self._asking() as stub:
            artifact = stub.GetArtifact(wire.GetArtifactRequest(digest=digest), timeout=_ANSWER_S).artifact
        return [SourceFile(one.path, one.size, one.sha256) for one in artifact.files]

    def read(self, digest: str, path: str) -> Iterator[bytes]:
        with self._asking() as stub:
            for part in stub.ReadFile(wire.ReadFileRequest(digest=digest, path=path), timeout=_FILE_S):
                yield part.content

    @contextlib.contextmanager
    def _asking(self) -> Iterator[rpc.ArtifactServiceStub]:
        """A channel for each question, with the certificates of now."""
        with self._channel() as channel:
            try:
                yield rpc.ArtifactServiceStub(channel)
            except grpc.RpcError as error:
                code, words = error.code(), error.details() or ""
                if code in _AWAY:
                    raise ConnectionError(f"the controller at {self._address} does not answer: {words}") from error
                raise ModelError(FIELD, words) from error

    def _channel(self) -> grpc.Channel:
        if self._tls is None:
            return grpc.insecure_channel(self._address, _KEEPALIVE)
        own = self._tls.material
        credentials = grpc.ssl_channel_credentials(own.ca, own.key, own.cert)
        return grpc.secure_channel(
            self._address, credentials, [*_KEEPALIVE, ("grpc.ssl_target_name_override", _SERVER)]
        )
