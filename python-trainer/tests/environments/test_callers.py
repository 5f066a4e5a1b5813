# SPDX-License-Identifier: Apache-2.0
"""With certificates: orchestrators play, controllers drain too, nobody else is heard."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from authorities import OPENSSL, Authority
from whetstone.environments.v1 import environments_pb2 as wire
from whetstone.environments.v1 import environments_pb2_grpc as rpc

from whetstone_env.server import start_server
from whetstone_env.settings import Command, Settings

TROUBLED = str(Path(__file__).parent / "troubled.py")
OK, DENIED = grpc.StatusCode.OK, grpc.StatusCode.PERMISSION_DENIED


async def statuses(port: int, folder: Path) -> list[grpc.StatusCode]:
    """Of Describe, Session and Drain, as whom the folder says."""
    ca, cert, key = ((folder / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key"))
    # Another name in the options makes a connection of its own.
    options = [("grpc.ssl_target_name_override", "env-runner.whetstone"), ("whetstone.test", str(folder))]
    async with grpc.aio.secure_channel(
        f"127.0.0.1:{port}", grpc.ssl_channel_credentials(ca, key, cert), options
    ) as channel:
        stub = rpc.EnvironmentServiceStub(channel)
        session = stub.Session(timeout=60)
        await session.done_writing()
        found = [stub.Describe(wire.DescribeRequest()), session, stub.Drain(wire.DrainRequest(undo=True))]
        return [await call.code() for call in found]


@pytest.mark.skipif(OPENSSL is None, reason="the openssl program, which makes the certificates, is not here")
async def test_roles_decide_who_may_call_what(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "authority")
    own = authority.issue(tmp_path / "env-runner", "env-runner.whetstone")
    server = await start_server(Command((TROUBLED,), "127.0.0.1", 0, str(own), "info", Settings()))
    try:
        for role, expected in {
            "controller": [OK, OK, OK],
            "orchestrator": [OK, OK, DENIED],
            "gateway": [DENIED, DENIED, DENIED],
        }.items():
            folder = authority.issue(tmp_path / role, f"{role}.whetstone")
            assert await statuses(server.port, folder) == expected, role
    finally:
        await server.close()
