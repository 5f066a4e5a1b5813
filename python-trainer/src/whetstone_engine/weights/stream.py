# SPDX-License-Identifier: Apache-2.0
"""A version from the trainer or an object store: of each tensor only what this engine does not have.

In this order: the served model has it (`building`), the store has it, there is another version of it and some blocks
differ (`bases`), all of it is fetched: with other engines (`group`), or over HTTP. Whatever way it came, it is checked
before it counts: whole, or the blocks that were fetched where the rest is memory that was checked and is as it was.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from whetstone_engine.weights.bases import Base, changed
from whetstone_engine.weights.group import Received
from whetstone_engine.weights.shards import PART_BYTES, differs, read_checked
from whetstone_engine.weights.store import TensorStore
from whetstone_engine.weights.sums import block_sum, block_sums
from whetstone_models.errors import ManifestError
from whetstone_models.manifest import MANIFEST, Manifest, parse_manifest
from whetstone_models.tensors import BLOCKS, Blocks, TensorEntry, block_digest, parse_blocks
from whetstone_store.process_group import GroupError
from whetstone_store.transfer import Transfer, TransferError

log = logging.getLogger("whetstone_engine")

# More than the largest manifest: 200 bytes a tensor, 33 a block of 1 MiB.
_MOST_SMALL = 256 << 20


@dataclass(frozen=True)
class Published:
    """A version whose files are below a URL of http, https or s3, and the digest of its manifest."""

    url: str
    manifest_digest: str


@dataclass(frozen=True)
class Offer:
    """What is said of a version where it lies: checked, as far as it goes."""

    manifest: Manifest
    blocks: Blocks
    config: dict[str, Any]
    # As they came.
    manifest_text: bytes
    blocks_text: bytes


def read_offer(transfer: Transfer, published: Published) -> Offer:
    """Manifest, blocks and configuration. Raises TransferError or ManifestError."""
    text = _small(transfer, MANIFEST, transfer.size(MANIFEST))
    digest = hashlib.sha256(text).hexdigest()
    if digest != published.manifest_digest:
        raise ManifestError(MANIFEST, f"{transfer.url} has digest {digest}, expected {published.manifest_digest}")
    manifest = parse_manifest(text)
    if not manifest.tensors:
        raise ManifestError(f"{MANIFEST}.tensors", "lists none; only folders that list them can be streamed")
    blocks, config = (_listed(transfer, manifest, name) for name in (BLOCKS, "config.json"))
    return Offer(manifest, parse_blocks(blocks), json.loads(config), text, blocks)


def _listed(transfer: Transfer, manifest: Manifest, name: str) -> bytes:
    entry = manifest.file(name)
    if entry is None:
        raise ManifestError(name, "is not listed in manifest.json")
    data = _small(transfer, name, entry.size)
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise ManifestError(name, f"content differs from the digest in manifest.json of {transfer.url}")
    return data


def _small(transfer: Transfer, name: str, size: int) -> bytes:
    if not 0 < size <= _MOST_SMALL:
        raise TransferError(name, f"of {transfer.url} has {size} bytes, which cannot be")
    return transfer.small(name, size)


class StreamedTensors:
    """A TensorSource over a transfer, with what this engine has of other versions, and the store if there is one."""

    def __init__(
        self,
        transfer: Transfer,
        offer: Offer,
        wanted: Sequence[TensorEntry],
        bases: Sequence[Base] = (),
        store: TensorStore | None = None,
    ) -> None:
        """`wanted`: what will be read, in that order."""
        self._transfer, self._offer, self._bases, self._store = transfer, offer, bases, store
        # What is expected to be fetched whole.
        self.whole = [entry for entry in wanted if not self._is_near(entry)]
        self._ends = run_ends(self.whole)
        # None: all of it goes over HTTP.
        self.group: Received | None = None
        # Bytes that came by broadcast, so far.
        self.broadcast = 0

    def read(self, entry: TensorEntry, view: memoryview) -> list[int] | None:
        """As TensorSource.read. Raises TransferError, and OSError when the store's disk is full."""
        if self._from_store(entry, view):
            return None
        for base in self._bases:
            sums = self._from_base(base, entry, view)
            if sums is not None:
                return sums
        digest = hashlib.sha256()
        with self._writing(entry) as file:
            for part in self._parts(entry, view):
                digest.update(part)
                if file is not None:
                    write_all(file, part)
            if digest.hexdigest() != entry.sha256:
                raise differs(entry, f"{self._transfer.url}/{entry.file}")
        return None

    def finish(self) -> None:
        """Of a group: takes part in what others still get, and leaves it."""
        with self._group_or_none() as group:
            if group is not None:
                group.finish()
        self.leave()

    def leave(self) -> None:
        """Ends what there is of a group. Safe to call again."""
        group, self.group = self.group, None
        if group is not None:
            group.close()

    def _parts(self, entry: TensorEntry, view: memoryview) -> Iterator[memoryview]:
        """Fills the view, part by part, in order: over HTTP whatever a group does not bring."""
        at = 0
        with self._group_or_none() as group:
            for part in group.parts(entry, view) if group is not None else ():
                at += len(part)
                self.broadcast += len(part)
                yield part
        end = self._ends.get(entry.name, entry.offset + entry.size)
        while at < len(view):
            part = view[at : at + PART_BYTES]
            self._transfer.read(entry.file, entry.offset + at, part, end)
            at += len(part)
            yield part

    @contextlib.contextmanager
    def _group_or_none(self) -> Iterator[Received | None]:
        """A group that is over is left."""
        try:
            yield self.group
        except GroupError as error:
            log.warning("weight_group_lost", extra={"url": self._transfer.url, "reason": str(error)})
            self.leave()

    def _writing(self, entry: TensorEntry) -> contextlib.AbstractContextManager[BinaryIO | None]:
        return contextlib.nullcontext() if self._store is None else self._store.writing(entry.sha256)

    def _from_store(self, entry: TensorEntry, view: memoryview) -> bool:
        file = self._store.open(entry.sha256) if self._store is not None else None
        if self._store is None or file is None:
            return False
        with file:
            if read_checked(file, view) == entry.sha256:
                return True
        self._store.discard(entry.sha256)
        return False

    def _from_base(self, base: Base, entry: TensorEntry, view: memoryview) -> list[int] | None:
        """The sums of its blocks. None: it does not have enough of it, or the result is not what was published."""
        ranges = changed(base, entry, self._offer.blocks)
        if ranges is None:
            return None
        sums = base.copy(entry, view)
        for begin, end in ranges:
            self._transfer.read(entry.file, entry.offset + begin, view[begin:end], 0)
        sums = self._checked_whole(entry, view) if sums is None else self._checked(entry, view, ranges, sums)
        if sums is not None:
            with self._writing(entry) as file:
                if file is not None:
                    write_all(file, view)
        return sums

    def _checked_whole(self, entry: TensorEntry, view: memoryview) -> list[int] | None:
        is_right = hashlib.sha256(view).hexdigest() == entry.sha256
        return block_sums(view, self._offer.blocks.bytes) if is_right else None

    def _checked(
        self, entry: TensorEntry, view: memoryview, ranges: Sequence[tuple[int, int]], sums: list[int]
    ) -> list[int] | None:
        """Blocks outside of `ranges` have been checked when the base was, and have its digests. Changes `sums`."""
        size, digests = self._offer.blocks.bytes, self._offer.blocks.tensors[entry.name]
        for begin, end in ranges:
            for at in range(begin, end, size):
                block = view[at : min(at + size, end)]
                if block_digest(block) != digests[at // size]:
                    return None
                sums[at // size] = block_sum(block)
        return sums

    def _is_near(self, entry: TensorEntry) -> bool:
        """Whether it is expected not to be fetched whole."""
        is_stored = self._store is not None and self._store.has(entry.sha256)
        return is_stored or any(changed(base, entry, self._offer.blocks) is not None for base in self._bases)


def run_ends(entries: Iterable[TensorEntry]) -> dict[str, int]:
    """Of each tensor, by name: where in its file its run of neighbours ends, so that one request brings all of them.

    `entries` are in the order in which they are read.
    """
    runs = list[list[TensorEntry]]()
    for entry in entries:
        last = runs[-1][-1] if runs else None
        if last is not None and (last.file, last.offset + last.size) == (entry.file, entry.offset):
            runs[-1].append(entry)
        else:
            runs.append([entry])
    return {entry.name: run[-1].offset + run[-1].size for run in runs for entry in run}


def write_all(file: BinaryIO, view: memoryview) -> None:
    """An unbuffered file may take less than all at a time."""
    at = 0
    while at < len(view):
        at += file.write(view[at:])
