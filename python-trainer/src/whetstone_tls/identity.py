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


class TlsIdentity:
    """Certificates of this process. `material` and the contexts change with the files; connections that are open stay.

    An authority that left ca.crt is trusted by the contexts until the process ends: ssl cannot forget one.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.material = self._read()
        self._check()
        self._contexts: list[ssl.SSLContext] = []

    def server_context(self) -> ssl.SSLContext:
        """Callers must show a certificate of our authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        return self._follow(context)

    def client_context(self) -> ssl.SSLContext:
        """Shows our certificate; the caller names the server, such as `nats.whetstone`."""
        return self._follow(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

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
            self._check()
            for context in self._contexts:
                self._load(context)
        except TlsError as error:
            log.warning("tls_refused", extra={"folder": str(self.folder), "error": str(error)})
            return False
        self.material = material
        log.info("tls_reloaded", extra={"folder": str(self.folder)})
        return True

    def _follow(self, context: ssl.SSLContext) -> ssl.SSLContext:
        self._load(context)
        self._contexts.append(context)
        return context

    def _read(self) -> Material:
        try:
            return Material(*((self.folder / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")))
        except OSError as error:
            raise TlsError(f"cannot read {error.filename}: {error.strerror}") from error

    def _check(self) -> None:
        """In a context of its own: one that is in use would keep half of what failed."""
        self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))

    def _load(self, context: ssl.SSLContext) -> None:
        try:
            context.load_verify_locations(self.folder / "ca.crt")
            context.load_cert_chain(self.folder / "tls.crt", self.folder / "tls.key")
        except (ssl.SSLError, OSError) as error:
            raise TlsError(f"{self.folder}: ca.crt, tls.crt and tls.key do not fit together: {error}") from error


def role_of_transport(transport: Any) -> str | None:
    """Of an asyncio connection; None without TLS."""
    certificate: Any = transport.get_extra_info("peercert") if transport is not None else None
    names = (certificate or {}).get("subjectAltName", ())
    return role_of_names(value for kind, value in names if kind == "DNS")
