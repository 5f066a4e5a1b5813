# SPDX-License-Identifier: Apache-2.0
"""Contexts of asyncio's servers and clients: who is let in, and what other files change without a restart."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from authorities import OPENSSL, Authority

from whetstone_tls import TlsError, TlsIdentity, role_of_names
from whetstone_tls.identity import role_of_transport

pytestmark = pytest.mark.skipif(
    OPENSSL is None, reason="the openssl program, which makes the certificates, is not here"
)
SERVER = "engine.whetstone"
REFUSED = (ssl.SSLError, ConnectionError)


@pytest.fixture
def first(tmp_path: Path) -> Authority:
    return Authority.make(tmp_path / "first")


@pytest.fixture
def second(tmp_path: Path) -> Authority:
    return Authority.make(tmp_path / "second")


class Endpoint:
    """A server that answers each line with the role of who sent it."""

    def __init__(self, folder: Path) -> None:
        self.identity = TlsIdentity(folder)
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        role = role_of_transport(writer.transport)
        while line := await reader.readline():
            writer.write(f"{role} {line.decode()}".encode())
        writer.close()


@pytest.fixture
async def endpoint(first: Authority, tmp_path: Path) -> AsyncIterator[Endpoint]:
    endpoint = Endpoint(first.issue(tmp_path / "endpoint", SERVER))
    server = await asyncio.start_server(endpoint.answer, "127.0.0.1", 0, ssl=endpoint.identity.server_context())
    async with server:
        endpoint.port = server.sockets[0].getsockname()[1]
        yield endpoint


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(endpoint: Endpoint, context: ssl.SSLContext) -> Streams:
    return await asyncio.open_connection("127.0.0.1", endpoint.port, ssl=context, server_hostname=SERVER)


async def ask(streams: Streams) -> str:
    """What the server says it sees. With TLS 1.3 a client learns only here that it was refused."""
    reader, writer = streams
    writer.write(b"hello\n")
    answer = await reader.readline()
    if not answer:
        raise ConnectionResetError("closed without an answer")
    return answer.decode().strip()


async def once(endpoint: Endpoint, context: ssl.SSLContext) -> str:
    streams = await connect(endpoint, context)
    try:
        return await ask(streams)
    finally:
        streams[1].close()


def test_a_role_is_a_name_below_ours() -> None:
    assert role_of_names(["other.example", "gateway.whetstone"]) == "gateway"
    assert role_of_names(["gateway.whetstone.example"]) is None


async def test_a_certificate_of_our_authority_shows_its_role(
    endpoint: Endpoint, first: Authority, tmp_path: Path
) -> None:
    caller = TlsIdentity(first.issue(tmp_path / "caller", "gateway.whetstone"))
    assert await once(endpoint, caller.client_context()) == "gateway hello"
    stranger = TlsIdentity(first.issue(tmp_path / "stranger", "somebody.example"))
    assert await once(endpoint, stranger.client_context()) == "None hello"


async def test_another_authority_gets_no_connection(
    endpoint: Endpoint, first: Authority, second: Authority, tmp_path: Path
) -> None:
    caller = TlsIdentity(second.issue(tmp_path / "caller", "gateway.whetstone", trusted=first.cert))
    with pytest.raises(REFUSED):
        await once(endpoint, caller.client_context())
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.load_verify_locations(first.folder / "ca.crt")
    with pytest.raises(REFUSED):
        await once(endpoint, bare)


async def test_a_client_trusts_no_other_authority_and_no_other_name(
    endpoint: Endpoint, first: Authority, second: Authority, tmp_path: Path
) -> None:
    caller = TlsIdentity(first.issue(tmp_path / "caller", "gateway.whetstone", trusted=second.cert))
    with pytest.raises(ssl.SSLCertVerificationError):
        await connect(endpoint, caller.client_context())
    right = TlsIdentity(first.issue(tmp_path / "right", "gateway.whetstone")).client_context()
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection("127.0.0.1", endpoint.port, ssl=right, server_hostname="nats.whetstone")


def serial(streams: Streams) -> str:
    return streams[1].get_extra_info("peercert")["serialNumber"]


async def test_a_new_certificate_is_shown_to_new_connections(
    endpoint: Endpoint, first: Authority, tmp_path: Path
) -> None:
    context = TlsIdentity(first.issue(tmp_path / "caller", "gateway.whetstone")).client_context()
    before = await connect(endpoint, context)
    first.issue(endpoint.identity.folder, SERVER)
    assert endpoint.identity.reload()
    assert not endpoint.identity.reload(), "the same files again are no change"
    after = await connect(endpoint, context)
    assert serial(after) != serial(before)
    assert [await ask(before), await ask(after)] == ["gateway hello"] * 2, "the open connection goes on"


async def test_an_authority_that_is_dropped_is_forgotten(
    endpoint: Endpoint, first: Authority, second: Authority, tmp_path: Path
) -> None:
    """The three steps of a rotation: both trusted, the new one signs, the old one is forgotten. Nobody is restarted."""
    old = TlsIdentity(first.issue(tmp_path / "caller", "gateway.whetstone", trusted=first.cert + second.cert))
    context = old.client_context()
    first.issue(endpoint.identity.folder, SERVER, trusted=first.cert + second.cert)
    assert endpoint.identity.reload()
    new = TlsIdentity(second.issue(tmp_path / "new", "gateway.whetstone", trusted=first.cert + second.cert))
    assert await once(endpoint, context) == await once(endpoint, new.client_context()) == "gateway hello"

    second.issue(endpoint.identity.folder, SERVER)
    assert endpoint.identity.reload()
    assert await once(endpoint, new.client_context()) == "gateway hello"
    with pytest.raises(REFUSED):
        await once(endpoint, context)

    second.issue(old.folder, "gateway.whetstone")
    assert old.reload()
    assert await once(endpoint, context) == "gateway hello"
    first.issue(endpoint.identity.folder, SERVER, trusted=second.cert)
    assert endpoint.identity.reload()
    with pytest.raises(ssl.SSLCertVerificationError):
        await connect(endpoint, context)


async def test_files_that_do_not_fit_change_nothing(
    endpoint: Endpoint, first: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = TlsIdentity(first.issue(tmp_path / "caller", "gateway.whetstone")).client_context()
    other = first.issue(tmp_path / "other", SERVER)
    (endpoint.identity.folder / "tls.crt").write_bytes((other / "tls.crt").read_bytes())
    assert not endpoint.identity.reload()
    assert "tls_refused" in caplog.text
    assert await once(endpoint, context) == "gateway hello"
    (endpoint.identity.folder / "tls.key").write_bytes((other / "tls.key").read_bytes())
    assert endpoint.identity.reload(), "the second half of the change has come"
    (endpoint.identity.folder / "ca.crt").unlink()
    assert not endpoint.identity.reload()
    with pytest.raises(TlsError, match=r"ca\.crt"):
        TlsIdentity(endpoint.identity.folder)


async def test_watching_takes_a_change_by_itself(endpoint: Endpoint, first: Authority) -> None:
    before = endpoint.identity.material
    watching = asyncio.create_task(endpoint.identity.watch(0.01))
    first.issue(endpoint.identity.folder, SERVER)
    async with asyncio.timeout(30):
        while endpoint.identity.material is before:
            await asyncio.sleep(0.01)
    watching.cancel()
