# SPDX-License-Identifier: Apache-2.0
"""Ranges of files over HTTP, straight into memory. A transfer that breaks goes on at its last byte.

Blocking, for a thread of its own: the system's socket buffers are all that is ahead of the reader, so that a slow
engine slows its transfer and fills nobody's memory.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from types import TracebackType
from typing import Protocol
from urllib.parse import urlsplit

from whetstone_models.errors import ModelError

# The trainer proves that it is one; its address may be any.
SERVER = "trainer.whetstone"
# Without a byte for so long a connection counts as broken.
QUIET_S = 30.0
# The whole of a transfer, however large; the controller waits a little longer.
DEADLINE_S = 600.0
# In a row, without a byte in between.
_MOST_FAILURES = 6
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 3.0
_TRANSIENT = (OSError, http.client.HTTPException)
# Statuses that may be over soon.
_BUSY = frozenset((429, 500, 502, 503, 504))
_BEYOND = 416
# The file is not there, or ends before what is asked for.
_GONE = frozenset((404, _BEYOND))


class TransferError(ModelError):
    """The other side cannot give what is asked for, or not in time."""

    def __init__(self, field: str, reason: str, status: int = 0) -> None:
        super().__init__(field, reason)
        # Whether it is there and does not have it; else it may have it later.
        self.is_gone = status in _GONE


class Origin(Protocol):
    """Where files come from."""

    # As people read it.
    url: str

    def connect(self) -> http.client.HTTPConnection:
        """A connection that is not open yet."""
        ...

    def target(self, file: str) -> str:
        """What a request for the file names, now."""
        ...

    def words(self, answer: str) -> str:
        """What people should read of an answer that says no."""
        ...


class _SecureConnection(http.client.HTTPConnection):
    def __init__(self, host: str, port: int | None, context: ssl.SSLContext) -> None:
        super().__init__(host, port, timeout=QUIET_S)
        self._tls = context

    def connect(self) -> None:
        super().connect()
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=SERVER)


class TrainerOrigin:
    """Files that the trainer serves below a URL."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        """Raises TransferError for a URL that is not one of http or https, or that needs certificates."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise TransferError("stream.url", f"{url!r} is not an http or https URL")
        if parts.scheme == "https" and tls is None:
            raise TransferError(
                "stream.url", f"{url} needs certificates, and this engine has none (WHETSTONE_TLS_PATH)"
            )
        self.url, self._path, self._host, self._port = (
            url.rstrip("/"),
            parts.path.rstrip("/"),
            parts.hostname,
            parts.port,
        )
        self._tls = tls if parts.scheme == "https" else None

    def connect(self) -> http.client.HTTPConnection:
        if self._tls is not None:
            return _SecureConnection(self._host, self._port, self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=QUIET_S)

    def target(self, file: str) -> str:
        return f"{self._path}/{file}"

    def words(self, answer: str) -> str:
        return answer


class Transfer:
    """Files below one URL, over one connection at a time."""

    def __init__(self, origin: Origin, deadline_s: float = DEADLINE_S) -> None:
        """Raises TransferError where it cannot be asked at all."""
        self.origin, self.url = origin, origin.url
        self._connection = origin.connect()
        self._response: http.client.HTTPResponse | None = None
        # File and byte that the open response gives next.
        self._next: tuple[str, int] | None = None
        self._until = time.monotonic() + deadline_s
        self._stopped = threading.Event()
        # Bytes of files, so far.
        self.received = 0
        # Times that it had to begin anew.
        self.resumed = 0

    def __enter__(self) -> Transfer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._drop()

    @property
    def is_stopped(self) -> bool:
        """Whether it was given up."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """From another thread: what is being read fails now."""
        self._stopped.set()
        held: socket.socket | None = self._connection.sock
        if held is not None:
            with contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)

    def small(self, file: str, size: int) -> bytes:
        """A whole file of `size` bytes. Raises TransferError."""
        data = bytearray(size)
        self.read(file, 0, memoryview(data), size)
        return bytes(data)

    def size(self, file: str) -> int:
        """Bytes of a file. Raises TransferError."""
        first = bytearray(1)
        self.read(file, 0, memoryview(first), 1)
        assert self._response is not None
        return int((self._response.getheader("Content-Range") or "/0").rpartition("/")[2])

    def read(self, file: str, offset: int, view: memoryview, end: int) -> None:
        """Fills `view` with the bytes from `offset` on; the same request also brings what follows, up to `end`.

        Raises TransferError when it is over: an answer that says no, too many failures in a row, or the deadline.
        """
        at, failures = 0, 0
        while at < len(view):
            if self._stopped.is_set():
                raise TransferError(file, f"the transfer from {self.url} was given up")
            if time.monotonic() > self._until:
                raise TransferError(file, f"{self.url} did not give it in time; {self.received} bytes came")
            try:
                if self._next != (file, offset + at):
                    self._open(file, offset + at, max(end, offset + len(view)))
                count = self._response.readinto(view[at:]) if self._response else 0
                if not count:
                    raise http.client.IncompleteRead(b"")
            except _TRANSIENT as error:
                self._drop()
                failures += 1
                if failures >= _MOST_FAILURES:
                    reason = f"{self.url} broke off {failures} times at byte {offset + at}: {error!r}"
                    raise TransferError(file, f"{reason}; is it there?") from error
                self.resumed += 1
                self._stopped.wait(min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** (failures - 1)))
                continue
            at, failures = at + count, 0
            self.received += count
            self._next = (file, offset + at)

    def _open(self, file: str, begin: int, end: int) -> None:
        if self._response is not None and not self._response.isclosed():
            self._drop()  # What is left of it is not wanted.
        headers = {"Range": f"bytes={begin}-{end - 1}"}
        self._connection.request("GET", self.origin.target(file), headers=headers)
        response = self._connection.getresponse()
        if response.status in _BUSY:
            raise http.client.HTTPException(f"status {response.status}")
        if response.status != 206 or not (response.getheader("Content-Range") or "").startswith(f"bytes {begin}-"):
            said = self.origin.words(response.read(600).decode(errors="replace"))
            self._drop()
            if response.status == _BEYOND:
                said = f"it ends before byte {begin}: {said}"
            raise TransferError(file, f"{self.url} answered {response.status}: {said}", response.status)
        self._response, self._next = response, (file, begin)

    def _drop(self) -> None:
        self._response, self._next = None, None
        with contextlib.suppress(OSError):
            self._connection.close()
