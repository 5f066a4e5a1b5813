# SPDX-License-Identifier: Apache-2.0
"""Tensors that this engine has fetched, by their digests, and which version they are.

    <folder>/tensors/<sha256>             the bytes of one tensor
    <folder>/version/{manifest,blocks}.json   of the version that was complete last

It holds one version, and while another is fetched what differs of that, too. Nothing in it is believed: whoever reads a
tensor checks its digest. So a file that a killed process left half-written does no harm.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from whetstone_models.errors import ManifestError, ModelError
from whetstone_models.manifest import MANIFEST, Manifest, parse_manifest
from whetstone_models.tensors import BLOCKS, Blocks, parse_blocks


class TensorStore:
    """One folder, of one process."""

    def __init__(self, folder: Path) -> None:
        """Raises ModelError if another process has it."""
        self.folder = folder
        self._tensors, self._version = self.folder / "tensors", self.folder / "version"
        self._tensors.mkdir(parents=True, exist_ok=True)
        self._version.mkdir(exist_ok=True)
        self._lock = (self.folder / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise ModelError("weights-dir", f"{folder} belongs to another engine; give each its own") from error
        for leftover in self._tensors.glob("*.tmp"):
            leftover.unlink()

    def close(self) -> None:
        """Lets go of the folder. Safe to call again."""
        self._lock.close()

    def has(self, digest: str) -> bool:
        """Whether there are bytes of that name."""
        return (self._tensors / digest).is_file()

    def open(self, digest: str) -> BinaryIO | None:
        """The bytes of a tensor, to be checked. None: they are not there."""
        try:
            return (self._tensors / digest).open("rb", buffering=0)
        except FileNotFoundError:
            return None

    @contextlib.contextmanager
    def writing(self, digest: str) -> Iterator[BinaryIO]:
        """A file that becomes the tensor's when the block ends, and nothing at all when it fails."""
        temporary = self._tensors / f"{digest}.tmp"
        try:
            with temporary.open("wb", buffering=0) as file:
                yield file
            temporary.rename(self._tensors / digest)
        finally:
            temporary.unlink(missing_ok=True)

    def discard(self, digest: str) -> None:
        """Bytes that are not what their name says."""
        (self._tensors / digest).unlink(missing_ok=True)

    def complete(self, manifest: bytes, blocks: bytes) -> None:
        """From now on this is the version that it holds; other tensors go. Never both files of different versions."""
        (self._version / MANIFEST).unlink(missing_ok=True)
        (self._version / BLOCKS).write_bytes(blocks)
        (self._version / MANIFEST).write_bytes(manifest)
        kept = {entry.sha256 for entry in parse_manifest(manifest).tensors}
        for path in self._tensors.iterdir():
            if path.name not in kept:
                path.unlink()

    def version(self) -> tuple[Manifest, Blocks] | None:
        """The version that was complete last. None: there is none, or it cannot be read."""
        try:
            manifest = parse_manifest((self._version / MANIFEST).read_bytes())
            return manifest, parse_blocks((self._version / BLOCKS).read_bytes())
        except (OSError, ManifestError):
            return None
