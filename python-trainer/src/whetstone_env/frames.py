# SPDX-License-Identifier: Apache-2.0
"""Messages between the service and its processes: four bytes of length, then JSON."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

# One observation; the contract's own limit for a whole message is far above it.
MAX_FRAME = 16 * 1024 * 1024
HEAD = 4


class FrameTooLarge(Exception):
    """The text says how large."""


def encode(message: Any) -> bytes:
    body = json.dumps(message, allow_nan=False).encode()
    if len(body) > MAX_FRAME:
        raise FrameTooLarge(f"{len(body) >> 20} MiB, where at most {MAX_FRAME >> 20} MiB are allowed")
    return len(body).to_bytes(HEAD) + body


async def read(reader: asyncio.StreamReader) -> Any:
    """Raises IncompleteReadError when the other side has gone, ConnectionError for what is no frame."""
    size = int.from_bytes(await reader.readexactly(HEAD))
    if size > MAX_FRAME:
        raise ConnectionError(f"a frame of {size} bytes")
    return json.loads(await reader.readexactly(size))


def receive(connection: socket.socket) -> Any:
    """None: the other side has gone."""
    head = _exactly(connection, HEAD)
    body = head and _exactly(connection, int.from_bytes(head))
    return json.loads(body) if body else None


def _exactly(connection: socket.socket, size: int) -> bytes:
    """Empty: the other side has gone."""
    got = bytearray()
    while len(got) < size:
        piece = connection.recv(min(size - len(got), 1 << 20))
        if not piece:
            return b""
        got += piece
    return bytes(got)
