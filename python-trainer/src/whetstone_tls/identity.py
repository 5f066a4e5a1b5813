# SPDX-License-Identifier: Apache-2.0
"""Contexts of Python's ssl that follow the files, and the same certificates for gRPC."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

log = logging.getLogger("whetstone_tls")
SUFFIX = ".whetstone"
POLL_S = 10.0


class TlsError(Exception):
    """The folder cannot be used; the text names the file."""


@dataclass(frozen=True)
class Material:
    """PEM bytes of one moment."""

    ca: bytes
    cert: bytes
    key: bytes


def role_of_names(names: Iterable[str]) -> str | None:
    """The role that a verified certificate with these DNS names proves."""
    return next((name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)), None)


class FollowingContext(ssl.SSLContext):
    """Every handshake uses what `follow` gave last; connections that are open stay as they are.

    ssl cannot take an authority out of a context, so that other files mean another context. This one stands before it,
    because asyncio's servers and clients keep theirs for ever. By itself it has no certificate and trusts nobody.
    """

    _newest: ssl.SSLContext

    def follow(self, context: ssl.SSLContext) -> None:
        """From the next handshake on."""
        self._newest = context

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """What asyncio calls for each connection."""
        return self._newest.wrap_bio(*args, **options)

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        """The same for blocking sockets."""
        return self._newest.wrap_socket(*args, **options)


class TlsIdentity:
    """Certificates of this process. `material` and the contexts change with the files; open connections stay."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._followers: list[FollowingContext] = []
        self.material = self._read()
        self._made(ssl.PROTOCOL_TLS_SERVER)

    def server_context(self) -> FollowingContext:
        """Callers must show a certificate of our authority."""
        return self._follower(ssl.PROTOCOL_TLS_SERVER)

    def client_context(self) -> FollowingContext:
        """Shows our certificate; the caller names the server, such as `nats.whetstone`."""
        return self._follower(ssl.PROTOCOL_TLS_CLIENT)

    async def watch(self, poll_s: float = POLL_S) -> None:
        """Looks at the files for ever. Mounted secrets change by swapped links, which file watchers may miss."""
        while True:
            await asyncio.sleep(poll_s)
            self.reload()

    def reload(self) -> bool:
        """Takes the files as they are now; what does not fit is left, and tried again at the next look."""
        try:
            material = self._read()
            if material == self.material:
                return False
            self._made(ssl.PROTOCOL_TLS_SERVER)
            newest = [self._made(follower.protocol) for follower in self._followers]
        except TlsError as error:
            log.warning("tls_refused", extra={"folder": str(self.folder), "error": str(error)})
            return False
        for follower, context in zip(self._followers, newest, strict=True):
            follower.follow(context)
        self.material = material
        log.info("tls_reloaded", extra={"folder": str(self.folder)})
        return True

    def _follower(self, protocol: int) -> FollowingContext:
        follower = FollowingContext(protocol)
        follower.follow(self._made(protocol))
        self._followers.append(follower)
        return follower

    def _read(self) -> Material:
        try:
            return Material(*((self.folder / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")))
        except OSError as error:
            raise TlsError(f"cannot read {error.filename}: {error.strerror}") from error

    def _made(self, protocol: int) -> ssl.SSLContext:
        """From the files as they are. Raises TlsError when they do not fit together."""
        context = ssl.SSLContext(protocol)
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(self.folder / "ca.crt")
            context.load_cert_chain(self.folder / "tls.crt", self.folder / "tls.key")
        except (ssl.SSLError, OSError) as error:
            raise TlsError(f"{self.folder}: ca.crt, tls.crt and tls.key do not fit together: {error}") from error
        return context


def role_of_transport(transport: Any) -> str | None:
    """Of an asyncio connection; None without TLS."""
    certificate: Any = transport.get_extra_info("peercert") if transport is not None else None
    names = (certificate or {}).get("subjectAltName", ())
    return role_of_names(value for kind, value in names if kind == "DNS")
