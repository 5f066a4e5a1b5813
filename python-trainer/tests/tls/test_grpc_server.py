# SPDX-License-Identifier: Apache-2.0
"""gRPC servers: who may call, and what other files change without a restart."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from authorities import OPENSSL, Authority
from whetstone.trainer.v1 import trainer_pb2, trainer_pb2_grpc

from whetstone_tls import TlsIdentity
from whetstone_tls.grpc_server import Callers, server_credentials

pytestmark = pytest.mark.skipif(
    OPENSSL is None, reason="the openssl program, which makes the certificates, is not here"
)
SERVER = "trainer.whetstone"


@pytest.fixture
def first(tmp_path: Path) -> Authority:
    return Authority.make(tmp_path / "first")


@pytest.fixture
def second(tmp_path: Path) -> Authority:
    return Authority.make(tmp_path / "second")


class Servicer(trainer_pb2_grpc.TrainerServiceServicer):
    async def Status(self, request: Any, context: Any) -> Any:
        return trainer_pb2.StatusResponse()


class Endpoint:
    """A server and the identity that it shows."""

    def __init__(self, folder: Path) -> None:
        self.identity, self.port = TlsIdentity(folder), 0


@pytest.fixture
async def endpoint(first: Authority, tmp_path: Path) -> AsyncIterator[Endpoint]:
    endpoint = Endpoint(first.issue(tmp_path / "endpoint", SERVER))
    server = grpc.aio.server(interceptors=[Callers(frozenset({"controller"}))])
    trainer_pb2_grpc.add_TrainerServiceServicer_to_server(Servicer(), server)
    endpoint.port = server.add_secure_port("127.0.0.1:0", server_credentials(endpoint.identity))
    await server.start()
    yield endpoint
    await server.stop(None)


async def call(endpoint: Endpoint, folder: Path) -> grpc.StatusCode:
    """Status of one call over a connection of its own, as whom the folder says."""
    ca, cert, key = ((folder / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key"))
    # A name in the options makes a channel of its own: gRPC shares connections between equal ones.
    options = [("grpc.ssl_target_name_override", SERVER), ("whetstone.test", str(time.monotonic_ns()))]
    credentials = grpc.ssl_channel_credentials(ca, key, cert)
    async with grpc.aio.secure_channel(f"127.0.0.1:{endpoint.port}", credentials, options) as channel:
        try:
            await trainer_pb2_grpc.TrainerServiceStub(channel).Status(trainer_pb2.StatusRequest(), timeout=30)
            return grpc.StatusCode.OK
        except grpc.aio.AioRpcError as error:
            return error.code()


async def test_roles_decide_who_may_call(endpoint: Endpoint, first: Authority, tmp_path: Path) -> None:
    assert await call(endpoint, first.issue(tmp_path / "c", "controller.whetstone")) == grpc.StatusCode.OK
    for number, name in enumerate(["gateway.whetstone", "somebody.example"]):
        caller = first.issue(tmp_path / f"wrong-{number}", name)
        assert await call(endpoint, caller) == grpc.StatusCode.PERMISSION_DENIED


async def test_another_authority_gets_no_connection(
    endpoint: Endpoint, first: Authority, second: Authority, tmp_path: Path
) -> None:
    stranger = second.issue(tmp_path / "stranger", "controller.whetstone", trusted=first.cert)
    assert await call(endpoint, stranger) == grpc.StatusCode.UNAVAILABLE
    suspicious = first.issue(tmp_path / "suspicious", "controller.whetstone", trusted=second.cert)
    assert await call(endpoint, suspicious) == grpc.StatusCode.UNAVAILABLE


async def test_an_authority_that_is_dropped_is_forgotten(
    endpoint: Endpoint, first: Authority, second: Authority, tmp_path: Path
) -> None:
    both = first.cert + second.cert
    old = first.issue(tmp_path / "old", "controller.whetstone", trusted=both)
    new = second.issue(tmp_path / "new", "controller.whetstone", trusted=both)
    assert await call(endpoint, new) == grpc.StatusCode.UNAVAILABLE
    first.issue(endpoint.identity.folder, SERVER, trusted=both)
    assert endpoint.identity.reload()
    assert [await call(endpoint, old), await call(endpoint, new)] == [grpc.StatusCode.OK] * 2
    second.issue(endpoint.identity.folder, SERVER)
    assert endpoint.identity.reload()
    assert [await call(endpoint, old), await call(endpoint, new)] == [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.OK]
    only_new = second.issue(tmp_path / "only-new", "controller.whetstone")
    assert await call(endpoint, only_new) == grpc.StatusCode.OK, "the server shows its new certificate"
