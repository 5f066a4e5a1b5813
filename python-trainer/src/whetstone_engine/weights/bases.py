# SPDX-License-Identifier: Apache-2.0
"""Another version that this engine has: what did not change of a tensor is copied from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from whetstone_engine.weights.building import DTYPES, Held, bytes_of
from whetstone_engine.weights.shards import read_all
from whetstone_engine.weights.store import TensorStore
from whetstone_engine.weights.sums import copy_checked
from whetstone_models.tensors import Blocks, TensorEntry

# A tensor of which more than this share has changed is fetched whole: one request instead of many.
_DELTA_SHARE = 0.5


class Base(Protocol):
    """Tensors of one version, by name."""

    @property
    def blocks(self) -> Blocks | None:
        """None: it cannot be compared."""
        ...

    def has(self, entry: TensorEntry) -> bool:
        """Whether it has a tensor of that name, type and shape."""
        ...

    def copy(self, entry: TensorEntry, view: memoryview) -> list[int] | None:
        """Fills the view with its own bytes of that tensor.

        Returns the sums of their blocks, which are those of checked bytes; None: nobody has checked these.
        """
        ...


class ServedBase:
    """The model in memory, of what it holds in the type that is published."""

    def __init__(self, held: Held) -> None:
        self._held, self.blocks = held, held.blocks

    def has(self, entry: TensorEntry) -> bool:
        stored, _ = self._held.digests.get(entry.name, ("", ""))
        if stored != entry.dtype:
            return False
        tensor = self._held.model.get_parameter(entry.name)
        fits = tuple(tensor.shape) == entry.shape and tensor.dtype == DTYPES[entry.dtype]
        return fits and tensor.device.type == "cpu" and tensor.is_contiguous()

    def copy(self, entry: TensorEntry, view: memoryview) -> list[int] | None:
        own, sums = bytes_of(self._held.model.get_parameter(entry.name).data), self._held.sums.get(entry.name)
        if sums is None or self.blocks is None:
            view[:] = own
            return None
        return list(sums) if copy_checked(own, view, self.blocks.bytes, sums) else None


class StoredBase:
    """The version that the store holds."""

    def __init__(self, store: TensorStore) -> None:
        self._store, version = store, store.version()
        self.blocks = version[1] if version else None
        self._entries: Mapping[str, TensorEntry] = {one.name: one for one in version[0].tensors} if version else {}

    def has(self, entry: TensorEntry) -> bool:
        own = self._entries.get(entry.name)
        return own is not None and (own.dtype, own.shape) == (entry.dtype, entry.shape) and self._store.has(own.sha256)

    def copy(self, entry: TensorEntry, view: memoryview) -> list[int] | None:
        file = self._store.open(self._entries[entry.name].sha256)
        if file is not None:
            with file:
                read_all(file, view)
        return None


def changed(base: Base, entry: TensorEntry, theirs: Blocks) -> list[tuple[int, int]] | None:
    """Bytes of a tensor that `base` does not have. None: it has no such tensor, or too little of it."""
    own = base.blocks
    if own is None or own.bytes != theirs.bytes or not base.has(entry):
        return None
    old, new = own.tensors.get(entry.name, ()), theirs.tensors.get(entry.name, ())
    return changed_ranges(old, new, theirs.bytes, entry.size)


def changed_ranges(old: Sequence[str], new: Sequence[str], block: int, size: int) -> list[tuple[int, int]] | None:
    """Bytes from and up to which a tensor differs, neighbours joined. None: too much of it, or it cannot be told."""
    if block < 1 or len(old) != len(new) or len(new) != -(-size // block):
        return None
    differ = [index for index, (before, after) in enumerate(zip(old, new, strict=True)) if before != after]
    if len(differ) > _DELTA_SHARE * len(new):
        return None
    ranges = list[tuple[int, int]]()
    for index in differ:
        begin, end = index * block, min(size, (index + 1) * block)
        if ranges and ranges[-1][1] == begin:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((begin, end))
    return ranges
