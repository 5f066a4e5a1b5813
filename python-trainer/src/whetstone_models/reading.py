# SPDX-License-Identifier: Apache-2.0
"""Large files, read so that somebody can follow. Needs no torch."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# Called with the number of bytes that were read since the last call; may raise to stop.
OnBytes = Callable[[int], None]
# At most this much between two calls.
_PART_BYTES = 16 * 1024 * 1024


def unheard(_: int) -> None:
    """For whoever does not follow."""


class _Followed(io.FileIO):
    def __init__(self, path: Path, on_bytes: OnBytes) -> None:
        super().__init__(path)
        self._on_bytes = on_bytes

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """At most one part; whoever wants more asks again."""
        count = super().readinto(memoryview(buffer).cast("B")[:_PART_BYTES]) or 0
        self._on_bytes(count)
        return count


def open_followed(path: Path, on_bytes: OnBytes) -> io.BufferedReader:
    """The file, open for reading; every part that is read is told."""
    return io.BufferedReader(_Followed(path, on_bytes))


def file_digest(path: Path, on_bytes: OnBytes = unheard) -> str:
    """SHA-256 of a file, lower-case hex."""
    with open_followed(path, on_bytes) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
