# SPDX-License-Identifier: Apache-2.0
"""Tensors from a folder that this engine sees: each byte is read once, checked, and is where it stays."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from whetstone_models.errors import WeightsError
from whetstone_models.tensors import TensorEntry

# Read and then taken into the digest, so that it is still in the processor's cache.
PART_BYTES = 1 << 20


class ShardFolder:
    """A TensorSource over the files of a folder, which stay open until it is left."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[str, BinaryIO] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> ShardFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def read(self, entry: TensorEntry, view: memoryview) -> list[int] | None:
        """As TensorSource.read. Raises OSError, too."""
        file = self._files.get(entry.file)
        if file is None:
            file = self._stack.enter_context((self._directory / entry.file).open("rb", buffering=0))
            self._files[entry.file] = file
        file.seek(entry.offset)
        if read_checked(file, view) != entry.sha256:
            raise differs(entry, f"{self._directory / entry.file}")


def read_all(file: BinaryIO, view: memoryview) -> None:
    """Fills the view from an unbuffered file, as far as that goes."""
    at = 0
    while at < len(view):
        count = file.readinto(view[at:])  # pyright: ignore[reportAttributeAccessIssue]
        if not count:
            return
        at += count


def read_checked(file: BinaryIO, view: memoryview) -> str:
    """Fills the view from an unbuffered file and gives the SHA-256 of it; of fewer bytes where the file ends."""
    digest, at = hashlib.sha256(), 0
    while at < len(view):
        part = view[at : at + PART_BYTES]
        count = file.readinto(part)  # pyright: ignore[reportAttributeAccessIssue]
        if not count:
            break
        digest.update(part[:count])
        at += count
    return digest.hexdigest()


def differs(entry: TensorEntry, where: str) -> WeightsError:
    """A tensor whose bytes are not what was published."""
    return WeightsError(entry.name, f"content differs from the digest in manifest.json; {where} is damaged")
