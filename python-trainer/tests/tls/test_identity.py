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


class Door:
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
async def door(first: Authority, tmp_path: Path) -> AsyncIterator[Door]:
    door = Door(first.issue(tmp_path / "door", SERVER))
    server = await asyncio.start_server(door.answer, "127.0.0.1", 0, ssl=door.identity.server_context())
    async with server:
        door.port = server.sockets[0].getsockname()[1]
        yield door


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(door: Door, context: ssl.SSLContext) -> Streams:
    return await asyncio.open_connection("127.0.0.1", door.port, ssl=context, server_hostname=SERVER)


async def ask(streams: Streams) -> str:
    """What the server says it sees. With TLS 1.3 a client learns only here that it was refused."""
    reader, writer = streams
    writer.write(b"hello\n")
    answer = await reader.readline()
    if not answer:
        raise ConnectionResetError("closed without an answer")
    return answer.decode().strip()


async def once(door: Door, context: ssl.SSLContext) -> str:
    streams = await connect(door, context)
    try:
        return await ask(streams)
    finally:
        streams[1].close()


def test_a_role_is_a_name_below_ours() -> None:
    assert role_of_names(["other.example", "gateway.whetstone"]) == "gateway"
    assert role_of_names(["gateway.whetstone.example"]) is None


async def test_a_certificate_of_our_authority_shows_its_role(door: Door, first: Authority, tmp_path: Path) -> None:
    caller = TlsIdentity(first.issue(tmp_path / "caller", "gateway.whetstone"))
    assert await once(door, caller.client_context()) == "gateway hello"
    stranger = TlsIdentity(first.issue(tmp_path / "stranger", "somebody.example"))
    assert await once(door, stranger.client_context()) == "None hello"


async def test_another_authority_gets_no_connection(
    door: Door, first: Authority, second: Authority, tmp_path: Path
) -> None:
    caller = TlsIdentity(second.issue(tmp_path / "caller", "gateway.whetstone", trusted=first.cert))
    with pytest.raises(REFUSED):
        await once(door, caller.client_context())
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.load_verify_locations(first.folder / "ca.crt")
    with pytest.raises(REFUSED):
        await once(door, bare)


async def test_a_client_trusts_no_other_authority_and_no_other_name(
    door: Door, first: Authority, second: Authority, tmp_path: Path
) -> None:
    caller = TlsIdentity(first.issue(tmp_path / "caller", "gateway.whetstone", trusted=second.cert))
    with pytest.raises(ssl.SSLCertVerificationError):
        await connect(door, caller.client_context())
    right = TlsIdentity(first.issue(tmp_path / "right", "gateway.whetstone")).client_context()
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection("127.0.0.1", door.port, ssl=right, server_hostname="nats.whetstone")


def serial(streams: Streams) -> str:
    return streams[1].get_extra_info("peercert")["serialNumber"]


async def test_a_new_certificate_is_shown_to_new_connections(door: Door, first: Authority, tmp_path: Path) -> None:
    context = TlsIdentity(first.issue(tmp_path / "caller", "gateway.whetstone")).client_context()
    before = await connect(door, context)
    first.issue(door.identity.folder, SERVER)
    assert door.identity.reload()
    assert not door.identity.reload(), "the same files again are no change"
    after = await connect(door, context)
    assert serial(after) != serial(before)
    assert [await ask(before), await ask(after)] == ["gateway hello"] * 2, "the open connection goes on"


async def test_an_authority_that_is_dropped_is_forgotten(
    door: Door, first: Authority, second: Authority, tmp_path: Path
) -> None:
    """The three steps of a rotation: both trusted, the new one signs, the old one is forgotten. Nobody is restarted."""
    old = TlsIdentity(first.issue(tmp_path / "caller", "gateway.whetstone", trusted=first.cert + second.cert))
    context = old.client_context()
    first.issue(door.identity.folder, SERVER, trusted=first.cert + second.cert)
    assert door.identity.reload()
    new = TlsIdentity(second.issue(tmp_path / "new", "gateway.whetstone", trusted=first.cert + second.cert))
    assert await once(door, context) == await once(door, new.client_context()) == "gateway hello"

    second.issue(door.identity.folder, SERVER)
    assert door.identity.reload()
    assert await once(door, new.client_context()) == "gateway hello"
    with pytest.raises(REFUSED):
        await once(door, context)

    second.issue(old.folder, "gateway.whetstone")
    assert old.reload()
    assert await once(door, context) == "gateway hello"
    first.issue(door.identity.folder, SERVER, trusted=second.cert)
    assert door.identity.reload()
    with pytest.raises(ssl.SSLCertVerificationError):
        await connect(door, context)


async def test_files_that_do_not_fit_change_nothing(
    door: Door, first: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = TlsIdentity(first.issue(tmp_path / "caller", "gateway.whetstone")).client_context()
    other = first.issue(tmp_path / "other", SERVER)
    (door.identity.folder / "tls.crt").write_bytes((other / "tls.crt").read_bytes())
    assert not door.identity.reload()
    assert "tls_refused" in caplog.text
    assert await once(door, context) == "gateway hello"
    (door.identity.folder / "tls.key").write_bytes((other / "tls.key").read_bytes())
    assert door.identity.reload(), "the second half of the change has come"
    (door.identity.folder / "ca.crt").unlink()
    assert not door.identity.reload()
    with pytest.raises(TlsError, match=r"ca\.crt"):
        TlsIdentity(door.identity.folder)


async def test_watching_takes_a_change_by_itself(door: Door, first: Authority) -> None:
    before = door.identity.material
    watching = asyncio.create_task(door.identity.watch(0.01))
    first.issue(door.identity.folder, SERVER)
    async with asyncio.timeout(5):
        while door.identity.material is before:
            await asyncio.sleep(0.01)
    watching.cancel()
