# SPDX-License-Identifier: Apache-2.0
"""Brings a version from the trainer or an object store into memory, one at a time, in a thread of its own."""

from __future__ import annotations

import asyncio
import errno
import shutil
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING

from whetstone_engine.metrics import WeightCounters
from whetstone_engine.weights.bases import Base, ServedBase, StoredBase
from whetstone_engine.weights.building import Held, Place, Version, build, tensors_to_read
from whetstone_engine.weights.group import join
from whetstone_engine.weights.store import TensorStore
from whetstone_engine.weights.stream import Published, StreamedTensors, read_offer
from whetstone_models.config import parse_config
from whetstone_models.errors import ModelError
from whetstone_store.transfer import Origin, TrainerOrigin, Transfer, TransferError

if TYPE_CHECKING:
    from whetstone_store.store import ObjectStore


class Fetcher:
    """The engine's end of a stream."""

    def __init__(self, folder: Path | None, tls: ssl.SSLContext | None, objects: ObjectStore | None = None) -> None:
        """`folder`: of a TensorStore; None: what was fetched is in memory only, and gone with a failure.

        `tls` shows who we are to a trainer that asks. `objects`: where versions with a URL of s3 are; None: nowhere.
        """
        self._folder, self._tls, self._objects = folder, tls, objects
        self._store: TensorStore | None = None
        self._running: tuple[Transfer, asyncio.Future[Held]] | None = None
        self.counters = WeightCounters()

    async def fetch(self, published: Published, place: Place, served: Held | None) -> Held:
        """The version, checked. Raises ModelError, or OSError for a disk that is full. Calls must not overlap.

        Whoever is cancelled while waiting ends the transfer; what came stays in the store.
        """
        transfer = Transfer(self._origin(published.url))
        work = asyncio.ensure_future(asyncio.to_thread(self._fetch, transfer, published, place, served))
        self._running = transfer, work
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await self._stop()
            raise
        finally:
            self._running = None

    async def close(self) -> None:
        """Ends what runs, and lets go of the folder."""
        await self._stop()
        if self._store is not None:
            self._store.close()

    def _origin(self, url: str) -> Origin:
        if not url.startswith("s3://"):
            return TrainerOrigin(url, self._tls)
        if self._objects is None:
            raise TransferError("stream.url", f"{url} is in an object store; start this engine with --object-store")
        return self._objects.origin(url)

    async def _stop(self) -> None:
        if self._running is not None:
            transfer, work = self._running
            transfer.stop()
            await asyncio.wait([work])

    def _fetch(self, transfer: Transfer, published: Published, place: Place, served: Held | None) -> Held:
        counters, started = self.counters, time.monotonic()
        try:
            store = self._opened_store()
            with transfer:
                offer = read_offer(transfer, published)
                version = Version(offer.manifest.tensors, offer.blocks, parse_config(offer.config))
                wanted = tensors_to_read(version.entries, version.config, served)
                bases: list[Base] = [ServedBase(served)] if served else []
                bases += [StoredBase(store)] if store else []
                tensors = StreamedTensors(transfer, offer, wanted, bases, store)
                tensors.group = join(transfer, version.entries, tensors.whole, place.device)
                held = self._built(version, place, tensors, served)
            if store is not None:
                store.complete(offer.manifest_text, offer.blocks_text)
            return held
        except OSError as error:
            if self._folder is None or error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise _full(self._folder, error) from error
        finally:
            counters.received_bytes += transfer.received
            counters.resumed += transfer.resumed
            counters.fetch_seconds += time.monotonic() - started

    def _built(self, version: Version, place: Place, tensors: StreamedTensors, served: Held | None) -> Held:
        try:
            held = build(version, place, tensors, served)
            tensors.finish()
            return held
        finally:
            self.counters.broadcast_bytes += tensors.broadcast
            tensors.leave()

    def _opened_store(self) -> TensorStore | None:
        """A folder that could not be made is tried again each time: its disk may have been full."""
        if self._store is None and self._folder is not None:
            self._store = TensorStore(self._folder)
        return self._store


def _full(folder: Path, error: OSError) -> ModelError:
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free / 2**20
    reason = f"{error.strerror}: {folder}, where fetched weights are kept, has {free:.1f} MiB free"
    return ModelError("weights-dir", f"{reason}; free some, or name another with --weights-dir; it is tried again")
